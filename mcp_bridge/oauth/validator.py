"""Rules for token requests, in addition to those of django-oauth-toolkit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

from django.db.models import Q
from django.utils import timezone
from oauth2_provider.models import get_access_token_model, get_refresh_token_model
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauth2_provider.scopes import get_scopes_backend
from oauth2_provider.settings import oauth2_settings
from oauthlib.common import Request
from oauthlib.oauth2.rfc6749 import errors
from oauthlib.oauth2.rfc6749.utils import scope_to_list

from mcp_bridge.access.scopes import as_configured
from mcp_bridge.conf import conf

# The META key for the id of the authenticated client, or "" if authentication failed. Headers
# cannot have this name.
PROVEN: Final = "mcp_bridge.client"


def invalid_target(request: Request | None = None) -> errors.OAuth2Error:
    """Return the error for an unknown resource (RFC 8707, section 2)."""
    text = f"Resources here are: {', '.join(conf.resources.values())}."
    return errors.CustomOAuth2Error("invalid_target", text, request=request)


class Validator(OAuth2Validator):
    """
    A validator that issues tokens only for the endpoint, RESOURCE, and its toolsets.

    A self-registered client that does not name a resource gets a token for the endpoint, the only
    resource here. Clients made by an administrator get django-oauth-toolkit's default: a token
    without a resource, which the endpoint does not accept.

    Refresh tokens are replaced at each use. For ``grace`` after its first use, a refresh token
    gives further tokens, and the previous access token stays valid: clients with several
    processes, or that lost a response, send it again. The toolkit's
    REFRESH_TOKEN_GRACE_PERIOD_SECONDS needs tokens in plain text, and is left at 0. After that, a
    replay revokes all tokens of the login (RFC 9700, section 4.14.2).
    """

    grace = timedelta(seconds=60)

    def _load_application(self, client_id: str | None, request: Request) -> Any:
        # PostgreSQL does not accept NUL, which Basic credentials may contain.
        is_text = client_id is None or "\0" not in client_id
        return super()._load_application(client_id, request) if is_text else None

    def authenticate_client(self, request: Request) -> bool:
        """Return whether the client is authenticated, by this request or earlier in it."""
        proven = request.headers.get(PROVEN)
        if proven is None:
            return bool(super().authenticate_client(request))
        return proven != "" and self._load_application(proven, request) is not None

    def validate_user(self, username: str, password: str, client: Any, request: Request) -> bool:
        """Check a password only for a client with that grant: others could guess passwords."""
        if not client.allows_grant_type(client.GRANT_PASSWORD):
            raise errors.UnauthorizedClientError(request=request)
        return bool(super().validate_user(username, password, client, request))

    def is_pkce_required(self, client_id: str, request: Request) -> bool:
        """Reject an empty or plain challenge before asking the user; else ask the toolkit."""
        challenge, is_plain = request.code_challenge, request.code_challenge_method != "S256"
        is_refused = is_plain and oauth2_settings.COMPLIANT_BCP_RFC9700_PKCE_METHOD
        if request.response_type and challenge is not None and (is_refused or not challenge):
            text = "Send a code_challenge, with code_challenge_method=S256."
            raise errors.InvalidRequestError(text, request=request)
        return bool(super().is_pkce_required(client_id, request))

    def validate_scopes(
        self, client_id: str, scopes: Sequence[str], client: Any, request: Request
    ) -> bool:
        """Grant the known scopes, or else the default ones (RFC 6749, section 3.3)."""
        request.scopes = self._known(scopes, request) or self.get_default_scopes(client_id, request)
        return bool(super().validate_scopes(client_id, request.scopes, client, request))

    def is_within_original_scope(
        self, request_scopes: Sequence[str], refresh_token: str, request: Request
    ) -> bool:
        """Drop unknown scopes from a refresh; return whether the rest was granted before."""
        original = scope_to_list(self.get_original_scopes(refresh_token, request))
        request.scopes = self._known(request_scopes, request, original) or original
        return set(request.scopes) <= set(original)

    def _known(
        self, scopes: Sequence[str], request: Request, also: Sequence[str] = ()
    ) -> list[str]:
        backend = get_scopes_backend()
        known = backend.get_available_scopes(application=request.client, request=request)
        return [each for each in dict.fromkeys(scopes) if each in known or each in also]

    def validate_code(self, client_id: str, code: str, client: Any, request: Request) -> bool:
        """Return whether a code may be exchanged; a replayed code revokes its tokens."""
        if super().validate_code(client_id, code, client, request):
            return bool(request.user.is_active)
        tokens, family = get_refresh_token_model(), family_of(code)
        if tokens.objects.filter(token_family=family, application=client).exists():
            tokens.revoke_family(family)
        return False

    def validate_refresh_token(self, refresh_token: str, client: Any, request: Request) -> bool:
        """Return whether a refresh token is valid, or was replaced recently; the user is active."""
        tokens = get_refresh_token_model().objects.select_related("access_token", "user")
        replaced = tokens.filter(
            token_checksum=checksum_of(refresh_token),
            application=client,
            revoked__gt=timezone.now() - self.grace,
        )
        used = replaced.order_by("-revoked").first()
        # An explicitly revoked token does not have a valid successor.
        if used and get_access_token_model().objects.filter(source_refresh_token=used).exists():
            request.user, request.refresh_token_instance = used.user, used
        elif not super().validate_refresh_token(refresh_token, client, request):
            return False
        return bool(request.user.is_active)

    def _save_bearer_token(self, token: dict[str, Any], request: Request) -> None:
        used = getattr(request, "refresh_token_instance", None)
        if used is not None and self.rotate_refresh_token(request):
            now, tokens = timezone.now(), get_access_token_model().objects
            if used.revoked is None:
                # Marked here, because the toolkit would also delete the access token.
                rows = get_refresh_token_model().objects.filter(pk=used.pk)
                rows.update(revoked=now, updated=now)
                until = now + self.grace
                tokens.filter(pk=used.access_token_id, expires__gt=until).update(expires=until)
            # With this source, the toolkit would return the existing access token, only hashed.
            tokens.filter(source_refresh_token=used).update(source_refresh_token=None)
        super()._save_bearer_token(token, request)

    def _create_refresh_token(
        self, request: Request, refresh_token_code: str, access_token: Any, previous: Any
    ) -> Any:
        if previous is None and request.grant_type == "authorization_code":
            # Allows a replayed code to be recognised.
            previous = SimpleNamespace(token_family=family_of(request.code))
        return super()._create_refresh_token(request, refresh_token_code, access_token, previous)

    def revoke_token(self, token: str, token_type_hint: str, request: Request) -> None:
        """Revoke a token with all others of its login (RFC 7009, section 2.1)."""
        model = get_refresh_token_model()
        found = model.objects.filter(is_of(token), application=request.client)
        families = {*found.values_list("token_family", flat=True)}
        super().revoke_token(token, token_type_hint, request)
        for family in families:
            model.revoke_family(family)

    def _validate_resource_uris(self, request: Request, resources: Sequence[str]) -> None:
        if any(each not in conf.resources.values() for each in resources):
            raise invalid_target(request)

    def _check_and_set_request_resource(self, request: Request) -> None:
        sent = [value for name, value in request.decoded_body or () if name == "resource"]
        if any(map(str.strip, sent)):
            request.resource = [as_configured(each) for each in sent]
        super()._check_and_set_request_resource(request)
        made_here = request.client.RegistrationSource.MANUAL
        if not request.resource and request.client.registration_source != made_here:
            request.resource = [conf.RESOURCE] if conf.RESOURCE else []


def checksum_of(token: str) -> str:
    """Return the checksum by which django-oauth-toolkit stores a token."""
    return sha256(token.encode()).hexdigest()


def is_of(token: str) -> Q:
    """Return the condition for the refresh token equal to, or belonging to, a token."""
    checksum = checksum_of(token)
    return Q(token_checksum=checksum) | Q(access_token__token_checksum=checksum)


def family_of(code: str) -> UUID:
    """Return the ``token_family`` of the tokens issued for a code."""
    return UUID(bytes=sha256(code.encode()).digest()[:16])
