from __future__ import annotations

from typing import Annotated, Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import path
from modernrpc import RpcRequestContext
from modernrpc.server import RpcServer
from pydantic import AfterValidator, Field

from mcp_bridge import Context, mcp_tool
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route, serve
from tests.calls.test_arguments import ERRORS, errors_of
from tests.schemas import examples as ex
from tests.support.revisions import ERAS
from tests.support.serving import messages, names, taking
from tests.support.values import label


def even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even")
    return value


def many(
    node: ex.Node,
    kind: ex.Colour,
    few: Annotated[list[int], Field(max_length=2)],
    even: Annotated[int, AfterValidator(even)],
    book: ex.Book | None = None,
) -> str:
    """Take many things."""
    return "taken"


BAD = {
    "node": {"value": "1", "children": [{"value": True, "children": [{}]}]},
    "kind": "green",
    "few": [1, 2, 3],
    "even": 3,
    "book": {"title": "too long", "year": "1"},
    "more": 1,
}


def test_all_errors_are_listed_at_once_with_their_places(
    client: CheckedClient, settings: Any
) -> None:
    serve(settings, many)
    assert errors_of(client.call_tool("many", BAD)) == [
        ("/book/title", "string_too_long"),
        ("/book/year", "int_type"),
        ("/even", "value_error"),
        ("/few", "too_long"),
        ("/kind", "enum"),
        ("/more", "extra_forbidden"),
        ("/node/children/0/children/0/children", "missing"),
        ("/node/children/0/children/0/value", "missing"),
        ("/node/children/0/value", "int_type"),
        ("/node/value", "int_type"),
    ]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/even", ["must be even"]),
        ("/kind", ["'red'", "'blue'"]),
        ("/more", ["not a parameter", "node", "kind", "few", "even", "book"]),
        ("/node/children/0/children/0/value", ["required"]),
        ("/few", ["at most 2"]),
    ],
)
def test_text_names_the_expected_value(
    path: str, words: list[str], modern: CheckedClient, settings: Any
) -> None:
    serve(settings, many)
    lines = dict(
        line.split(": ", 1) for line in text_of(modern.call_tool("many", BAD)).splitlines()
    )
    assert [word for word in words if word not in lines[path]] == []


def test_error_text_never_names_the_library(modern: CheckedClient, settings: Any) -> None:
    serve(settings, many)
    text = text_of(modern.call_tool("many", BAD))
    assert not any(word in text for word in ("pydantic", "http", "Value error", "input_value"))


def test_pointer_escapes_slash_and_tilde(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(dict[str, int]))
    sent = {"value": {"a/b~c": "1", "": "1", "0": "1"}}
    assert [path for path, _ in errors_of(modern.call_tool("take", sent))] == [
        "/value/",
        "/value/0",
        "/value/a~1b~0c",
    ]


def test_line_breaks_in_names_are_escaped(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(int))
    result = modern.call_tool("take", {"value": 1, "x\n/value": 1})
    assert len(text_of(result).splitlines()) == len(result["_meta"][ERRORS]) == 1


@pytest.mark.parametrize(
    ("hint", "sent", "found"),
    [
        (int | str, True, [("/value", "union")]),
        (ex.Point | int, {"x": "1"}, [("/value/x", "int_type")]),
        (ex.Point | int, [], [("/value", "union")]),
        (ex.Point | None, {"x": "1"}, [("/value/x", "int_type")]),
        (ex.Point | None, 5, [("/value", "dataclass_type")]),
        (list[int] | dict[str, int], [1, "2"], [("/value/1", "int_type")]),
        (list[int] | dict[str, int], {"a": "2"}, [("/value/a", "int_type")]),
        (ex.Card | ex.Cash, {"method": "card", "amount": "1"}, [("/value/amount", "int_type")]),
        (ex.Card | ex.Cash, {"method": "cash"}, [("/value/kind", "missing")]),
        (ex.Card | ex.Cash, {"method": "cheque"}, [("/value", "union")]),
        (ex.Payment, {"method": "card", "amount": "1"}, [("/value/amount", "int_type")]),
        (ex.Payment, {"method": "cash"}, [("/value/kind", "missing")]),
        (ex.Payment, {"method": "cheque"}, [("/value", "union_tag_invalid")]),
        (ex.Payment, {}, [("/value", "union_tag_not_found")]),
        (list[ex.Payment], [{"method": "cash", "kind": 1}], [("/value/0/kind", "string_type")]),
        (ex.Point | ex.Options, {"q": 1}, [("/value", "union")]),
        (list[ex.Point | ex.Options] | int, [{"q": 1}], [("/value/0", "union")]),
        (dict[str, list[int] | int] | None, {"a": [1, "2"]}, [("/value/a/1", "int_type")]),
    ],
    ids=label,
)
def test_union_errors_are_of_the_matching_branch(
    hint: Any, sent: Any, found: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(hint))
    assert errors_of(modern.call_tool("take", {"value": sent})) == found


