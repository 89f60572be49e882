"""Bearer tokens that are limited to scopes and to tools."""

from __future__ import annotations

import io
import json
import re
from contextlib import suppress
from typing import Any

import pytest
from django.contrib import admin
from django.core.management import CommandError, call_command
from django.urls import path, reverse
from modernrpc.server import RpcServer

from mcp_bridge import mcp_prompt, mcp_resource, mcp_tool
from mcp_bridge.models import Scope, ToolCallRecord
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from mcp_bridge.tokens.models import Token
from tests.apps.test_tokens_admin import add, issuer, secret_in, staff
from tests.support.administrator import shown_by
from tests.support.revisions import ERAS

pytestmark = pytest.mark.django_db
MARKER = "<script>alert(1)</script>"


def read() -> str:
    """Read."""
    return "read"


def write() -> str:
    """Write."""
    return "written"


def secrets() -> str:
    """Return a text for users with a permission only."""
    return "secret"


def anyone() -> str:
    """Answer everybody."""
    return "hello"


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    settings.MCP_BRIDGE = {
        "RESOURCE": "https://example.com/mcp",
        "AUTHORIZATION_SERVERS": ["https://auth.example.com"],
        "SCOPES": {
            "read": f"Read {MARKER}",
            "all": {"description": "Everything", "includes": ["read", "write"]},
        },
    }
    server = RpcServer(register_system_procedures=False)
    server.register_procedure(mcp_tool(scopes="read", read_only=True)(read))
    server.register_procedure(mcp_tool(scopes=["read", "write"], title=MARKER)(write))
    server.register_procedure(mcp_tool(permissions="auth.delete_user")(secrets))
    server.register_procedure(mcp_tool(public=True)(anyone))
    route(settings, path("rpc", server.view), path("admin/", admin.site.urls))


def client(user: Any, revision: str = ERAS[0], **limits: Any) -> CheckedClient:
    _, secret = Token.objects.issue(user=user, name="Laptop", **limits)
    return CheckedClient(token=secret, revision=revision)


def tools_of(caller: MCPClient) -> list[str]:
    return [tool["name"] for tool in caller.list_tools()]


def refusal(caller: MCPClient, tool: str) -> tuple[int, str]:
    """Return the answer to a call that is refused, without the names of the tool and the call."""
    with pytest.raises(MCPError):
        caller.call_tool(tool, {})
    reply = caller.response.json()
    del reply["id"]
    return caller.response.status_code, json.dumps(reply).replace(tool, "NAME")


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    ("limits", "opened"),
    [
        ({}, ["anyone", "read", "write"]),
        ({"tools": ["read"]}, ["read"]),
        ({"tools": ["read", "anyone", "gone"]}, ["anyone", "read"]),
        ({"tools": ["secrets"]}, []),
        ({"tools": []}, []),
        ({"scopes": ["read"]}, ["anyone", "read"]),
        ({"scopes": ["write"]}, ["anyone"]),
        ({"scopes": ["write", "read"]}, ["anyone", "read", "write"]),
        ({"scopes": ["all"]}, ["anyone", "read", "write"]),
        ({"scopes": []}, ["anyone"]),
        ({"scopes": ["read"], "tools": ["read", "write"]}, ["read"]),
        ({"read_only": True}, ["read"]),
        ({"read_only": True, "tools": ["read", "write", "gone"]}, ["read"]),
        ({"read_only": True, "tools": ["write"]}, []),
    ],
)
def test_token_allows_its_users_tools_within_its_limits(
    limits: Any, opened: list[str], revision: str, user: Any
) -> None:
    caller = client(user, revision, **limits)
    assert tools_of(caller) == opened
    listed = caller.http.get(
        "/mcp/tools/list", headers={"Authorization": caller.headers["Authorization"]}
    )
    assert [tool["name"] for tool in listed.json()["tools"]] == opened
    unknown = refusal(caller, "nothing_of_the_kind")
    for name in ("anyone", "read", "secrets", "write"):
        if name in opened:
            assert not caller.call_tool(name, {})["isError"]
            assert ToolCallRecord.objects.latest("pk").credential == "Laptop"
        else:
            assert refusal(caller, name) == unknown
            record = ToolCallRecord.objects.latest("pk")
            assert (record.credential, record.error_code) == ("Laptop", "forbidden")


