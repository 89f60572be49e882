"""REST: read a call from a body, and respond with results, pages and problems (RFC 9457)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final, cast

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response, patch_vary_headers
from django.utils.http import quote_etag

from mcp_bridge.conf import DOCUMENTATION, conf
from mcp_bridge.protocol import (
    ERRORS_KEY,
    LATEST,
    PENDING_KEY,
    RETRY_KEY,
    CallToolResult,
    ProtocolError,
    Reply,
    Request,
    Result,
    TextContent,
    errors,
    internal_error,
    jsonrpc,
)
from mcp_bridge.transports import http

# The status and the title of each problem, by its code. See docs/reference/rest.md.
PROBLEMS: Final = {
    "invalid_request": (400, "Invalid request"),
    "missing_parameter": (400, "Missing parameter"),
    "unauthenticated": (401, "Authentication required"),
    "forbidden": (403, "Forbidden"),
    "insufficient_scope": (403, "Insufficient scope"),
    "rejected": (403, "Rejected by the site"),
    "tool_not_found": (404, "Tool not found"),
    "method_not_allowed": (405, "Method not allowed"),
    "not_acceptable": (406, "Not acceptable"),
    "unconfirmed": (409, "Not confirmed by a person"),
    "payload_too_large": (413, "Request too large"),
    "unsupported_media_type": (415, "Unsupported media type"),
    "invalid_arguments": (422, "Invalid arguments"),
    "tool_error": (422, "Error of the tool"),
    "throttled": (429, "Too many requests"),
    "internal_error": (500, "Internal error"),
    "unavailable": (503, "Unavailable"),
    "timed_out": (504, "Time limit reached"),
}
# The codes of problems for error codes of records that differ.
_OF_ERRORS: Final = {"invalid": "invalid_request", "unknown_tool": "tool_not_found"}
_OF_RESULTS: Final = {
    "invalid": "invalid_arguments",
    "unrecorded": "unavailable",
    "unsendable": "internal_error",
}
# The members of an error of arguments, which RFC 9457 names differently in its example.
_SPELLED: Final = {"path": "pointer", "message": "detail"}
_VARY: Final = ("Authorization", "Cookie", "Accept-Language")


def problem(
    code: str, detail: str, headers: Mapping[str, str] | None = None, **more: object
) -> HttpResponse:
    """Return a problem, with further members."""
    status, title = PROBLEMS[code]
    about = {"type": f"{DOCUMENTATION}reference/rest/#{code}", "title": title, "status": status}
    return HttpResponse(
        jsonrpc.encode({**about, "detail": detail, "code": code, **more}),
        status=status,
        content_type="application/problem+json",
        headers={"Cache-Control": "no-store", **(headers or {})},
    )


def not_allowed(methods: Sequence[str]) -> HttpResponse:
    """Return the problem of a request with another method."""
    text = f"Send {' or '.join(methods)}."
    return problem("method_not_allowed", text, {"Allow": ", ".join(methods)})


def refuse(exception: Exception) -> HttpResponse:
    """Return the problem for an exception that is being handled."""
    is_known = isinstance(exception, ProtocolError)
    error = cast(ProtocolError, exception) if is_known else internal_error("The request")
    code = _OF_ERRORS.get(error.refusal, error.refusal)
    # JSON-RPC sends some errors with HTTP 200.
    if code not in PROBLEMS or error.http_status not in (HTTPStatus.OK, PROBLEMS[code][0]):
        of_status = (each for each in PROBLEMS if PROBLEMS[each][0] == error.http_status)
        code = next(of_status, "invalid_request")
    more = {} if error.data is None else {"data": error.data}
    return problem(code, error.message, error.headers, **more)


def respond(result: Result, error_code: str) -> HttpResponse:
    """Return the response for the result of a call, whose record has ``error_code``, if any."""
    if not getattr(result, "is_error", False):
        return http.respond(Reply(HTTPStatus.OK, cast(CallToolResult, result).to_json(LATEST)))
    failed = cast(CallToolResult, result)
    code, meta = _OF_RESULTS.get(error_code, error_code), failed.meta
    texts = [each.text for each in failed.content if isinstance(each, TextContent)]
    more: dict[str, object] = {"pending": meta[PENDING_KEY]} if PENDING_KEY in meta else {}
    if ERRORS_KEY in meta:
        more["errors"] = [
            {_SPELLED.get(name, name): value for name, value in each.items()}
            for each in meta[ERRORS_KEY]
        ]
    headers = {"Retry-After": str(meta[RETRY_KEY])} if RETRY_KEY in meta else {}
    code = code if code in PROBLEMS else "tool_error"
    return problem(code, "\n".join(texts), headers, **more)


def cacheable(request: HttpRequest, parts: Sequence[bytes]) -> HttpResponseBase:
    """Return the response of a GET with an ETag, or 304 if the client has the same body."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    etag = quote_etag(digest.hexdigest())
    response = HttpResponse(
        parts,
        content_type="application/json",
        headers={"Cache-Control": "private", "ETag": etag},
    )
    patch_vary_headers(response, (*_VARY, "X-MCP-Toolset") if conf.toolsets else _VARY)
    return cast(HttpResponseBase, get_conditional_response(request, etag, response=response))


def read_call(body: bytes, name: str) -> Request | None:
    """
    Return the call of a tool with the arguments in ``body``.

    Returns None for a JSON-RPC request that calls the tool. Raises ProtocolError.
    """
    sent = jsonrpc.decode(body)
    if not isinstance(sent, dict):
        raise errors.InvalidRequestError("Invalid request: send the arguments as one JSON object.")
    if not {"jsonrpc", "method"} <= sent.keys():
        params = {"name": name, "arguments": sent}
        return Request(id=0, method="tools/call", params=params, revision=LATEST)
    asked = sent.get("params")
    if sent["method"] != "tools/call" or not isinstance(asked, dict) or asked.get("name") != name:
        raise errors.InvalidRequestError(
            "Invalid request: a JSON-RPC request must have the method tools/call and, as its name, "
            "the tool in the address."
        )
    return None
