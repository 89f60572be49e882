"""Checks of an HTTP request before its message is parsed, and the reply as Django's response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from http.cookies import SimpleCookie
from io import BytesIO
from typing import Any, Final

from django.core.exceptions import DisallowedHost, ImproperlyConfigured
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import ResponseHeaders
from django.utils.translation import get_language

from mcp_bridge.conf import conf
from mcp_bridge.features import Client, Context
from mcp_bridge.protocol import LATEST, Headers, Reply, Request, errors
from mcp_bridge.protocol.text import quoted
from mcp_bridge.transports.streams import LoopStream, ThreadStream

UNREADABLE: Final = "Invalid request: the body could not be read."
_FORMS: Final = ("application/x-www-form-urlencoded", "multipart/form-data")


def context_of(request: HttpRequest, message: Request | None = None) -> Context:
    """Return the context of one message of a request, or of the request itself."""
    meta = request.META
    if message is None:
        revision, client = LATEST, Client()
    else:
        revision = message.revision
        client = Client(info=message.client_info, capabilities=message.client_capabilities)
    context = Context.__new__(Context)
    # Bypasses __init__ and computes the language lazily, which few tools need: 7 % of a call.
    vars(context).update(
        user=request.user,
        request=request,
        revision=revision,
        auth=getattr(request, "auth", None),
        client=client,
        remote_address=meta.get("REMOTE_ADDR", ""),
        user_agent=meta.get("HTTP_USER_AGENT", ""),
        scratch={},
        input_responses={},
        tool_state=None,
        base_url="",
        stream=None,
        _running=None,
        _read_language=lambda: get_language() or "",
    )
    return context


def headers_of(environ: Mapping[str, Any]) -> Headers:
    """Return the MCP headers of a WSGI environ (PEP 3333), which Django makes under ASGI too."""
    names = ("HTTP_MCP_PROTOCOL_VERSION", "HTTP_MCP_METHOD", "HTTP_MCP_NAME")
    sent = (environ[name].strip(" \t") if name in environ else None for name in names)
    version, method, name = sent
    return Headers(version, method, name, environ)


def check_origin(request: HttpRequest) -> None:
    """Raise ProtocolError for an unknown host or a forbidden origin."""
    # Against DNS rebinding (MCP, "Streamable HTTP", "Security warning"). Only browsers send Origin.
    host = host_of(request)
    origin = request.META.get("HTTP_ORIGIN")
    if origin is None or origin == f"{request.scheme}://{host}" or origin in conf.ALLOWED_ORIGINS:
        return
    raise errors.ForbiddenError(
        f"Forbidden: the origin {quoted(origin)} is not allowed. It differs from the address that "
        "was called and is not in MCP_BRIDGE['ALLOWED_ORIGINS']."
    )


def host_of(request: HttpRequest) -> str:
    """Return the host of the request. Raises ProtocolError if the site does not serve it."""
    try:
        return request.get_host()
    except DisallowedHost:
        text = "Invalid request: unknown host: add it to ALLOWED_HOSTS."
        raise errors.InvalidRequestError(text) from None


def check_form(request: HttpRequest) -> None:
    """Raise ProtocolError for a form: a class might read a credential from it (RFC 6750, 2.2)."""
    if request.content_type in _FORMS:
        raise errors.UnsupportedMediaTypeError(
            "Unsupported media type: send Content-Type: application/json, and a credential only in "
            "the Authorization header."
        )


def check_media(request: HttpRequest) -> None:
    """Raise ProtocolError for a body that is not JSON, or a client that does not accept JSON."""
    charset = (request.content_params or {}).get("charset", "utf-8")
    if request.content_type != "application/json" or charset.lower() not in ("utf-8", "utf8"):
        raise errors.UnsupportedMediaTypeError(
            "Unsupported media type: send Content-Type: application/json, in UTF-8."
        )
    if request.META.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise errors.UnsupportedMediaTypeError(
            "Unsupported content encoding: send the body without Content-Encoding."
        )
    accept = request.META.get("HTTP_ACCEPT")
    if accept and "application/json" not in accept:
        # Django's parser fails on some headers.
        with suppress(ValueError, LookupError):
            if request.accepts("application/json"):
                return
        raise errors.NotAcceptableError(
            "Not acceptable: responses are JSON; send Accept: application/json, text/event-stream."
        )


def read_body(request: HttpRequest) -> bytes:
    """
    Return the body; reads at most MAX_BODY_BYTES.

    Raises InvalidRequestError, or ImproperlyConfigured if the site has read the stream already.
    """
    limit = conf.MAX_BODY_BYTES
    try:
        declared = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        raise errors.InvalidRequestError(
            "Invalid request: Content-Length is not a number."
        ) from None
    read = _reader(request)
    try:
        # Oversized bodies are not read at all.
        body = b"" if declared > limit else read(limit + 1)
    except Exception:
        # Each server raises its own exceptions for unreadable bodies.
        raise errors.InvalidRequestError(UNREADABLE) from None
    if max(declared, len(body)) > limit:
        raise errors.PayloadTooLargeError(f"Request too large: the limit is {limit} bytes.")
    if len(body) < declared:
        raise errors.InvalidRequestError(
            "Invalid request: the body is shorter than its Content-Length."
        )
    # A procedure may use request.body, which Django refuses once the stream has been read.
    request._body = body
    return body


def _reader(request: HttpRequest) -> Callable[[int], bytes]:
    """Return a function that reads the body; raises the errors of ``read_body``."""
    meta = request.META
    is_in_chunks = "HTTP_TRANSFER_ENCODING" in meta and not meta.get("CONTENT_LENGTH")
    if not is_in_chunks or "wsgi.input" not in meta:
        if hasattr(request, "_body"):
            # Django keeps it when a middleware or class reads request.body.
            return BytesIO(request._body).read
        if getattr(request, "_read_started", False):
            raise ImproperlyConfigured(
                "A middleware has read the request's stream before the MCP endpoint. Change it to "
                "read request.body, which Django keeps, or to skip the endpoint's path."
            )
        return request.read
    # Django reads Content-Length bytes, which are none here.
    if not meta.get("wsgi.input_terminated"):
        raise errors.InvalidRequestError(
            "Invalid request: this server does not support chunked bodies; send Content-Length."
        )
    read: Callable[[int], bytes] = meta["wsgi.input"].read
    return read


def stream_for(
    request: HttpRequest, is_async: bool, frame: Callable[[bytes], bytes] | None = None
) -> ThreadStream | LoopStream | None:
    """Return a stream for the notifications before a response, if client and server have one."""
    kind = LoopStream if is_async else ThreadStream
    # A view that does not fit the server runs in an event loop or thread of a middleware.
    fits = isinstance(request, kind.request_class)
    return (
        kind(frame) if fits and "text/event-stream" in request.META.get("HTTP_ACCEPT", "") else None
    )


def streamed(reply: Reply) -> StreamingHttpResponse:
    """Return a reply with events as Django's response."""
    headers = {"Cache-Control": "no-store", **reply.headers}
    return StreamingHttpResponse(reply.events, content_type="text/event-stream", headers=headers)