def test_limits_apply_to_each_call_of_a_batch(user: Any) -> None:
    caller = client(user, "2025-03-26", scopes=["read"], tools=["read", "write"])
    calls = [
        {**caller.message("tools/call", name=name, arguments={}), "id": name}
        for name in ("read", "write", "anyone")
    ]
    replies = {each["id"]: each for each in caller.send(json.dumps(calls).encode()).json()}
    assert replies["read"]["result"]["isError"] is False
    for name in ("write", "anyone"):
        assert replies[name]["error"]["message"] == f"Unknown tool: {name}"


class OpenPolicy:
    """A custom rule that allows everything."""

    def allows(self, tool: Any, context: Any) -> bool:
        return True

    def filter(self, tools: Any, context: Any) -> Any:
        return iter(tools)


@pytest.mark.parametrize("revision", ERAS)
def test_access_policy_does_not_widen_a_token(revision: str, user: Any, settings: Any) -> None:
    policy = f"{__name__}.OpenPolicy"
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "ACCESS_POLICY": policy}
    caller = client(user, revision, tools=["secrets"])
    assert tools_of(caller) == ["secrets"]
    assert refusal(caller, "read") == refusal(caller, "nothing_of_the_kind")


# The command.


def mcp_token(*arguments: str) -> str:
    out = io.StringIO()
    call_command("mcp_token", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_command_issues_and_lists_limited_tokens(user: Any) -> None:
    limits = ("--scope", "read", "--scope", "all", "--tool", "write")
    mcp_token("create", "ada", "--name", "Reader", "--read-only")
    assert Token.objects.get().read_only
    assert "Reader  read-only\n" in mcp_token("list")
    Token.objects.all().delete()
    secret = mcp_token("create", "ada", "--name", "Laptop", *limits).strip()
    token = Token.objects.get()
    assert (token.scope, token.tools) == ("read all", "write")
    assert tools_of(CheckedClient(token=secret)) == ["write"]
    assert "Laptop  scopes: read all  tools: write\n" in mcp_token("list")
    Token.objects.issue(user=user, name="Desk", scopes=[], tools=[])
    assert "Desk  scopes: none  tools: none\n" in mcp_token("list")
    Token.objects.issue(user=user, name="Phone")
    assert "Phone\n" in mcp_token("list")


@pytest.mark.usefixtures("user")
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--tool", "raed"), "Unknown tool 'raed'. Did you mean 'read'?"),
        (("--tool", "read", "--tool", "x"), "Unknown tool 'x'.$"),
        (("--tool", ""), "Unknown tool ''"),
        (("--scope", "al"), "Unknown scope 'al'. Did you mean 'all'?"),
        (("--scope", "read all"), "Unknown scope 'read all'"),
        (("--scope", ""), "Unknown scope ''"),
    ],
)
def test_command_refuses_unknown_names(arguments: Any, error: str) -> None:
    with pytest.raises(CommandError, match=error):
        mcp_token("create", "ada", "--name", "Laptop", *arguments)
    assert not Token.objects.exists()


# The admin.

ADD = "admin:mcp_bridge_tokens_token_add"
CHANGE = "admin:mcp_bridge_tokens_token_change"


def test_limits_are_chosen_by_description_when_issuing(user: Any) -> None:
    Scope.objects.create(name="write", description="Change all & everything")
    browser = staff("everything")
    page = browser.get(reverse(ADD)).content.decode()
    assert MARKER not in page
    assert "read: Read &lt;script&gt;" in page
    assert "write: Change all &amp; everything" in page
    assert 'value="secrets"' in page
    issued = add(browser, user, scope=["read", "write"], tools=["write", "anyone"])
    token = Token.objects.get()
    assert (token.scope, token.tools) == ("read write", "write anyone")
    assert tools_of(CheckedClient(token=secret_in(issued))) == ["anyone", "write"]
    page = browser.get(reverse(CHANGE, args=[token.pk])).content.decode()
    assert "read: Read &lt;script&gt;alert(1)&lt;/script&gt;<br>write: Change all" in page
    assert "write<br>anyone" in page
    assert MARKER not in page


def test_read_only_is_ticked_when_issuing() -> None:
    browser = staff("add_token")
    secret = secret_in(add(browser, issuer(browser), read_only="on"))
    assert tools_of(CheckedClient(token=secret)) == ["read"]
    page = browser.get(reverse(CHANGE, args=[Token.objects.get().pk]))
    assert "read_only" in page.context["adminform"].readonly_fields


