"""Stand-ins for the caller's credential, which show a view of this process its scopes only."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NoReturn

from rest_framework.exceptions import PermissionDenied

from mcp_bridge.calls.credentials import scopes_of


class ScopesOnly:
    """A stand-in for ``request.auth`` with scopes, as django-oauth-toolkit's tokens have them."""

    def __init__(self, scopes: Iterable[str]) -> None:
        self.scope = " ".join(sorted(scopes))

    def is_expired(self) -> bool:
        return False

    def allow_scopes(self, scopes: Collection[str] | None) -> bool:
        return set(self.scope.split()).issuperset(scopes or ())

    def is_valid(self, scopes: Collection[str] | None = None) -> bool:
        return self.allow_scopes(scopes)


class GuardedScopes(ScopesOnly):
    """Scopes that refuse the request if a view reads any other attribute, or the class."""

    @property  # type: ignore[misc]
    def __class__(self) -> NoReturn:  # type: ignore[override]
        raise _refused("class")

    def __getattr__(self, name: str) -> NoReturn:
        raise _refused(name)

    def __getitem__(self, name: object) -> NoReturn:
        raise _refused(name)


def stand_in(auth: object, *, guarded: bool) -> ScopesOnly | None:
    """Return the stand-in for a credential; None if its kind does not have scopes."""
    granted = scopes_of(auth)
    if granted is None:
        return None
    return (GuardedScopes if guarded else ScopesOnly)(granted)


def _refused(name: object) -> PermissionDenied:
    return PermissionDenied(
        f"This view reads {name!s} of the credential. Credentials with scopes may call it once the "
        "site has set the scopes of the tool."
    )
