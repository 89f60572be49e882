"""A DRF authentication class for the tokens of this app."""

from __future__ import annotations

import logging
import re

from django.contrib.auth.models import AbstractBaseUser
from django.db import DatabaseError
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from mcp_bridge.tokens.models import Token

logger = logging.getLogger("mcp_bridge.tokens")

_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE | re.ASCII)


class TokenAuthentication(BaseAuthentication):
    """
    Authenticate ``Authorization: Bearer SECRET`` (RFC 6750, section 2.1); never the query string.

    Any other Authorization header is refused, so that a credential that cannot be read is never
    taken for none. Works in DRF's own views as well.
    """

    def authenticate(self, request: Request) -> tuple[AbstractBaseUser, Token] | None:
        header = request.META.get("HTTP_AUTHORIZATION")
        if not header:
            return None
        match = _BEARER.fullmatch(header)
        token = Token.objects.find(match[1]) if match else None
        if token is None or not token.is_valid or not token.user.is_active:
            raise AuthenticationFailed("The token is not valid or no longer so.")
        try:
            token.mark_used()
        except DatabaseError:
            # A database that cannot be written is no reason to refuse a good token.
            logger.warning("The use of token %s could not be noted", token.pk, exc_info=True)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="mcp"'