def respond(reply: Reply) -> HttpResponse:
    """Return a reply as Django's response, which must not be cached."""
    if _CAN_COPY and reply.body is not None and reply.status == 200 and not reply.headers:
        return _copy_of_success(reply.body)
    response = HttpResponse(
        reply.body or b"",
        status=reply.status,
        content_type="application/json",
        headers={"Cache-Control": "no-store", **reply.headers},
    )
    if reply.body is None:
        del response["Content-Type"]
    return response


def _copy_of_success(body: bytes) -> HttpResponse:
    # Constructing one normally would be 4 % of a call.
    response = HttpResponse.__new__(HttpResponse)
    headers = ResponseHeaders.__new__(ResponseHeaders)
    headers._store = _SUCCESS.headers._store.copy()
    own = vars(response)
    own.update(_ATTRIBUTES)
    own.update(headers=headers, cookies=SimpleCookie(), _resource_closers=[], _container=[body])
    return response


_SUCCESS: Final = HttpResponse(
    content_type="application/json", headers={"Cache-Control": "no-store"}
)
_ATTRIBUTES: Final = vars(_SUCCESS)
# Only if Django's responses have exactly the known attributes; otherwise Django makes each.
_CAN_COPY: Final = _ATTRIBUTES.keys() == {
    *("headers", "cookies", "closed", "_charset"),
    *("_container", "_handler_class", "_reason_phrase", "_resource_closers"),
}
