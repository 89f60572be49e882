"""Operations of django-ninja as tools: described, called, refused, and the same over HTTP."""

from __future__ import annotations

import json
import re
import sys
from datetime import date, datetime, time, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission
from django.contrib.sessions.models import Session
from django.core import checks
from django.core.cache import cache
from django.test import Client
from django.urls import path
from jsonschema import Draft202012Validator
from ninja import Body, Form, NinjaAPI, Query, Schema
from ninja.security import django_auth, django_auth_is_staff
from pydantic import AnyUrl, create_model

from mcp_bridge import mcp_tool
from mcp_bridge.features import AccessRule
from mcp_bridge.registry.registry import registry
from mcp_bridge.schemas.validation import SchemaValidator
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from tests.sources.ninja.api import Key, api, urlpatterns
from tests.support.confirming import FORM
from tests.support.serving import messages, names, set_tool
from tests.test_docs_code import run

BACKEND = "mcp_bridge.sources.ninja.NinjaSource"
CALLER = "mcp_bridge.sources.ninja.caller"
PICTURE = "data:image/png;base64,iVBORw0KGgo="


def offer(settings: Any, **options: Any) -> None:
    settings.MCP_BRIDGE = {"SOURCES": {"ninja": {"BACKEND": BACKEND, "OPTIONS": options}}}
    route(settings, *urlpatterns)


@pytest.fixture(autouse=True)
def offered(settings: Any) -> None:
    cache.clear()
    offer(settings, auth=CALLER)


def called(client: CheckedClient, name: str, **arguments: Any) -> Any:
    result = client.call_tool(name, {"tenant": "acme", **arguments})
    assert not result.get("isError"), text_of(result)
    text = text_of(result)
    return json.loads(text) if text[:1] in "{[" else text


def failed(client: CheckedClient, name: str, **arguments: Any) -> str:
    result = client.call_tool(name, {"tenant": "acme", **arguments})
    assert result["isError"]
    return text_of(result)


def definition(client: CheckedClient, name: str) -> dict[str, Any]:
    return next(each for each in client.list_tools() if each["name"] == name)


def test_every_operation_is_one_tool(user: Any) -> None:
    found = names()
    assert len(found) == len(set(found))
    assert {"shop_create", "shop_get", "shop_change", "shop_find", "shop_upload"} <= set(found)
    assert {"shop_both_get", "shop_both_put"} <= set(found)
    assert "shop_unmarked" not in found
    assert "shop_old" not in found


def test_definitions_are_valid_and_flat(modern: CheckedClient) -> None:
    for tool in modern.list_tools():
        for schema in filter(None, (tool["inputSchema"], tool.get("outputSchema"))):
            Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
    create = definition(modern, "shop_create")
    assert set(create["inputSchema"]["properties"]) == {"tenant", "customer", "lines", "note"}
    assert set(create["inputSchema"]["required"]) == {"tenant", "customer", "lines"}
    assert "Create an order." in create["description"]
    assert create["annotations"]["destructiveHint"] is False
    find = definition(modern, "shop_find")
    assert set(find["inputSchema"]["properties"]) == {"tenant", "word", "state", "limit", "tag"}
    assert find["annotations"]["readOnlyHint"] is True
    assert definition(modern, "shop_get")["outputSchema"]["properties"]["customer"]
    assert set(definition(modern, "shop_change")["inputSchema"]["required"]) == {"tenant", "number"}


def test_arguments_reach_their_places(modern: CheckedClient) -> None:
    lines = [{"sku": "a1", "pieces": 2}]
    assert called(modern, "shop_create", customer="Zoë", lines=lines) == {
        "customer": "Zoë",
        "lines": lines,
        "note": None,
    }
    found = called(modern, "shop_find", word="a b&c", state="sent", tag=["x", "ü/y"])
    assert found == {"word": "a b&c", "state": "sent", "limit": 10, "tag": ["x", "ü/y"]}
    assert called(modern, "shop_get", number=7)["lines"][0]["sku"] == "n7"
    assert called(modern, "shop_later", word="soon") == "soon ada"
    assert called(modern, "shop_both_put", value=3) == "PUT 3"


