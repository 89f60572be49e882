"""
Requests to views of this process, made for the calls of tools.

A view is called through the callback that the URLconf has, with all of its decorators, and without
the middleware, through which the request of the client has gone already.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Mapping
from io import BytesIO
from typing import Any, Final

from django.contrib.messages.storage.base import BaseStorage
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.http import Http404, HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.template.response import SimpleTemplateResponse
from django.urls import ResolverMatch, get_resolver
from django.utils.crypto import salted_hmac
from django.utils.functional import cached_property
from rest_framework.exceptions import APIException

from mcp_bridge.conf import conf
from mcp_bridge.exceptions import ToolError
from mcp_bridge.features import Context, ToolCall

# What a view reads of where the client is. Never its Authorization and its cookies, which open the
# endpoint, nor what a proxy says of who it is.
_META: Final = (
    *("REMOTE_ADDR", "REMOTE_HOST", "SCRIPT_NAME", "SERVER_NAME", "SERVER_PORT"),
    *("SERVER_PROTOCOL", "SERVER_SOFTWARE", "HTTP_HOST", "HTTP_X_REAL_IP", "HTTP_USER_AGENT"),
    *("HTTP_ACCEPT_LANGUAGE", "HTTP_TRACEPARENT", "HTTP_TRACESTATE", "HTTP_X_REQUEST_ID"),
    *("HTTP_X_CORRELATION_ID", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_HOST"),
    *("HTTP_X_FORWARDED_PORT", "HTTP_X_FORWARDED_PREFIX", "HTTP_X_FORWARDED_PROTO"),
    *("HTTP_X_FORWARDED_SCHEME", "HTTP_X_FORWARDED_SSL"),
)
# Attributes that belong to one request; what else middleware has put on the client's is taken over.
_OWN: Final = frozenset(
    (
        *("GET", "POST", "FILES", "COOKIES", "META", "headers", "environ", "scope"),
        *("body", "method", "path", "path_info", "script_name", "content_type", "content_params"),
        *("accepted_types", "accepted_types_by_precedence", "encoding", "resolver_match"),
        *("user", "auser", "auth", "session", "csrf_processing_done", "csrf_cookie_needs_update"),
        *("upload_handlers", "mcp_call", "mcp_context"),
    )
)
# What Django answers with status 500 where a view raises it, though tools may raise it for callers.
_UNHANDLED: Final = (APIException, ObjectDoesNotExist, ValidationError)


class ViewFailed(Exception):
    """A view has failed as it does with status 500; the cause is what it raised."""


class _Messages(BaseStorage):
    """Messages for one request (django.contrib.messages), which are kept nowhere."""

    def _get(self, *args: Any, **kwargs: Any) -> tuple[list[Any], bool]:
        return [], True

    def _store(self, messages: Any, response: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return []


class InProcessRequest(HttpRequest):
    """
    A request of the caller of a tool to a view of this process.

    It has what middleware has put on the client's request, as its site and its tenant, and of that
    one's headers only where the client is. Whatever caches by Authorization or by cookie does so by
    user. Its session and its messages are kept nowhere. ``mcp_context`` is the tool's Context, and
    ``mcp_call`` the ToolCall of which it is the request, if any.
    """

    mcp_call: ToolCall | None = None

    # What HttpRequest sets when it reads a form.
    _files: Any
    _encoding: str | None

    def __init__(
        self,
        context: Context,
        method: str,
        path: str,
        *,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        content_type: str = "",
    ) -> None:
        # Not that of HttpRequest, which has GET and POST made before anybody asks.
        outer = context.request
        given = getattr(outer, "META", {})
        if outer is not None:
            kept = vars(outer).items()
            vars(self).update(
                (name, value) for name, value in kept if name[0] != "_" and name not in _OWN
            )
        meta = {"SERVER_NAME": "localhost", "SERVER_PORT": "80"}
        meta |= {name: given[name] for name in _META if name in given}
        meta |= {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}
        if content_type:
            meta |= {"CONTENT_TYPE": content_type, "CONTENT_LENGTH": str(len(body))}
        for name, value in (headers or {}).items():
            meta[f"HTTP_{name.upper().replace('-', '_')}"] = value
        self.COOKIES = {}
        if context.user is not None and context.user.is_authenticated:
            name = _cache_key(context.user)
            self.COOKIES["mcp"] = name
            meta |= {"HTTP_AUTHORIZATION": f"MCP {name}", "HTTP_COOKIE": f"mcp={name}"}
        self.META = meta
        self.method = method
        self.path_info = path
        self.path = meta.get("SCRIPT_NAME", "").rstrip("/") + path
        self.resolver_match = None
        self._scheme = getattr(outer, "scheme", "http")
        self._body = body
        self._stream = BytesIO(body)
        self._read_started = False
        self._set_content_type_params(meta)  # type: ignore[attr-defined]
        # The caller's credential was no cookie.
        self._dont_enforce_csrf_checks = True
        self.user = context.user
        self.auser = self._auser
        self.session = SessionStore()
        self._messages = _Messages(self)
        self.mcp_context = context

    async def _auser(self) -> Any:
        return self.user

    @property
    def scheme(self) -> str:
        return self._scheme

    @cached_property
    def GET(self) -> QueryDict:  # type: ignore[override]
        return QueryDict(self.META["QUERY_STRING"], encoding=self._encoding)

    @property
    def POST(self) -> Any:
        if not hasattr(self, "_post"):
            self._load_post_and_files()
        return self._post

    @POST.setter
    def POST(self, value: Any) -> None:
        self._post = value

    @property
    def FILES(self) -> Any:  # type: ignore[override]
        if not hasattr(self, "_files"):
            self._load_post_and_files()
        return self._files


def _cache_key(user: Any) -> str:
    """
    Return what a cache tells a user by who calls a view: it opens nothing else.

    Nobody else can make it: over HTTP, a cache would give its answer to whoever sends it.
    """
    text = f"{user._meta.label}:{user.pk}"
    return salted_hmac("mcp_bridge.in_process", text, algorithm="sha256").hexdigest()


def texts_of(request: InProcessRequest) -> list[str]:
    """Return the texts of the messages that a view has added for the next page."""
    return [str(each) for each in request._messages]


def resolve(request: InProcessRequest, callback: object, route: str, urlconf: Any) -> ResolverMatch:
    """
    Return the match of a request's path in a URLconf, which is the one that a tool is made of.

    Raises Http404 where a value in the path makes it the path of another view, or of none.
    """
    try:
        match = get_resolver(urlconf).resolve(request.path_info)
    except Http404:
        # The text of Django's own has all patterns of the site.
        raise Http404 from None
    if match.func is not callback or match.route != route:
        raise Http404
    request.resolver_match = match
    return match


def call(request: InProcessRequest, match: ResolverMatch) -> HttpResponseBase:
    """Return the response of a view. Raises ViewFailed where Django would answer status 500."""
    try:
        return _rendered(match.func(request, *match.args, **match.kwargs))
    except _UNHANDLED as raised:
        raise _failed(request) from raised


async def acall(request: InProcessRequest, match: ResolverMatch) -> HttpResponseBase:
    """Do the same with a coroutine function."""
    try:
        return _rendered(await match.func(request, *match.args, **match.kwargs))
    except _UNHANDLED as raised:
        raise _failed(request) from raised


def _failed(request: InProcessRequest) -> ViewFailed:
    match = request.resolver_match
    return ViewFailed(f"{request.method} {match.route if match else request.path} has failed.")


def _rendered(response: object) -> HttpResponseBase:
    """Return a response, rendered as Django's handler does it."""
    if not isinstance(response, HttpResponseBase):
        raise TypeError(f"The view returned {type(response).__name__}, which is no HttpResponse.")
    if isinstance(response, SimpleTemplateResponse):
        response.render()
    if response.status_code >= 500:
        raise ViewFailed(f"The view answered with status {response.status_code}.")
    return response


