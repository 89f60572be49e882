"""Authentication and throttling of requests with unmodified Django REST framework classes."""

from __future__ import annotations

from functools import lru_cache, partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, QueryDict
from django.views import View
from django.views.decorators.debug import sensitive_variables
from rest_framework.exceptions import APIException, NotAuthenticated, PermissionDenied, Throttled
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import ForcedAuthentication, Request
from rest_framework.throttling import BaseThrottle

from mcp_bridge.access import throttling
from mcp_bridge.access.scopes import bearer_challenge, resource_of
from mcp_bridge.access.throttling import ToolRateThrottle, retry_advice, retry_after_seconds
from mcp_bridge.calls.credentials import audience_of
from mcp_bridge.conf import conf, imported
from mcp_bridge.protocol import errors, internal_error
from mcp_bridge.protocol.logs import get_logger

if TYPE_CHECKING:
    from rest_framework.views import APIView

logger = get_logger("mcp_bridge.access")

# DRF would make one per request; nothing is negotiated here.
_NO_NEGOTIATION = DefaultContentNegotiation()
# Whether these classes do nothing for a request without an Authorization header.
_read_header = frozenset(
    {
        "mcp_bridge.tokens.authentication.TokenAuthentication",
        "mcp_bridge.oauth.authentication.TokenAuthentication",
    }
).issuperset


def admission_blocks(request: HttpRequest) -> bool:
    """Return whether ``authenticate`` or ``throttle`` may query the database or a cache."""
    return "HTTP_AUTHORIZATION" in request.META or _may_block(
        tuple(conf.AUTHENTICATION_CLASSES), tuple(conf.THROTTLE_CLASSES)
    )


@lru_cache(maxsize=64)
def _may_block(authentication: tuple[str, ...], throttles: tuple[str, ...]) -> bool:
    kinds = map(imported, throttles)
    of_tools = all(issubclass(kind, ToolRateThrottle) for kind in kinds)
    return not (of_tools and _read_header(authentication))


class MessageRequest(Request):
    """DRF's request around a message; its body is not a form and is read only on demand."""

    # DRF would read the body to find a form's CSRF token; here a header carries the token.
    POST = QueryDict()

    @property
    def stream(self) -> BytesIO:
        """The body, which Django keeps for the endpoint."""
        return BytesIO(self._request.body)

    @property
    def data(self) -> Any:
        """The message, for classes that read it."""
        # Imported late: it imports all of DRF's serializers.
        from rest_framework.parsers import JSONParser

        self.parsers = (JSONParser(),)
        return super().data


@sensitive_variables()
def authenticate(request: HttpRequest, *, anonymous: bool) -> None:
    """
    Authenticate the request: sets ``request.user`` and ``request.auth`` as DRF does.

    AUTHENTICATION_CLASSES are tried in order until one accepts; a user set by middleware is
    ignored. If a class refuses with 401, the next is tried, since the credential may be meant for
    that, unless the exception has ``is_final``. ``anonymous`` admits requests without a credential
    as AnonymousUser. The user must be active, and the credential for RESOURCE if it names an
    audience (RFC 8707).

    Raises UnauthorizedError (401) for a credential that every class rejects, or without one if it
    is required (MCP, "Authorization"; RFC 6750, section 3). Any other APIException of a class
    becomes the error of its status, such as ForbiddenError (403) for a failed CSRF check.
    """
    # A credential that no class accepts is invalid, even if public tools exist.
    header = request.META.get("HTTP_AUTHORIZATION", "")
    is_forced = hasattr(request, "_force_auth_user")
    if anonymous and not header and not is_forced and _read_header(conf.AUTHENTICATION_CLASSES):
        request.user, request.auth = AnonymousUser(), None  # type: ignore[attr-defined]
        return
    is_refused = is_invalid = bool(header)
    authenticators = [imported(path)() for path in conf.AUTHENTICATION_CLASSES]
    wrapped = MessageRequest(request, authenticators=authenticators, negotiator=_NO_NEGOTIATION)
    try:
        # From the wrapped request, where DRF's test tools replace ours. Many classes read it
        # as text, and credentials are printable ASCII (RFC 9110, section 11.4).
        is_text = header.isascii() and header.isprintable()
        for authenticator in (wrapped.authenticators or ()) if is_text else ():
            try:
                found = authenticator.authenticate(wrapped)
            except APIException as exception:
                if exception.status_code != 401 or getattr(exception, "is_final", False):
                    raise
                is_refused = True
                is_invalid |= not isinstance(exception, NotAuthenticated)
                continue
            if found is not None:
                user, auth = cast("tuple[User | None, object]", found)
                if not _holds(user, auth, request):
                    is_refused = is_invalid = True
                    break
                # Also sets those of ``request``. Some credentials do not belong to a user.
                wrapped.user, wrapped.auth = AnonymousUser() if user is None else user, auth
                is_refused = False
                break
        else:
            wrapped.user, wrapped.auth = AnonymousUser(), None
        if is_refused:
            raise _unauthorized(wrapped, invalid=is_invalid)
        if not anonymous and not wrapped.user.is_authenticated:
            if wrapped.auth is not None:
                raise errors.ForbiddenError("Forbidden: the credential does not belong to a user.")
            raise _unauthorized(wrapped)
    except APIException as exception:
        # Reset to AnonymousUser, regardless of middleware, so that throttles count by address.
        wrapped.user, wrapped.auth = AnonymousUser(), None
        raise _protocol_error(exception, wrapped) from exception
    finally:
        # DRF's request refers to itself here, which would keep the body until garbage collection.
        wrapped.parser_context.clear()


