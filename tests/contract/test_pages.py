"""Pages are bounded by bytes and cached by access rules, never shared between unequal callers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.urls import path
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from mcp_bridge.access import AccessPolicy
from mcp_bridge.features import AccessRule, Context, Tool
from mcp_bridge.protocol import LATEST, pagination
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route, serve
from mcp_bridge.tokens.models import Token
from tests.support.serving import giving, set_tool

pytestmark = pytest.mark.django_db


def numbered(number: int, text: str = "Give a number.") -> Callable[..., Any]:
    function = giving(int, number)
    function.__name__, function.__doc__ = f"give_{number:02}", text
    return function


def named(numbers: Any) -> list[str]:
    return [f"give_{number:02}" for number in numbers]


def pages(client: CheckedClient) -> list[list[dict[str, Any]]]:
    """Return the tools of each page."""
    result = client.post("tools/list")
    found = [result["tools"]]
    while "nextCursor" in result:
        result = client.post("tools/list", cursor=result["nextCursor"])
        found.append(result["tools"])
    return found


def listed(client: CheckedClient) -> list[str]:
    return [tool["name"] for page in pages(client) for tool in page]


def size(tool: dict[str, Any]) -> int:
    return len(json.dumps(tool, separators=(",", ":")))


def test_thousand_ordinary_tools_fit_one_page(settings: Any, modern: CheckedClient) -> None:
    def search(name: str, tags: list[str], limit: int = 10, draft: bool = True) -> dict[str, int]:
        """Search a section by name, with tags, a limit, and drafts or not."""
        return {}

    server = RpcServer(register_system_procedures=False)
    for number in range(1000):
        server.register_procedure(mcp_tool(read_only=True)(search), name=f"search_{number:04}")
    route(settings, path("rpc", server.view))
    (page,) = pages(modern)
    assert len(page) == 1000


def test_page_size_in_bytes_is_bounded(settings: Any, modern: CheckedClient) -> None:
    serve(settings, *(numbered(number, "Give. " * number) for number in range(40)))
    (whole,) = pages(modern)
    settings.MCP_BRIDGE = {"PAGE_BYTES": 1000}
    found = pages(modern)
    assert [tool for page in found for tool in page] == whole
    sizes = [sum(map(size, page)) for page in found]
    assert len(found) > 5
    assert max(sizes) <= 1000
    # None of the next page's tools would have fitted.
    following = [size(page[0]) for page in found[1:]]
    assert all(one + other > 1000 for one, other in zip(sizes, following, strict=False))


def test_oversized_tool_has_its_own_page(settings: Any, modern: CheckedClient) -> None:
    texts = ["Give.", "Give.", "Give. " * 500, "Give.", "Give."]
    serve(settings, *map(numbered, range(5), texts))
    settings.MCP_BRIDGE = {"PAGE_BYTES": 800}
    found = [[tool["name"] for tool in page] for page in pages(modern)]
    assert found == [named([0, 1]), named([2]), named([3, 4])]


@pytest.mark.parametrize("limits", [{"PAGE_SIZE": 2}, {"PAGE_SIZE": 2, "PAGE_BYTES": 10**6}])
def test_number_of_tools_per_page_is_bounded(
    limits: dict[str, int], settings: Any, modern: CheckedClient
) -> None:
    serve(settings, *map(numbered, range(5)))
    settings.MCP_BRIDGE = limits
    assert [len(page) for page in pages(modern)] == [2, 2, 1]


@pytest.mark.requirement("pages.stable", "cache.same-scope")
@pytest.mark.parametrize("limits", [{"PAGE_SIZE": 3}, {"PAGE_BYTES": 500}])
def test_paging_lists_each_tool_once_during_changes(
    limits: dict[str, int], settings: Any, modern: CheckedClient
) -> None:
    settings.MCP_BRIDGE = limits
    serve(settings, *map(numbered, range(30)))
    toggled = named(range(0, 30, 3))
    for name in toggled[::2]:
        set_tool(name, enabled=False)
    found: list[str] = []
    cursor: dict[str, str] = {}
    turns = 0
    while True:
        result = modern.post("tools/list", **cursor)
        found += [tool["name"] for tool in result["tools"]]
        assert result["cacheScope"] == "private"
        if "nextCursor" not in result:
            break
        cursor = {"cursor": result["nextCursor"]}
        turns += 1
        for number, name in enumerate(toggled):
            set_tool(name, enabled=(number + turns) % 2 == 0)
    assert turns > 3
    assert found == sorted(set(found))
    assert set(named(range(30))) - set(found) <= set(toggled)


@pytest.mark.requirement("tools.list")
def test_callers_are_listed_only_usable_tools(settings: Any) -> None:
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 3600, "ALLOW_ANONYMOUS": True}
    server = RpcServer(register_system_procedures=False)
    needs: list[dict[str, Any]] = [
        {"public": True},
        {},
        {"permissions": "auth.add_group"},
        {"permissions": "auth.view_group"},
        {"permissions": ["auth.add_group", "auth.view_group"]},
    ]
    for number, options in enumerate(needs):
        server.register_procedure(mcp_tool(**options)(numbered(number)))
    route(settings, path("rpc", server.view))
    users = [User.objects.create_user(name) for name in ("none", "adds", "views", "both")]
    for user, names in zip(users, ([], ["add"], ["view"], ["add", "view"]), strict=True):
        codes = [f"{each}_group" for each in names]
        user.user_permissions.set(Permission.objects.filter(codename__in=codes))
    clients = [CheckedClient(user=AnonymousUser()), *(CheckedClient(user=each) for each in users)]
    for _ in range(2):
        assert list(map(listed, clients)) == [
            named(numbers) for numbers in ([0], [0, 1], [0, 1, 2], [0, 1, 3], [0, 1, 2, 3, 4])
        ]


def test_permission_changes_apply_to_the_next_page(settings: Any) -> None:
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 3600}
    serve(settings, numbered(0), permissions="auth.add_group")
    user = User.objects.create_user("ada")

    def seen() -> list[str]:
        return listed(CheckedClient(user=User.objects.get(pk=user.pk)))

    assert seen() == []
    user.user_permissions.set(Permission.objects.filter(codename="add_group"))
    assert seen() == ["give_00"]
    setting = set_tool("give_00", restricted=True)
    assert seen() == []
    group = Group.objects.create(name="editors")
    setting.groups.set([group])
    user.groups.set([group])
    setting.save()
    assert seen() == ["give_00"]


class EvenPolicy(AccessPolicy):
    def allows(self, tool: Tool, context: Context) -> bool:
        return super().allows(tool, context) and int(tool.name[-2:]) % 2 == 0


class FilteringPolicy(AccessPolicy):
    def filter(self, tools: Any, context: Context) -> Any:
        return (tool for tool in super().filter(tools, context) if int(tool.name[-2:]) % 2 == 0)


@pytest.mark.parametrize("policy", [EvenPolicy, FilteringPolicy])
@pytest.mark.parametrize("limits", [{}, {"PAGE_SIZE": 2}, {"PAGE_BYTES": 300}])
def test_custom_policy_is_checked_for_each_tool(
    limits: dict[str, int], policy: type, settings: Any, modern: CheckedClient
) -> None:
    path = f"{__name__}.{policy.__name__}"
    settings.MCP_BRIDGE = {"ACCESS_POLICY": path, **limits}
    serve(settings, *map(numbered, range(9)))
    assert listed(modern) == named([0, 2, 4, 6, 8])


def test_procedure_auth_is_checked_in_each_request(settings: Any, modern: CheckedClient) -> None:
    asked: list[str] = []

    def may(name: str) -> Callable[[Any], bool]:
        def auth(request: Any) -> bool:
            asked.append(name)
            return name not in asked[:-1]

        return auth

    server = RpcServer(register_system_procedures=False)
    for number in range(3):
        name = f"give_{number:02}"
        server.register_procedure(mcp_tool(numbered(number)), name=name, auth=may(name))
    route(settings, path("rpc", server.view))
    assert listed(modern) == named(range(3)) == asked
    assert listed(modern) == []


def test_limited_token_lists_only_its_tools(settings: Any, user: Any) -> None:
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 3600, "PAGE_SIZE": 2}
    serve(settings, *map(numbered, range(9)))
    limited = Token.objects.issue(user=user, name="some", expires_at=None, tools=named([1, 4, 7]))
    whole = Token.objects.issue(user=user, name="all", expires_at=None)
    for _ in range(2):
        assert listed(CheckedClient(token=whole[1])) == named(range(9))
        assert listed(CheckedClient(token=limited[1])) == named([1, 4, 7])


def test_invented_cursors_are_not_cached(settings: Any, modern: CheckedClient) -> None:
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 3600}
    serve(settings, *map(numbered, range(3)))
    snapshot = registry.snapshot

    def kept() -> int:
        caches = [each for each in vars(snapshot).values() if hasattr(each, "cache_info")]
        return len(snapshot._pages.kept) + sum(each.cache_info().currsize for each in caches)

    modern.list_tools()
    before = kept()
    for number in range(50):
        cursor = pagination.after(f"give_00_{number}")
        tools = modern.post("tools/list", cursor=cursor)["tools"]
        assert [tool["name"] for tool in tools] == named([1, 2])
    assert (kept(), registry.snapshot) == (before, snapshot)


def test_page_cache_is_bounded_by_bytes(settings: Any, modern: CheckedClient) -> None:
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 3600}
    serve(settings, *(numbered(number, "Give. " * 40_000) for number in range(10)))
    snapshot = registry.snapshot
    rule = next(iter(snapshot)).access
    for number in range(30):
        # Each round is another kind of caller, who may use all tools.
        rules = frozenset({rule, AccessRule(permissions=(f"auth.kind_{number}",))})
        assert len(snapshot.page("tool", rules, None, LATEST).features) == 2
        snapshot.page("tool", rules, "give_01", LATEST)
    assert 30 < len(snapshot._pages.kept) < 40
    assert snapshot._pages.size <= 16 * 1024 * 1024
    assert len(listed(modern)) == 10
