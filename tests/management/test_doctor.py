"""Findings of mcp_doctor in a site: each appears with its fault and disappears without it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission
from django.core import checks
from django.core.asgi import get_asgi_application
from django.core.management import CommandError, call_command
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test.utils import override_settings
from django.urls import include, path, re_path
from django.utils import timezone

from mcp_bridge.registry import definitions
from mcp_bridge.testing.serving import route, serve
from mcp_bridge.tokens.models import Token
from tests.support import site
from tests.support.serving import giving, set_tool, taking

SESSION = "rest_framework.authentication.SessionAuthentication"
TOKENS = "mcp_bridge.tokens.authentication.TokenAuthentication"
LOCMEM = "django.core.cache.backends.locmem.LocMemCache"
AWAY = {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "no_such_table"}


class Doctor:
    """The findings of one run, and whether it failed."""

    def __init__(self, *arguments: str) -> None:
        out = io.StringIO()
        # The tests' site has OAuth installed but does not use it.
        silenced = [*settings.SILENCED_SYSTEM_CHECKS, "mcp_bridge.W040"]
        try:
            with override_settings(SILENCED_SYSTEM_CHECKS=silenced):
                call_command("mcp_doctor", "--json", *arguments, stdout=out)
            self.failed = False
        except CommandError as error:
            self.failed = error.returncode == 1
        self.findings = json.loads(out.getvalue())["findings"]
        assert all(finding["remedy"] for finding in self.findings if finding["level"] in GRAVE)

    def found(self, level: str, area: str, text: str) -> bool:
        """Return whether there is a finding of that level and area whose text has these words."""
        return any(
            (finding["level"], finding["area"]) == (level, area) and text in finding["text"]
            for finding in self.findings
        )

    def grave(self) -> list[str]:
        """Return the errors and warnings."""
        return [finding["text"] for finding in self.findings if finding["level"] in GRAVE]


GRAVE = ("error", "warning")


def page(request: HttpRequest, **kwargs: object) -> HttpResponse:
    """Return a page of a site that has one for every address."""
    return HttpResponse("<h1>Page</h1>")


@pytest.fixture
def secret(user: Any) -> str:
    """A token of an ordinary user."""
    return Token.objects.issue(user=user, name="test")[1]


def test_sound_site_has_no_findings(secret: str, settings: Any) -> None:
    settings.DEBUG = False
    doctor = Doctor("--token", secret)
    assert (doctor.grave(), doctor.failed) == ([], False)
    assert doctor.found("ok", "endpoint, handshake", "speaks 2025-11-25")
    assert doctor.found("ok", "endpoint, discovery", "2026-07-28")
    assert doctor.found("ok", "endpoint, tools", f"{len(site.TOOLS)} tools")
    assert doctor.found("ok", "endpoint, credential", "A wrong credential is refused")
    assert secret not in json.dumps(doctor.findings)


def test_tools_are_listed_as_the_given_user(user: Any, settings: Any) -> None:
    user.user_permissions.set(Permission.objects.filter(codename="add_user"))
    doctor = Doctor("--user", "ada")
    assert doctor.found("ok", "endpoint, tools", f"{len(site.TOOLS) + 1} tools")


def test_missing_credential_is_not_a_finding(settings: Any) -> None:
    serve(settings, taking(int))
    doctor = Doctor()
    assert doctor.found("info", "endpoint, handshake", "requires a credential (401)")
    assert doctor.found("ok", "endpoint, slash", "/mcp/")
    assert not doctor.found("error", "endpoint, discovery", "")


def test_errors_of_the_system_checks_are_errors(settings: Any) -> None:
    settings.MCP_BRIDGE = {"PAGESIZE": 1}
    doctor = Doctor()
    assert doctor.found("error", "checks", "mcp_bridge.E001: Unknown key 'PAGESIZE' in MCP_BRIDGE")
    assert doctor.failed
    settings.MCP_BRIDGE = {}
    assert Doctor().found("ok", "checks", "The system checks passed")


def deployment(**kwargs: Any) -> list[checks.CheckMessage]:
    """Return a message of another app that is for deployments only."""
    return [checks.Error("Not for production.", id="other.E001")]


def test_deployment_errors_of_other_apps_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    registered = {*checks.registry.registry.deployment_checks, deployment}
    deployment.tags = ["other"]  # type: ignore[attr-defined]
    monkeypatch.setattr(checks.registry.registry, "deployment_checks", registered)
    assert not Doctor().failed


def test_errors_that_stop_commands_are_findings(settings: Any) -> None:
    settings.TEMPLATES = [{"BACKEND": "no.such.Backend"}]
    assert Doctor().failed


@pytest.mark.parametrize(
    ("names", "level", "area", "text"),
    [
        ({"ALLOWED_HOSTS": []}, "error", "checks", "ALLOWED_HOSTS is empty"),
        ({"DEBUG": True}, "info", "checks", "security.W018"),
        (
            {"SECURE_PROXY_SSL_HEADER": ("X-Forwarded-Proto", "https")},
            *("error", "checks", "'X-Forwarded-Proto', which requests never have"),
        ),
        ({"USE_X_FORWARDED_HOST": True}, "info", "checks", "counted by address"),
        (
            {"MCP_BRIDGE": {"AUTHENTICATION_CLASSES": [SESSION]}},
            *("warning", "checks", "Sessions are the only"),
        ),
        (
            {"MCP_BRIDGE": {"THROTTLE_RATES": {"tools": "5/min"}}},
            *("warning", "checks", "LocMemCache"),
        ),
        ({"CACHES": {"default": AWAY}}, "error", "checks", "no_such_table"),
        ({"CORS_ALLOWED_ORIGINS": ["https://a.example"]}, "warning", "checks", "W032"),
        ({"MIDDLEWARE": settings.MIDDLEWARE[1:]}, "info", "checks", "security.W001"),
    ],
)
def test_faulty_settings_are_findings(
    names: dict[str, Any], level: str, area: str, text: str, settings: Any
) -> None:
    settings.CACHES = {"default": {"BACKEND": LOCMEM}}
    assert not Doctor().found(level, area, text)
    with override_settings(**names):
        doctor = Doctor()
        assert doctor.found(level, area, text)
        assert doctor.failed is (level == "error")
    assert not Doctor().found(level, area, text)


def test_missing_ways_to_authenticate_are_a_finding(settings: Any) -> None:
    serve(settings, taking(int))
    settings.MCP_BRIDGE = {"AUTHENTICATION_CLASSES": []}
    assert Doctor().found("error", "checks", "all calls fail")
    serve(settings, taking(int), public=True)
    assert not Doctor().found("error", "checks", "all calls fail")


def test_only_valid_tokens_are_counted(user: Any, settings: Any) -> None:
    serve(settings, taking(int))
    expired = timezone.now() - timedelta(days=1)
    Token.objects.issue(user=user, name="old", expires_at=expired)
    assert Doctor().found("warning", "checks", "Without a valid token")
    Token.objects.issue(user=user, name="new")
    assert not Doctor().found("warning", "checks", "Without a valid token")
    user.is_active = False
    user.save()
    assert Doctor().found("warning", "checks", "Without a valid token")


def test_missing_tools_are_a_finding(settings: Any) -> None:
    serve(settings, taking(int))
    set_tool("take", enabled=False)
    assert Doctor().found("warning", "checks", "None of the 1 tools in the code is served")
    set_tool("take", enabled=True)
    assert not Doctor().found("warning", "checks", "tools in the code is served")


def test_oversized_tool_list_is_a_finding(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.MCP_BRIDGE = {"TOOLSETS": {"numbers": ["give"]}}
    serve(settings, giving(int, 1), taking(int))
    assert not Doctor().found("info", "checks", "take about")
    monkeypatch.setattr(definitions, "MOST_TOOLS", 1)
    doctor = Doctor()
    assert doctor.found("info", "checks", "All tools: 2 tools take about ")
    assert not doctor.found("info", "checks", "Toolset numbers")


async def later() -> int:
    """Answer later."""
    return 1


def test_persistent_connections_with_async_tools_are_a_finding(settings: Any) -> None:
    serve(settings, later)
    assert Doctor().found("info", "checks", "`async def` (later)")
    serve(settings, later, asynchronous=True)
    assert not Doctor().found("info", "checks", "`async def`")


def test_persistent_connections_under_asgi_are_a_finding(settings: Any, keeps: None) -> None:
    serve(settings, later, asynchronous=True)
    assert Doctor().found("warning", "checks", "'default' keeps connections (CONN_MAX_AGE is 60)")
    serve(settings, later)
    assert not Doctor().found("warning", "checks", "CONN_MAX_AGE")
    connection.settings_dict["CONN_MAX_AGE"] = 0
    serve(settings, later, asynchronous=True)
    assert not Doctor().found("warning", "checks", "CONN_MAX_AGE")


@pytest.fixture
def keeps() -> Iterator[None]:
    """A database whose connections are kept."""
    before = connection.settings_dict["CONN_MAX_AGE"]
    connection.settings_dict["CONN_MAX_AGE"] = 60
    yield
    connection.settings_dict["CONN_MAX_AGE"] = before


def on_the_lane(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ASGI_APPLICATION name the direct lane."""
    from mcp_bridge.ext.lane import MCPApplication

    monkeypatch.setitem(globals(), "application", MCPApplication(get_asgi_application()))
    settings.ASGI_APPLICATION = f"{__name__}.application"


