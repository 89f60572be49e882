"""System checks of the endpoint's addresses and of the origins that may call it."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
from django.conf.urls.i18n import i18n_patterns
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, include, path, re_path
from django.views.decorators.cache import never_cache
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from mcp_bridge.testing import MCPClient
from mcp_bridge.views import AsyncMCPView, MCPView
from tests.checks.test_checks import found, ids
from tests.support.serving import giving

OURS = path("", include("mcp_bridge.urls"))


class OwnView(MCPView):
    """A custom endpoint of the site."""


def page(request: HttpRequest, **kwargs: object) -> HttpResponse:
    """Return a page of a site that has one for every address."""
    return HttpResponse("<h1>Page</h1>")


def at(settings: Any, *patterns: URLPattern | URLResolver) -> None:
    """Serve a public tool at /rpc, and these addresses, and no others."""
    server = RpcServer()
    server.register_procedure(mcp_tool(public=True)(giving(int, 1)))
    urlconf = ModuleType("tests.addresses")
    vars(urlconf)["urlpatterns"] = [*patterns, path("rpc", server.view)]
    settings.ROOT_URLCONF = urlconf


def test_w030_no_address_serves_the_endpoint(settings: Any) -> None:
    at(settings)
    (message,) = found()
    assert (message.id, message.level) == ("mcp_bridge.W030", checks.WARNING)
    assert 'path("", include("mcp_bridge.urls"))' in str(message.hint)


def test_w030_tool_list_is_not_an_endpoint(settings: Any) -> None:
    at(settings, *[each for each in OURS.url_patterns if each.name == "mcp-tools-list"])
    assert ids() == ["W030"]


@pytest.mark.parametrize(
    ("pattern", "address"),
    [
        (OURS, "/mcp"),
        (path("models/mcp", MCPView.as_view()), "/models/mcp"),
        (path("models/mcp/", AsyncMCPView.as_view()), "/models/mcp/"),
        (path("own", never_cache(OwnView.as_view())), "/own"),
        (re_path(r"^ai/(mcp)$", OwnView.as_view()), None),
        (re_path(r"^ai/mcp$", OwnView.as_view()), "/ai/mcp"),
        (re_path(r"^ai/mcp/?$", OwnView.as_view()), "/ai/mcp"),
        (path("<slug:team>/mcp", MCPView.as_view()), None),
        (path("api/", include(("mcp_bridge.urls", "models"), namespace="models")), "/api/mcp"),
        (i18n_patterns(OURS)[0], "/en/mcp"),
    ],
)
def test_endpoint_is_found_at_any_address(
    pattern: URLPattern | URLResolver, address: str | None, settings: Any
) -> None:
    at(settings, pattern)
    assert ids() == ["W038"] * (address == "/en/mcp")
    if address is not None:
        client = MCPClient()
        assert client.path == address
        assert [tool["name"] for tool in client.list_tools()] == ["give"]


def test_test_client_reports_a_missing_endpoint(settings: Any) -> None:
    at(settings)
    with pytest.raises(ImproperlyConfigured, match=r'path\("", include\("mcp_bridge.urls"\)\)'):
        MCPClient()
    assert MCPClient(path="/elsewhere").path == "/elsewhere"


def test_w031_catch_all_precedes_the_endpoint(settings: Any) -> None:
    at(settings, re_path(r"^(?P<url>.*)$", page), OURS)
    (message,) = found()
    assert (message.id, message.level) == ("mcp_bridge.W031", checks.WARNING)
    assert "/mcp, /mcp/" in message.msg
    assert "tests.checks.test_addresses.page" in message.msg
    assert "before" in str(message.hint)
    at(settings, OURS, re_path(r"^(?P<url>.*)$", page))
    assert found() == []


@pytest.mark.parametrize(
    "pattern",
    [
        path("<int:team>/mcp", MCPView.as_view()),
        re_path(r"^(?:mcp|ai)/mcp$", MCPView.as_view()),
        re_path(r"^(mcp|ai)/mcp$", MCPView.as_view()),
    ],
)
def test_pages_beside_a_parametrised_endpoint_are_ignored(
    pattern: URLPattern, settings: Any
) -> None:
    at(settings, path("", page), pattern, re_path(r"^.*$", page))
    assert found() == []
    with pytest.raises(ImproperlyConfigured, match="The URLconf does not serve"):
        MCPClient()


def test_w031_slash_catch_all_hides_one_spelling(settings: Any) -> None:
    # Like the patterns of Wagtail and django CMS.
    at(settings, path("", include([re_path(r"^(?P<url>(?:[\w\-]+/)*)$", page)])), OURS)
    (message,) = found()
    assert message.id == "mcp_bridge.W031"
    assert "/mcp/ " in message.msg
    assert "/mcp," not in message.msg
    assert MCPClient().path == "/mcp"


def test_w031_names_each_unreachable_endpoint(settings: Any) -> None:
    at(settings, path("models/mcp", page), path("models/mcp", MCPView.as_view()), OURS)
    (message,) = found()
    assert message.id == "mcp_bridge.W031"
    assert "/models/mcp " in message.msg
    assert MCPClient().path == "/mcp"


CORS = ["https://inspector.example", "https://own.example"]


@pytest.fixture
def with_cors(settings: Any) -> Any:
    settings.CORS_ALLOWED_ORIGINS = CORS
    return settings


def test_w032_cors_origin_is_not_allowed_to_call(with_cors: Any) -> None:
    with_cors.MCP_BRIDGE = {"ALLOWED_ORIGINS": ["https://own.example"]}
    (message,) = found()
    assert (message.id, message.level) == ("mcp_bridge.W032", checks.WARNING)
    assert "'https://inspector.example'" in message.msg
    assert "own.example" not in message.msg
    assert "ALLOWED_ORIGINS" in str(message.hint)
    with_cors.MCP_BRIDGE = {"ALLOWED_ORIGINS": CORS}
    assert found() == []


def test_w032_agrees_with_the_endpoint(with_cors: Any) -> None:
    for allowed, status, said in ([], 403, ["W032"]), (CORS, 200, []):
        with_cors.MCP_BRIDGE = {"ALLOWED_ORIGINS": allowed}
        client = MCPClient(revision="2025-11-25")
        message = client.message("ping")
        response = client.send(json.dumps(message).encode(), {"Origin": CORS[0]})
        assert (response.status_code, ids()) == (status, said)


def test_w032_applies_only_to_cors_addresses(with_cors: Any) -> None:
    with_cors.CORS_URLS_REGEX = r"^/api/.*$"
    assert found() == []
    with_cors.CORS_URLS_REGEX = r"^/mcp$"
    assert ids() == ["W032"]


def test_w032_reads_the_older_name_of_the_setting(settings: Any) -> None:
    settings.CORS_ORIGIN_WHITELIST = CORS
    assert ids() == ["W032"]


@pytest.mark.parametrize("origin", ["https://inspector.example", "null", "https://testserver"])
def test_refused_origin_names_the_setting_to_change(origin: str) -> None:
    response = MCPClient().send(b"{}", {"Origin": origin})
    assert response.status_code == 403
    message = response.json()["error"]["message"]
    assert "MCP_BRIDGE['ALLOWED_ORIGINS']" in message
    assert repr(origin) in message


def test_refused_host_names_the_setting_to_change(settings: Any) -> None:
    settings.MIDDLEWARE = []
    response = MCPClient(host="elsewhere.example").send(b"{}")
    assert response.status_code == 400
    assert "ALLOWED_HOSTS" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("hosts", "debug", "host"),
    [
        (["testserver", "library.example"], False, "testserver"),
        (["library.example", "www.library.example"], False, "library.example"),
        ([".library.example"], False, "library.example"),
        (["*"], False, "localhost"),
        (["[::1]"], False, "[::1]"),
        ([], True, "localhost"),
    ],
)
def test_test_client_uses_an_allowed_host(
    hosts: list[str], debug: bool, host: str, settings: Any
) -> None:
    settings.ALLOWED_HOSTS, settings.DEBUG = hosts, debug
    client = MCPClient()
    assert "supportedVersions" in client.post("server/discover")
    assert client.response.wsgi_request.get_host() == host


LOCALE = "django.middleware.locale.LocaleMiddleware"


@pytest.mark.parametrize(
    ("code", "middleware", "default", "address"),
    [
        ("en-us", True, True, "/en/mcp"),
        ("en-us", False, True, "/en-us/mcp"),
        ("en", True, True, "/en/mcp"),
        ("de-at", True, True, "/de/mcp"),
        ("pt-br", True, True, "/pt-br/mcp"),
        ("en-us", True, False, "/mcp"),
        ("en-us", False, False, "/mcp"),
    ],
)
def test_w038_an_endpoint_below_i18n_patterns(
    code: str, middleware: bool, default: bool, address: str, settings: Any
) -> None:
    settings.LANGUAGE_CODE = code
    settings.MIDDLEWARE = [*[LOCALE] * middleware, *settings.MIDDLEWARE]
    at(settings, *i18n_patterns(OURS, prefix_default_language=default))
    # Twice, because a request may leave its language active.
    for _ in range(2):
        client = MCPClient()
        assert client.path == address
        assert [tool["name"] for tool in client.list_tools()] == ["give"]
        assert ids() == ["W038"] * (address != "/mcp")
    at(settings, OURS, *i18n_patterns(path("page", page)))
    assert ids() == []
