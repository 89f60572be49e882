"""Call views for tools through their callbacks in the URLconf, without middleware."""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from io import BytesIO
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.contrib.messages.storage.session import SessionStorage
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.core.handlers.wsgi import WSGIRequest
from django.http import Http404
from django.template.response import SimpleTemplateResponse
from django.urls import ResolverMatch, get_resolver, get_script_prefix
from django.utils.crypto import salted_hmac
from rest_framework.exceptions import APIException

from mcp_bridge.concurrency.places import drive
from mcp_bridge.conf import conf
from mcp_bridge.exceptions import ToolError
from mcp_bridge.features import Context, Tool, ToolCall, ToolOptions
from mcp_bridge.protocol import CallToolResult
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.sources.in_process.routes import Route
from mcp_bridge.sources.marked import operation_tool
from mcp_bridge.sources.operations.answers import Answer, read_answer
from mcp_bridge.sources.operations.mapping import MappedOperation, OperationRequest

# Keys that describe the client's location. Never its Authorization or cookies, which authenticate
# at the endpoint, nor headers in which a proxy identifies it.
_META: Final = (
    *("REMOTE_ADDR", "REMOTE_HOST", "SERVER_NAME", "SERVER_PORT"),
    *("SERVER_PROTOCOL", "SERVER_SOFTWARE", "HTTP_HOST", "HTTP_X_REAL_IP", "HTTP_USER_AGENT"),
    *("HTTP_ACCEPT_LANGUAGE", "HTTP_TRACEPARENT", "HTTP_TRACESTATE", "HTTP_X_REQUEST_ID"),
    *("HTTP_X_CORRELATION_ID", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_HOST"),
    *("HTTP_X_FORWARDED_PORT", "HTTP_X_FORWARDED_PREFIX", "HTTP_X_FORWARDED_PROTO"),
    *("HTTP_X_FORWARDED_SCHEME", "HTTP_X_FORWARDED_SSL"),
)
# Attributes that belong to one request; others, set by middleware, are copied from the client's.
_OWN: Final = frozenset(
    {"GET", "POST", "FILES", "COOKIES", "META", "headers", "environ", "scope"}
    | {"body", "method", "path", "path_info", "script_name", "content_type", "content_params"}
    | {"accepted_types", "accepted_types_by_precedence", "encoding", "resolver_match"}
    | {"user", "auser", "auth", "session", "csrf_processing_done", "csrf_cookie_needs_update"}
    | {"upload_handlers", "mcp_call", "mcp_context"}
)
# Exceptions of views that Django answers with status 500, though tools may raise them for callers.
_UNHANDLED: Final = (APIException, ObjectDoesNotExist, ValidationError)
_EMPTY: Final = OperationRequest()


class ViewFailed(Exception):
    """Raised if a view fails with status 500; the cause is the view's exception."""


class InProcessRequest(WSGIRequest):
    """
    A request from the caller of a tool to a view of this process.

    It has the attributes that middleware set on the client's request, such as site and tenant, and
    only those of its headers that describe the client's location. Caches that vary by Authorization
    or cookie vary by user. The session and messages are not stored. ``mcp_context`` is the tool's
    Context, and ``mcp_call`` the ToolCall that it belongs to, if any.
    """

    mcp_call: ToolCall | None = None

    def __init__(
        self, context: Context, method: str, path: str, sent: OperationRequest = _EMPTY
    ) -> None:
        outer = context.request
        given = getattr(outer, "META", {})
        if outer is not None:
            kept = {name: each for name, each in vars(outer).items() if name[0] != "_"}
            vars(self).update((name, kept[name]) for name in kept.keys() - _OWN)
        origin = urlsplit(context.base_url)
        environ = {"SERVER_NAME": "localhost", "SERVER_PORT": "80"}
        if outer is None:
            environ |= {"HTTP_HOST": origin.netloc} if origin.netloc else {}
            environ |= {"REMOTE_ADDR": context.remote_address}
            environ |= {"HTTP_USER_AGENT": context.user_agent} if context.user_agent else {}
        environ |= {name: given[name] for name in _META if name in given}
        environ |= {"REQUEST_METHOD": method, "QUERY_STRING": sent.query}
        # UTF-8 bytes decoded as Latin-1, as WSGI requires (PEP 3333, "Unicode Issues").
        for name, text in (("SCRIPT_NAME", get_script_prefix().rstrip("/")), ("PATH_INFO", path)):
            environ[name] = text.encode().decode("latin-1")
        if sent.content_type:
            environ |= {"CONTENT_TYPE": sent.content_type, "CONTENT_LENGTH": str(len(sent.body))}
        for name, value in sent.headers.items():
            environ[f"HTTP_{name.upper().replace('-', '_')}"] = value
        user: Any = context.user
        if user is not None and user.is_authenticated:
            key = _cache_key(f"{user._meta.label}:{user.pk}", settings.SECRET_KEY)
            environ |= {"HTTP_AUTHORIZATION": f"MCP {key}", "HTTP_COOKIE": f"mcp={key}"}
        scheme = getattr(outer, "scheme", origin.scheme or "http")
        super().__init__({**environ, "wsgi.input": BytesIO(sent.body), "wsgi.url_scheme": scheme})
        # Bypasses Django's size limit, since the body is in memory already.
        self._body = sent.body
        # The caller's credential is not a cookie, so CSRF is not possible.
        self._dont_enforce_csrf_checks = True
        self.user = user
        self.session = SessionStore()
        self._messages = SessionStorage(self)
        self.mcp_context = context

    async def auser(self) -> Any:
        return self.user


@lru_cache(maxsize=1024)
def _cache_key(user: str, secret: str | bytes) -> str:
    """Return a user's key for HTTP caches: not a credential, but one that no client can guess."""
    return salted_hmac("mcp_bridge.in_process", user, secret, algorithm="sha256").hexdigest()


def resolved(request: InProcessRequest, urlconf: Any = None) -> ResolverMatch:
    """Return the match of a request's path, which the request keeps. Raises Http404."""
    try:
        match = get_resolver(urlconf).resolve(request.path_info)
    except Http404:
        # The text of Django's exception lists all patterns of the site.
        raise Http404 from None
    request.resolver_match = match
    return match


@contextmanager
def unhandled(request: InProcessRequest) -> Iterator[None]:
    """Raise ViewFailed for an exception of a view that Django would answer with status 500."""
    try:
        yield
    except _UNHANDLED as raised:
        match = request.resolver_match
        raise ViewFailed(f"{request.method} {match and match.route} has failed.") from raised


@dataclass(frozen=True, kw_only=True)
class ViewCaller:
    """
    A caller of the view at a route through its callback in the URLconf, with all decorators.

    ``view``, if given, is called instead of the callback; ``prepare`` receives the request first.
    ``fixed``, ``query`` and ``accept`` are values for path parameters, query string and Accept
    header that are not arguments. A redirect may lead to one of ``callbacks``.
    """

    route: Route
    method: str
    mapped: MappedOperation
    urlconf: Any = None
    prepare: Callable[[InProcessRequest], object]
    view: Callable[..., Any] | None = None
    fixed: Mapping[str, str] = field(default_factory=dict)
    query: str = ""
    accept: str = "application/json, */*;q=0.1"
    callbacks: Collection[object] = ()

    @property
    def is_async(self) -> bool:
        """Whether the view is a coroutine function."""
        return iscoroutinefunction(self.view or self.route.callback)

    @property
    def invoke(self) -> Callable[[ToolCall], Any]:
        """The function that calls the view: a coroutine function if the view is one."""
        return self._call if self.is_async else lambda call: drive(self._call(call))

    def tool(self, name: str, options: ToolOptions, **others: Any) -> Tool:
        """Return the tool that calls the view, as operation_tool() does."""
        # A view may request input through request.mcp_context.
        others |= {"target": f"{self.method} {self.route.target}", "may_elicit": True}
        return operation_tool(name, self.mapped, options, invoke=self.invoke, **others)

    async def _call(self, call: ToolCall) -> CallToolResult:
        request, match = self._request(call)
        try:
            with unhandled(request):
                response = match.func(request, *match.args, **match.kwargs)
                response = await response if self.is_async else response
            if isinstance(response, SimpleTemplateResponse):
                response.render()
            if response.status_code >= 500:
                raise ViewFailed(f"The view answered with status {response.status_code}.")
            body = await body_of(response, is_async=self.is_async)
        finally:
            # Uploaded files may be open.
            request.close()
        if 300 <= response.status_code < 400 and "Location" in response.headers:
            return self._redirected(request, response.headers["Location"])
        return read_answer(answer_of(response, body), self.mapped)

    def _request(self, call: ToolCall) -> tuple[InProcessRequest, ResolverMatch]:
        """Return the request and its match. Raises Http404 if a value leads to another view."""
        wanted = self.mapped.request(call.arguments)
        values = {name: unquote(text) for name, text in wanted.path.items()}
        query = "&".join(filter(None, (wanted.query, self.query)))
        sent = replace(wanted, query=query, headers={**wanted.headers, "Accept": self.accept})
        path = self.route.path({**values, **self.fixed})
        request = InProcessRequest(call.context, self.method, path, sent)
        request.mcp_call = call
        match = resolved(request, self.urlconf)
        if match.func is not self.route.callback or match.route != self.route.route:
            raise Http404
        match.func = self.view or match.func
        self.prepare(request)
        return request, match

    def _redirected(self, request: InProcessRequest, location: str) -> CallToolResult:
        """Return the target of a redirect to another tool. Raises ToolError for other pages."""
        parts = urlsplit(request.build_absolute_uri(location))
        path = parts.path.removeprefix(request.META["SCRIPT_NAME"].rstrip("/"))
        with suppress(Http404):
            is_here = parts.netloc == request.get_host()
            if is_here and get_resolver(self.urlconf).resolve(path).func in self.callbacks:
                written = encode({"location": location})
                return CallToolResult.of_json(written.decode(), written, written)
        told = " ".join(map(str, request._messages))
        raise ToolError(told or f"The view redirects to another page, {parts.path}, without data.")


def answer_of(response: Any, body: bytes) -> Answer:
    """Return a response of Django with its body."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(status=response.status_code, headers=headers, body=body)


async def body_of(response: Any, *, is_async: bool = False) -> bytes:
    """Return the body of a response, of an async view or another. Raises ToolError if too long."""
    most, body = conf.MAX_RESULT_BYTES, bytearray()
    try:
        if not response.streaming:
            return bytes(response.content)
        content = response.streaming_content
        if isinstance(content, AsyncIterable) and not is_async:
            raise ToolError("This view streams its response, which is not supported here.")
        async for part in content if isinstance(content, AsyncIterable) else _each(content):
            body += part
            if len(body) > most:
                raise ToolError(f"The answer has more than the {most} bytes that can be sent.")
        return bytes(body)
    finally:
        # close() would send request_finished, and Django would close the caller's connections.
        closers: list[Callable[[], object]] = getattr(response, "_resource_closers", [])
        while closers:
            closers.pop()()


async def _each(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
