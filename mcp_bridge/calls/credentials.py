"""What a request sends as a bearer token, and what a credential says that it is for and may do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from rest_framework.exceptions import AuthenticationFailed

# An Authorization header with a bearer token, which is its one group (RFC 6750, section 2.1).
BEARER: Final = re.compile(r"bearer +(\S+) *", re.IGNORECASE)


class CredentialRefused(AuthenticationFailed):
    """A credential that its class is sure of, and that does not hold: no other class is asked."""

    is_final = True
    default_detail = "The token is not valid or no longer so."


def audience_of(auth: object) -> frozenset[str] | None:
    """
    Return the resources that a credential was issued for; None where its kind names none.

    Read are the claim ``aud`` of a JWT (RFC 7519, section 4.1.3), and what RFC 8707 calls
    ``resource``, under the names that django-oauth-toolkit and allauth have for it.
    """
    claims = _claims(auth)
    if claims is not None:
        found = claims.get("aud")
    elif callable(get_resources := getattr(auth, "get_resources", None)):
        found = get_resources()
    elif hasattr(auth, "resource"):
        found = auth.resource
    else:
        return None
    return _strings([found] if isinstance(found, str) else found)


def scopes_of(auth: object) -> frozenset[str] | None:
    """
    Return the scopes that a credential was granted; None where its kind has none.

    Read are the attributes and claims ``scope`` (RFC 6749, section 3.3), ``scopes`` and ``scp``:
    names with spaces between them, or a list of them.
    """
    claims = _claims(auth)
    for name in ("scope", "scopes", "scp"):
        value = getattr(auth, name, None) if claims is None else claims.get(name)
        if value is not None:
            return _strings(value() if callable(value) else value)
    return None if claims is None else frozenset()


def _claims(auth: object) -> Mapping[str, object] | None:
    """Return the claims of a JWT as its authentication class leaves them, if it is one."""
    found = getattr(auth, "payload", auth)
    return found if isinstance(found, Mapping) else None


def _strings(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(value.split())
    return frozenset(map(str, value)) if isinstance(value, Iterable) else frozenset()
