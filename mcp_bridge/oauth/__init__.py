"""
An OAuth authorization server beside the endpoint: django-oauth-toolkit, set up for MCP.

Imports nothing of Django, so that a settings file may call ``settings()``.
"""

from __future__ import annotations

from typing import Any


def settings(*, issuer: str, resource: str, **more: Any) -> dict[str, Any]:
    """
    Return the setting OAUTH2_PROVIDER of django-oauth-toolkit, as MCP's authorization needs it.

    ``issuer`` is the address of this site, as AUTHORIZATION_SERVERS has it, and ``resource`` is
    RESOURCE of MCP_BRIDGE, whose scopes are offered. ``more`` are settings of django-oauth-toolkit
    by their own names; they replace those that are given here.
    """
    return {
        # Never derived from a request: clients compare both letter by letter.
        "OIDC_ISS_ENDPOINT": issuer,
        "OAUTH2_PROTECTED_RESOURCE_IDENTIFIER": resource,
        "SCOPES_BACKEND_CLASS": "mcp_bridge.oauth.scopes.Scopes",
        "OAUTH2_VALIDATOR_CLASS": "mcp_bridge.oauth.validator.Validator",
        # How clients make themselves known: a document of their own, or registration.
        "CIMD_ENABLED": True,
        "CIMD_METADATA_FETCHER": "mcp_bridge.oauth.registration.MetadataFetcher",
        "CIMD_REGISTRATION_PERMISSION_CLASSES": ["mcp_bridge.oauth.registration.ClientDocument"],
        "DCR_ENABLED": True,
        "DCR_REGISTRATION_PERMISSION_CLASSES": ["mcp_bridge.oauth.registration.ClientRegistration"],
        # Which of these a client may register is for mcp_bridge.oauth.registration to say.
        "ALLOWED_REDIRECT_URI_SCHEMES": ["http", "https", "cursor"],
        "ALLOW_LOCALHOST_LOOPBACK": True,
        "OAUTH2_GRANT_TYPES_SUPPORTED": ["authorization_code", "refresh_token"],
        "OAUTH2_RESPONSE_TYPES_SUPPORTED": ["code"],
        # A client with a document looks for "none".
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
        # These change what `check --deploy` says: an error for what is replaced by ``more``.
        "COMPLIANT_BCP_RFC9700_REFRESH_TOKEN": True,
        "COMPLIANT_BCP_RFC9700_REDIRECT_URI_MATCHING": True,
        "COMPLIANT_BCP_RFC9700_PKCE_REQUIRED": True,
        "APPLICATION_ADMIN_CLASS": "mcp_bridge.oauth.admin.ClientAdmin",
        **more,
    }
