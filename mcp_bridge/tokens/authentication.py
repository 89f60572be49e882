"""A DRF authentication class for the tokens of this app."""

from __future__ import annotations

import logging

from django.contrib.auth.models import AbstractBaseUser
from django.db import DatabaseError, OperationalError
from django.views.decorators.debug import sensitive_variables
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from mcp_bridge.calls.credentials import BEARER, CredentialRefused
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.tokens.models import PREFIX, Token

logger = get_logger("mcp_bridge.tokens")


class TokenAuthentication(BaseAuthentication):
    """
    Authentication of ``Authorization: Bearer SECRET`` (RFC 6750, section 2.1) by this app.

    Other schemes, and secrets without this app's prefix, are left to other classes. Also works in
    DRF's own views.
    """

    @sensitive_variables()
    def authenticate(self, request: Request) -> tuple[AbstractBaseUser, Token] | None:
        found = BEARER.fullmatch(request.META.get("HTTP_AUTHORIZATION", ""))
        if found is None or not found[1].startswith(PREFIX):
            return None
        token = Token.objects.find(found[1])
        if token is None or not token.is_valid or not token.user.is_active:
            raise CredentialRefused
        try:
            token.mark_used()
        except DatabaseError as error:
            # A failed write is not a reason to refuse a valid token, and a write conflict does not
            # need a log entry: the next use is recorded.
            text = "The use of token %s could not be recorded"
            level = logging.DEBUG if isinstance(error, OperationalError) else logging.WARNING
            logger.log(level, text, token.pk, exc_info=True)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="mcp"'
