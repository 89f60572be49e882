"""Use django-allauth's OpenID Connect provider as the authorization server of the endpoint."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from allauth.idp.oidc import app_settings
from allauth.idp.oidc.adapter import DefaultOIDCAdapter
from allauth.idp.oidc.models import Client, Token
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ValidationError
from oauthlib.oauth2 import OAuth2Error
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from mcp_bridge.access.scopes import as_configured, supported_scopes
from mcp_bridge.calls.credentials import BEARER
from mcp_bridge.conf import conf
from mcp_bridge.outbound.addresses import is_redirect_uri

GRANT_TYPES = [Client.GrantType.AUTHORIZATION_CODE.value, Client.GrantType.REFRESH_TOKEN.value]
RESPONSE_TYPES = [Client.ResponseType.CODE.value]


class InvalidTarget(OAuth2Error):  # type: ignore[misc]
    """A resource that is neither this endpoint nor a toolset (RFC 8707, section 2)."""

    error = "invalid_target"
    description = "Unknown resource."


class TokenAuthentication(BaseAuthentication):
    """
    Authentication with an access token of allauth for any audience.

    The endpoint refuses a token that was not issued for it, so use this class only in
    ``MCP_BRIDGE["AUTHENTICATION_CLASSES"]``.
    """

    def authenticate(self, request: Request) -> tuple[AbstractBaseUser | None, Token] | None:
        """Return the user (None for a machine) and the token. Raises AuthenticationFailed."""
        sent = BEARER.fullmatch(request.META.get("HTTP_AUTHORIZATION", ""))
        if sent is None:
            return None
        found = Token.objects.valid().by_value(sent[1]).select_related("user", "client")
        token = found.filter(type=Token.Type.ACCESS_TOKEN).first()
        if token is None:
            raise AuthenticationFailed
        # Its name in records.
        token.name = token.client.name or token.client.id
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="mcp"'


class Adapter(DefaultOIDCAdapter):  # type: ignore[misc]
    """
    The adapter (``IDP_OIDC_ADAPTER``) of a site whose one resource is the endpoint.

    ``cimd_hosts`` are the hosts from which client metadata documents may be fetched: allauth does
    not check addresses, so other hosts could be in the site's network. ``redirect_uris`` are those
    that clients may register although they are neither https nor on the user's machine.
    """

    cimd_hosts: Collection[str] = ()
    redirect_uris: Collection[str] = ()

    def generate_client_secret(self) -> str:
        # URL-safe, since allauth does not unquote what clients quote (RFC 6749, section 2.3.1).
        return secrets.token_urlsafe(32)

    def get_issuer(self) -> str:
        """Return the issuer from the settings instead of one derived from the request."""
        return conf.AUTHORIZATION_SERVERS[0]

    @cached_property
    def scope_display(self) -> dict[str, Any]:
        """The texts of scopes on the consent page."""
        return {**DefaultOIDCAdapter.scope_display, **supported_scopes()}

    def populate_server_metadata(self, data: dict[str, Any]) -> None:
        data["scopes_supported"] = list(self.scope_display)
        data["grant_types_supported"] = GRANT_TYPES
        data["response_types_supported"] = RESPONSE_TYPES
        if app_settings.CIMD_ENABLED and self.cimd_hosts:
            data["client_id_metadata_document_supported"] = True

    def is_cimd_url_allowed(self, url: str) -> bool:
        return urlsplit(url).netloc in self.cimd_hosts

    def validate_resource_uris(self, *, uris: list[str], **kwargs: Any) -> None:
        # In place: allauth stores this list.
        uris[:] = map(as_configured, uris)
        if any(uri not in conf.resources.values() for uri in uris):
            asked = self.request.GET
            error = InvalidTarget(state=asked.get("state"))
            # allauth has already validated the redirect URI.
            error.redirect_uri = asked.get("redirect_uri")
            raise error

    def validate_client_registration(self, *, client: Client, **kwargs: Any) -> None:
        """Refuse features that MCP clients do not need, and allow the endpoint's scopes."""
        for uri in client.get_redirect_uris():
            if uri not in self.redirect_uris and not is_redirect_uri(uri):
                raise ValidationError(f"{uri} must not be registered.")
        is_code = client.get_response_types() == RESPONSE_TYPES
        if not is_code or {*client.get_grant_types()} - {*GRANT_TYPES}:
            raise ValidationError("Only authorization codes and refresh tokens are supported.")
        client.set_scopes(list(self.scope_display))
