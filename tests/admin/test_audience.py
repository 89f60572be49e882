"""The audience of a tool that the admin shows, compared with the users who see the tool."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission

from mcp_bridge.access.policy import visible
from mcp_bridge.admin.audience import Audiences
from mcp_bridge.features import AccessRule
from mcp_bridge.models import ToolSetting
from tests.support.administrator import Administrator, row, serve_tools

pytestmark = pytest.mark.django_db


def alpha() -> str:
    """Say alpha."""
    return "alpha"


def audience(administrator: Administrator) -> str:
    """Return the text of the list on who can see the only tool."""
    (found,) = re.findall(r'field-who_can_use_it">([^<]*)<', administrator.get("changelist"))
    return str(found)


def test_audience_matches_the_access_policy(settings: Any) -> None:
    ToolSetting.objects.all().delete()
    serve_tools(settings, alpha, permissions=["auth.add_user", "auth.view_group"])
    users = get_user_model().objects
    add_user, view_group = (
        Permission.objects.get(codename=name) for name in ("add_user", "view_group")
    )
    both, one = Group.objects.create(name="both"), Group.objects.create(name="one")
    both.permissions.set([add_user, view_group])
    one.permissions.set([add_user])
    by_group, mixed, half, inactive, member = (
        users.create_user(name) for name in ("by_group", "mixed", "half", "inactive", "member")
    )
    for person in (by_group, inactive):
        person.groups.add(both)
    inactive.is_active = False
    inactive.save()
    mixed.groups.add(one)
    mixed.user_permissions.add(view_group)
    half.groups.add(one)
    administrator = Administrator()
    people = [*users.all()]

    def seeing() -> list[str]:
        return [each.username for each in people if visible(each)]

    assert audience(administrator) == "both; 3 people"
    assert sorted(seeing()) == ["administrator", "by_group", "mixed"]
    row("alpha").groups.add(one)
    member.groups.add(one)
    assert audience(administrator) == "1 person"
    assert seeing() == ["mixed"]
    row("alpha").groups.add(both)
    found = administrator.get("change", row("alpha").pk)
    assert "both; 2 people" in found
    assert "Groups whose members can all use it: both" in found
    assert sorted(seeing()) == ["by_group", "mixed"]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (AccessRule(public=True), "everyone, signed in or not"),
        (AccessRule(public=True, predicate=bool), "at most everyone, signed in or not"),
        (AccessRule(predicate=bool), "at most every user (0 people)"),
        (AccessRule(groups=frozenset()), "0 people"),
        (AccessRule(permissions=("auth.nothing",)), "0 people"),
    ],
)
def test_audience_is_described_in_words(rule: AccessRule, words: str) -> None:
    assert str(Audiences([rule]).of(rule)) == words


def test_users_without_a_permissions_model_are_not_counted(settings: Any) -> None:
    rule = AccessRule(permissions=("auth.add_user",), predicate=bool)
    settings.AUTH_USER_MODEL = "contenttypes.ContentType"
    assert str(Audiences([rule]).of(rule)) == "—"


def test_custom_access_policy_makes_the_count_an_upper_bound(settings: Any) -> None:
    settings.MCP_BRIDGE = {"ACCESS_POLICY": "tests.contract.test_access.OfficeHours"}
    assert str(Audiences([AccessRule()]).of(AccessRule())) == "at most every user (0 people)"
