"""What comes before a message over HTTP is read, and the answer as Django's response."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.utils.translation import get_language

from mcp_bridge.conf import conf
from mcp_bridge.features import Client, Context
from mcp_bridge.protocol import (
    LATEST,
    ForbiddenError,
    Headers,
    InvalidRequestError,
    NotAcceptableError,
    PayloadTooLargeError,
    Reply,
    Request,
    UnsupportedMediaTypeError,
)
from mcp_bridge.protocol.text import quoted


def context_of(request: HttpRequest, message: Request | None = None) -> Context:
    """Return who calls and how, for one message of a request, or for the request itself."""
    meta, revision, client = request.META, LATEST, Client()
    if message is not None:
        revision = message.revision
        client = Client(info=message.client_info, capabilities=message.client_capabilities)
    return Context(
        user=request.user,
        auth=getattr(request, "auth", None),
        request=request,
        revision=revision,
        client=client,
        remote_address=meta.get("REMOTE_ADDR", ""),
        user_agent=meta.get("HTTP_USER_AGENT", ""),
        language=get_language() or "",
    )


def headers_of(environ: Mapping[str, Any]) -> Headers:
    """Return the MCP headers of a WSGI environ (PEP 3333), as Django makes one under ASGI too."""
    version = environ.get("HTTP_MCP_PROTOCOL_VERSION")
    method, name = environ.get("HTTP_MCP_METHOD"), environ.get("HTTP_MCP_NAME")
    return Headers(
        version=None if version is None else version.strip(" \t"),
        method=None if method is None else method.strip(" \t"),
        name=None if name is None else name.strip(" \t"),
        environ=environ,
    )


def check_origin(request: HttpRequest) -> None:
    """Raise ProtocolError for a host that is not the site's, or an origin that may not call."""
    # Against DNS rebinding (MCP, "Streamable HTTP", "Security warning"). Only browsers send Origin.
    try:
        host = request.get_host()
    except DisallowedHost:
        text = "Invalid request: this host is not served here: ALLOWED_HOSTS does not name it."
        raise InvalidRequestError(text) from None
    origin = request.META.get("HTTP_ORIGIN")
    if origin is None or origin == f"{request.scheme}://{host}" or origin in conf.ALLOWED_ORIGINS:
        return
    raise ForbiddenError(
        f"Forbidden: the origin {quoted(origin)} may not call. It is not that of the address which "
        "was called, and MCP_BRIDGE['ALLOWED_ORIGINS'] does not name it."
    )


def check_media(request: HttpRequest) -> None:
    """Raise ProtocolError for a body that is not JSON, or a client that takes no JSON."""
    charset = (request.content_params or {}).get("charset", "utf-8")
    if request.content_type != "application/json" or charset.lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaTypeError(
            "Unsupported media type: send Content-Type: application/json, in UTF-8."
        )
    if request.META.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise UnsupportedMediaTypeError(
            "Unsupported content encoding: send the body as it is, without Content-Encoding."
        )
    accept = request.META.get("HTTP_ACCEPT")
    if accept and "application/json" not in accept:
        # Django cannot read every header that a client can send.
        with suppress(ValueError, LookupError):
            if request.accepts("application/json"):
                return
        raise NotAcceptableError(
            "Not acceptable: the answer is JSON; send Accept: application/json, text/event-stream."
        )


def read_body(request: HttpRequest) -> bytes:
    """Return the body, read no further than MAX_BODY_BYTES. Raises InvalidRequestError."""
    limit = conf.MAX_BODY_BYTES
    try:
        declared = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        raise InvalidRequestError("Invalid request: Content-Length is not a number.") from None
    try:
        # Not a byte of a body that says to be too large.
        body = b"" if declared > limit else request.read(limit + 1)
    except (UnreadablePostError, RequestDataTooBig, OSError):
        raise InvalidRequestError("Invalid request: the body could not be read.") from None
    if max(declared, len(body)) > limit:
        raise PayloadTooLargeError(f"Request too large: a body has at most {limit} bytes.")
    if len(body) < declared:
        raise InvalidRequestError("Invalid request: the body is shorter than Content-Length says.")
    # A procedure may look at request.body, which Django refuses once the stream was read.
    request._body = body
    return body


def respond(reply: Reply) -> HttpResponse:
    """Return a reply as Django's response, which nobody may keep."""
    response = HttpResponse(
        reply.body or b"",
        status=reply.status,
        content_type="application/json",
        headers={"Cache-Control": "no-store", **reply.headers},
    )
    if reply.body is None:
        del response["Content-Type"]
    return response
