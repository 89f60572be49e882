"""manage.py check, of a site that is its own authorization server."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.core import checks
from django.test.utils import override_settings
from django.urls import include, path
from django.views.generic import TemplateView
from oauth2_provider.oauth2_validators import OAuth2Validator

from mcp_bridge import oauth
from mcp_bridge.testing.serving import addresses
from tests.oauth.conftest import ISSUER, MCP_BRIDGE, OAUTH2_PROVIDER, RESOURCE
from tests.oauth.tools import server
from tests.support.processes import try_python

PROXY = {"SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https")}
TOOLKIT = path("", include("oauth2_provider.urls"))
OURS = path("", include("mcp_bridge.oauth.urls"))
ALL = path("<path:path>", TemplateView.as_view(template_name="none.html"))


def urls(*patterns: Any) -> Any:
    login = path("login/", TemplateView.as_view(template_name="none.html"), name="login")
    return addresses(path("rpc", server.view), login, *patterns)


def bridge(**changed: Any) -> dict[str, Any]:
    return {"MCP_BRIDGE": {**MCP_BRIDGE, **changed}}


def provider(**changed: Any) -> dict[str, Any]:
    return {"OAUTH2_PROVIDER": {**OAUTH2_PROVIDER, **changed}}


class NoValidator(OAuth2Validator):
    pass


def found(*, deploy: bool) -> list[str]:
    """Return the ids of what the checks of the two apps find, each once."""
    messages = checks.run_checks(include_deployment_checks=deploy)
    ids = [str(each.id) for each in messages]
    return sorted({each for each in ids if each.startswith(("mcp_bridge.", "oauth2_provider."))})


# Loopback redirect URIs need http, so docs/access/oauth.md silences it.
HTTP = "oauth2_provider.W008"


@pytest.fixture(autouse=True)
def _behind_a_proxy() -> Iterator[None]:
    with override_settings(**PROXY):
        yield


def test_documented_setup_has_no_findings() -> None:
    assert found(deploy=False) == []
    assert found(deploy=True) == [HTTP]


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "no resource": ("E040", bridge(RESOURCE=None)),
    "another resource": ("E040", bridge(RESOURCE=f"{RESOURCE}/")),
    "another resource there": (
        "E040",
        provider(OAUTH2_PROTECTED_RESOURCE_IDENTIFIER="https://testserver"),
    ),
    "no issuer": ("E041", provider(OIDC_ISS_ENDPOINT="")),
    "another issuer": ("E041", provider(OIDC_ISS_ENDPOINT=f"{ISSUER}/")),
    "no issuer here": ("E041", bridge(AUTHORIZATION_SERVERS=[])),
    "no addresses": ("E042", {"ROOT_URLCONF": urls()}),
    "the toolkit's addresses": ("E042", {"ROOT_URLCONF": urls(TOOLKIT)}),
    "the toolkit's before": ("E042", {"ROOT_URLCONF": urls(TOOLKIT, OURS)}),
    "under a prefix": (
        "E042",
        {"ROOT_URLCONF": urls(path("o/", include("mcp_bridge.oauth.urls")))},
    ),
    "another validator": ("E043", provider(OAUTH2_VALIDATOR_CLASS=f"{__name__}.NoValidator")),
    "other scopes": (
        "E043",
        provider(SCOPES_BACKEND_CLASS="oauth2_provider.scopes.SettingsScopes"),
    ),
    "another fetcher": (
        "E043",
        provider(CIMD_METADATA_FETCHER="oauth2_provider.cimd.SafeMetadataFetcher"),
    ),
    "no login page": ("W041", {"LOGIN_URL": "/nowhere/"}),
    "no name of a login page": ("W041", {"LOGIN_URL": "nowhere"}),
}
WRONG_FOR_OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "not in use": ("mcp_bridge.W040", bridge(AUTHENTICATION_CLASSES=[])),
    "registration for all": (
        "mcp_bridge.W042",
        provider(DCR_REGISTRATION_PERMISSION_CLASSES=["oauth2_provider.dcr.AllowAllDCRPermission"]),
    ),
    "an unknown proxy": ("mcp_bridge.W043", {"SECURE_PROXY_SSL_HEADER": None}),
    # Checks of django-oauth-toolkit itself, which this package does not duplicate.
    "no PKCE": ("oauth2_provider.E005", provider(PKCE_REQUIRED=False)),
    "plain": ("oauth2_provider.W003", provider(COMPLIANT_BCP_RFC9700_PKCE_METHOD=False)),
    "no issuer in answers": (
        "oauth2_provider.W005",
        provider(COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS=False),
    ),
    "tokens in the clear": (
        "oauth2_provider.W006",
        provider(COMPLIANT_BCP_RFC9700_TOKEN_STORAGE=False),
    ),
    "refresh tokens twice": (
        "oauth2_provider.E002",
        provider(REFRESH_TOKEN_REUSE_PROTECTION=False),
    ),
    "wildcards": ("oauth2_provider.E004", provider(ALLOW_URI_WILDCARDS=True)),
    "implicit": ("oauth2_provider.W001", provider(COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT=False)),
    "passwords": ("oauth2_provider.W002", provider(COMPLIANT_BCP_RFC9700_PASSWORD_GRANT=False)),
}


@pytest.mark.parametrize("name", WRONG)
def test_settings_that_block_clients_are_found(name: str) -> None:
    number, changed = WRONG[name]
    with override_settings(**changed):
        assert found(deploy=False) == [f"mcp_bridge.{number}"]


def test_catch_all_url_pattern_is_found() -> None:
    with override_settings(ROOT_URLCONF=urls(ALL, OURS)):
        assert found(deploy=False) == ["mcp_bridge.E042", "mcp_bridge.W031"]


@pytest.mark.parametrize("name", WRONG_FOR_OTHERS)
def test_insecure_deployment_settings_are_found(name: str) -> None:
    number, changed = WRONG_FOR_OTHERS[name]
    with override_settings(**changed):
        assert number not in found(deploy=False)
        assert number in found(deploy=True)


@pytest.mark.requirement("as.https")
@pytest.mark.parametrize("host", ["example.com", "localhost.example.com"])
def test_address_without_tls_is_found(host: str) -> None:
    plain = plain_site(host)
    with override_settings(**plain):
        assert found(deploy=False) == []
        messages = checks.run_checks(include_deployment_checks=True)
        ids = [each.id for each in messages if str(each.id).startswith("mcp_bridge.")]
        assert ids == ["mcp_bridge.E044"] * 2


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1:8000", "[::1]:8000"])
def test_localhost_needs_no_tls(host: str) -> None:
    with override_settings(**plain_site(host)):
        assert found(deploy=True) == [HTTP]


def plain_site(host: str) -> dict[str, Any]:
    issuer, resource = f"http://{host}", f"http://{host}/mcp"
    given = oauth.settings(issuer=issuer, resource=resource)
    return {
        **bridge(RESOURCE=resource, AUTHORIZATION_SERVERS=[issuer]),
        "OAUTH2_PROVIDER": given,
    }


def test_trusted_origin_needs_no_proxy_header() -> None:
    with override_settings(SECURE_PROXY_SSL_HEADER=None, CSRF_TRUSTED_ORIGINS=[ISSUER]):
        assert found(deploy=True) == [HTTP]


@pytest.mark.parametrize("name", ["oauthlib", "oauth2_provider", ""])
def test_logging_of_tokens_is_found(name: str) -> None:
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    try:
        assert "mcp_bridge.W044" not in found(deploy=False)
        assert "mcp_bridge.W044" in found(deploy=True)
    finally:
        logger.setLevel(level)


def test_each_finding_has_a_hint() -> None:
    for _, changed in [*WRONG.values(), *WRONG_FOR_OTHERS.values()]:
        with override_settings(**changed):
            for each in checks.run_checks(include_deployment_checks=True):
                assert each.hint or not str(each.id).startswith("mcp_bridge.")


@pytest.mark.parametrize(
    "name",
    [
        "OAUTH2_VALIDATOR_CLASS",
        "SCOPES_BACKEND_CLASS",
        "CIMD_METADATA_FETCHER",
        "ACCESS_TOKEN_GENERATOR",
        "DCR_REGISTRATION_PERMISSION_CLASSES",
    ],
)
def test_unimportable_path_is_found(name: str) -> None:
    path = "nowhere.Thing"
    with override_settings(**provider(**{name: [path] if name.endswith("CLASSES") else path})):
        messages = checks.run_checks(include_deployment_checks=True)
        (message,) = [each for each in messages if str(each.id).startswith("mcp_bridge.")]
        assert message.id == "mcp_bridge.E008"
        assert f"OAUTH2_PROVIDER['{name}'] names 'nowhere.Thing'" in message.msg


@pytest.mark.alone
@pytest.mark.parametrize(
    ("apps", "told"),
    [
        ('"mcp_bridge.oauth"', 'add "oauth2_provider" to INSTALLED_APPS'),
        ('"oauth2_provider"', 'Add "mcp_bridge.oauth" to INSTALLED_APPS'),
    ],
)
def test_missing_app_is_named(apps: str, told: str) -> None:
    code = f"""
from django.conf import settings
settings.configure(
    SECRET_KEY="x" * 50,
    ROOT_URLCONF="mcp_bridge.urls",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "rest_framework",
                    "mcp_bridge", {apps}],
    MCP_BRIDGE={{"AUTHENTICATION_CLASSES": {MCP_BRIDGE["AUTHENTICATION_CLASSES"]!r}}},
)
import django
django.setup()
from django.core.management import call_command
call_command("check")
"""
    status, _, err = try_python("-c", code)
    assert status != 0
    assert told in err
