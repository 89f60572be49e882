"""A page of the admin that is refused names the missing permission, in the frame of the admin."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.exceptions import PermissionDenied
from django.db.models.signals import pre_save
from django.test import Client
from django.urls import reverse

from mcp_bridge.models import ToolSetting
from tests.support.administrator import serve_tools
from tests.support.serving import taking

pytestmark = pytest.mark.django_db


@pytest.fixture
def grace(settings: Any) -> Client:
    """A member of the staff without a permission."""
    serve_tools(settings, taking(str))
    client = Client()
    client.force_login(get_user_model().objects.create_user("grace", is_staff=True))
    return client


def text_of(client: Client, name: str, method: str = "get", *args: object) -> str:
    response = getattr(client, method)(reverse(f"admin:{name}", args=args))
    assert response.status_code == 403
    text = response.content.decode()
    assert 'id="user-tools"' in text
    return text


@pytest.mark.parametrize(
    ("page", "method", "permission"),
    [
        ("mcp_bridge_toolsetting_changelist", "get", "Can view tool"),
        ("mcp_bridge_toolsetting_sees", "get", "Can view tool"),
        ("mcp_bridge_toolsetting_switch_on", "post", "Can view tool"),
        ("mcp_bridge_toolcallrecord_changelist", "get", "Can view call"),
        ("mcp_bridge_pendingcall_changelist", "get", "Can view pending call"),
        ("mcp_bridge_tokens_token_changelist", "get", "Can view token"),
        ("mcp_bridge_tokens_token_add", "get", "Can add token"),
    ],
)
def test_refused_page_names_the_missing_permission(
    page: str, method: str, permission: str, grace: Client
) -> None:
    text = text_of(grace, page, method)
    assert f"requires the permission “{permission}”, which grace does not have" in text
    content = text.split('class="breadcrumbs"')[1].split('id="footer"')[0]
    assert re.findall('<a href="([^"]*)"', content) == ["/admin/"]


def test_page_of_users_names_their_permission(grace: Client) -> None:
    user = get_user_model().objects.get(username="grace")
    user.user_permissions.add(Permission.objects.get(codename="view_toolsetting"))
    text = text_of(grace, "mcp_bridge_toolsetting_sees")
    assert "requires the permission “Can view user”" in text


def test_superuser_is_not_sent_for_a_permission(grace: Client) -> None:
    get_user_model().objects.update(is_superuser=True)
    text = text_of(grace, "mcp_bridge_toolsetting_add")
    assert "requires the permission" not in text
    assert "This is not possible here" in text


def test_refusal_of_the_site_is_a_page_too(grace: Client) -> None:
    user = get_user_model().objects.get(username="grace")
    user.user_permissions.set(Permission.objects.filter(codename__endswith="_toolsetting"))
    address = reverse("admin:mcp_bridge_toolsetting_changelist")
    grace.get(address)
    key = ToolSetting.objects.get(name="take").pk

    def refuse(**sent: Any) -> None:
        raise PermissionDenied("Four eyes: ask a colleague.", 2)

    pre_save.connect(refuse, ToolSetting)
    try:
        page = reverse("admin:mcp_bridge_toolsetting_switch", args=[key])
        assert grace.post(page, {"enabled": ""}).status_code == 403
    finally:
        pre_save.disconnect(refuse, ToolSetting)
