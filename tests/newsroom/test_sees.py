"""What the admin says that somebody sees is what the endpoint lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from tests.newsroom.conftest import Desk
from tests.support.serving import set_tool

LINE = re.compile(
    r'<th scope="row">(?:<a [^>]*>)?(\w+)<.*?<td>(?:<strong>)?(yes|no)<.*?<td>(.*?)</td>', re.DOTALL
)
Look = Callable[..., dict[str, tuple[bool, str]]]


@pytest.fixture
def look(user: Callable[[str], Any]) -> Look:
    """Return by tool what the page says: whether somebody sees it, and why not."""
    browser = Client()
    browser.force_login(user("admin"))

    def look(**query: Any) -> dict[str, tuple[bool, str]]:
        page = browser.get(reverse("admin:mcp_bridge_toolsetting_sees"), query).content.decode()
        return {name: (sees == "yes", why) for name, sees, why in LINE.findall(page)}

    return look


def test_each_user_sees_the_tools_that_the_endpoint_lists(
    look: Look, desk: Callable[..., Desk]
) -> None:
    set_tool("sections_list").groups.add(Group.objects.get(name="editor"))
    set_tool("articles_search", enabled=False)
    set_tool("comments_list", restricted=True)
    everything: set[str] = set()
    users = get_user_model().objects.filter(is_active=True)
    assert users.count() > 3
    for each in users:
        said = look(user=each.pk)
        listed = set(desk(each.username).names())
        assert {name for name, (sees, _) in said.items() if sees} == listed
        assert all(why for sees, why in said.values() if not sees)
        everything |= listed
    assert everything <= said.keys()
    said = look(nobody=1)
    assert {name for name, (sees, _) in said.items() if sees} == set(desk().names())


def test_an_inactive_user_sees_nothing(look: Look, user: Callable[[str], Any]) -> None:
    author = user("author")
    author.is_active = False
    author.save()
    said = look(user=author.pk)
    assert not any(sees for sees, _ in said.values())
    assert said["articles_list"] == (False, "This user is not active.")


def test_the_members_of_a_group_see_what_each_of_them_does(
    look: Look, desk: Callable[..., Desk]
) -> None:
    for name in ("reader", "author", "editor"):
        group = Group.objects.get(name=name)
        member = get_user_model().objects.create_user(f"member_of_{name}")
        member.groups.add(group)
        said = look(group=group.pk)
        listed = set(desk(member.username).names())
        certain = {tool for tool, (sees, why) in said.items() if sees and not why}
        possible = {tool for tool, (sees, _) in said.items() if sees}
        assert certain <= listed <= possible


def test_the_reasons_are_those_that_a_person_can_act_on(
    look: Look, user: Callable[[str], Any]
) -> None:
    set_tool("sections_list").groups.add(Group.objects.get(name="editor"))
    set_tool("articles_search", enabled=False)
    set_tool("comments_list", restricted=True)
    set_tool("articles_delete", fingerprint="another", guarded=True)
    author = look(user=user("author").pk)
    assert author["sections_list"] == (False, "Not in editor.")
    assert author["articles_search"] == (False, "It is disabled.")
    assert author["comments_list"][1].startswith("Restricted to groups, but none is selected")
    assert author["articles_delete"] == (False, "Changed, pending approval.")
    assert author["articles_publish"] == (False, "Lacks “Can publish and unpublish articles”.")
    assert look(nobody=1)["articles_publish"] == (False, "Requires login.")
