"""An administrator at the pages of remote servers, and the server that these tests connect."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

from django.urls import reverse
from django.utils import timezone

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.models.outcomes import Outcome
from mcp_bridge.remote.models import RemoteServer
from tests.remote.tiny import Tiny
from tests.support.administrator import Administrator, shown_by

SECRET = "s3cret-of-the-vendor-0123456789"
OTHER = "0ther-secret-of-the-vendor"
ONE_SOURCE = "Enter one of these: a value, a secret value or the caller's header."
CODENAMES = ("view_remoteserver", "change_remoteserver")


def weather_forecast() -> str:
    """Return this site's own forecast."""
    return "sun"


class Owner(Administrator):
    """An administrator at the pages of the remote servers, who keeps all that these returned."""

    def __init__(self, *codenames: str, username: str = "owner") -> None:
        super().__init__(*codenames, username=username)
        self.seen = ""

    def at(self, page: str, *args: Any, expected: int = 200, **query: Any) -> str:
        return self._read(self.browser.get(address(page, *args), query), expected)

    def send(self, page: str, *args: Any, expected: int = 200, **data: Any) -> str:
        return self._read(self.browser.post(address(page, *args), data, follow=True), expected)

    def _read(self, response: Any, expected: int) -> str:
        text = self._text(response, expected)
        self.seen += text + str(response.headers) + str(getattr(response, "redirect_chain", ""))
        return text

    def add(self, tiny: Tiny, *headers: dict[str, Any], **values: Any) -> str:
        """Submit the form for a new server."""
        return self.send("add", **filled(tiny.url, *headers, **values))

    def change(self, server: RemoteServer, *headers: dict[str, Any], **values: Any) -> str:
        """Submit the form of a server as it is, with other values."""
        token = shown_by(self.browser, address("change", server.pk))
        values = {"auth": server.auth, "_revision": token, **values}
        data = filled(values.pop("url", server.url), *headers, **values)
        return self.send("change", server.pk, **data)

    def press(self, button: str, server: RemoteServer) -> str:
        """Press a button, and return the messages."""
        return messages_in(self.send(button, server.pk))


def address(page: str, *args: Any) -> str:
    return reverse(f"admin:mcp_bridge_remote_remoteserver_{page}", args=args)


def filled(url: str, *headers: dict[str, Any], **values: Any) -> dict[str, Any]:
    """Return the values of the form; one that is None is not sent."""
    data = {
        "name": "Weather",
        "slug": "weather",
        "url": url,
        "enabled": "on",
        "auth": "none",
        "secret": "",
        "permission": "",
        "first_byte_s": 10,
        "whole_call_s": 60,
        "idle_s": 30,
        "max_body_bytes": 5 * 1024 * 1024,
        "headers-TOTAL_FORMS": len(headers),
        "headers-INITIAL_FORMS": sum("id" in each for each in headers),
        **values,
    }
    for number, header in enumerate(headers):
        shown = {"value": "", "secret": "", "from_header": "", "is_required": "on", **header}
        data |= {f"headers-{number}-{name}": value for name, value in shown.items()}
    return {name: value for name, value in data.items() if value is not None}


def messages_in(text: str) -> str:
    found = re.search(r'<ul class="messagelist">(.*?)</ul>', text, re.DOTALL)
    return words(found[1]) if found else ""


def errors_in(text: str) -> list[str]:
    lists = re.findall(r'<ul class="errorlist[^>]*>(.*?)</ul>', text, re.DOTALL)
    return [words(each) for found in lists for each in re.findall(r"<li>(.*?)</li>", found)]


def words(text: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))).strip()


def rows_in(text: str) -> list[str]:
    """Return the rows of the table of tools."""
    found = re.search(r'<table class="mcp-candidates">.*?<tbody>(.*?)</tbody>', text, re.DOTALL)
    return [words(each) for each in found[1].split("</tr>") if words(each)] if found else []


def made(tiny: Tiny, **values: Any) -> RemoteServer:
    """Return a saved server."""
    values = {"name": "Weather", "slug": "weather", "url": tiny.url, **values}
    return RemoteServer.objects.create(**values)


def enable(owner: Owner, *names: str) -> None:
    """Enable candidates on their pages."""
    text = owner.post("switch_on", name=names)
    shown = re.findall(r'name="tool" value="([^"]*)"', text)
    owner.post("switch_on", tool=[unescape(each) for each in shown], _confirmed="1")


def recorded(status: str, duration: float, age: timedelta = timedelta(), **values: Any) -> None:
    """Write the record of a call of the server."""
    values = {"tool": "weather_forecast", "upstream": "weather", **values}
    ToolCallRecord.objects.create(
        outcome=Outcome.SUCCEEDED,
        upstream_status=status,
        duration_ms=duration,
        started_at=timezone.now() - age,
        **values,
    )
