"""The pages in custom admin sites that register all models or some of them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.urls import path, reverse

from mcp_bridge.admin import PendingCallAdmin, ToolCallRecordAdmin, ToolSettingAdmin
from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import serve
from tests.support.administrator import Administrator, row, shown_by
from tests.support.links import leading

pytestmark = pytest.mark.django_db
OTHERS = {PendingCall: PendingCallAdmin, ToolCallRecord: ToolCallRecordAdmin}


def wipe(context_of: str = "all") -> str:
    """Wipe everything."""
    return context_of


class Site:
    """
    An admin site at /own/ with the tools and these models, and one pending call.

    ``default`` is whether Django's own admin site is served as well.
    """

    def __init__(self, settings: Any, name: str, *models: Any, default: bool = True) -> None:
        ToolSetting.objects.all().delete()
        serve(settings, wipe, confirm=True)
        self.site = admin.AdminSite(name=name)
        self.site.register(ToolSetting, ToolSettingAdmin)
        for model in models:
            self.site.register(model, OTHERS[model])
        patterns = settings.ROOT_URLCONF.urlpatterns
        patterns.insert(0, path("own/", self.site.urls))
        if default:
            patterns.insert(0, path("admin/", admin.site.urls))
        self.administrator = Administrator()
        caller = MCPClient(user=get_user_model().objects.create_user("ada"))
        assert caller.call_tool("wipe")["isError"]
        self.pending = PendingCall.objects.get()

    def address(self, page: str, *args: Any) -> str:
        return reverse(f"{self.site.name}:mcp_bridge_{page}", args=args)

    def get(self, page: str, *args: Any) -> str:
        """Return a page of the site; check that its links stay in the site."""
        response = self.administrator.browser.get(self.address(page, *args))
        assert response.status_code == 200, response.status_code
        text = str(response.content.decode())
        assert not re.search(r'"/admin/', text)
        return text

    def post(self, page: str, *args: Any, **data: Any) -> str:
        response = self.administrator.browser.post(self.address(page, *args), data)
        assert response.status_code == 302, response.status_code
        return str(response.headers["Location"])


@pytest.mark.parametrize("default", [True, False])
@pytest.mark.parametrize("name", ["staff", "back-office", "admin"])
def test_site_with_tools_only_has_all_their_pages(settings: Any, name: str, default: bool) -> None:
    site = Site(settings, name, default=default and name != "admin")
    key = row("wipe").pk
    ToolSetting.objects.update(fingerprint="another")
    pages = {"changelist": (), "change": (key,), "try": (key,), "sees": (), "waiting": ()}
    for page, args in pages.items():
        text = site.get(f"toolsetting_{page}", *args)
        assert "/own/mcp_bridge/toolsetting/" in text
        assert "pendingcall" not in text
        assert "toolcallrecord" not in text
        assert "1 call waits" not in text
    for page, args in {"history": (key,)}.items():
        site.get(f"toolsetting_{page}", *args)
    change = f"/own/mcp_bridge/toolsetting/{key}/change/"
    assert site.post("toolsetting_approve", key) == change
    shown = shown_by(site.administrator.browser, change)
    assert site.post("toolsetting_change", key, _continue="1", _revision=shown) == change
    assert not row("wipe").enabled


@pytest.mark.parametrize("default", [True, False])
def test_site_with_tools_only_has_no_broken_links(settings: Any, default: bool) -> None:
    site = Site(settings, "staff", default=default)
    ToolSetting.objects.update(fingerprint="another")
    key = row("wipe").pk
    own = {"changelist": (), "change": (key,), "history": (key,), "try": (key,)}
    own |= {"sees": (), "waiting": (), "candidates": ()}
    pages = [site.address(f"toolsetting_{page}", *args) for page, args in own.items()]
    pages += [reverse("staff:index"), reverse("staff:app_list", args=["mcp_bridge"])]
    pages += [f"{pages[0]}?status=waiting", f"{pages[4]}?user={site.administrator.user.pk}"]
    targets = set()
    for address in pages:
        response = site.administrator.browser.get(address)
        assert response.status_code == 200, address
        targets |= leading(address, response.content.decode())
    for target in targets:
        if not re.match("/static/|/own/logout/|/$", target):
            assert target.startswith("/own/"), target
            status = site.administrator.browser.get(target).status_code
            assert status == (405 if re.search("/(approve|switch)/$", target) else 200), target


@pytest.mark.parametrize("name", ["staff", "back-office", "admin"])
def test_pages_link_to_pages_of_the_same_site(settings: Any, name: str) -> None:
    site = Site(settings, name, PendingCall, ToolCallRecord, default=name != "admin")
    text = site.get("toolsetting_changelist")
    assert '<a href="/own/mcp_bridge/pendingcall/">1 call is pending approval.</a>' in text
    text = site.get("toolsetting_change", row("wipe").pk)
    assert "/own/mcp_bridge/toolcallrecord/?tool=wipe" in text
    assert f"/own/mcp_bridge/pendingcall/{site.pending.pk}/change/" in site.get(
        "pendingcall_changelist"
    )
    site.get("toolcallrecord_changelist")
    site.get("toolcallrecord_change", ToolCallRecord.objects.latest("pk").pk)
    text = site.get("pendingcall_change", site.pending.pk)
    assert f"/own/mcp_bridge/pendingcall/{site.pending.pk}/history/" in text
    change = site.address("pendingcall_change", site.pending.pk)
    assert site.post("pendingcall_change", site.pending.pk, _approve="1") == change


@pytest.mark.parametrize("models", [[PendingCall], [ToolCallRecord]])
def test_unregistered_models_are_not_linked(settings: Any, models: list[Any]) -> None:
    site = Site(settings, "staff", *models)
    pages = site.get("toolsetting_changelist") + site.get("toolsetting_change", row("wipe").pk)
    assert ("/own/mcp_bridge/pendingcall/" in pages) is (PendingCall in models)
    assert ("/own/mcp_bridge/toolcallrecord/" in pages) is (ToolCallRecord in models)
