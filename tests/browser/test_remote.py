"""The pages of remote servers: clicked through, at each width and in the dark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography.fernet import Fernet
from django.utils import timezone
from playwright.sync_api import Page

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.remote.models import RemoteServer
from tests.browser.conftest import check
from tests.remote.desk import FORECAST, Desk, enable, open_desk, tool

Visit = Callable[..., Page]
SERVERS = "/admin/mcp_bridge_remote/remoteserver/"


@pytest.fixture
def desk(settings: Any) -> Iterator[Desk]:
    tools = [FORECAST, tool("warnings"), tool("history"), tool("two words"), tool("a" * 100)]
    with open_desk(*tools) as desk:
        settings.MCP_BRIDGE = {
            **settings.MCP_BRIDGE,
            "REMOTE_ALLOWED_HOSTS": [urlsplit(desk.url).netloc],
            "REMOTE_SECRET_KEYS": [Fernet.generate_key().decode()],
        }
        yield desk


def add_by_clicks(visit: Visit, desk: Desk) -> None:
    page = visit(SERVERS + "add/")
    page.get_by_label("Name:", exact=True).first.fill("Weather")
    page.get_by_label("URL:").fill(desk.url)
    page.get_by_label("Credential:").select_option("static")
    page.get_by_label("Secret:", exact=True).fill("key-of-the-site")
    page.get_by_text("Add another").first.click()
    page.locator("#id_headers-0-name").fill("X-Region")
    page.locator("#id_headers-0-value").fill("north")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("Next, verify that it can be reached").wait_for()
    assert "key-of-the-site" not in page.content()
    page.get_by_role("button", name="Verify").click()
    page.get_by_text("It was reached: a server, MCP 2026-07-28.").wait_for()
    page.get_by_role("button", name="Fetch tools").click()
    page.get_by_text("its name is not 1 to 128 of").wait_for()


def test_server_is_added_verified_and_fetched(visit: Visit, desk: Desk) -> None:
    add_by_clicks(visit, desk)
    assert desk.received[-1].headers["x-region"] == "north"


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_of_servers_fit(visit: Visit, desk: Desk, width: int, scheme: str) -> None:
    add_by_clicks(visit, desk)
    enable("weather_forecast")
    for number in range(40):
        ToolCallRecord.objects.create(
            tool="weather_forecast",
            outcome="succeeded" if number % 8 else "failed",
            upstream="weather",
            upstream_status="2xx" if number % 8 else "error",
            duration_ms=80 + 7 * number,
            started_at=timezone.now() - timedelta(minutes=number),
        )
    server = RemoteServer.objects.get()
    check(visit(SERVERS, width=width, scheme=scheme), "remote-servers")
    check(visit(f"{SERVERS}{server.pk}/change/", width=width, scheme=scheme), "remote-server")