def test_file_is_uploaded(modern: CheckedClient) -> None:
    sent = {"title": "Dusk", "file": PICTURE, "file_filename": "dusk.png"}
    assert called(modern, "shop_upload", **sent) == {
        "title": "Dusk",
        "name": "dusk.png",
        "type": "image/png",
        "size": 8,
    }


def test_invalid_arguments_are_refused_before_the_operation(modern: CheckedClient) -> None:
    text = failed(modern, "shop_create", customer="Ada", lines=[{"sku": "a", "pieces": 0}])
    assert "/lines/0/sku" in text
    assert "/lines/0/pieces" in text


def test_error_messages_of_operations_are_returned(modern: CheckedClient) -> None:
    gone = failed(modern, "shop_create", customer="Ada", lines=[{"sku": "gone"}])
    assert gone == "The article gone is sold out."
    assert failed(modern, "shop_get", number=404) == "No such order."


@pytest.mark.parametrize("tenant", ["", ".", "..", "a/b", "a?b=c", "%2e%2e", "a b"])
def test_path_value_cannot_reach_another_view(tenant: str, modern: CheckedClient) -> None:
    result = modern.call_tool("shop_get", {"tenant": tenant, "number": 7})
    assert result["isError"]


def test_session_authentication_applies_as_over_http(user: Any) -> None:
    def seen() -> set[str]:
        return {each["name"] for each in CheckedClient(user=user).list_tools()}

    assert "shop_for_users" in seen()
    assert not {"shop_for_staff", "shop_for_superusers"} & seen()
    with pytest.raises(MCPError, match="Unknown tool"):
        called(CheckedClient(user=user), "shop_for_staff")
    user.is_staff = True
    user.save()
    offer_free = CheckedClient(user=user)
    assert "shop_for_staff" in seen()
    assert "shop_for_superusers" not in seen()
    assert called(offer_free, "shop_for_staff") == "ada"
    user.is_superuser = True
    user.save()
    assert called(CheckedClient(user=user), "shop_for_superusers") == "ada"


def test_custom_authentication_requires_the_auth_option(
    settings: Any, modern: CheckedClient
) -> None:
    offer(settings)
    found = names()
    assert "shop_for_users" in found
    assert "shop_get" not in found
    told = messages("mcp_bridge.E080")
    assert any("its authentication is custom (Key)" in each for each in told)
    with pytest.raises(MCPError, match="Unknown tool"):
        called(modern, "shop_get", number=7)


def nobody(call: Any) -> None:
    return None


def scope(call: Any) -> str:
    return f"scope of {call.context.user} for {call.tool.name}"


@pytest.mark.parametrize(("auth", "told"), [("scope", "scope of ada for shop_get"), ("nobody", "")])
def test_auth_option_replaces_custom_authentication(
    auth: str, told: str, settings: Any, modern: CheckedClient
) -> None:
    offer(settings, auth=f"{__name__}.{auth}")
    if told:
        assert called(modern, "shop_get", number=7)["customer"] == told
    else:
        assert failed(modern, "shop_get", number=7) == "Unauthorized"


def test_auth_option_does_not_replace_session_authentication(user: Any) -> None:
    assert failed(CheckedClient(user=user), "shop_for_editors") == "Unauthorized"
    user.groups.add(Group.objects.create(name="editors"))
    assert called(CheckedClient(user=user), "shop_for_editors") == "ada"


def test_redirect_to_another_operation_returns_its_location(modern: CheckedClient) -> None:
    assert called(modern, "shop_moved") == {"location": "/acme/api/orders/7"}
    text = failed(modern, "shop_moved", where="/login/")
    assert text == "The view redirects to another page, /login/, without data."


def test_anonymous_operations_stay_anonymous(modern: CheckedClient) -> None:
    assert called(modern, "shop_for_anybody") == f"{AnonymousUser()} False"


def test_throttle_counts_calls_and_http(user: Any, modern: CheckedClient) -> None:
    http = Client()
    http.force_login(user)
    assert http.get("/acme/api/slow").status_code == 200
    assert called(modern, "shop_slow") == "done"
    assert "Try again in" in failed(modern, "shop_slow")
    assert http.get("/acme/api/slow").status_code == 429


def test_cached_answers_are_not_shared_between_users(user: Any, django_user_model: Any) -> None:
    assert called(CheckedClient(user=user), "shop_cached") == "ada"
    bob = django_user_model.objects.create_user("bob")
    assert called(CheckedClient(user=bob), "shop_cached") == "bob"
    assert called(CheckedClient(user=user), "shop_cached") == "ada"


