"""
Checks of the authorization server: its settings, the endpoint and the URLconf must agree.

The checks of django-oauth-toolkit under ``--deploy`` (PKCE, token storage, obsolete grants) are
not repeated here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, get_script_prefix, resolve, reverse
from oauth2_provider.dcr import AllowAllDCRPermission
from oauth2_provider.settings import oauth2_settings

from mcp_bridge.checks.settings import check_settings, import_errors
from mcp_bridge.conf import conf
from mcp_bridge.oauth.registration import MetadataFetcher
from mcp_bridge.oauth.scopes import Scopes
from mcp_bridge.oauth.urls import app_name, urlpatterns
from mcp_bridge.oauth.validator import Validator
from mcp_bridge.outbound.addresses import is_https_or_loopback

TOKENS: Final = "mcp_bridge.oauth.authentication.TokenAuthentication"
USE_SETTINGS: Final = "Set OAUTH2_PROVIDER = mcp_bridge.oauth.settings(issuer=…, resource=…)."


def check_oauth(**kwargs: object) -> list[checks.CheckMessage]:
    """Return errors for settings that break logins or accept tokens for other resources."""
    if check_settings() or TOKENS not in conf.AUTHENTICATION_CLASSES:
        # The app is not in use; check_oauth_deployment() reports it.
        return []
    # Unimportable paths raise when they are read.
    return [*_imports()] or [*_settings(), *_urls()]


def check_oauth_deployment(**kwargs: object) -> list[checks.CheckMessage]:
    """Return errors and warnings for settings that are unsafe or fail with remote clients."""
    if check_settings():
        return []
    if TOKENS not in conf.AUTHENTICATION_CLASSES:
        return [
            checks.Warning(
                "mcp_bridge.oauth is installed, but MCP_BRIDGE['AUTHENTICATION_CLASSES'] does not "
                f"include {TOKENS}: the endpoint does not accept the tokens that clients get.",
                hint="Add that class, or remove mcp_bridge.oauth from INSTALLED_APPS.",
                id="mcp_bridge.W040",
            )
        ]
    return [] if [*_imports()] else [*_deployment()]


def _imports() -> Iterator[checks.CheckMessage]:
    for name in oauth2_settings.import_strings:
        given = oauth2_settings.user_settings.get(name)
        for path in given if isinstance(given, list | tuple) else [given]:
            # The admin has already imported its classes; without the admin they cannot be imported.
            if isinstance(path, str) and not name.endswith("_ADMIN_CLASS"):
                yield from import_errors(f"OAUTH2_PROVIDER[{name!r}]", path)


def _settings() -> Iterator[checks.CheckMessage]:
    resource = oauth2_settings.OAUTH2_PROTECTED_RESOURCE_IDENTIFIER
    if not conf.RESOURCE or resource != conf.RESOURCE:
        yield checks.Error(
            f"MCP_BRIDGE['RESOURCE'] is {conf.RESOURCE!r}, but OAUTH2_PROVIDER"
            f"['OAUTH2_PROTECTED_RESOURCE_IDENTIFIER'] is {resource!r}: tokens would be issued for "
            "an address that is not the endpoint's.",
            hint=f"Set both to the address that users enter in their clients. {USE_SETTINGS}",
            id="mcp_bridge.E040",
        )
    issuer = oauth2_settings.OIDC_ISS_ENDPOINT
    if not issuer or issuer not in conf.AUTHORIZATION_SERVERS:
        yield checks.Error(
            f"MCP_BRIDGE['AUTHORIZATION_SERVERS'] is {list(conf.AUTHORIZATION_SERVERS)!r}, without "
            f"this site's issuer, OAUTH2_PROVIDER['OIDC_ISS_ENDPOINT'], {issuer!r}. Clients "
            "compare the two as strings and reject a mismatch.",
            hint=f"Use the same string for both, without a trailing slash. {USE_SETTINGS}",
            id="mcp_bridge.E041",
        )
    try:
        address = resolve_url(settings.LOGIN_URL)
        if address.startswith("/"):
            resolve(urlsplit(address).path)
    except (NoReverseMatch, Resolver404):
        yield checks.Warning(
            f"LOGIN_URL, {settings.LOGIN_URL!r}, is not a page of this site: users could not log "
            "in to connect a client.",
            hint='Add a login page, such as path("accounts/", include("django.contrib.auth.urls")),'
            " and set LOGIN_URL to it.",
            id="mcp_bridge.W041",
        )
    needed = {
        "OAUTH2_VALIDATOR_CLASS": (Validator, "tokens are issued for any resource"),
        "SCOPES_BACKEND_CLASS": (Scopes, "clients are offered scopes that tools do not use"),
    }
    if oauth2_settings.CIMD_ENABLED:
        text = "a client's own document may name any redirect URI"
        needed["CIMD_METADATA_FETCHER"] = (MetadataFetcher, text)
    for name, (kind, consequence) in needed.items():
        found = getattr(oauth2_settings, name)
        if not issubclass(found, kind):
            yield checks.Error(
                f"OAUTH2_PROVIDER[{name!r}] is {_name(found)}, not a {_name(kind)}: {consequence}.",
                hint=f"{USE_SETTINGS} Or let your class inherit from it.",
                id="mcp_bridge.E043",
            )


def _urls() -> Iterator[checks.CheckMessage]:
    for pattern in (each for each in urlpatterns if each.name is not None):
        try:
            address = "/" + reverse(f"{app_name}:{pattern.name}").removeprefix(get_script_prefix())
            if pattern.name == "oauth-server-metadata":
                # The address that clients request (RFC 8414, section 3).
                issuer = urlsplit(oauth2_settings.OIDC_ISS_ENDPOINT)
                address = f"/{pattern.pattern}{issuer.path.rstrip('/')}"
            found = resolve(address).func
        except (NoReverseMatch, Resolver404):
            wrong = f"The URLconf does not contain {app_name}:{pattern.name}"
        else:
            found = getattr(found, "view_class", found)
            if isinstance(found, type) and issubclass(found, pattern.callback.view_class):
                continue
            wrong = f"{address} is served by {_name(found)}"
        yield checks.Error(
            f"{wrong}; clients need the view of mcp_bridge.oauth.urls.",
            hint='Add path("", include("mcp_bridge.oauth.urls")) to the root of the URLconf, '
            "before the URLs of oauth2_provider and any catch-all pattern.",
            id="mcp_bridge.E042",
        )


def _name(found: Any) -> str:
    return f"{found.__module__}.{found.__qualname__}"


def _deployment() -> Iterator[checks.CheckMessage]:
    issuer = oauth2_settings.OIDC_ISS_ENDPOINT
    for place, address in (
        ("MCP_BRIDGE['RESOURCE']", conf.RESOURCE),
        ("OAUTH2_PROVIDER['OIDC_ISS_ENDPOINT']", issuer),
    ):
        if address and not is_https_or_loopback(address):
            yield checks.Error(
                f"{place} is {address!r}: passwords, codes and tokens would be sent unencrypted, "
                "and clients refuse it.",
                hint="Serve the site over https, and use https:// here.",
                id="mcp_bridge.E044",
            )
    listed = oauth2_settings.DCR_REGISTRATION_PERMISSION_CLASSES
    if oauth2_settings.DCR_ENABLED and AllowAllDCRPermission in listed:
        yield checks.Warning(
            "OAUTH2_PROVIDER['DCR_REGISTRATION_PERMISSION_CLASSES'] has AllowAllDCRPermission: if "
            "the URLs of oauth2_provider are also served, anyone can register a client with any "
            "redirect URI and with the password and client credentials grants.",
            hint="Use mcp_bridge.oauth.registration.ClientRegistration instead.",
            id="mcp_bridge.W042",
        )
    url = urlsplit(issuer)
    trusted = f"https://{url.netloc}" in settings.CSRF_TRUSTED_ORIGINS
    if url.scheme == "https" and settings.SECURE_PROXY_SSL_HEADER is None and not trusted:
        yield checks.Warning(
            "The issuer is https, but SECURE_PROXY_SSL_HEADER is not set: behind a proxy that "
            "terminates TLS, Django treats requests as http and rejects the consent form (403, "
            "CSRF).",
            hint="Set SECURE_PROXY_SSL_HEADER to match the proxy. If the server itself handles "
            "TLS, add mcp_bridge.W043 to SILENCED_SYSTEM_CHECKS.",
            id="mcp_bridge.W043",
        )
    # oauth2_provider logs redirects, which contain codes.
    names = ("oauthlib", "oauth2_provider")
    if loud := [each for each in names if logging.getLogger(each).isEnabledFor(logging.DEBUG)]:
        yield checks.Warning(
            f"The log level of {' and '.join(loud)} is DEBUG: codes, access tokens and refresh "
            "tokens are written to the log in full.",
            hint='Add "oauthlib": {"level": "INFO"} and "oauth2_provider": {"level": "INFO"} to '
            "LOGGING['loggers'].",
            id="mcp_bridge.W044",
        )
