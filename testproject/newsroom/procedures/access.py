"""Who may call a procedure at /rpc; at /mcp these predicates count as well."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest


def signed_in(request: HttpRequest) -> bool:
    return request.user.is_authenticated


def may(permission: str) -> Callable[[HttpRequest], bool]:
    """A predicate for callers who have the permission."""
    return lambda request: request.user.has_perm(permission)