def test_decorators_of_operations_apply(modern: CheckedClient) -> None:
    assert called(modern, "shop_doubled") == "77"


def test_error_rolls_back_writes(modern: CheckedClient) -> None:
    assert failed(modern, "shop_written", then=409) == "Written, then refused."
    assert not Group.objects.exists()
    assert called(modern, "shop_written", then=200) == {"in_transaction": True}
    assert Group.objects.exists()


def test_logging_in_does_not_authenticate_later_calls(modern: CheckedClient) -> None:
    response = modern.send(
        json.dumps(
            modern.message("tools/call", name="shop_enter", arguments={"tenant": "acme"})
        ).encode(),
        modern.mirrored(modern.message("tools/call", name="shop_enter", arguments={})),
    )
    assert not response.cookies
    assert not Session.objects.exists()


def test_operation_can_read_the_tool_context(modern: CheckedClient) -> None:
    found = called(modern, "shop_asked")
    assert found["revision"] == "2026-07-28"
    assert found["cookie"].startswith("mcp=")
    assert found["header"] == "none"


def test_operations_are_named_by_patterns(settings: Any, modern: CheckedClient) -> None:
    operations = {"shop_unm*": {"title": "Named"}, "nothing_*": {}}
    offer(settings, auth=CALLER, operations=operations, prefix="x_")
    assert definition(modern, "x_shop_unmarked")["title"] == "Named"
    assert failed(modern, "x_shop_unmarked") == "Not Found"
    (message,) = messages("mcp_bridge.W081")
    assert "'nothing_*'" in message


def test_options_of_all_matching_patterns_are_merged(settings: Any, user: Any) -> None:
    operations = {
        "*": {"permissions": "auth.view_user", "title": "Any"},
        "shop_unmarked": {"confirm": True, "title": "Named"},
    }
    offer(settings, auth=CALLER, operations=operations)
    assert not messages("mcp_bridge.W081")
    assert CheckedClient(user=user).list_tools() == []
    user.user_permissions.add(Permission.objects.get(codename="view_user"))
    client = CheckedClient(user=type(user).objects.get(), capabilities=FORM)
    assert definition(client, "shop_unmarked")["title"] == "Named"
    assert definition(client, "shop_old")["title"] == "Any"
    asked = client.call_tool("shop_unmarked", {"tenant": "acme"})
    assert asked["resultType"] == "input_required"


def test_conflicting_patterns_are_one_message(settings: Any) -> None:
    operations = {"*": {"read_only": True}, "shop_unmarked": {"destructive": True}}
    offer(settings, auth=CALLER, operations=operations)
    (message,) = [each for each in messages("mcp_bridge.E080") if "shop_unmarked" in each]
    assert "its marks conflict" in message
    assert "shop_both_put" in names()


def test_patterns_exclude_operations_that_handle_credentials(settings: Any) -> None:
    offer(settings, auth=CALLER, operations=["shop_*"])
    assert "shop_reset_password" not in names()
    (message,) = messages("mcp_bridge.W082")
    assert message.endswith("operations that handle credentials, such as shop_reset_password.")
    offer(settings, auth=CALLER, operations=["shop_*", "shop_reset_password"])
    assert "shop_reset_password" in names()
    assert messages("mcp_bridge.W082") == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"operation": []}, "unknown option 'operation'"),
        ({"operations": "shop_*"}, "its option 'operations' is not a list"),
        ({"operations": {"shop_*": {"read": True}}}, "'read'"),
        ({"auth": "tests.nothing.there"}, "tests.nothing"),
    ],
)
def test_invalid_option_is_one_message(options: dict[str, Any], told: str, settings: Any) -> None:
    offer(settings, **options)
    (message,) = messages("mcp_bridge.E003")
    assert told in message