@pytest.mark.parametrize("sent", [[1, "x"], [1.0, "x"]])
def test_union_branch_is_named_by_type(sent: Any, modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(list[int] | list[bool]))
    text = text_of(modern.call_tool("take", {"value": sent}))
    assert "as list[int]: /1: " in text
    assert "as list[bool]: /0: " in text


@pytest.mark.parametrize(
    ("hint", "sent", "told"),
    [
        (
            ex.Card | ex.Cash,
            {"method": "cheque"},
            "/value: /method: Input should be 'card'; /amount: is required and was not sent"
            " | or: /method: Input should be 'cash'; /kind: is required and was not sent",
        ),
        (
            list[list[int] | list[bool]] | list[str],
            [[1, "x"]],
            "/value: as list[union[list[int],list[bool]]]: /0: as list[int]: /1: Input should be a"
            " valid integer | or: as list[bool]: /0: Input should be a valid boolean; /1: Input"
            " should be a valid boolean | or: as list[str]: /0: Input should be a valid string",
        ),
    ],
    ids=label,
)
def test_union_errors_are_grouped_under_one_path(
    hint: Any, sent: Any, told: str, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(hint))
    assert text_of(modern.call_tool("take", {"value": sent})) == told


@pytest.mark.parametrize("tag", ["card", "cash"])
def test_unknown_tag_error_lists_known_tags(tag: str, modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(ex.Payment))
    assert tag in text_of(modern.call_tool("take", {"value": {"method": "cheque"}}))


def test_missing_tuple_item_has_its_own_place(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(tuple[int, str]))
    assert errors_of(modern.call_tool("take", {"value": [1]})) == [("/value/1", "missing")]


def by_target(word: str, rpc: RpcRequestContext) -> str:
    return word


def by_hint(word: str, rpc: Context) -> str:
    return word


def by_target_among_any(rpc: RpcRequestContext, word: str, **rest: Any) -> str:
    return word


def by_hint_among_any(word: str, rpc: Context, **rest: Any) -> str:
    return word


def target_in_any(word: str, **rest: Any) -> str:
    assert isinstance(rest["rpc"], RpcRequestContext)
    return word


TARGETS = [
    (by_target, "rpc"),
    (by_hint, None),
    (by_target_among_any, "rpc"),
    (by_hint_among_any, None),
    (target_in_any, "rpc"),
]


@pytest.mark.requirement("elicit.no-claims")
@pytest.mark.parametrize(("function", "target"), TARGETS)
@pytest.mark.parametrize("sent", [None, {"request": {"user": "root"}}])
def test_context_cannot_be_sent(
    function: Any, target: str | None, sent: Any, modern: CheckedClient, settings: Any
) -> None:
    server = RpcServer()
    server.register_procedure(mcp_tool(function), name="it", context_target=target)
    route(settings, path("rpc", server.view))
    assert text_of(modern.call_tool("it", {"word": "x"})) == "x"
    refused = modern.call_tool("it", {"word": "x", "rpc": sent})
    assert errors_of(refused) == [("/rpc", "extra_forbidden")]


def whoever(context: Context) -> str:
    """Say who calls."""
    return str(context.user.get_username())


@pytest.mark.requirement("elicit.no-claims")
@pytest.mark.parametrize(
    "said",
    [
        {"io.modelcontextprotocol/clientInfo": {"name": "root", "version": "1", "user": "root"}},
        {"user": "root", "username": "root"},
        {"io.modelcontextprotocol/user": {"username": "root"}, "subject": "root"},
    ],
    ids=["clientInfo", "user", "own keys"],
)
@pytest.mark.parametrize("revision", ERAS)
def test_claimed_identity_is_ignored(
    said: dict[str, Any], revision: str, user: Any, settings: Any
) -> None:
    get_user_model().objects.create_superuser("root")
    serve(settings, whoever)
    client = CheckedClient(user=user, revision=revision)
    result = client.post("tools/call", name="whoever", _meta=said)
    assert text_of(result) == "ada"


