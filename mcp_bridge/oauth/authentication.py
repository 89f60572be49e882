"""A DRF authentication class for the access tokens of django-oauth-toolkit."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser
from django.views.decorators.debug import sensitive_variables
from oauth2_provider.models import AbstractAccessToken, get_access_token_model
from oauth2_provider.settings import oauth2_settings
from oauth2_provider.utils import parse_bearer_token
from oauthlib.common import Request as OAuthRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from mcp_bridge.access.scopes import resource_of
from mcp_bridge.calls.credentials import CredentialRefused
from mcp_bridge.oauth.models import mark_used
from mcp_bridge.oauth.validator import checksum_of


class TokenAuthentication(BaseAuthentication):
    """
    Authentication of ``Authorization: Bearer TOKEN`` by django-oauth-toolkit's tokens.

    A token of the grant "client credentials" acts as the user of its application, the service
    user. Tokens with the prefix of mcp_bridge.tokens are left to their class. The endpoint itself
    checks that the token is for RESOURCE only and its user active, so do not use this class in
    other views.
    """

    @sensitive_variables()
    def authenticate(
        self, request: Request
    ) -> tuple[AbstractBaseUser | None, AbstractAccessToken] | None:
        token = parse_bearer_token(request.META.get("HTTP_AUTHORIZATION", ""))
        if token is None or token.startswith("mcp_"):
            return None
        # With the configured address: the request's own may differ behind a proxy. oauthlib
        # iterates over all values, including the body.
        headers = {name: each for name, each in request.META.items() if isinstance(each, str)}
        asked = OAuthRequest(resource_of(request) or "", headers=headers)
        validator = oauth2_settings.OAUTH2_VALIDATOR_CLASS()
        if not validator.validate_bearer_token(token, [], asked):
            known = get_access_token_model().objects.filter(token_checksum=checksum_of(token))
            raise CredentialRefused if known.exists() else AuthenticationFailed
        user, client, found = asked.user, asked.client, asked.access_token
        if user is None and client is not None:
            # Without a user, more scopes cannot be granted.
            found.can_gain_scopes = False
            is_machine = client.allows_grant_type(client.GRANT_CLIENT_CREDENTIALS)
            user = client.user if is_machine else None
        if user is not None:
            mark_used(user, client, found)
        return user, found

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="mcp"'
