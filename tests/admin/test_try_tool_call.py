from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser, Group, Permission
from django.core.management import call_command
from django.db import connection, transaction
from django.test import RequestFactory

from mcp_bridge.access.policy import visible
from mcp_bridge.admin.tool_calls import Outcome, call, shown
from mcp_bridge.admin.try_tool import ArgumentsForm
from mcp_bridge.exceptions import ToolError
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.page import render
from tests.support.site import TOOLS


def post(user: Any) -> Any:
    request = RequestFactory().post("/", {"a": "1"})
    request.user = user
    return request


def filled(name: str, /, **typed: str) -> ArgumentsForm:
    """Return the filled-in form of a tool."""
    tool = registry.snapshot.tools.get(name)
    assert tool is not None
    data = {f"arguments-{key}": text for key, text in typed.items()}
    return ArgumentsForm(tool.input_schema, data)


def tried(user: Any, name: str, /, **typed: str) -> Any:
    """Return the result of a tool's filled-in form."""
    form = filled(name, **typed)
    assert form.is_valid(), form.errors
    outcome = call(name, form.arguments(), post(user))
    assert outcome.result is not None, outcome.refusal
    return outcome.result


def test_filled_in_form_calls_the_tool(user: Any) -> None:
    assert tried(user, "add", a="2", b="3")["structuredContent"] == {"result": 5}
    assert tried(user, "later", text="soon")["structuredContent"] == {"result": "soon"}
    tree = tried(user, "tree", root='{"value":1,"children":[{"value":2,"children":[]}]}')
    assert tree["structuredContent"]["children"][0]["value"] == 2
    assert tried(user, "open_ended", **{"*": '{"x": 1}'})["structuredContent"] == {"x": 1}
    assert tried(user, "by_hand", code="a@b.example")["isError"] is False
    orders = tried(user, "shop_orders_find", status='"open"', limit="1")
    assert orders["structuredContent"] == {"result": ["open"]}


def test_call_is_made_as_the_requests_user(user: Any) -> None:
    assert tried(user, "who")["structuredContent"]["user"] == "ada"
    assert tried(user, "for_ada", word="hers")["structuredContent"]["result"] == "hers: ada's own"


def test_refused_arguments_are_errors_of_their_fields(user: Any) -> None:
    form = filled("tree", root='{"value": 1, "children": [{"value": "x"}]}')
    assert form.is_valid()
    outcome = call("tree", form.arguments(), post(user))
    assert outcome.result is not None
    result = shown(outcome.result)
    assert result.is_error
    form.add_tool_errors(result.errors)
    assert set(form.errors) == {"root"}
    assert any(each.startswith("/children/0/value: ") for each in form.errors["root"])
    missing = filled("add")
    assert missing.is_valid()
    refused = call("add", missing.arguments(), post(user)).result
    assert refused is not None
    missing.add_tool_errors(shown(refused).errors)
    assert missing.errors == {"a": ["is required and was not sent"]}


def test_hidden_tool_is_not_called(user: Any) -> None:
    for name in ("permitted", "for_nobody", "unmarked", "no such tool"):
        assert name not in [tool.name for tool in visible(user)]
        outcome = call(name, {}, post(user))
        assert outcome.result is None
        assert outcome.refusal.startswith(
            f"Unknown tool: {name}. It may be disabled, pending approval, or not allowed for you"
        )
    stranger = call("add", {"a": 1}, post(AnonymousUser()))
    assert stranger.refusal.startswith("Unknown tool: add.")
    assert call("needs_sampling", {}, post(user)).refusal.startswith(
        "The call was refused before it ran. This request requires the client capability"
    )


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.django_db(transaction=True)
def test_failed_call_is_rolled_back(monkeypatch: pytest.MonkeyPatch, atomic: bool) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", not atomic)
    user = get_user_model().objects.create_user("ada")
    with transaction.atomic() if atomic else nullcontext():
        Group.objects.create(name="before")
        result = tried(user, "make_group", name="new", then_fail="true")
    assert result["isError"]
    assert [each.name for each in Group.objects.all()] == ["before"]


def test_coroutine_function_runs_under_a_synchronous_view(settings: Any, user: Any) -> None:
    async def find(name: str) -> int:
        """Count the users of a name."""
        if name == "nobody":
            raise ToolError("There is nobody.")
        return await get_user_model().objects.filter(username=name).acount()

    serve(settings, find)
    assert tried(user, "find", name="ada")["structuredContent"] == {"result": 1}
    assert tried(user, "find", name="nobody")["isError"]


@pytest.mark.django_db
def test_preview_matches_the_users_tool_list(user: Any) -> None:
    other = get_user_model().objects.create_user("bob")
    other.user_permissions.set(Permission.objects.filter(codename="add_user"))
    gone = get_user_model().objects.create_user("gone", is_active=False)
    root = get_user_model().objects.create_superuser("root")
    assert [tool.name for tool in visible(user)] == TOOLS
    for each in (other, root):
        listed = [tool["name"] for tool in CheckedClient(user=each).list_tools()]
        assert [tool.name for tool in visible(each)] == listed
    assert "permitted" in [tool.name for tool in visible(other)]
    for nobody in (AnonymousUser(), gone):
        assert [tool.name for tool in visible(nobody)] == ["ping_public"]


def test_arguments_that_are_not_json_are_not_sent(user: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        call("anything", {"value": float("nan")}, post(user))


@pytest.fixture
def newsroom(db: None, settings: Any) -> None:
    settings.ROOT_URLCONF = "testproject.urls"
    call_command("seed_newsroom", verbosity=0)


def test_tools_of_the_newsroom_can_be_tried(newsroom: None) -> None:
    editor = get_user_model().objects.get(username="editor")
    for tool in registry.snapshot:
        render("arguments", form=ArgumentsForm(tool.input_schema)).check()
    hits = tried(editor, "articles_search", query="bridge", filters='{"status": "published"}')
    assert {hit["status"] for hit in hits["structuredContent"]["hits"]} == {"published"}
    period = '{"start": "2020-01-01", "end": "2030-01-01"}'
    chart = shown(encode(tried(editor, "statistics_chart", by='"month"', period=period)))
    (image,) = render("result", shown=chart).all("img")
    assert image["alt"].startswith("Picture in block 1 of the result, image/png")
    body = "First line, long enough.\r\n\r\nSecond line."
    typed = {"title": "On trying tools", "section": "local", "body": body, "tags": '["a", "b"]'}
    draft = tried(editor, "articles_draft", **typed)["structuredContent"]
    assert draft["status"] == "draft"
    text = tried(editor, "articles_get", slug=draft["slug"])["content"][0]["text"]
    assert "First line, long enough.\n\nSecond line." in text
    outcome: Outcome = call("articles_get", {"slug": "no-such"}, post(editor))
    assert outcome.result is not None
    assert shown(outcome.result).is_error
