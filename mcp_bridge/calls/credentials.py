"""Read the bearer token of a request, and the audience and scopes of a credential."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from rest_framework.exceptions import AuthenticationFailed

# An Authorization header; its one group is the bearer token (RFC 6750, section 2.1).
BEARER: Final = re.compile(r"bearer +(\S+) *", re.IGNORECASE)


class CredentialRefused(AuthenticationFailed):
    """An invalid credential that its class has recognised: no other class is tried."""

    is_final = True
    default_detail = "The token is invalid or has expired."


def audience_of(auth: object) -> frozenset[str] | None:
    """
    Return the resources that a credential was issued for, or None if its type names none.

    Reads the claim ``aud`` of a JWT (RFC 7519, section 4.1.3), and the ``resource`` of RFC 8707
    under the attribute names of django-oauth-toolkit and allauth.
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
    Return the scopes that a credential was granted, or None if its type does not have scopes.

    Reads the attributes and claims ``scope`` (RFC 6749, section 3.3), ``scopes`` and ``scp``:
    a list, or names separated by spaces.
    """
    claims = _claims(auth)
    for name in ("scope", "scopes", "scp"):
        value = getattr(auth, name, None) if claims is None else claims.get(name)
        if value is not None:
            return _strings(value() if callable(value) else value)
    return None if claims is None else frozenset()


def _claims(auth: object) -> Mapping[str, object] | None:
    """Return the claims of a JWT as its authentication class stores them, or None."""
    found = getattr(auth, "payload", auth)
    return found if isinstance(found, Mapping) else None


def _strings(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(value.split())
    return frozenset(map(str, value)) if isinstance(value, Iterable) else frozenset()
