"""Arguments that are repeated in Mcp-Param-* headers."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import pytest
from mcp.shared.inbound import mcp_param_headers, x_mcp_header_map
from typing_extensions import TypedDict

from mcp_bridge.features import Context
from mcp_bridge.protocol import Headers
from mcp_bridge.protocol.headers import parameter_headers
from mcp_bridge.schemas import McpHeader
from mcp_bridge.server.server import MCPServer
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.calling import handled, replied
from tests.support.serving import served, taking
from tests.support.values import dumps, label

Region = Annotated[str, McpHeader("Region")]


class Place(TypedDict):
    region: Region
    street: str


def routed(
    region: Region = "",
    zone: Annotated[int, McpHeader("Zone-Id")] = 0,
    dry: Annotated[bool, McpHeader("Dry")] = False,
    more: str | None = None,
) -> str:
    """Take an argument that a proxy may route by."""
    return f"{region!r} {zone} {dry}"


def nested(place: Place) -> str:
    """Take a place."""
    return str(place)


@pytest.fixture
def site(settings: Any) -> None:
    serve(settings, routed, nested)


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Accept Django's warnings: it logs each answer with 400."""
    caplog.set_level("ERROR", "django.request")


def call(client: CheckedClient, name: str, arguments: Any, **sent: str | None) -> Any:
    """Return the answer to a call with these Mcp-Param-* headers and no others."""
    message = client.message("tools/call", name=name, arguments=arguments)
    headers: dict[str, str | None] = {
        key: value
        for key, value in client.mirrored(message).items()
        if not key.startswith("Mcp-Param-")
    }
    headers |= {f"Mcp-Param-{key.replace('_', '-')}": value for key, value in sent.items()}
    return client.send(dumps(message), headers)


def sentinel(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


# Headers that a call must send


@pytest.mark.requirement(
    "header.decoded", "header.numbers", "header.param-absent", "header.case", "header.param-matches"
)
@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({}, {}),
        ({"region": "eu"}, {"Region": "eu"}),
        ({"region": "eu"}, {"REGION": " eu\t"}),
        ({"region": "eu"}, {"Region": sentinel("eu")}),
        ({"region": ""}, {"Region": ""}),
        ({"region": ""}, {"Region": "=?base64??="}),
        ({"region": "Zürich"}, {"Region": sentinel("Zürich")}),
        ({"region": " eu\n"}, {"Region": sentinel(" eu\n")}),
        ({"region": sentinel("x")}, {"Region": sentinel(sentinel("x"))}),
        ({"zone": 42}, {"Zone_Id": "42"}),
        ({"zone": 42}, {"Zone_Id": "42.0"}),
        ({"zone": 42.0}, {"Zone_Id": "42"}),
        ({"zone": -7}, {"Zone_Id": "-7"}),
        ({"zone": 2**53 + 1}, {"Zone_Id": str(2**53 + 1)}),
        ({"dry": True}, {"Dry": "true"}),
        ({"dry": False, "region": "eu"}, {"Dry": "false", "Region": "eu"}),
    ],
)
def test_headers_that_agree_with_the_arguments_pass(
    arguments: Any, sent: Any, site: None, modern: CheckedClient
) -> None:
    answer = call(modern, "routed", arguments, **sent).json()
    assert answer["result"]["isError"] is False


@pytest.mark.requirement(
    "header.characters",
    "header.param-matches",
    "header.param-missing",
    "header.mismatch-400",
    "header.values-case",
)
@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({"region": "eu"}, {}),
        ({"region": "eu"}, {"Region": "EU"}),
        ({"region": "eu"}, {"Region": ""}),
        ({"region": "eu"}, {"Region": "eu, eu"}),
        ({"region": "eu"}, {"Region": "=?base64?ZXU?="}),
        ({"region": "eu"}, {"Region": "=?base64?!!!!?="}),
        ({"region": "eu"}, {"Region": "=?BASE64?ZXU=?="}),
        ({"region": "é"}, {"Region": "é"}),
        ({"region": "7"}, {"Region": "07"}),
        ({}, {"Region": "eu"}),
        ({}, {"Region": ""}),
        ({"region": None}, {"Region": "null"}),
        ({"region": ["eu"]}, {"Region": "eu"}),
        ({"zone": 42}, {"Zone_Id": "43"}),
        ({"zone": 42}, {"Zone_Id": "42.5"}),
        ({"zone": 42}, {"Zone_Id": "4.2e1"}),
        ({"zone": 42}, {"Zone_Id": "9" * 5000}),
        ({"zone": 2**53 + 1}, {"Zone_Id": str(2**53)}),
        ({"dry": True}, {"Dry": "True"}),
        ({"dry": True}, {"Dry": "1"}),
        ({"dry": False}, {"Dry": "0"}),
        ({"region": "eu", "dry": True}, {"Region": "eu"}),
    ],
    ids=label,
)
def test_headers_that_differ_from_the_arguments_are_a_mismatch(
    arguments: Any, sent: Any, site: None, modern: CheckedClient, quiet: None
) -> None:
    response = call(modern, "routed", arguments, **sent)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32020)
    assert len(response.content) < 500