def test_http_answers_are_unchanged(user: Any) -> None:
    operations = [
        operation
        for _, router in api._routers
        for view in router.path_operations.values()
        for operation in view.operations
    ]
    kept = [dict(vars(each)) for each in operations]
    http = Client()
    http.force_login(user)
    before, schema = http.get("/acme/api/asked").content, api.get_openapi_schema(path_prefix="")
    names()
    called(CheckedClient(user=user), "shop_asked")
    assert http.get("/acme/api/asked").content == before
    assert api.get_openapi_schema(path_prefix="") == schema
    assert [vars(each) for each in operations] == kept
    assert http.get("/acme/api/orders/7").status_code == 401
    assert (
        http.get("/acme/api/orders/7", headers={"Authorization": "Bearer word"}).json()["customer"]
        == "word"
    )


def test_undescribable_operation_is_one_message(settings: Any) -> None:
    from mcp_bridge import mcp_tool

    broken = NinjaAPI(urls_namespace="broken")

    @broken.get("fine", auth=None)
    @mcp_tool
    def fine(request: Any) -> str:
        """Be fine."""
        return "fine"

    @broken.get("odd", auth=None, openapi_extra={"parameters": "none"})
    @mcp_tool
    def odd(request: Any) -> str:
        """Be odd."""
        return "odd"

    route(settings, path("api/", broken.urls))
    assert names() == ["broken_fine"]
    (message,) = messages("mcp_bridge.E080")
    assert message.startswith("broken_odd (GET /api/odd")


def test_checks_name_missing_setup(settings: Any) -> None:
    route(settings)
    found = [
        each for each in checks.run_checks(tags=["mcp_bridge"]) if each.id == "mcp_bridge.W012"
    ]
    assert "no operation is marked or named" in found[0].msg


def test_unmarked_operations_are_candidates(settings: Any, modern: CheckedClient) -> None:
    offer(settings, auth=CALLER, expose="all", prefix="x_")
    assert [*registry.discovered.candidates] == ["x_shop_unmarked"]
    assert "x_shop_unmarked" not in {each["name"] for each in modern.list_tools()}
    set_tool("x_shop_unmarked", chosen=True, enabled=True)
    assert failed(modern, "x_shop_unmarked") == "Not Found"
    offer(settings, auth=CALLER)
    assert not registry.discovered.candidates


def test_candidate_describes_its_access(settings: Any) -> None:
    many = NinjaAPI(urls_namespace="many")
    for name, auth in (("staff", django_auth_is_staff), ("all", django_auth), ("key", Key())):
        many.get(f"/{name}", auth=auth, operation_id=name)(lambda request: 1)
    offer(settings, auth=CALLER, expose="all")
    route(settings, path("api/", many.urls))
    found = {
        name.removeprefix("many_"): each.access
        for name, each in registry.discovered.candidates.items()
    }
    assert found["all"] == AccessRule.of(False, (), None, None, ())
    # The rule for a session's user, and the operation's own requirements.
    for name in ("staff", "key"):
        assert found[name].words == "authenticated users + custom rule"


def test_missing_extra_is_named(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] == "ninja"]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in [each for each in sys.modules if each.startswith("mcp_bridge.sources.ninja")]:
        monkeypatch.delitem(sys.modules, name)
    offer(settings)
    (message,) = messages("mcp_bridge.E003")
    assert 'pip install "django-mcp-bridge[ninja]"' in message


def test_example_of_the_page_works(settings: Any, user: Any) -> None:
    shop = run("sources/ninja", "class Team(Schema)")
    route(settings, path("api/", shop["api"].urls))
    settings.MCP_BRIDGE = {"SOURCES": {"ninja": {"BACKEND": BACKEND}}}
    client = CheckedClient(user=user)
    assert [each["name"] for each in client.list_tools()] == ["shop_team"]
    Group.objects.create(name="desk").user_set.add(user)
    assert json.loads(text_of(client.call_tool("shop_team", {"name": "desk"}))) == {
        "name": "desk",
        "members": 1,
    }
    gone = client.call_tool("shop_team", {"name": "away"})
    assert text_of(gone) == "There is no team 'away'."
    root = type(user).objects.create_superuser("root")
    made = CheckedClient(user=root).call_tool("shop_found_team", {"name": "wire"})
    assert made["structuredContent"] == {"name": "wire", "members": 0}


class Times(Schema):
    """Values whose JSON does not match a format of JSON Schema."""

    naive: datetime
    at: time
    took: timedelta
    maybe: time | None = None
    many: list[timedelta] = []
    named: dict[str, time] = {}
    below: Times | None = None
    day: date


