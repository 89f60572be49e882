"""Addresses that the site does not connect to for a row, when it is saved and when it is called."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from mcp_bridge.remote.models import RemoteServer
from mcp_bridge.remote.sync import SyncError, sync, verify
from mcp_bridge.testing import MCPClient, text_of
from tests.remote.desk import Desk, open_desk, serve_desk

pytestmark = pytest.mark.django_db

HOSTS = [
    *(
        "localhost",
        "localhost.",
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "0.0.0.0",
        "0",
        "127.255.255.255",
    ),
    *(
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.0.0.1.",
        "127.000.0.1",
    ),
    *("10.0.0.1", "10.1", "0xa000001", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.1"),
    *("169.254.169.254", "2852039166", "0xa9fea9fe", "169.254.0.1", "100.64.0.1", "192.0.0.1"),
    *("198.18.0.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *("[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]"),
    *("[fe80::1]", "[fe80::1%25eth0]", "[fc00::1]", "[fd12:3456::1]", "[fec0::1]", "[ff02::1]"),
    *("[2002:7f00:1::]", "[2002:a00:1::1]", "[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]"),
    *("[2001:0:7f00:1::]", "[2001:db8::1]", "[100::1]", "[::127.0.0.1]", "[64:ff9b:1::1]"),
    *("[::ffff:0:127.0.0.1]", "[::5efe:127.0.0.1]", "[2001:db8::200:5efe:10.0.0.1]"),
    *("[3fff::1]", "[5f00::1]", "[100:0:0:1::1]", "192.88.99.1", "168.63.129.16"),
    *("[0000:0000:0000:0000:0000:0000:0000:0001]", "[::ffff:10.0.0.1]", "[::ffff:169.254.169.254]"),
    *("127。0。0。1", "①②⑦.0.0.1", "LOCALHOST", "user@127.0.0.1", "127.0.0.1\\@example.com"),
]
WRONG = [
    *("", "weather", "//example.com/mcp", "ftp://example.com", "file:///etc/passwd", "https://"),
    *("https://user:pw@example.com/", "https://example.com/?a=b", "https://example.com/#a"),
    *(
        "https://exa mple.com/",
        "https://example.com:99999/",
        "https://example.com:0/",
        "https:///x",
    ),
    *("https://example.com/\r\nHost: x", "gopher://example.com/", "http://example.com/mcp"),
]


def saved(url: str) -> None:
    RemoteServer(slug="weather", name="Weather", url=url).full_clean()


@pytest.mark.parametrize("host", HOSTS)
def test_private_host_is_refused_when_saved(settings: Any, host: str) -> None:
    settings.MCP_BRIDGE = {}
    with pytest.raises(ValidationError) as raised:
        saved(f"https://{host}/mcp")
    assert "url" in raised.value.error_dict


@pytest.mark.parametrize("host", HOSTS)
def test_private_host_is_refused_when_connected(settings: Any, host: str) -> None:
    settings.MCP_BRIDGE = {}
    server = RemoteServer.objects.create(
        slug="weather", name="Weather", url=f"https://{host}/mcp", whole_call_s=2
    )
    with pytest.raises((SyncError, ValueError)) as raised:
        verify(server)
    assert "reach" in str(raised.value) or isinstance(raised.value, ValueError)


@pytest.mark.parametrize("url", WRONG)
def test_wrong_url_is_refused(settings: Any, url: str) -> None:
    settings.MCP_BRIDGE = {}
    with pytest.raises(ValidationError):
        saved(url)


def test_allowed_private_host_may_use_http(settings: Any) -> None:
    settings.MCP_BRIDGE = {"REMOTE_ALLOWED_HOSTS": ["127.0.0.1:8001", "[::1]:443", "10.0.0.1:80"]}
    saved("http://127.0.0.1:8001/mcp")
    saved("https://[::1]/mcp")
    saved("http://10.0.0.1/mcp")
    for url in ("http://127.0.0.1:8002/mcp", "https://127.0.0.1/mcp", "http://[::1]/mcp"):
        with pytest.raises(ValidationError):
            saved(url)


@pytest.fixture
def desk() -> Iterator[Desk]:
    with open_desk() as desk:
        yield desk


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
    """Resolve every host to these addresses, in turn, and then to the last ones."""
    left = list(answers)

    def getaddrinfo(host: Any, port: Any, *args: Any, **kwargs: Any) -> list[Any]:
        found = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def test_host_with_one_private_address_is_refused(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MCP_BRIDGE = {}
    resolving(monkeypatch, ["93.184.215.14", "127.0.0.1"])
    with pytest.raises(ValidationError, match="public internet"):
        saved("https://weather.example/mcp")


def test_host_that_becomes_private_is_not_called(
    settings: Any, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve_desk(settings, desk)
    server.url = server.url.replace("127.0.0.1", "weather.example")
    resolving(monkeypatch, ["93.184.215.14"], ["127.0.0.1"])
    server.url = server.url.replace("http:", "https:")
    server.full_clean()
    with pytest.raises(SyncError, match="cannot be reached"):
        sync(server)


def test_model_is_not_told_addresses(settings: Any, desk: Desk) -> None:
    serve_desk(settings, desk)
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "REMOTE_ALLOWED_HOSTS": []}
    client = MCPClient(user=User.objects.create_user("ada"))
    before = len(desk.received)
    result = client.call_tool("weather_forecast", {"city": "Bonn"})
    assert text_of(result) == "The remote server Weather cannot be reached."
    assert len(desk.received) == before


def test_proxies_of_the_environment_are_not_used(
    settings: Any, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    serve_desk(settings, desk)
    client = MCPClient(user=User.objects.create_user("ada"))
    assert text_of(client.call_tool("weather_forecast", {"city": "Bonn"})) == "sun"
