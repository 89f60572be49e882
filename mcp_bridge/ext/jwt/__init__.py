"""Authentication with JWT access tokens of an external issuer (extra ``jwt``)."""

from __future__ import annotations

from mcp_bridge.ext.jwt.authentication import JWTAuthentication

__all__ = ["JWTAuthentication"]
