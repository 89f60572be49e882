"""A forged Host is answered in JSON if the middleware for it is the first."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path
from django.views import View

from mcp_bridge.testing.serving import addresses
from mcp_bridge.views import MCPView
from tests.support import wire
from tests.support.asgi import Exchange, scope_with
from tests.support.toolsets import serve_toolsets
from tests.support.wire import caller, good

pytestmark = pytest.mark.django_db
quiet = wire.quiet
FIRST = "mcp_bridge.ext.hosts.HostMiddleware"
FORGED = ["evil.example", "testserver.evil.example", "a b", "testserver:x", ""]


class OwnView(MCPView):
    """A handler that does not check the host."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return HttpResponse("run")


class PageView(View):
    def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse("a page")

    post = get


def plain(request: HttpRequest) -> HttpResponse:
    return HttpResponse("a function")


@pytest.fixture(autouse=True)
def first(settings: Any) -> None:
    settings.MIDDLEWARE = [FIRST, *settings.MIDDLEWARE]


@pytest.fixture(autouse=True, params=[False, True], ids=["view", "async view"])
def routed(request: pytest.FixtureRequest, settings: Any) -> None:
    """Addresses of both kinds of views, which either kind of server may serve."""
    settings.ROOT_URLCONF = addresses(
        path("own", OwnView.as_view()),
        path("page", PageView.as_view()),
        path("plain", plain),
        asynchronous=request.param,
    )


@pytest.fixture(params=["WSGI", "ASGI"])
def server(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def sent(server: str, address: str, host: str, method: str = "POST", **more: str) -> HttpResponse:
    """Return the answer of Django's handler for a kind of server to a call of a host."""
    client = caller()
    body = good(client).encode()
    headers = {**client.mirrored(json.loads(body)), "Host": host, **more}
    headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    if server == "WSGI":
        response = Client().generic(method, address, body, "application/json", headers=headers)
        return HttpResponse(response.content, status=response.status_code, headers=response.headers)
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {**scope_with(raw), "method": method, "path": address}
    found = asyncio.run(Exchange(scope, body).run(get_asgi_application()))
    known = {name.decode(): value.decode() for name, value in found.sent[0]["headers"]}
    return HttpResponse(found.body, status=found.status, headers=known)


def assert_json(response: HttpResponse) -> None:
    assert response.status_code == 400
    assert response["Content-Type"] == "application/json"
    assert response["Cache-Control"] == "no-store"
    message = json.loads(response.content)
    assert (message["id"], message["error"]["code"]) == (None, -32600)
    assert "ALLOWED_HOSTS" in message["error"]["message"]


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize("host", FORGED)
def test_forged_host_is_answered_in_json(
    host: str, debug: bool, server: str, settings: Any
) -> None:
    settings.DEBUG = debug
    for address in ("/mcp", "/mcp/"):
        assert_json(sent(server, address, host))
    assert_json(sent(server, "/mcp/tools/list", host, "GET"))
    assert_json(sent(server, "/mcp", host, "GET"))


@pytest.mark.usefixtures("quiet")
def test_site_view_is_not_run(server: str) -> None:
    assert_json(sent(server, "/own", "evil.example"))
    assert sent(server, "/own", "testserver").content == b"run"


def test_metadata_refuses_a_forged_host(server: str) -> None:
    for more in ("", "/mcp"):
        address = f"/.well-known/oauth-protected-resource{more}"
        response = sent(server, address, "evil.example", "GET")
        assert (response.status_code, response["Content-Type"]) == (400, "text/plain")


@pytest.mark.parametrize("address", ["/page", "/plain", "/not-there"])
def test_other_addresses_are_answered_by_django(server: str, address: str) -> None:
    response = sent(server, address, "evil.example", "GET")
    assert response.status_code == 400
    assert response["Content-Type"].startswith("text/html")
    expected = {"/page": b"a page", "/plain": b"a function"}
    good = sent(server, address, "testserver", "GET")
    assert good.status_code == (200 if address in expected else 404)
    assert expected.get(address, b"") in good.content


# The refusal is recorded in a separate thread under ASGI.
@pytest.mark.django_db(transaction=True)
def test_allowed_host_is_served(server: str) -> None:
    response = sent(server, "/mcp", "testserver")
    # No request has a credential here.
    assert response.status_code == 401


def test_forwarded_host_is_checked(server: str, settings: Any) -> None:
    settings.USE_X_FORWARDED_HOST = True
    forwarded = {"X-Forwarded-Host": "evil.example"}
    assert_json(sent(server, "/mcp", "testserver", **forwarded))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_toolset_addresses_check_the_host(asynchronous: bool, server: str, settings: Any) -> None:
    serve_toolsets(settings, {"some": ["*"]}, asynchronous=asynchronous)
    assert_json(sent(server, "/mcp/some", "evil.example"))
