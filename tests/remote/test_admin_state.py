"""The state of remote servers in the admin: their tools, their calls, and who sees them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from mcp_bridge.models import ToolSetting
from mcp_bridge.remote.encryption import opened, sealed
from mcp_bridge.remote.models import RemoteServer, RemoteTool
from mcp_bridge.remote.sync import sync
from mcp_bridge.testing import MCPClient
from tests.remote import tiny as upstream
from tests.remote.owner import (
    CODENAMES,
    OTHER,
    SECRET,
    Owner,
    address,
    enable,
    filled,
    made,
    recorded,
    rows_in,
    weather_forecast,
    words,
)
from tests.remote.tiny import Tiny, tool
from tests.support.administrator import serve_tools

pytestmark = [pytest.mark.django_db, pytest.mark.off_lane, pytest.mark.off_stdio]

# Tools.


def test_fetched_tools_are_shown_with_their_status(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny)
    tiny.tools = [
        tool("forecast"),
        tool("warnings"),
        tool("two words"),
        {**tool("broken"), "inputSchema": None},
        tool("again"),
        tool("again"),
    ]
    text = owner.press("fetch", server)
    assert "Tools fetched: 2 (5 new, 0 changed, 0 gone); 3 left out." in text
    assert "Review and enable them." in text
    enable(owner, "weather_forecast")
    text = owner.at("change", server.pk)
    assert rows_in(text) == [
        "again Name here: — Status: left out: the server offers several tools of this name",
        "broken Name here: — Status: left out: its inputSchema is not an object",
        "forecast Name here: weather_forecast Status: enabled",
        "two words Name here: — Status: left out: its name is not 1 to 128 of A-Z a-z 0-9 _ . -",
        "warnings Name here: weather_warnings Status: candidate",
    ]
    assert "1 enabled, 1 candidate, 3 left out" in words(text)
    assert "1 enabled, 1 candidate, 3 left out" in words(owner.at("changelist"))
    (entry,) = LogEntry.objects.filter(object_id=server.pk)
    assert entry.get_change_message().startswith("Tools fetched: 2 (5 new")


def test_names_link_to_settings_or_candidates(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny)
    tiny.tools = [tool("forecast"), tool("warnings")]
    owner.press("fetch", server)
    enable(owner, "weather_forecast")
    text = owner.at("change", server.pk)
    setting = ToolSetting.objects.get(name="weather_forecast")
    link = reverse("admin:mcp_bridge_toolsetting_change", args=[setting.pk])
    assert f'<a href="{link}">weather_forecast</a>' in text
    (link,) = re.findall(r'<a href="([^"]*)">weather_warnings</a>', text)
    page = owner.browser.get(link).content.decode()
    assert "1 candidate" in page
    assert "weather_warnings" in page
    # Without permission to view tools, names are not links.
    viewer = Owner("view_remoteserver", username="viewer")
    assert "weather_forecast</a>" not in viewer.at("change", server.pk)


def test_changed_and_gone_tools_are_shown(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny)
    tiny.tools = [tool("forecast"), tool("warnings")]
    owner.press("fetch", server)
    enable(owner, "weather_forecast")
    tiny.tools = [tool("forecast", "Now it deletes things.")]
    assert "(0 new, 1 changed, 1 gone)" in owner.press("fetch", server)
    changed, gone = rows_in(owner.at("change", server.pk))
    assert changed == "forecast Name here: weather_forecast Status: changed, pending approval"
    assert gone.startswith("warnings ")
    assert gone.endswith("Status: gone: the server no longer offers it")
    assert "1 pending approval" in words(owner.at("changelist"))


def test_disabled_tools_and_servers_are_shown(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny)
    owner.press("fetch", server)
    enable(owner, "weather_forecast")
    owner.act("switch_off", "weather_forecast")
    row = "forecast Name here: weather_forecast Status: disabled"
    assert rows_in(owner.at("change", server.pk)) == [row]
    owner.change(server, enabled=None)
    assert rows_in(owner.at("change", server.pk)) == [f"{row}, like its server"]
    assert MCPClient(user=owner.user).list_tools() == []


def test_name_of_an_own_tool_is_left_out(tiny: Tiny, settings: Any) -> None:
    owner, server = Owner(), made(tiny)
    owner.press("fetch", server)
    # Written after the tools were fetched.
    serve_tools(settings, weather_forecast)
    (row,) = rows_in(owner.at("change", server.pk))
    assert row.endswith("left out: another tool of this site has its name here")


def test_at_most_500_tools_are_shown(tiny: Tiny) -> None:
    owner, server, now = Owner(), made(tiny), timezone.now()
    RemoteTool.objects.bulk_create(
        RemoteTool(server=server, remote_name=f"t{n:03}", reason="it is odd", seen_at=now)
        for n in range(520)
    )
    text = owner.at("change", server.pk)
    assert len(rows_in(text)) == 500
    assert "The first 500 of 520 are shown." in words(text)


def test_deleting_a_server_leaves_its_tools_gone(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny)
    owner.press("fetch", server)
    enable(owner, "weather_forecast")
    assert [each["name"] for each in MCPClient(user=owner.user).list_tools()]
    assert "Are you sure" in owner.at("delete", server.pk)
    owner.send("delete", server.pk, post="yes")
    assert not RemoteTool.objects.exists()
    assert MCPClient(user=owner.user).list_tools() == []
    assert "no longer exists" in owner.get("changelist")


def test_texts_of_a_server_are_escaped(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny, name="<script>alert(1)</script>")
    tiny.tools = [tool("<script>alert(2)</script>")]
    RemoteServer.objects.update(last_error="<script>alert(3)</script>")
    owner.press("fetch", server)
    RemoteServer.objects.update(last_error="<script>alert(3)</script>")
    for page, *args in (("changelist",), ("change", server.pk), ("delete", server.pk)):
        assert "<script>alert" not in owner.at(page, *args)
    assert "<script>alert" not in owner.seen


# Health.


def test_health_counts_the_calls_of_a_day(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny)
    for number in range(1, 101):
        recorded("2xx" if number <= 90 else "5xx", number)
    recorded("error", 1000)
    recorded("2xx", 9999, timedelta(hours=25))
    recorded("2xx", 9999, upstream="other")
    text = words(owner.at("change", server.pk))
    assert "Calls in 24 hours 101 (2xx: 90, 5xx: 10, no response: 1)" in text
    assert "median 51.0 ms, 95th percentile 96.0 ms" in text


def test_health_compares_the_latest_calls(tiny: Tiny, monkeypatch: Any) -> None:
    monkeypatch.setattr("mcp_bridge.remote.overview.MOST_CALLS", 3)
    owner, server = Owner(), made(tiny)
    for number in range(10):
        recorded("2xx", number, timedelta(minutes=10 - number))
    text = words(owner.at("change", server.pk))
    assert "10 (2xx: 10)" in text
    assert "median 8.0 ms, 95th percentile 9.0 ms" in text


def test_real_calls_appear_in_health(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny)
    owner.press("fetch", server)
    enable(owner, "weather_forecast")
    client = MCPClient(user=owner.user)
    client.call_tool("weather_forecast", {})
    tiny.answer = upstream.failing
    assert client.call_tool("weather_forecast", {})["isError"]
    text = words(owner.at("change", server.pk))
    assert "Calls in 24 hours 2 (2xx: 1, 5xx: 1)" in text
    assert "median" in text


def test_health_needs_permission_to_view_calls(tiny: Tiny) -> None:
    server = made(tiny)
    recorded("2xx", 5)
    text = words(Owner("view_remoteserver").at("change", server.pk))
    assert "Calls in 24 hours" not in text
    viewer = Owner("view_remoteserver", "view_toolcallrecord", username="viewer")
    assert "Calls in 24 hours 1 (2xx: 1)" in words(viewer.at("change", server.pk))


# Permissions.


def test_viewers_see_all_but_secrets_and_buttons(tiny: Tiny) -> None:
    server = made(tiny, auth="static", credential=sealed(SECRET))
    headers = server.headers
    headers.create(name="X-Key", is_secret=True, value=sealed(OTHER))
    headers.create(name="X-Env", is_secret=True, value="env:MCP_REMOTE_KEY")
    headers.create(name="X-Region", value="north")
    viewer = Owner("view_remoteserver", username="viewer")
    text = viewer.at("change", server.pk)
    assert not re.search(r'<(input|button)[^>]*(name="secret|-secret"|form="mcp-)', text)
    assert "You can view remote servers but not change them" in words(text)
    assert "stored, encrypted" in words(text)
    assert "the environment variable MCP_REMOTE_KEY" in words(text)
    for shown in ("Weather", tiny.url, "X-Key", "north", "the site's credential"):
        assert shown in words(text)
    hidden = [SECRET, OTHER, server.credential, headers.get(name="X-Key").value]
    assert not [each for each in hidden if each in text]
    viewer.send("change", server.pk, expected=403, **filled(server.url))
    viewer.at("add", expected=403)
    viewer.at("delete", server.pk, expected=403)
    assert "You cannot add remote servers" in words(viewer.at("changelist"))


def test_changers_need_no_permission_for_headers(tiny: Tiny) -> None:
    server = made(tiny)
    changer = Owner(*CODENAMES, username="changer")
    changer.change(server, {"name": "X-Key", "secret": OTHER}, auth="static", secret=SECRET)
    server.refresh_from_db()
    assert opened(server.credential) == SECRET
    assert opened(server.headers.get().value) == OTHER
    adder = Owner("add_remoteserver", username="adder")
    adder.add(tiny, {"name": "X-Region", "value": "north"}, slug="sky", name="Sky")
    assert RemoteServer.objects.get(slug="sky").headers.get().value == "north"


def test_history_names_fields_without_values(tiny: Tiny) -> None:
    owner, server = Owner(), made(tiny)
    owner.change(server, {"name": "X-Key", "secret": OTHER}, auth="static", secret=SECRET)
    (entry,) = LogEntry.objects.all()
    text = "Changed Credential and Secret. Added header “X-Key”."
    assert entry.get_change_message() == text


# The list.


def test_list_shows_hosts_and_errors(tiny: Tiny) -> None:
    owner = Owner()
    assert "Add one to offer its tools on this site." in words(owner.at("changelist"))
    server = made(tiny)
    text = words(owner.at("changelist"))
    assert tiny.host in text
    assert "Tools fetched : not yet" in text or "Tools fetched: not yet" in text
    tiny.answer = upstream.unauthorized
    owner.press("fetch", server)
    assert "requires a credential" in words(owner.at("changelist", q="weather"))


def test_list_needs_no_query_for_each_server(tiny: Tiny) -> None:
    owner, numbers = Owner(), []
    for number in (1, 2, 3):
        sync(made(tiny, slug=f"w{number}"))
        # The first one reads the new tools.
        owner.at("changelist")
        with CaptureQueriesContext(connection) as queries:
            owner.at("changelist")
        numbers.append(len(queries))
    assert numbers[0] == numbers[2]


def test_strangers_cannot_look_up_hosts(tiny: Tiny, monkeypatch: Any) -> None:
    calls: list[str] = []
    monkeypatch.setattr("mcp_bridge.remote.models.check_reachable", calls.append)
    Owner("view_remoteserver", username="viewer").send("add", expected=403, **filled(tiny.url))
    assert calls == []


def test_servers_are_in_the_section_of_mcp(tiny: Tiny) -> None:
    text = Owner().browser.get(reverse("admin:app_list", args=["mcp_bridge"])).content.decode()
    assert address("changelist") in text
    assert text.count('class="app-mcp_bridge module') <= 1
