"""The newsroom as it is after some use, and all its pages of MCP."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone
from oauth2_provider.models import get_access_token_model, get_application_model

from mcp_bridge.models import PendingCall, Scope, ToolCallRecord, ToolSetting
from mcp_bridge.protocol.tasks import TASKS
from mcp_bridge.records.rows import flush
from mcp_bridge.registry.fingerprints import fingerprint
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import sync_tool_settings
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.testing import MCPClient
from mcp_bridge.tokens.models import Token
from testproject.newsroom.models import Article

CALLED: list[tuple[str, dict[str, Any]]] = [
    ("articles_list", {"limit": 3}),
    ("articles_get", {"slug": "no-such-article"}),
    ("articles_get", {"slug": 5, "<script>": True}),
    ("articles_revise", {"slug": "no-such-article", "text": "x"}),
]


def change_the_definition_of(name: str) -> None:
    """Change the approved definition, as if the code had had another then."""
    setting = ToolSetting.objects.get(name=name)
    approved = json.loads(setting.approved)
    approved["description"] = "Delete a draft."
    setting.approved = json.dumps(approved, sort_keys=True)
    setting.fingerprint = fingerprint(setting.approved)
    setting.guarded = True
    setting.save()


def use_newsroom() -> Any:
    """
    Make a newsroom with calls, a pending call and tool, a task, a token and a scope.

    Returns its owner.
    """
    call_command("seed_newsroom", verbosity=0)
    # The end of a test with transactions has registered the tools that were served there.
    sync_tool_settings(registry.discovered)
    users = get_user_model().objects
    owner = users.create_superuser("owner")
    client = MCPClient(user=users.get(username="editor"))
    for name, arguments in CALLED:
        client.call_tool(name, arguments)
    drafts = Article.objects.filter(status="draft").values_list("slug", flat=True)[:3]
    for slug in drafts[:2]:
        assert client.call_tool("articles_delete", {"slug": slug})["isError"]
    follower = MCPClient(
        user=users.get(username="editor"), capabilities={"extensions": {TASKS: {}}}
    )
    task = follower.call_tool("articles_delete", {"slug": drafts[2]})
    assert task["resultType"] == "task"
    old = PendingCall.objects.earliest("pk")
    PendingCall.objects.filter(pk=old.pk).update(asked_at=timezone.now() - timedelta(days=30))
    flush()
    change_the_definition_of("articles_revise")
    Scope.objects.create(name="articles:read", description="Read articles")
    Token.objects.issue(user=owner, name="Laptop")
    client = get_application_model().objects.create(
        name="Claude", authorization_grant_type="authorization-code", redirect_uris="https://a.b/"
    )
    ends = timezone.now() + timedelta(hours=1)
    get_access_token_model().objects.create(user=owner, application=client, expires=ends)
    return owner


def pages(owner: Any, site: str = "admin") -> dict[str, str]:
    """Return the addresses of all pages of MCP in an admin site, each with a unique name."""

    def at(model: str, page: str = "changelist", *args: Any, app: str = "mcp_bridge") -> str:
        name = f"{site}:{app}_{model}_{page}"
        return reverse(name, args=args, current_app=site)

    def token(page: str = "changelist", *args: Any) -> str:
        return at("token", page, *args, app="mcp_bridge_tokens")

    tool = ToolSetting.objects.get(name="articles_draft").pk
    changed = ToolSetting.objects.get(name="articles_revise").pk
    held = PendingCall.objects.latest("pk").pk
    calls = {str(each.outcome): each.pk for each in ToolCallRecord.objects.order_by("pk")}
    client = f"{owner.pk}/{get_application_model().objects.get().pk}"
    task = McpTask.objects.latest("created_at").pk
    scope, issued = Scope.objects.latest("pk").pk, Token.objects.latest("pk").pk
    return {
        "index": reverse(f"{site}:index"),
        "front": reverse(f"{site}:app_list", args=["mcp_bridge"]),
        "front-of-tokens": reverse(f"{site}:app_list", args=["mcp_bridge_tokens"]),
        "tools": at("toolsetting"),
        "tools-waiting": at("toolsetting", "waiting"),
        "tool": at("toolsetting", "change", tool),
        "tool-changed": at("toolsetting", "change", changed),
        "tool-history": at("toolsetting", "history", tool),
        "try": at("toolsetting", "try", tool),
        "sees": f"{at('toolsetting', 'sees')}?user={owner.pk}",
        "candidates": at("toolsetting", "candidates"),
        "queue": at("pendingcall"),
        "queue-aside": f"{at('pendingcall')}?status=aside",
        "queue-decide": at("pendingcall", "decide"),
        "held": at("pendingcall", "change", held),
        "held-history": at("pendingcall", "history", held),
        "calls": at("toolcallrecord"),
        "calls-filtered": f"{at('toolcallrecord')}?tool=articles_get&q=article",
        **{f"call-{name}": at("toolcallrecord", "change", key) for name, key in calls.items()},
        "scopes": at("scope"),
        "scope-add": at("scope", "add"),
        "scope": at("scope", "change", scope),
        "scope-delete": at("scope", "delete", scope),
        "tokens": token(),
        "token-add": token("add"),
        "token": token("change", issued),
        "token-connect": token("connect", issued),
        "token-revoke": token("revoke", issued),
        "token-history": token("history", issued),
        "token-delete": token("delete", issued),
        "tasks": at("mcptask", app="mcp_bridge_tasks"),
        "task": at("mcptask", "change", quote(task), app="mcp_bridge_tasks"),
        "task-history": at("mcptask", "history", quote(task), app="mcp_bridge_tasks"),
        "connected": at("clientuse", app="mcp_bridge_oauth"),
        "disconnect": at("clientuse", "delete", quote(client), app="mcp_bridge_oauth"),
        "own-tokens": reverse("mcp-tokens"),
    }