def test_direct_lane_is_recognised(
    settings: Any, monkeypatch: pytest.MonkeyPatch, keeps: None
) -> None:
    serve(settings, later)
    assert Doctor().found("info", "checks", "`async def`")
    serve(settings, later, asynchronous=True)
    assert Doctor().found("warning", "checks", "CONN_MAX_AGE")
    on_the_lane(settings, monkeypatch)
    assert not Doctor().found("warning", "checks", "CONN_MAX_AGE")
    serve(settings, later)
    # Its view is the asynchronous one regardless.
    assert not Doctor().found("info", "checks", "`async def`")


@pytest.mark.parametrize("name", ["tests.management.nowhere", f"{__name__}.no_application"])
def test_unimportable_asgi_application_is_not_the_lane(name: str, settings: Any) -> None:
    serve(settings, later)
    settings.ASGI_APPLICATION = name
    assert Doctor().found("info", "checks", "`async def`")


def test_missing_endpoint_is_a_finding(settings: Any) -> None:
    urlconf = ModuleType("tests.doctor")
    vars(urlconf)["urlpatterns"] = [path("rpc", site.server.view)]
    settings.ROOT_URLCONF = urlconf
    doctor = Doctor()
    assert doctor.found("warning", "checks", "mcp_bridge.W030")
    assert doctor.found("error", "endpoint", "The URLconf does not serve")
    vars(urlconf)["urlpatterns"].append(path("", include("mcp_bridge.urls")))
    settings.ROOT_URLCONF = ModuleType("tests.mended")
    vars(settings.ROOT_URLCONF)["urlpatterns"] = vars(urlconf)["urlpatterns"]
    doctor = Doctor()
    assert doctor.found("ok", "URLs", "/mcp, /mcp/")
    assert not doctor.found("error", "endpoint", "")