NOON = Times(
    naive=datetime(2024, 5, 1, 10),
    at=time(12, 30),
    took=timedelta(seconds=4.5),
    maybe=time(1, 2, 3, 4),
    many=[timedelta(days=-1), timedelta(days=400, seconds=1)],
    named={"a": time(0)},
    day=date(2024, 5, 1),
)


@pytest.mark.parametrize("shape", [Times, list[Times], dict[str, Times], time, timedelta, datetime])
def test_answer_formats_match_their_values(
    shape: Any, settings: Any, modern: CheckedClient
) -> None:
    value: Any = {
        list[Times]: [NOON, NOON],
        dict[str, Times]: {"a": NOON},
        time: NOON.at,
        timedelta: NOON.took,
        datetime: NOON.naive,
    }.get(shape, NOON.model_copy(update={"below": NOON}))
    own = NinjaAPI(urls_namespace="times")

    @own.get("/times", response=shape)
    @mcp_tool(public=True)
    def times(request: Any) -> Any:
        """Tell times."""
        return value

    settings.MCP_BRIDGE = {"SOURCES": {"ninja": {"BACKEND": BACKEND}}}
    route(settings, path("times/", own.urls))
    (tool,) = modern.list_tools()
    schema = tool["outputSchema"]
    answer = modern.call_tool("times_times", {})["structuredContent"]
    assert SchemaValidator(schema, "schema").errors(answer) == []
    formats = set(re.findall(r'"format": "([^"]*)"', json.dumps(schema)))
    assert formats <= {"date"}


WHEN = [
    (datetime, "2024-05-01T10:00:00", "soon"),
    (time, "12:30:00", "noon"),
    (time, "12:30", "25:00:00"),
    (time, "12:30:00Z", "12"),
    (date, "2024-05-01", "31/01/2024"),
    (timedelta, "P1DT2H", "a day"),
    (AnyUrl, "https://de.example.org/Käse", "nowhere"),
]


@pytest.mark.parametrize(("hint", "value", "nonsense"), WHEN)
@pytest.mark.parametrize("where", ["query", "body", "form"])
def test_times_and_addresses_are_validated_by_ninja(
    hint: Any, value: str, nonsense: str, where: str, settings: Any, modern: CheckedClient
) -> None:
    own = NinjaAPI(urls_namespace="when")
    kind = create_model("When", __base__=Schema, when=(hint, ...))
    mark = {"query": Query(...), "body": Body(...), "form": Form(...)}[where]

    def tell(request: Any, data: Any = mark) -> str:
        """Tell when."""
        return str(data.when)

    tell.__annotations__["data"] = kind
    method = own.get if where == "query" else own.post
    method("/tell")(mcp_tool(public=True)(tell))
    settings.MCP_BRIDGE = {"SOURCES": {"ninja": {"BACKEND": BACKEND}}}
    route(settings, path("when/", own.urls))
    result = modern.call_tool("when_tell", {"when": value})
    assert not result.get("isError"), text_of(result)
    refused = modern.call_tool("when_tell", {"when": nonsense})
    assert refused["isError"]
    assert text_of(refused).startswith("/when: ")


class Holder(Schema):
    """An answer with a secret, which a candidate must not return."""

    api_key: str


@pytest.mark.parametrize(
    "answer",
    [
        Holder,
        list[Holder],
        dict[str, Holder],
        Holder | Times,
        {200: Times, 201: Holder},
        {200: Holder, 204: None},
    ],
    ids=repr,
)
def test_candidate_returning_a_secret_is_not_served(answer: Any, settings: Any) -> None:
    own = NinjaAPI(urls_namespace="own")

    def shelf(request: Any) -> Any:
        """Show it."""

    def plain(request: Any) -> Any:
        """Show it."""

    own.get("/shelf", response=answer, auth=django_auth)(shelf)
    own.get("/plain", response={200: Times, 400: Holder}, auth=django_auth)(plain)
    source = {"BACKEND": BACKEND, "OPTIONS": {"expose": "all"}}
    settings.MCP_BRIDGE = {"SOURCES": {"ninja": source}}
    route(settings, path("own/", own.urls))
    candidates = sorted(registry.discovered.candidates)
    for name in candidates:
        set_tool(name, chosen=True)
    assert len(candidates) == 2
    assert [name.rpartition("_")[2] for name in names()] == ["plain"]
