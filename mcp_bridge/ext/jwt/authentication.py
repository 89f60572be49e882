"""Authenticate JWT access tokens of an external issuer, such as Keycloak, Auth0 or Okta."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import jwt
from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ImproperlyConfigured
from django.views.decorators.debug import sensitive_variables
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from mcp_bridge.calls.credentials import BEARER, CredentialRefused
from mcp_bridge.conf import conf
from mcp_bridge.ext.jwt.keys import keys_of
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import storable

logger = get_logger("mcp_bridge.ext.jwt.authentication")

# Algorithms with a public key: with a shared key, anyone who can verify tokens can forge them.
ASYMMETRIC: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
MAX_LENGTH: Final = 16 * 1024


@dataclass(frozen=True)
class AccessToken:
    """A valid token: its claims, the client's name, the audience and the scopes."""

    claims: Mapping[str, Any] = field(repr=False)
    name: str
    resource: frozenset[str]
    scopes: frozenset[str]

    @property
    def pk(self) -> str:
        """The throttle key: issuer, client and user, stable across token refreshes."""
        return f"{self.claims.get('iss')} {self.name} {self.claims.get('sub')}"


class JWTAuthentication(BaseAuthentication):
    """
    Authentication with ``Authorization: Bearer JWT`` of one issuer (RFC 9068).

    A subclass sets the ``issuer`` exactly as in its tokens and metadata; everything else has
    defaults. ``jwks_url`` is for an issuer without metadata. ``audience`` is the issuer's name for
    this endpoint if that is not RESOURCE. The user is the one whose ``user_field`` (default:
    USERNAME_FIELD) equals the claim ``user_claim``; for another rule, override ``get_user``.

    Tokens of other issuers, and credentials that are not JWTs, are left to other classes.
    """

    issuer: str = ""
    jwks_url: str | None = None
    audience: str | None = None
    algorithms: Collection[str] = ASYMMETRIC
    token_types: Collection[str] = ("at+jwt", "jwt")
    leeway = 60
    user_claim = "sub"
    user_field = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if unsafe := set(cls.algorithms) - set(ASYMMETRIC):
            raise ImproperlyConfigured(f"{cls.__name__}.algorithms must not have {sorted(unsafe)}")

    @sensitive_variables()
    def authenticate(self, request: Request) -> tuple[AbstractBaseUser, AccessToken] | None:
        """
        Return the user and the AccessToken, or None if it is not a JWT of this issuer.

        Raises CredentialRefused (401) for an invalid one, KeysUnavailable (503) if it cannot be
        verified, and ImproperlyConfigured if the issuer or the audience is not set.
        """
        audience = self.audience or conf.RESOURCE
        if not self.issuer or not audience:
            name = type(self).__name__
            raise ImproperlyConfigured(f"Set {name}.issuer, and MCP_BRIDGE['RESOURCE'].")
        found = BEARER.fullmatch(request.META.get("HTTP_AUTHORIZATION", ""))
        if found is None or len(token := found[1]) > MAX_LENGTH:
            return None
        try:
            unverified = jwt.decode_complete(token, options={"verify_signature": False})
        except jwt.InvalidTokenError:
            return None
        if unverified["payload"].get("iss") != self.issuer:
            return None
        try:
            claims = self._verified(token, unverified["header"], audience)
            user = self.get_user(claims)
            if user is None or not user.is_active:
                raise jwt.InvalidTokenError("its user is unknown or inactive")
            scopes = frozenset(self.get_scopes(claims))
        except jwt.PyJWTError as error:
            named = unverified["payload"].get("aud")
            logger.info("A token of %s for %.200r was refused: %s", self.issuer, named, error)
            raise CredentialRefused from error
        # Replace the issuer's name for the endpoint with the endpoint's own.
        resource = frozenset({conf.RESOURCE or audience})
        return user, AccessToken(claims, self.get_name(claims), resource, scopes)

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="mcp"'

    def get_user(self, claims: Mapping[str, Any]) -> AbstractBaseUser | None:
        """Return the user of a valid token, or None to refuse it. Does not create users."""
        value = claims.get(self.user_claim)
        # Some providers let people enter any email address in their profile.
        is_proven = self.user_claim != "email" or claims.get("email_verified") is True
        if not value or value != storable(value) or not is_proven:
            return None
        model = get_user_model()
        name = self.user_field or model.USERNAME_FIELD
        found = model._default_manager.filter(**{name: value})[:2]
        return found[0] if len(found) == 1 else None

    def get_scopes(self, claims: Mapping[str, Any]) -> Collection[str]:
        """Return the scopes of a token. Raises InvalidTokenError if not a list of strings."""
        for name in ("scope", "scp", "permissions"):
            if (value := claims.get(name)) is not None:
                scopes = value.split() if isinstance(value, str) else value
                if not isinstance(scopes, list) or not all(isinstance(it, str) for it in scopes):
                    raise jwt.InvalidTokenError(f"its {name} is not a list of scopes")
                return scopes
        return ()

    def get_name(self, claims: Mapping[str, Any]) -> str:
        """Return the token's name in records: its client, from the claims that providers use."""
        names = ("client_id", "azp", "cid", "appid")
        return next((str(claims[name]) for name in names if claims.get(name)), self.issuer)

    def _verified(self, token: str, header: Mapping[str, Any], audience: str) -> Mapping[str, Any]:
        """Return the claims of a token of the issuer. Raises PyJWTError, KeysUnavailable."""
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in self.algorithms:
            raise jwt.InvalidAlgorithmError(f"its algorithm is {algorithm!r}")
        # Okta omits the type. Tokens of other types, such as logout tokens, are signed as well.
        kind = str(header.get("typ", "JWT")).lower().removeprefix("application/")
        if kind not in self.token_types:
            raise jwt.InvalidTokenError(f"its type is {kind!r}")
        claims: dict[str, Any] = jwt.decode(
            token,
            self._key(header.get("kid"), algorithm),
            algorithms=[algorithm],
            audience=audience,
            issuer=self.issuer,
            leeway=self.leeway,
            options={"require": ["exp"], "enforce_minimum_key_length": True},
        )
        if "cnf" in claims:
            # A thief could use it as well (RFC 9449, section 7.2; RFC 8705, section 3).
            raise jwt.InvalidTokenError("it is bound to a key, which is not supported here")
        return claims

    def _key(self, kid: object, algorithm: str) -> jwt.PyJWK:
        for data in keys_of(self.issuer, self.jwks_url).find(kid):
            if data.get("use", "sig") == "sig" and data.get("alg", algorithm) == algorithm:
                try:
                    return jwt.PyJWK(dict(data), algorithm)
                except jwt.PyJWTError as error:
                    logger.warning("A key of %s cannot be used: %s", self.issuer, error)
        raise jwt.InvalidTokenError(f"no key of the issuer has {algorithm} and the kid {kid!r}")