def test_slash_address_of_another_view_is_a_finding(settings: Any, secret: str) -> None:
    route(settings, path("rpc", site.server.view), re_path(r"^(\w+/)*$", page))
    doctor = Doctor("--token", secret)
    assert doctor.found("warning", "checks", "mcp_bridge.W031")
    assert doctor.found("warning", "endpoint, slash", "/mcp/ returned status 403")
    route(settings, path("rpc", site.server.view))
    assert Doctor("--token", secret).grave() == []


class Broken:
    """A middleware that raises, and one that sends everybody to a login."""

    def __init__(self, get_response: Any) -> None:
        pass

    def __call__(self, request: HttpRequest) -> HttpResponse:
        raise RuntimeError("the middleware is broken")


def login(get_response: Any) -> Any:
    def to_login(request: HttpRequest) -> HttpResponse:
        return HttpResponse(status=302, headers={"Location": f"/login/?next={request.path}"})

    return to_login


@pytest.mark.off_lane
@pytest.mark.parametrize(
    ("middleware", "text", "remedy"),
    [
        ("Broken", "RuntimeError: the middleware is broken", "test_doctor.py:"),
        ("login", "redirects (status 302) to http://testserver/login/", "exempt the endpoint"),
    ],
)
def test_blocking_middleware_is_a_finding(
    middleware: str, text: str, remedy: str, settings: Any, secret: str
) -> None:
    usual = settings.MIDDLEWARE
    settings.MIDDLEWARE = [*usual, f"tests.management.test_doctor.{middleware}"]
    doctor = Doctor("--token", secret)
    (finding,) = [each for each in doctor.findings if each["area"].startswith("endpoint")]
    assert (finding["level"], text in finding["text"]) == ("error", True)
    assert remedy in finding["remedy"]
    settings.MIDDLEWARE = usual
    assert not Doctor("--token", secret).failed


def test_invalid_credential_is_a_finding(secret: str) -> None:
    doctor = Doctor("--token", f"{secret}x")
    (finding,) = [each for each in doctor.findings if each["area"] == "endpoint, handshake"]
    assert finding["level"] == "error"
    assert "revoked" in finding["remedy"]
    assert doctor.failed


def test_caller_without_tools_is_a_finding(settings: Any, secret: str, user: Any) -> None:
    serve(settings, giving(int, 1), permissions="auth.add_user")
    doctor = Doctor("--token", secret)
    assert doctor.found("warning", "endpoint, tools", "the list is empty")
    assert any("mcp_tools --user ada" in finding["remedy"] for finding in doctor.findings)
    user.user_permissions.set(Permission.objects.filter(codename="add_user"))
    assert not Doctor("--token", secret).found("warning", "endpoint, tools", "")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--url", "example.com/mcp"], "Invalid address"),
        (["--url", "file:///etc/passwd"], "Invalid address"),
        (["--url", "https://example.com/mcp", "--user", "ada"], "pass --token"),
        (["--token", "two\nlines"], "not valid in a header"),
        (["--user", "nobody"], "Unknown user 'nobody'"),
    ],
)
def test_invalid_input_is_a_one_line_error(arguments: list[str], text: str) -> None:
    with pytest.raises(CommandError, match=text) as raised:
        call_command("mcp_doctor", *arguments, stdout=io.StringIO())
    assert "\n" not in str(raised.value)


def test_findings_are_printed_with_remedies(settings: Any) -> None:
    settings.MCP_BRIDGE = {"PAGESIZE": 1}
    out = io.StringIO()
    with pytest.raises(CommandError, match="Errors to fix"):
        call_command("mcp_doctor", stdout=out, no_color=True)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("error    checks: mcp_bridge.E001: ")
    assert lines[1].startswith("         -> Did you mean 'PAGE_SIZE'?")
    assert lines[-1].startswith("Errors: 1, warnings: ")