def test_list_shows_the_limits_of_each_token(user: Any) -> None:
    browser = staff("view_token")

    def listed(**limits: Any) -> str:
        Token.objects.all().delete()
        Token.objects.issue(user=user, name="Laptop", **limits)
        page = browser.get(reverse("admin:mcp_bridge_tokens_token_changelist")).content.decode()
        cell = page.partition('<td class="field-limits">')[2].partition("</td>")[0]
        return " ".join(re.sub("<[^>]*>", " ", cell).split())

    assert listed() == "not limited"
    assert listed(read_only=True) == "read-only"
    assert listed(scopes=["read", "all"], tools=["read"]) == "scopes: read all 1 tool"
    assert listed(read_only=True, scopes=[], tools=[]) == "read-only scopes: none 0 tools"


def test_token_is_unlimited_if_nothing_is_chosen(user: Any) -> None:
    browser = staff("everything")
    add(browser, user)
    token = Token.objects.get()
    assert (token.scope, token.tools) == (None, None)
    page = browser.get(reverse(CHANGE, args=[token.pk])).content.decode()
    assert page.count("not limited") == 2
    none, _ = Token.objects.issue(user=user, name="none", scopes=[], tools=[])
    page = browser.get(reverse(CHANGE, args=[none.pk])).content.decode()
    assert "not limited" not in page


@pytest.mark.parametrize("forged", [{"scope": "other"}, {"tools": "other"}, {"tools": "a b"}])
def test_values_not_offered_are_refused(forged: Any, user: Any) -> None:
    page = add(staff("everything"), user, **forged)
    assert "is not one of the available choices" in page.content.decode()
    assert not Token.objects.exists()


def test_issuer_is_offered_only_visible_tools() -> None:
    browser = staff("add_token")
    page = browser.get(reverse(ADD)).content.decode()
    assert ('value="read"' in page, "secrets" in page) == (True, False)
    add(browser, issuer(browser), tools=["secrets"])
    assert not Token.objects.exists()


def test_limits_cannot_be_changed(user: Any) -> None:
    token, secret = Token.objects.issue(user=user, name="Laptop", scopes=["read"], tools=["read"])
    wider = {"scope": ["read", "all"], "tools": ["read", "write"], "granted_scopes": "all"}
    data = {"name": "Desk", "expires_at_0": "", "expires_at_1": "", **wider}
    browser, page = staff("everything"), reverse(CHANGE, args=[token.pk])
    response = browser.post(page, {**data, "_revision": shown_by(browser, page)})
    assert response.status_code == 302
    token.refresh_from_db()
    assert (token.name, token.scope, token.tools) == ("Desk", "read", "read")
    assert tools_of(CheckedClient(token=secret)) == ["read"]


def test_scopes_are_not_offered_if_none_exist(user: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {}
    server = RpcServer(register_system_procedures=False)
    server.register_procedure(mcp_tool(public=True)(anyone))
    route(settings, path("rpc", server.view), path("admin/", admin.site.urls))
    page = staff("everything").get(reverse(ADD)).content.decode()
    assert ('name="scope"' in page, 'name="tools"' in page) == (False, True)


def test_token_opens_each_kind_by_its_label(user: Any, settings: Any) -> None:
    @mcp_resource("texts://one", public=True)
    def both() -> str:
        """Read it."""
        return "resource"

    def other() -> str:
        """Say it."""
        return "prompt"

    @mcp_tool(name="both", public=True)
    def tool() -> str:
        """Do it."""
        return "tool"

    prompt = mcp_prompt(name="both", public=True)(other)
    server = RpcServer(register_system_procedures=False)
    for each in (both, prompt, tool):
        server.register_procedure(each)
    route(settings, path("rpc", server.view))
    for names, opened in (
        (["both"], {"tool"}),
        (["resource:both"], {"resource"}),
        (["prompt:both", "both"], {"tool", "prompt"}),
    ):
        caller, found = client(user, tools=names), set()
        with suppress(MCPError):
            found |= {"tool"} if caller.call_tool("both") else set()
        with suppress(MCPError):
            found |= {"resource"} if caller.read_resource("texts://one") else set()
        with suppress(MCPError):
            found |= {"prompt"} if caller.get_prompt("both") else set()
        assert found == opened
