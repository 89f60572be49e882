"""A site or a database that customises a query is asked by the ORM, and its answer is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission, PermissionManager
from django.db import connection
from django.db.models.lookups import In
from django.db.models.sql import compiler
from django.test.utils import isolate_apps, register_lookup

from mcp_bridge import Context
from mcp_bridge.access.permissions import _has_tables_of_django, groups_of
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from tests.support.serving import set_tool

RUN: list[str] = []


def name(context: Context) -> str:
    """Say who calls."""
    return str(context.user.first_name)


def grouped(context: Context) -> str:
    """Return the caller's name; limited to a group."""
    return name(context)


@pytest.fixture(autouse=True)
def site(settings: Any, user: Any) -> Iterator[None]:
    """Give both tools a permission that the user has by a group, to which one is limited."""
    RUN.clear()
    _has_tables_of_django.cache_clear()
    serve(settings, name, grouped, permissions="auth.add_group")
    group = Group.objects.create(name="some")
    group.permissions.add(Permission.objects.get(codename="add_group"))
    user.groups.add(group)
    get_user_model().objects.update(first_name="ada")
    set_tool("grouped", restricted=True).groups.add(group)
    yield
    _has_tables_of_django.cache_clear()


def listed(client: MCPClient) -> list[str]:
    return [tool["name"] for tool in client.list_tools()]


def with_token(user: Any) -> MCPClient:
    return MCPClient(token=Token.objects.issue(user=user, name="Laptop")[1])


class SQLCompiler(compiler.SQLCompiler):
    """A compiler as a database may have it, for which a query is more than its SQL."""

    def execute_sql(self, *args: Any, **kwargs: Any) -> Any:
        RUN.append(self.query.model._meta.label)
        return super().execute_sql(*args, **kwargs)


SQLInsertCompiler = compiler.SQLInsertCompiler
SQLUpdateCompiler = compiler.SQLUpdateCompiler
SQLDeleteCompiler = compiler.SQLDeleteCompiler
SQLAggregateCompiler = compiler.SQLAggregateCompiler


def test_custom_compiler_of_a_database_runs_each_query(
    user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = with_token(user)
    monkeypatch.setattr(connection.ops, "compiler_module", __name__)
    monkeypatch.setattr(connection.ops, "_cache", None)
    for _ in range(2):
        RUN.clear()
        assert listed(client) == ["grouped", "name"]
        assert {"mcp_bridge_tokens.Token", "auth.Permission", "auth.Group"} <= {*RUN}


def test_custom_field_converts_its_values(user: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def from_db_value(value: str, expression: Any, connection: Any) -> str:
        return value.title()

    field = get_user_model()._meta.get_field("first_name")
    monkeypatch.setattr(field, "from_db_value", from_db_value, raising=False)
    client = with_token(user)
    for _ in range(2):
        assert client.call_tool("name")["structuredContent"] == {"result": "Ada"}


def test_custom_key_converts_its_values(user: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def from_db_value(value: int, expression: Any, connection: Any) -> int:
        assert expression.target.model is Group
        return value + 1_000

    monkeypatch.setattr(Group._meta.pk, "from_db_value", from_db_value, raising=False)
    assert [sorted(groups_of(user)) for _ in range(2)] == [[user.groups.get().pk]] * 2


class Folded(In):
    """A lookup that ignores case, and so has other parameters than it was given."""

    lookup_name = "in"

    def get_prep_lookup(self) -> list[str]:
        return [each.upper() for each in self.rhs]

    def process_lhs(self, *args: Any) -> Any:
        sql, params = super().process_lhs(*args)
        return f"UPPER({sql})", params


def test_custom_lookup_finds_the_token(user: Any) -> None:
    client = with_token(user)
    with register_lookup(Token._meta.get_field("digest"), Folded):
        for _ in range(2):
            assert listed(client) == ["grouped", "name"]


class Fewer(PermissionManager):
    """A site's manager, which hides one permission."""

    def get_queryset(self) -> Any:
        return super().get_queryset().exclude(codename="add_group")


def test_custom_manager_decides_which_permissions_exist(
    user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = with_token(user)
    assert listed(client) == ["grouped", "name"]
    manager = Fewer()
    manager.model = Permission
    monkeypatch.setattr(Permission, "objects", manager)
    _has_tables_of_django.cache_clear()
    assert not get_user_model().objects.get().has_perm("auth.add_group")
    assert listed(client) == []


@isolate_apps("tests")
def test_proxy_of_the_user_model_defines_its_groups(user: Any) -> None:
    class Deputy(get_user_model()):  # type: ignore[misc]
        groups = property(lambda self: Group.objects.filter(name="others"))

        class Meta:
            app_label = "tests"
            proxy = True

    deputy = Deputy.objects.get()
    assert listed(MCPClient(user=deputy)) == []
    Group.objects.create(name="others").permissions.add(
        Permission.objects.get(codename="add_group")
    )
    assert listed(MCPClient(user=Deputy.objects.get())) == ["name"]