def test_handwritten_schema_is_enforced_as_well(modern: CheckedClient, settings: Any) -> None:
    value = {"type": "string", "x-mcp-header": "A"}
    schema = {"type": "object", "properties": {"value": value}}
    serve(settings, taking(str), input_schema=schema)
    assert text_of(modern.call_tool("take", {"value": "x"})) == "'x'"
    assert call(modern, "take", {"value": "x"}).json()["error"]["code"] == -32020


def test_headers_come_before_the_arguments(site: None, modern: CheckedClient, quiet: None) -> None:
    bad = {"region": "eu", "zone": "no number"}
    assert call(modern, "routed", bad).json()["error"]["code"] == -32020
    sent = {"Region": "eu", "Zone_Id": "no number"}
    assert call(modern, "routed", bad, **sent).json()["result"]["isError"] is True


@pytest.mark.requirement("header.param-absent")
def test_argument_unfit_for_a_header_is_an_argument_error(
    site: None, modern: CheckedClient
) -> None:
    for value in (["eu"], {"a": 1}):
        assert call(modern, "routed", {"region": value}).json()["result"]["isError"] is True


@pytest.mark.requirement("header.param-absent")
def test_null_argument_needs_no_header(site: None, modern: CheckedClient) -> None:
    assert (
        call(modern, "routed", {"region": None}).json()["result"]
        == (call(modern, "routed", {}).json()["result"])
    )


def test_access_comes_before_the_headers(settings: Any, modern: CheckedClient) -> None:
    serve(settings, routed, permissions="auth.add_user")
    answer = call(modern, "routed", {"region": "eu"}).json()
    assert answer["error"]["message"] == "Unknown tool: routed"


def test_nested_argument_is_compared_at_its_place(
    site: None, modern: CheckedClient, quiet: None
) -> None:
    place = {"place": {"region": "eu", "street": "Main"}}
    assert "result" in call(modern, "nested", place, Region="eu").json()
    assert "error" in call(modern, "nested", place, Region="Main").json()
    assert "error" in call(modern, "nested", {"place": "eu"}, Region="eu").json()


def test_unrelated_parameter_headers_are_ignored(site: None, modern: CheckedClient) -> None:
    assert "result" in call(modern, "routed", {}, Other="x").json()


def test_legacy_revisions_have_no_parameter_headers(site: None, legacy: CheckedClient) -> None:
    for sent in ({}, {"Region": "us"}):
        assert "result" in call(legacy, "routed", {"region": "eu"}, **sent).json()


def test_transport_without_headers_checks_none(site: None, modern: CheckedClient) -> None:
    message = modern.message("tools/call", name="routed", arguments={"region": "eu"})
    user = modern.http.handler._force_user

    def handle(request: Any) -> Any:
        return handled(MCPServer(), request, Context(user=user, revision=request.revision))

    assert b'"isError":false' in (replied(dumps(message), handle).body or b"")
    assert replied(dumps(message), handle, headers=Headers()).status == 400


def test_asynchronous_endpoint_checks_them_too(
    settings: Any, modern: CheckedClient, quiet: None
) -> None:
    serve(settings, routed, asynchronous=True)
    assert "result" in call(modern, "routed", {"region": "eu"}, Region="eu").json()
    assert "error" in call(modern, "routed", {"region": "eu"}, Region="us").json()


# Headers that clients send


@pytest.mark.parametrize("region", ["eu", "", " eu ", "Zürich", "=?base64?ZXU=?=", "a\nb"])
def test_headers_of_the_official_client_pass(
    region: str, site: None, modern: CheckedClient
) -> None:
    arguments = {"region": region, "zone": -5, "dry": True}
    sent = mcp_param_headers(x_mcp_header_map(served("routed").input_schema), arguments)
    given = {name.removeprefix("Mcp-Param-"): value for name, value in sent.items()}
    assert set(given) == {"Region", "Zone-Id", "Dry"}
    assert "result" in call(modern, "routed", arguments, **given).json()


def test_client_sends_the_headers_of_the_tool(site: None, modern: CheckedClient) -> None:
    arguments = {"region": "Zürich", "zone": 42.0, "dry": True}
    assert text_of(modern.call_tool("routed", arguments)) == "'Zürich' 42 True"
    nested = modern.call_tool("nested", {"place": {"region": "eu", "street": "x"}})
    assert nested["isError"] is False


def test_client_sends_no_headers_for_an_unknown_tool(site: None, modern: CheckedClient) -> None:
    with pytest.raises(MCPError, match="Unknown tool"):
        modern.call_tool("nowhere", {"region": "eu"})


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("eu", "eu"),
        ("a b", "a b"),
        ("", ""),
        (" eu", sentinel(" eu")),
        ("\t", sentinel("\t")),
        ("Zürich", sentinel("Zürich")),
        ("a\r\nb", sentinel("a\r\nb")),
        ("=?base64?", sentinel("=?base64?")),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (42.0, "42"),
        (1.5, "1.5"),
    ],
)
def test_value_is_encoded_so_that_it_arrives(value: Any, header: str) -> None:
    assert parameter_headers({"A": ("a", "b")}, {"a": {"b": value}}) == {"Mcp-Param-A": header}


@pytest.mark.parametrize(
    "arguments", [{}, {"a": 1}, {"a": {}}, {"a": {"b": None}}, {"a": {"b": []}}]
)
def test_missing_value_has_no_header(arguments: Any) -> None:
    assert parameter_headers({"A": ("a", "b")}, arguments) == {}