def read_body(response: Any) -> bytes:
    """Return the body of a response. Raises ToolError where it is more than can be sent."""
    try:
        if not response.streaming:
            return bytes(response.content)
        if isinstance(response.streaming_content, AsyncIterable):
            raise ToolError("This view streams its answer, which cannot be sent here.")
        return b"".join(map(_Counter(), response.streaming_content))
    finally:
        _close(response)


async def aread_body(response: Any) -> bytes:
    """Do the same with a response that may have an asynchronous iterator."""
    if not response.streaming or not isinstance(response.streaming_content, AsyncIterable):
        return read_body(response)
    count = _Counter()
    try:
        return b"".join([count(part) async for part in response.streaming_content])
    finally:
        _close(response)


class _Counter:
    """Passes on the parts of an answer, as long as all of them can be sent."""

    def __init__(self) -> None:
        self.left = conf.MAX_RESULT_BYTES

    def __call__(self, part: bytes) -> bytes:
        self.left -= len(part)
        if self.left < 0:
            limit = conf.MAX_RESULT_BYTES
            raise ToolError(f"The answer has more than the {limit} bytes that can be sent.")
        return part


def _close(response: Any) -> None:
    """Close what a response holds open."""
    # Its close() sends request_finished, upon which Django closes the caller's connections too.
    closers: list[Callable[[], object]] = getattr(response, "_resource_closers", [])
    while closers:
        closers.pop()()
