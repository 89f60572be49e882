"""Rules for all pages: their addresses, links and content."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.contrib import admin
from django.test import Client, override_settings
from django.urls import clear_script_prefix, include, path, reverse, set_script_prefix

from mcp_bridge.models import PendingCall, ToolSetting
from mcp_bridge.tokens.models import Token
from testproject import settings as newsroom
from testproject.urls import urlpatterns
from tests.support.administrator import shown_by
from tests.support.in_use import pages, use_newsroom
from tests.support.links import inline, leading

PREFIX = "/site"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True, scope="module")
def test_site() -> Iterator[None]:
    """The newsroom, whose admin has a custom address below a prefix."""
    site: Any = ModuleType("site_below_a_prefix")
    site.urlpatterns = [
        path("back/office/", admin.site.urls),
        path("my/tokens/", include("mcp_bridge.tokens.urls")),
        *(each for each in urlpatterns if str(each.pattern) not in ("admin/", "mcp/tokens/")),
    ]
    with override_settings(
        MCP_BRIDGE=newsroom.MCP_BRIDGE,
        ROOT_URLCONF=site,
        FORCE_SCRIPT_NAME=PREFIX,
        # Absolute, as Django would make a relative one, and would keep it after these tests.
        STATIC_URL=f"{PREFIX}/static/",
    ):
        yield


@pytest.fixture(autouse=True)
def prefix() -> Iterator[None]:
    """Sets the prefix in the test too, as in a server's threads."""
    set_script_prefix(f"{PREFIX}/")
    yield
    clear_script_prefix()


class Browser(Client):
    """The owner's browser; it requests addresses without the prefix, as a proxy would."""

    def __init__(self) -> None:
        super().__init__()
        self.owner = use_newsroom()
        self.force_login(self.owner)

    def at(self, address: str) -> Any:
        assert address.startswith(f"{PREFIX}/"), address
        return self.get(address.removeprefix(PREFIX))

    def send(self, address: str, **data: Any) -> str:
        """Post, and return the address of the redirect."""
        response = self.post(address.removeprefix(PREFIX), data)
        assert response.status_code == 302, response.content.decode()
        return str(response.headers["Location"])


def kind(address: str) -> tuple[str, ...]:
    """Return the key of pages that differ only by numbers or the values of their queries."""
    parts = urlsplit(address)
    names = sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True)})
    return (re.sub(r"\d+", "1", parts.path), *names)


def test_every_link_works_below_the_prefix() -> None:
    browser = Browser()
    found: dict[tuple[str, ...], str] = {}
    for address in pages(browser.owner).values():
        response = browser.at(address)
        assert response.status_code == 200, address
        for target in leading(address, response.content.decode()):
            # Django's own "View site" is without the slash.
            if target != PREFIX:
                assert target.startswith(f"{PREFIX}/"), (address, target)
                found.setdefault(kind(target), target)
    ends = ("/logout/", "/static/")
    wanted = [each for each in found.values() if not any(end in each for end in ends)]
    assert len(wanted) > 50
    for target in wanted:
        status = browser.at(target).status_code
        # Addresses for POST alone refuse GET.
        is_posted = re.search(r"/(switch|approve|switch-on|cancel)/$", target)
        assert status == (405 if is_posted else 200), (target, status)


def test_posted_forms_redirect_below_the_prefix() -> None:
    browser = Browser()
    own = pages(browser.owner)
    tools, queue = own["tools"], own["queue"]
    changed = own["tool-changed"]
    setting = ToolSetting.objects.get(name="articles_draft")
    shown = shown_by(browser, own["tool"].removeprefix(PREFIX))
    assert browser.send(own["tool"], enabled="on", _save="1", _revision=shown) == tools
    held = PendingCall.objects.latest("pk")
    assert browser.send(own["held"], _refuse="1", reason="No.").startswith(queue)
    held.refresh_from_db()
    assert held.status == PendingCall.Status.REFUSED
    fingerprint = re.search(
        r'name="fingerprint" value="(\w+)"', browser.at(changed).content.decode()
    )
    assert fingerprint
    approve = changed.replace("/change/", "/approve/")
    assert browser.send(approve, fingerprint=fingerprint[1]).startswith(tools)
    token = Token.objects.get()
    assert browser.send(own["own-tokens"], revoke=token.pk) == own["own-tokens"]
    assert setting.enabled
    assert browser.at(f"{own['calls']}export/csv/?tool=articles_get").status_code == 200


def test_addresses_for_clients_include_the_prefix() -> None:
    browser = Browser()
    own = pages(browser.owner)
    for name in ("front", "token-connect"):
        assert f"http://testserver{PREFIX}/mcp" in browser.at(own[name]).content.decode(), name
    waiting = PendingCall.objects.latest("pk")
    assert reverse("admin:mcp_bridge_pendingcall_change", args=[waiting.pk]) == own["held"]


def test_pages_have_no_inline_scripts_or_styles() -> None:
    browser = Browser()
    for name, address in pages(browser.owner).items():
        assert inline(browser.at(address).content.decode()) == [], name
    issued = browser.post(pages(browser.owner)["own-tokens"].removeprefix(PREFIX), {"name": "x"})
    assert inline(issued.content.decode()) == []
    assert Token.objects.count() == 1