def test_errors_are_bounded_in_number_and_size(modern: CheckedClient) -> None:
    sent = {f"{number:04}{'n' * 500}": 1 for number in range(500)}
    result = modern.call_tool("add", sent)
    assert len(result["_meta"][ERRORS]) <= 26
    assert "more errors" in text_of(result).splitlines()[-1]
    assert len(modern.response.content) < 16_384
    assert "n" * 65 not in modern.response.content.decode()


@pytest.mark.parametrize("hint", [int | bool, ex.Payment, ex.Colour, dict[str, int]], ids=label)
def test_long_value_is_not_repeated(hint: Any, modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(hint))
    result = modern.call_tool("take", {"value": {"method": "v" * 50_000}})
    assert result["isError"]
    assert len(modern.response.content) < 4096


def test_explicit_schema_is_sent_verbatim(modern: CheckedClient) -> None:
    (tool,) = [each for each in modern.list_tools() if each["name"] == "by_hand"]
    assert tool["inputSchema"] == {
        "type": "object",
        "properties": {"code": {"type": "string", "format": "email", "maxLength": 20}},
        "required": ["code"],
        "additionalProperties": False,
        "$comment": "sent as it is",
    }


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        ({}, [("/code", "required")]),
        ({"code": 1}, [("/code", "type")]),
        ({"code": "a" * 30}, [("/code", "format"), ("/code", "maxLength")]),
        ({"code": "a@b", "more": 1}, [("/more", "additionalProperties")]),
    ],
)
def test_explicit_schema_is_enforced(
    sent: Any, found: list[tuple[str, str]], client: CheckedClient
) -> None:
    assert sorted(errors_of(client.call_tool("by_hand", sent))) == found


NARROW = {"type": "object", "properties": {"value": {"maximum": 5}}, "required": ["value"]}


@pytest.mark.parametrize(("sent", "refused"), [(5, False), (6, True), ("5", True)])
def test_hints_apply_beside_an_explicit_schema(
    sent: Any, refused: bool, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(int), input_schema=NARROW)
    assert modern.call_tool("take", {"value": sent})["isError"] is refused


@pytest.mark.requirement("schema.valid")
@pytest.mark.parametrize(
    "schema",
    [{"type": "objekt"}, {"properties": []}, {"required": "a"}, {"type": "object", "minimum": "1"}],
)
def test_invalid_schema_is_refused_and_reported(schema: Any, settings: Any) -> None:
    serve(settings, taking(int), input_schema=schema)
    assert names() == []
    (message,) = messages("mcp_bridge.E006")
    assert message.startswith("take (tests/support/serving.py:")


@pytest.mark.requirement("tools.input-schema")
@pytest.mark.parametrize("schema", [{"type": "array"}, {"type": ["object", "null"]}, {}])
def test_non_object_schema_is_refused_and_reported(schema: Any, settings: Any) -> None:
    serve(settings, taking(int), input_schema=schema)
    assert (names(), len(messages("mcp_bridge.E006"))) == ([], 1)


def test_nothing_is_fetched_for_a_schema(settings: Any) -> None:
    remote = {"type": "object", "properties": {"value": {"$ref": "https://example.com/schema"}}}
    serve(settings, taking(int), input_schema=remote)
    assert names() == []
    (message,) = messages("mcp_bridge.E006")
    assert "refers to https://example.com/schema, which is not fetched" in message


ADDRESS = "https://newsroom.example/en/sections/politics/archive/2026/november/article-"


def prices(by_address: dict[str, int | list[int]]) -> str:
    """Take prices by the addresses of what they are of."""
    return "taken"


def test_long_names_with_equal_prefixes_are_distinguished(
    client: CheckedClient, settings: Any
) -> None:
    serve(settings, prices)
    sent = {f"{ADDRESS}{number}": price for number, price in enumerate([1, "2", [3], ["4"], "[5]"])}
    found = client.call_tool("prices", {"by_address": sent})
    start = "/by_address/" + ADDRESS.replace("/", "~1")
    assert [path for path, _ in errors_of(found)] == [*(f"{start}1", f"{start}3/0", f"{start}4")]
    lines = text_of(found).splitlines()
    assert [line.endswith("send the array itself, not a string of JSON") for line in lines] == [
        *(False, False, True)
    ]