def throttle(request: HttpRequest, view: View) -> None:
    """
    Count the request with the classes of THROTTLE_CLASSES that are not for tools.

    Raises TooManyRequestsError (429) if one refuses, UnavailableError (503) if one cannot count
    and THROTTLE_WITHOUT_CACHE is "closed", and the errors of any other exception of a class.
    """
    kinds = [imported(path) for path in conf.THROTTLE_CLASSES]
    counting = [
        throttling.make_throttle(kind) for kind in kinds if not issubclass(kind, ToolRateThrottle)
    ]
    if not counting:
        return
    wrapped = MessageRequest(request, negotiator=_NO_NEGOTIATION)
    # Both are missing if the credential could not be read.
    wrapped.user = getattr(request, "user", None) or AnonymousUser()
    wrapped.auth = getattr(request, "auth", None)
    refusing: list[BaseThrottle] = []
    try:
        for each in counting:
            # A class may read the view's throttle_scope, and nothing else of an APIView.
            count = partial(each.allow_request, wrapped, cast("APIView", view))
            allowed = throttling.count_or_none(each, count)
            if allowed is None:
                if conf.THROTTLE_WITHOUT_CACHE != "open":
                    text = "The server cannot count requests right now: try again later."
                    raise errors.UnavailableError(text)
                request.META[throttling.UNCOUNTED] = True
                allowed = throttling.count_locally(each, count)
            if not allowed:
                refusing.append(each)
        if refusing:
            # The longest wait, as in DRF; a class may not know its wait.
            waits = [wait for each in refusing if (wait := each.wait()) is not None]
            raise Throttled(max(waits, default=None))
    except APIException as exception:
        raise _protocol_error(exception, wrapped) from exception
    finally:
        wrapped.parser_context.clear()


def _protocol_error(exception: APIException, request: Request) -> errors.ProtocolError:
    """Return the error for the exception's HTTP status, without internal details."""
    wait = getattr(exception, "wait", None)
    match exception.status_code:
        case 401:
            return _unauthorized(request, invalid=not isinstance(exception, NotAuthenticated))
        case 429:
            seconds = retry_after_seconds(wait)
            # Messages of a batch do not have headers.
            text = f"Too many requests.{retry_advice(seconds)}"
            return errors.TooManyRequestsError(text, seconds)
        case 502 | 503 | 504:
            logger.error("A request could not be authenticated or counted", exc_info=exception)
            text = "The server cannot check requests right now: try again later."
            return errors.UnavailableError(text, retry_after_seconds(wait) or 1)
        case status if status >= 500:
            return internal_error("The request")
    if isinstance(exception, PermissionDenied):
        return errors.ForbiddenError(f"Forbidden: {exception.detail}")
    return errors.ForbiddenError("The request was refused.")


def _unauthorized(request: Request, *, invalid: bool = False) -> errors.UnauthorizedError:
    """Return the error for a missing or invalid credential."""
    # The challenge of the first class with the scheme that was sent, else of the first (as in DRF).
    scheme = request.META.get("HTTP_AUTHORIZATION", "").split(" ")[0].lower()
    headers = [
        str(header)
        for each in request.authenticators or ()
        if not isinstance(each, ForcedAuthentication)
        and (header := each.authenticate_header(request))
    ]
    first = next(iter(headers), 'Bearer realm="mcp"')
    challenge = next((each for each in headers if each.split(" ")[0].lower() == scheme), first)
    is_bearer = challenge.startswith("Bearer")
    if is_bearer:
        challenge = bearer_challenge(request, challenge, error="invalid_token" if invalid else "")
    elif conf.RESOURCE is not None:
        challenge = f"{bearer_challenge(request)}, {challenge}"
    if not invalid:
        # Without a credential the challenge does not name an error (RFC 6750, section 3.1).
        text = "Authentication required: send a credential in the Authorization header."
        return errors.UnauthorizedError(text, challenge)
    text = "The credential is not valid: it may have expired or been revoked."
    if is_bearer and scheme != "bearer":
        text += " Send it as `Authorization: Bearer TOKEN`."
    return errors.UnauthorizedError(text, challenge)


def is_accepted(user: User | AnonymousUser) -> bool:
    """Return whether a user is anonymous or active; credentials of inactive users are invalid."""
    return not user.is_authenticated or getattr(user, "is_active", False)


def _holds(user: User | None, auth: object, request: HttpRequest) -> bool:
    """Return whether an accepted credential is of an active user and for this endpoint."""
    if user is not None and not is_accepted(user):
        return False
    audience = None if conf.RESOURCE is None else audience_of(auth)
    # A credential for the endpoint opens all its toolsets; one for a toolset opens only that.
    return (
        audience is None
        or not (audience or conf.REQUIRE_AUDIENCE)
        or not {conf.RESOURCE, resource_of(request)}.isdisjoint(audience)
    )
