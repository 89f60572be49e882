"""Nothing is cached of a caller: a token, its user and their rights are the current ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_bridge import Context
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token

# A token notes its use in a separate transaction.
pytestmark = pytest.mark.django_db(transaction=True)

ADD = "auth.add_user"
RENAMED: list[str] = []


def adding(context: Context) -> str:
    """Add, and leave traces on the caller."""
    RENAMED.append(context.user.first_name)
    context.user.first_name, context.user._left = "changed by a tool", True
    context.auth.name = "changed by a tool"
    context.user._state.fields_cache["left"] = True
    return "added"


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    RENAMED.clear()
    settings.MCP_BRIDGE = {"AUDIT": None, "STATE_MAX_AGE": 60}
    serve(settings, adding, permissions=ADD)


def added() -> Permission:
    return Permission.objects.get(codename="add_user")


class Caller:
    """A user with a token, with a permission of the user or of a group."""

    def __init__(self, *, by_group: bool = False) -> None:
        self.user: Any = get_user_model().objects.create_user("ada", password="x")
        self.group = Group.objects.create(name="adders")
        if by_group:
            self.group.permissions.add(added())
            self.user.groups.add(self.group)
        else:
            self.user.user_permissions.add(added())
        self.token, self.secret = Token.objects.issue(user=self.user, name="Laptop")
        # In a minute that has begun: noting the use is another change.
        Token.objects.update(last_used_at=timezone.now())
        self.client = MCPClient(token=self.secret)

    def outcome(self) -> str:
        try:
            self.client.call_tool("adding")
        except MCPError as refused:
            return str(self.client.response.status_code) + refused.error["message"][:12]
        return "called"

    def queries(self) -> list[str]:
        """Return the tables that a call reads."""
        with CaptureQueriesContext(connection) as queries:
            assert self.outcome() == "called"
        tables = ("mcp_bridge_tokens_token", "auth_user_groups", "auth_user_user_permissions")
        read = [query["sql"] for query in queries if query["sql"].startswith("SELECT")]
        return [each for sql in read for each in tables if f'"{each}"' in sql]


def by(action: Callable[[Caller], object], *, group: bool = False) -> Any:
    return pytest.param(action, group, id=f"{action.__name__}{' of a group' * group}")


def revoke_the_token(caller: Caller) -> None:
    caller.token.revoke()


def delete_the_token(caller: Caller) -> None:
    Token.objects.filter(pk=caller.token.pk).delete()


def deactivate(caller: Caller) -> None:
    caller.user.is_active = False
    caller.user.save()


def delete_the_user(caller: Caller) -> None:
    get_user_model().objects.all().delete()


def remove_the_permission(caller: Caller) -> None:
    caller.user.user_permissions.clear()
    caller.group.permissions.clear()


def remove_the_user_from_the_permission(caller: Caller) -> None:
    added().user_set.remove(caller.user)
    added().group_set.remove(caller.group)


def delete_the_permission(caller: Caller) -> None:
    added().delete()


def leave_the_group(caller: Caller) -> None:
    caller.user.groups.clear()


def empty_the_group(caller: Caller) -> None:
    caller.group.user_set.clear()


def delete_the_group(caller: Caller) -> None:
    caller.group.delete()


ALL = [
    *map(by, (revoke_the_token, delete_the_token, deactivate, delete_the_user)),
    *map(by, (remove_the_permission, remove_the_user_from_the_permission, delete_the_permission)),
    *(
        by(each, group=True)
        for each in (
            *(remove_the_permission, remove_the_user_from_the_permission, delete_the_permission),
            *(leave_the_group, empty_the_group, delete_the_group),
        )
    ),
]


@pytest.mark.requirement("security.every-request")
@pytest.mark.parametrize(("take_away", "by_group"), ALL)
def test_revoked_rights_are_gone_at_the_next_call(
    take_away: Callable[[Caller], object], by_group: bool
) -> None:
    caller = Caller(by_group=by_group)
    assert [caller.outcome() for _ in range(3)] == ["called"] * 3
    take_away(caller)
    assert caller.outcome() in ("401The credenti", "200Unknown tool")


def test_granted_rights_apply_at_the_next_call() -> None:
    caller = Caller()
    caller.user.user_permissions.clear()
    assert caller.outcome() == "200Unknown tool"
    caller.group.permissions.add(added())
    caller.group.user_set.add(caller.user)
    assert caller.outcome() == "called"


def test_expired_token_is_refused_at_once() -> None:
    caller = Caller()
    caller.token.expires_at = timezone.now() + timedelta(seconds=0.3)
    caller.token.save()
    assert caller.outcome() == "called"
    time.sleep(0.3)
    assert caller.outcome() == "401The credenti"


def test_each_request_reads_token_and_rights_once() -> None:
    caller = Caller()
    first = caller.queries()
    assert sorted(set(first)) == sorted(first)
    assert len(first) == 3
    assert caller.queries() == first


def test_rights_of_one_caller_are_not_shared() -> None:
    caller, eve = Caller(), get_user_model().objects.create_user("eve")
    other = MCPClient(token=Token.objects.issue(user=eve, name="Phone")[1])
    assert caller.outcome() == "called"
    assert other.list_tools() == []
    eve.user_permissions.add(added())
    assert len(other.list_tools()) == len(caller.client.list_tools()) == 1


def test_tool_changes_only_the_caller_of_its_call() -> None:
    caller = Caller()
    assert [caller.outcome() for _ in range(3)] == ["called"] * 3
    assert RENAMED == ["", "", ""]
    one, other = Token.objects.find(caller.secret), Token.objects.find(caller.secret)
    assert one is not None
    assert other is not None
    assert one is not other
    assert one.user is not other.user
    assert one._state is not other._state
    assert not hasattr(other.user, "_left")
    assert one.name == other.name == "Laptop"


def test_rights_of_a_transaction_end_with_its_rollback() -> None:
    caller = Caller()
    caller.user.user_permissions.clear()
    assert caller.outcome() == "200Unknown tool"
    with transaction.atomic():
        caller.user.user_permissions.add(added())
        assert caller.outcome() == "called"
        transaction.set_rollback(True)
    assert caller.outcome() == "200Unknown tool"


def test_use_is_noted_once_a_minute() -> None:
    caller = Caller()
    long_ago = timezone.now() - timedelta(minutes=5)
    Token.objects.update(last_used_at=long_ago)
    with CaptureQueriesContext(connection) as queries:
        assert [caller.outcome() for _ in range(4)] == ["called"] * 4
    assert len([query for query in queries if query["sql"].startswith("UPDATE")]) == 1
    caller.token.refresh_from_db()
    assert caller.token.last_used_at is not None
    assert caller.token.last_used_at > long_ago
