"""
An OAuth authorization server beside the endpoint: django-oauth-toolkit, configured for MCP.

This module does not import Django, so that a settings file may call ``settings()``.
"""

from __future__ import annotations

from typing import Any


def settings(*, issuer: str, resource: str, **more: Any) -> dict[str, Any]:
    """
    Return the OAUTH2_PROVIDER setting of django-oauth-toolkit for MCP's authorization.

    ``issuer`` is the address of this site, as in AUTHORIZATION_SERVERS; ``resource`` is RESOURCE
    of MCP_BRIDGE, whose scopes are offered. ``more`` are further settings of
    django-oauth-toolkit, by their names; they override those given here.
    """
    return {
        # Never derived from a request: clients compare both as strings.
        "OIDC_ISS_ENDPOINT": issuer,
        "OAUTH2_PROTECTED_RESOURCE_IDENTIFIER": resource,
        "SCOPES_BACKEND_CLASS": "mcp_bridge.oauth.scopes.Scopes",
        "OAUTH2_VALIDATOR_CLASS": "mcp_bridge.oauth.validator.Validator",
        # Clients register, or publish a metadata document.
        "CIMD_ENABLED": True,
        "CIMD_METADATA_FETCHER": "mcp_bridge.oauth.registration.MetadataFetcher",
        "CIMD_REGISTRATION_PERMISSION_CLASSES": ["mcp_bridge.oauth.registration.ClientDocument"],
        "DCR_ENABLED": True,
        "DCR_REGISTRATION_PERMISSION_CLASSES": ["mcp_bridge.oauth.registration.ClientRegistration"],
        # mcp_bridge.oauth.registration decides which of these a client may register.
        "ALLOWED_REDIRECT_URI_SCHEMES": ["http", "https", "cursor"],
        "ALLOW_LOCALHOST_LOOPBACK": True,
        "OAUTH2_GRANT_TYPES_SUPPORTED": ["authorization_code", "refresh_token"],
        "OAUTH2_RESPONSE_TYPES_SUPPORTED": ["code"],
        # Clients with a metadata document look for "none".
        "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": [
            "none",
            "client_secret_post",
            "client_secret_basic",
        ],
        "ACCESS_TOKEN_EXPIRE_SECONDS": 3600,
        "REFRESH_TOKEN_EXPIRE_SECONDS": 30 * 24 * 3600,
        "REFRESH_TOKEN_REUSE_PROTECTION": True,
        "COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT": True,
        "COMPLIANT_BCP_RFC9700_PASSWORD_GRANT": True,
        "COMPLIANT_BCP_RFC9700_PKCE_METHOD": True,
        "COMPLIANT_BCP_RFC9700_ACCESS_TOKEN_TRANSPORT": True,
        "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True,
        "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": True,
        # Without these, `check --deploy` would report errors; ``more`` may change them.
        "COMPLIANT_BCP_RFC9700_REFRESH_TOKEN": True,
        "COMPLIANT_BCP_RFC9700_REDIRECT_URI_MATCHING": True,
        "COMPLIANT_BCP_RFC9700_PKCE_REQUIRED": True,
        "APPLICATION_ADMIN_CLASS": "mcp_bridge.oauth.admin.ClientAdmin",
        **more,
    }
