"""Authentication and throttles at this edge: Django REST framework's, unmodified."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, QueryDict
from django.utils.module_loading import import_string
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import (
    APIException,
    AuthenticationFailed,
    NotAuthenticated,
    PermissionDenied,
)
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request

from mcp_bridge.access.throttling.counters import count_locally, count_or_none
from mcp_bridge.access.throttling.throttles import (
    UNCOUNTED,
    is_closed,
    retry_after_seconds,
    throttles,
)
from mcp_bridge.calls.errors import uncounted
from mcp_bridge.conf import conf
from mcp_bridge.protocol import (
    ForbiddenError,
    ProtocolError,
    TooManyRequestsError,
    UnauthorizedError,
)

# DRF would make one for each request; nothing is negotiated here.
_NO_NEGOTIATION = DefaultContentNegotiation()


class MessageRequest(Request):
    """DRF's request around a message, whose body is no form and is not read here."""

    # DRF would read the body to find a form's CSRF token in it; a header carries the token.
    POST = QueryDict()


def authenticate(request: HttpRequest, *, anonymous: bool) -> None:
    """
    Find out who calls: sets ``request.user`` and ``request.auth`` as DRF does.

    The classes of AUTHENTICATION_CLASSES are asked in order; a user that some middleware put on
    the request does not count. ``anonymous`` says whether a caller without a credential may go on
    as AnonymousUser.

    Raises UnauthorizedError (401) for a credential that does not hold or, where it is needed, for
    none, and ForbiddenError (403) where the class forbids it, as a failed CSRF check does.
    See MCP, "Authorization", and RFC 6750, section 3.
    """
    authenticators = [import_string(path)() for path in conf.AUTHENTICATION_CLASSES]
    wrapped = MessageRequest(request, authenticators=authenticators, negotiator=_NO_NEGOTIATION)
    user: Any = AnonymousUser()
    auth: Any = None
    try:
        # Those of the request, since DRF's test tools put their own in the place of ours.
        for authenticator in wrapped.authenticators or ():
            found = authenticator.authenticate(wrapped)
            if found is not None:
                user, auth = found
                break
    except APIException as exception:
        # Nobody is known, whom a middleware may think to know: throttles count the address.
        request.user = AnonymousUser()
        raise _refusal(exception, wrapped, authenticators) from exception
    finally:
        # DRF's request refers to itself here, which would keep the body until a collection.
        wrapped.parser_context.clear()
    request.user = user
    request.auth = auth  # type: ignore[attr-defined]
    if not anonymous and not user.is_authenticated:
        raise _unauthorized(_challenge(wrapped, authenticators))


def throttle(request: HttpRequest, view: Any) -> None:
    """
    Count the request with the classes of THROTTLE_CLASSES that are not for tools.

    Raises TooManyRequestsError (429) where one of them refuses, and UnavailableError (503) where
    one cannot count and THROTTLE_WITHOUT_CACHE is "closed".
    """
    found = throttles(of_tools=False)
    if not found:
        return
    wrapped = MessageRequest(request, negotiator=_NO_NEGOTIATION)
    # Neither is there where a credential could not be read.
    wrapped.user = getattr(request, "user", None) or AnonymousUser()
    wrapped.auth = getattr(request, "auth", None)
    waits = []
    try:
        for each in found:
            ask = partial(each.allow_request, wrapped, view)
            allowed = count_or_none(each, ask)
            if allowed is None:
                if is_closed():
                    raise uncounted()
                request.META[UNCOUNTED] = True
                allowed = count_locally(each, ask)
            if not allowed:
                waits.append(retry_after_seconds(each.wait()))
    finally:
        wrapped.parser_context.clear()
    if waits:
        # The longest, as DRF has it; a class need not know how long.
        known = [wait for wait in waits if wait is not None]
        raise TooManyRequestsError(
            "Too many requests: wait before the next.", max(known, default=None)
        )


def _refusal(
    exception: APIException, request: Request, authenticators: list[BaseAuthentication]
) -> ProtocolError:
    if isinstance(exception, PermissionDenied):
        return ForbiddenError(f"Forbidden: {exception.detail}")
    if isinstance(exception, NotAuthenticated):
        return _unauthorized(_challenge(request, authenticators))
    if isinstance(exception, AuthenticationFailed):
        challenge = _challenge(request, authenticators)
        text = "The credential is not valid or no longer so."
        if challenge.startswith("Bearer"):
            challenge += ', error="invalid_token"'
            if request.META.get("HTTP_AUTHORIZATION", "").split(" ")[0].lower() != "bearer":
                text += " Send it as `Authorization: Bearer TOKEN`."
        return UnauthorizedError(text, challenge)
    return ForbiddenError("The request was refused.")


def _unauthorized(challenge: str) -> UnauthorizedError:
    """No credential: the challenge names no error then (RFC 6750, section 3.1)."""
    return UnauthorizedError(
        "Authentication required: send a credential in the Authorization header.", challenge
    )


def _challenge(request: Request, authenticators: list[BaseAuthentication]) -> str:
    """The first authentication class's WWW-Authenticate, as DRF chooses it."""
    for authenticator in authenticators:
        header = authenticator.authenticate_header(request)
        if header:
            return str(header)
    return 'Bearer realm="mcp"'
