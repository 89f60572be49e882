"""Every kind of user, and of feature, has the same answer over every interface."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.http import HttpRequest
from django.urls import path
from modernrpc.server import RpcServer

from mcp_bridge import mcp_prompt, mcp_resource, mcp_tool
from mcp_bridge.access.policy import visible
from mcp_bridge.admin.audience import Chosen
from mcp_bridge.admin.tool_calls import call
from mcp_bridge.features import label_of
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import mark_approved
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from tests.support.serving import set_tool

MARKS: dict[str, Any] = {
    "tool": lambda name, options: mcp_tool(**options),
    "resource": lambda name, options: mcp_resource(f"names://{name}", **options),
    "prompt": lambda name, options: mcp_prompt(**options),
}
LISTS = {
    "tool": ("tools/list", "tools"),
    "resource": ("resources/list", "resources"),
    "prompt": ("prompts/list", "prompts"),
}


@pytest.fixture(params=MARKS)
def of(request: pytest.FixtureRequest) -> str:
    """The kind of the features."""
    kind: str = request.param
    return kind


def feature_named(of: str, name: str, **options: Any) -> Any:
    def feature() -> str:
        """Say the name."""
        return name

    feature.__name__ = name
    return MARKS[of](name, options)(feature)


def is_author(request: HttpRequest) -> bool:
    return request.user.get_username() == "author"


def broken(request: HttpRequest) -> bool:
    raise KeyError("broken")


PERMISSION = "auth.add_group"
TOOLS: dict[str, tuple[dict[str, Any], Any]] = {
    "public": ({"public": True}, None),
    "plain": ({}, None),
    "permission": ({"permissions": PERMISSION}, None),
    "group_limited": ({}, None),
    "predicate": ({}, is_author),
    "predicate_raises": ({}, broken),
    "disabled": ({"public": True}, None),
    "withheld": ({"public": True, "confirm": True}, None),
}
SEEN: dict[str, set[str]] = {
    "anonymous": {"public"},
    "reader": {"public", "plain"},
    "author": {"public", "plain", "predicate"},
    "editor": {"public", "plain", "permission", "group_limited"},
    "superuser": {"public", "plain", "permission"},
    "inactive": {"public"},
}


@pytest.fixture(autouse=True)
def site(settings: Any, of: str) -> None:
    server = RpcServer(register_system_procedures=False)
    for name, (options, auth) in TOOLS.items():
        server.register_procedure(feature_named(of, name, **options), auth=auth)
    route(settings, path("rpc", server.view))
    editors = Group.objects.create(name="editors")
    set_tool("group_limited", kind=of).groups.add(editors)
    set_tool("disabled", kind=of, enabled=False)
    withheld = set_tool("withheld", kind=of)
    mark_approved(withheld, registry.discovered.by_label[label_of(of, "plain")])
    withheld.guarded = True
    withheld.save()


def make_user(kind: str) -> Any:
    if kind == "anonymous":
        return None
    users = get_user_model().objects
    if kind == "superuser":
        return users.create_superuser(kind)
    user = users.create_user(kind, is_active=kind != "inactive")
    if kind in ("editor", "inactive"):
        user.groups.add(Group.objects.get(name="editors"))
        user.user_permissions.add(Permission.objects.get(codename="add_group"))
    return users.get(pk=user.pk)


def listed(client: CheckedClient, of: str) -> set[str]:
    try:
        return {each["name"] for each in client.list_all(*LISTS[of])}
    except MCPError:
        return set()


def answer(client: CheckedClient, of: str, name: str) -> tuple[bool, int, dict[str, str], bytes]:
    """Return whether the call ran, and all that its caller gets to see but for the name."""
    try:
        if of == "tool":
            client.call_tool(name)
        elif of == "prompt":
            client.get_prompt(name)
        else:
            client.read_resource(f"names://{name}")
        ran = True
    except MCPError:
        ran = False
    seen, headers = client.response.content, dict(client.response.headers)
    headers.pop("Content-Length", None)
    message_id = f'"id":{client.response.json()["id"]}'.encode()
    return (
        ran,
        client.response.status_code,
        headers,
        seen.replace(message_id, b"").replace(name.encode(), b"NAME"),
    )


@pytest.mark.off_rest
@pytest.mark.requirement("tools.access", "tools.list")
@pytest.mark.parametrize("kind", [kind for kind in SEEN if kind != "inactive"])
def test_list_and_call_agree_for_every_user(of: str, kind: str, revision: str) -> None:
    client = CheckedClient(user=make_user(kind), revision=revision)
    assert listed(client, of) == SEEN[kind]
    if of == "tool":
        shown = client.http.get("/mcp/tools/list").json()["tools"]
        assert {tool["name"] for tool in shown} == SEEN[kind]
    unknown = answer(client, of, "unknown")
    assert not unknown[0]
    for name in TOOLS:
        if name in SEEN[kind]:
            assert answer(client, of, name)[0]
        else:
            assert answer(client, of, name) == unknown


# The direct lane refuses on the event loop, and another thread then writes the record.
@pytest.mark.django_db(transaction=True)
@pytest.mark.off_rest
def test_inactive_users_credentials_are_refused(of: str) -> None:
    powerful = get_user_model().objects.create_superuser("powerful", is_active=False)
    for user in (make_user("inactive"), powerful):
        for name in ("public", "unknown"):
            assert answer(CheckedClient(user=user), of, name)[:2] == (False, 401)


@pytest.mark.parametrize("kind", [kind for kind in SEEN if kind != "anonymous"])
def test_admin_shows_and_calls_what_the_endpoint_has(of: str, kind: str, rf: Any) -> None:
    user = make_user(kind)
    assert {each.label for each in visible(user)} == {label_of(of, name) for name in SEEN[kind]}
    request = rf.post("/admin/")
    request.user = user
    for name in TOOLS:
        tried = call(label_of(of, name), {}, request)
        assert (tried.result is not None) is (name in SEEN[kind])


@pytest.mark.parametrize("kind", SEEN)
def test_admin_preview_agrees_with_the_endpoint(kind: str) -> None:
    answers = Chosen(user=make_user(kind)).answers()
    assert {answer.entry.setting.name for answer in answers} == TOOLS.keys()
    # Credentials of an inactive user are invalid, regardless of the rules.
    seen = set() if kind == "inactive" else SEEN[kind]
    assert {answer.entry.setting.name for answer in answers if answer.sees} == seen
    assert all(bool(answer.reason) is not answer.sees for answer in answers)
    reasons = {answer.entry.setting.name: answer.reason for answer in answers}
    assert reasons["disabled"] in ("It is disabled.", "")
    expected = {
        "anonymous": "Requires login.",
        "reader": "Lacks “Can add group”.",
        "inactive": "This user is not active.",
    }
    assert reasons["permission"] == expected.get(kind, reasons["permission"])
    if kind in ("reader", "editor", "superuser"):
        assert reasons["predicate"] == "Refused by an access rule in code."
    if kind == "superuser":
        assert reasons["group_limited"] == "Not in editors."


def test_groups_are_evaluated_by_the_same_rules() -> None:
    editors = Group.objects.get(name="editors")
    editors.permissions.add(Permission.objects.get(codename="add_group"))
    answers = {each.entry.setting.name: each for each in Chosen(group=editors).answers()}
    yes = {name for name, answer in answers.items() if answer.sees}
    assert yes == {*SEEN["editor"], "predicate", "predicate_raises"}
    for name in ("predicate", "predicate_raises"):
        assert "may refuse some" in answers[name].reason
    others = Group.objects.create(name="others")
    answers = {each.entry.setting.name: each for each in Chosen(group=others).answers()}
    assert answers["group_limited"].reason == "Not in editors."
    assert answers["permission"].reason == "Lacks “Can add group”."
