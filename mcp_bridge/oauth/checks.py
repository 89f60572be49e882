"""
Checks of an authorization server: that it, the endpoint and the URLconf agree with one another.

What django-oauth-toolkit checks itself under ``--deploy`` (PKCE, how tokens are kept, grants that
are no longer used) is not repeated here.
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
USE_SETTINGS: Final = (
    "Let OAUTH2_PROVIDER be what mcp_bridge.oauth.settings(issuer=…, resource=…) returns."
)


def check_oauth(**kwargs: object) -> list[checks.CheckMessage]:
    """Return an error for each way in which no client could log in, or any token would do."""
    if check_settings() or TOKENS not in conf.AUTHENTICATION_CLASSES:
        # Nothing of it is in use; check_oauth_deployment() says so.
        return []
    # What cannot be imported raises where it is looked at.
    return [*_imports()] or [*_settings(), *_urls()]


def check_oauth_deployment(**kwargs: object) -> list[checks.CheckMessage]:
    """Return what is dangerous, or will not work, where clients are not on the same machine."""
    if check_settings():
        return []
    if TOKENS not in conf.AUTHENTICATION_CLASSES:
        return [
            checks.Warning(
                "mcp_bridge.oauth is installed, and MCP_BRIDGE['AUTHENTICATION_CLASSES'] does not "
                f"name {TOKENS}: the tokens that clients get do not open the endpoint.",
                hint="Add that class, or take mcp_bridge.oauth out of INSTALLED_APPS.",
                id="mcp_bridge.W040",
            )
        ]
    return [] if [*_imports()] else [*_deployment()]


def _imports() -> Iterator[checks.CheckMessage]:
    for name in oauth2_settings.import_strings:
        given = oauth2_settings.user_settings.get(name)
        for path in given if isinstance(given, list | tuple) else [given]:
            # The admin has imported its classes before; without the admin they cannot be.
            if isinstance(path, str) and not name.endswith("_ADMIN_CLASS"):
                yield from import_errors(f"OAUTH2_PROVIDER[{name!r}]", path)


def _settings() -> Iterator[checks.CheckMessage]:
    resource = oauth2_settings.OAUTH2_PROTECTED_RESOURCE_IDENTIFIER
    if not conf.RESOURCE or resource != conf.RESOURCE:
        yield checks.Error(
            f"MCP_BRIDGE['RESOURCE'] is {conf.RESOURCE!r}, and OAUTH2_PROVIDER"
            f"['OAUTH2_PROTECTED_RESOURCE_IDENTIFIER'] {resource!r}: tokens would be issued for "
            "another address than the endpoint's.",
            hint=f"Give both the address that users paste into their clients. {USE_SETTINGS}",
            id="mcp_bridge.E040",
        )
    issuer = oauth2_settings.OIDC_ISS_ENDPOINT
    if not issuer or issuer not in conf.AUTHORIZATION_SERVERS:
        yield checks.Error(
            f"MCP_BRIDGE['AUTHORIZATION_SERVERS'] is {list(conf.AUTHORIZATION_SERVERS)!r}, without "
            f"the issuer of this site, OAUTH2_PROVIDER['OIDC_ISS_ENDPOINT'], {issuer!r}. Clients "
            "compare the two letter by letter, and refuse another one.",
            hint=f"Write both alike, without a slash at the end. {USE_SETTINGS}",
            id="mcp_bridge.E041",
        )
    try:
        address = resolve_url(settings.LOGIN_URL)
        if address.startswith("/"):
            resolve(urlsplit(address).path)
    except (NoReverseMatch, Resolver404):
        yield checks.Warning(
            f"LOGIN_URL, {settings.LOGIN_URL!r}, leads to no page of this site: nobody could log "
            "in to connect a client.",
            hint='Add a login page, such as path("accounts/", include("django.contrib.auth.urls")),'
            " and name it in LOGIN_URL.",
            id="mcp_bridge.W041",
        )
    needed = {
        "OAUTH2_VALIDATOR_CLASS": (Validator, "tokens are issued for any resource"),
        "SCOPES_BACKEND_CLASS": (Scopes, "clients are offered other scopes than the tools have"),
    }
    if oauth2_settings.CIMD_ENABLED:
        text = "a client's own document may name any redirect URI"
        needed["CIMD_METADATA_FETCHER"] = (MetadataFetcher, text)
    for name, (kind, consequence) in needed.items():
        found = getattr(oauth2_settings, name)
        if not issubclass(found, kind):
            yield checks.Error(
                f"OAUTH2_PROVIDER[{name!r}] is {_name(found)}, which is no {_name(kind)}: "
                f"{consequence}.",
                hint=f"{USE_SETTINGS} A class of your own inherits from that one.",
                id="mcp_bridge.E043",
            )


def _urls() -> Iterator[checks.CheckMessage]:
    for pattern in (each for each in urlpatterns if each.name is not None):
        try:
            address = "/" + reverse(f"{app_name}:{pattern.name}").removeprefix(get_script_prefix())
            if pattern.name == "oauth-server-metadata":
                # Where clients look for it (RFC 8414, section 3).
                issuer = urlsplit(oauth2_settings.OIDC_ISS_ENDPOINT)
                address = f"/{pattern.pattern}{issuer.path.rstrip('/')}"
            found = resolve(address).func
        except (NoReverseMatch, Resolver404):
            wrong = f"The URLconf has no address for {app_name}:{pattern.name}"
        else:
            found = getattr(found, "view_class", found)
            if isinstance(found, type) and issubclass(found, pattern.callback.view_class):
                continue
            wrong = f"{address} is answered by {_name(found)}"
        yield checks.Error(
            f"{wrong}, where clients need that of mcp_bridge.oauth.urls.",
            hint='Add path("", include("mcp_bridge.oauth.urls")) to the root of the URLconf, '
            "before the URLs of oauth2_provider and patterns that take every address.",
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
                f"{place} is {address!r}: passwords, codes and tokens would be sent in the clear, "
                "and clients refuse it.",
                hint="Serve the site by https, and write https:// here.",
                id="mcp_bridge.E044",
            )
    listed = oauth2_settings.DCR_REGISTRATION_PERMISSION_CLASSES
    if oauth2_settings.DCR_ENABLED and AllowAllDCRPermission in listed:
        yield checks.Warning(
            "OAUTH2_PROVIDER['DCR_REGISTRATION_PERMISSION_CLASSES'] has AllowAllDCRPermission: "
            "where the URLs of oauth2_provider are served as well, anybody may register a client "
            "with any redirect URI and the grants of passwords and of client credentials.",
            hint="Name mcp_bridge.oauth.registration.ClientRegistration in its place.",
            id="mcp_bridge.W042",
        )
    url = urlsplit(issuer)
    trusted = f"https://{url.netloc}" in settings.CSRF_TRUSTED_ORIGINS
    if url.scheme == "https" and settings.SECURE_PROXY_SSL_HEADER is None and not trusted:
        yield checks.Warning(
            "The issuer is https, and SECURE_PROXY_SSL_HEADER is not set: behind a proxy that ends "
            "TLS, Django takes requests for http, and refuses the form on the consent page (403, "
            "CSRF).",
            hint="Set SECURE_PROXY_SSL_HEADER as the proxy needs it. Where the server itself knows "
            "of TLS, name mcp_bridge.W043 in SILENCED_SYSTEM_CHECKS.",
            id="mcp_bridge.W043",
        )
    # The second one logs redirects, in which there are codes.
    names = ("oauthlib", "oauth2_provider")
    if loud := [each for each in names if logging.getLogger(each).isEnabledFor(logging.DEBUG)]:
        yield checks.Warning(
            f"Logging of {' and '.join(loud)} is at DEBUG: it writes codes, access tokens and "
            "refresh tokens into the log, in full.",
            hint='Add "oauthlib": {"level": "INFO"} and "oauth2_provider": {"level": "INFO"} to '
            "LOGGING['loggers'].",
            id="mcp_bridge.W044",
        )
