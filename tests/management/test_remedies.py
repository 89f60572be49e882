"""Remedies of mcp_doctor and the checks name the site's own code, never that of others."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

import mcp_bridge
from mcp_bridge.access.policy import served_host
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import route, serve
from mcp_bridge.views import MCPView
from tests.management.test_doctor import Doctor
from tests.sources.test_functions import MakeApp
from tests.sources.test_functions import app as app
from tests.support.serving import taking

FOREIGN = ("site-packages", sysconfig.get_path("stdlib"), str(Path(mcp_bridge.__file__).parent))


def at(settings: Any, address: str) -> None:
    """Serve the endpoint at one address alone."""
    route(settings)
    vars(settings.ROOT_URLCONF)["urlpatterns"] = [path(address, MCPView.as_view())]


@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize("address", ["mcp/", "mcp", "models/mcp/", "a/b/"])
def test_missing_slash_variant_is_only_a_warning(address: str, debug: bool, settings: Any) -> None:
    settings.DEBUG = debug
    at(settings, address)
    doctor = Doctor()
    assert doctor.found("warning", "endpoint, slash", "clients that use it fail")
    assert not doctor.found("error", "endpoint, slash", "")
    told = json.dumps(doctor.findings)
    assert not any(each in told for each in FOREIGN)


class Reads:
    """A middleware of the site that makes another package's code raise."""

    def __init__(self, get_response: Any) -> None:
        pass

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(json.loads(request.headers["User-Agent"]))


@pytest.mark.off_lane
@pytest.mark.parametrize(
    ("middleware", "raised", "remedy"),
    [
        ([f"{__name__}.Reads"], "JSONDecodeError", f"Fix {__file__}:"),
        (["django.contrib.auth.middleware.RemoteUserMiddleware"], "Improperly", "MIDDLEWARE"),
        (["django.contrib.messages.middleware.MessageMiddleware"], "Improperly", "MIDDLEWARE"),
    ],
)
def test_raising_code_of_the_site_is_named(
    middleware: list[str], raised: str, remedy: str, settings: Any
) -> None:
    serve(settings, taking(int))
    settings.MIDDLEWARE = middleware
    (finding,) = [each for each in Doctor().findings if each["area"].startswith("endpoint")]
    assert raised in finding["text"]
    assert remedy in finding["remedy"]
    assert not any(each in finding["remedy"] for each in FOREIGN)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("def f(:\n    pass", "mcp_tools.py:6"),
        ("if True:\nx = 1", "mcp_tools.py:7"),
        ("from . import stock", "stock.py:6"),
        ("gone", "mcp_tools.py:6"),
        ("import json\njson.loads('x')", "mcp_tools.py:7"),
        ("import no_such_module", "mcp_tools.py:6"),
        ("def f():\n    gone\nf()", "mcp_tools.py:8"),
    ],
)
def test_unimportable_module_is_named_with_its_line(module: str, line: str, app: MakeApp) -> None:
    app(mcp_tools=module, stock="class (")
    (finding,) = [each for each in Doctor().findings if "E010" in each["text"]]
    assert finding["remedy"].endswith(f"/shop/{line}, which raises on import.")


@pytest.mark.parametrize(
    ("allowed", "host"),
    [
        (["::1", "library.example"], "library.example"),
        ([".example.com"], "example.com"),
        ([".example.com", "www.example.org"], "www.example.org"),
        (["[::1]"], "[::1]"),
        (["*"], "localhost"),
        (["", "example.com:8000", "127.0.0.1"], "127.0.0.1"),
        ((".example.com", "testserver"), "testserver"),
        (["::1", ".Example.com"], "example.com"),
    ],
)
def test_doctor_requests_an_allowed_host(allowed: Any, host: str, settings: Any) -> None:
    settings.ALLOWED_HOSTS = allowed
    serve(settings, taking(int), public=True)
    assert served_host() == host
    assert [each["name"] for each in MCPClient().list_tools()] == ["take"]
    assert not Doctor().failed


@pytest.mark.parametrize("allowed", [["::1"], [""], ["example.com:8000"]])
def test_unusable_allowed_hosts_are_an_error(allowed: list[str], settings: Any) -> None:
    settings.ALLOWED_HOSTS = allowed
    assert Doctor().found("error", "checks", "does not contain a valid host")


def answering(response: HttpResponse) -> Any:
    """Return a middleware that answers every request, as a multi-tenant one may."""
    return lambda get_response: lambda request: response


no_tenant = answering(JsonResponse({"detail": "No tenant for this host."}, status=403))
an_error = answering(JsonResponse({"error": "no_tenant"}, status=404))
a_list = answering(JsonResponse(["no tenant"], safe=False, status=400))
a_text = answering(HttpResponse("tenant missing", "text/plain", status=403))
a_page = answering(HttpResponse("<h1>Pay first</h1>", status=402))
nothing = answering(HttpResponse(status=200))


@pytest.mark.off_lane
@pytest.mark.parametrize(
    ("middleware", "status", "body"),
    [
        ("no_tenant", 403, "No tenant for this host."),
        ("an_error", 404, "no_tenant"),
        ("a_list", 400, "no tenant"),
        ("a_text", 403, "tenant missing"),
        ("a_page", 402, "Pay first"),
        ("nothing", 200, ""),
    ],
)
def test_answer_of_a_middleware_is_shown(
    middleware: str, status: int, body: str, settings: Any
) -> None:
    serve(settings, taking(int))
    settings.MIDDLEWARE = [f"{__name__}.{middleware}"]
    (finding,) = [each for each in Doctor().findings if each["area"].startswith("endpoint")]
    assert f"status {status}" in finding["text"]
    # A page is not shown.
    assert (body in finding["text"]) is (middleware != "a_page")
    if status == 403:
        assert "A middleware or the proxy" in finding["remedy"]
    with pytest.raises(
        AssertionError, match=rf"status {status}, not from the MCP endpoint.*{body}"
    ):
        MCPClient().list_tools()
