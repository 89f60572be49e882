"""
Read JSON-RPC requests and their revisions from decoded messages and headers.

The body determines the era (MCP 2026-07-28, "Versioning", "Backward compatibility"). The order of
checks is the specification's: the envelope in ``params._meta``, the headers, the version.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_bridge.protocol.errors import (
    InvalidParamsError,
    InvalidRequestError,
    MissingEnvelopeError,
    ProtocolError,
    UnsupportedProtocolVersionError,
)
from mcp_bridge.protocol.headers import Headers
from mcp_bridge.protocol.jsonrpc import MAX_ID, MAX_ID_LENGTH, JSONObject, RequestId
from mcp_bridge.protocol.revisions import REVISIONS, UNDECLARED, Revision

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"

MAX_BATCH: Final = 10
# The parameter that the header Mcp-Name mirrors, by method.
NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
# The members of a modern request's _meta: their types, the default of an optional one, and the
# name of the type.
_ENVELOPE: Final[tuple[tuple[str, tuple[type, ...], object, str], ...]] = (
    (PROTOCOL_VERSION, (str,), None, "a string"),
    (CLIENT_CAPABILITIES, (dict,), None, "an object"),
    (CLIENT_INFO, (dict,), {}, "an object"),
    ("progressToken", (str, int), 0, "a string or an integer"),
)
_ABSENT: Final = ("_meta", "cursor")


@dataclass(slots=True, kw_only=True)
class Request:
    """
    A JSON-RPC request and its revision; ``meta`` is ``params._meta``. A notification's ``id`` is
    None.

    ``headers`` are those that mirror the body, or None if the transport or revision does not have
    them. ``client_info`` (MCP schema, ``Implementation``) and ``client_capabilities`` are declared
    by modern clients. ``number`` is the index in the batch, or None.
    """

    id: RequestId | None
    method: str
    params: JSONObject
    revision: Revision
    meta: JSONObject = field(default_factory=dict)
    headers: Headers | None = None
    client_info: JSONObject = field(default_factory=dict)
    client_capabilities: JSONObject = field(default_factory=dict)
    number: int | None = None

    def declares(self, extension: str) -> bool:
        """Return whether its client has declared an extension, which modern clients may."""
        known = self.client_capabilities.get("extensions")
        return self.revision.modern and isinstance(known, dict) and extension in known

    @property
    def progress_token(self) -> RequestId | None:
        """The token under which the client wants to receive progress (MCP, "Progress")."""
        with suppress(InvalidRequestError):
            return read_id({"id": self.meta.get("progressToken")})
        return None


def read_message(
    message: object, headers: Headers | None, assumed: Revision = UNDECLARED
) -> Request | None:
    """
    Return one message as a request or notification, or None for a response.

    ``headers`` is None on a transport without headers; ``assumed`` is the revision of a legacy
    message without a header. Raises ProtocolError, with the id in its ``request_id`` if it could
    be read.
    """
    request_id = read_id(message)
    try:
        return _read(message, request_id, headers, assumed)
    except ProtocolError as error:
        error.request_id = request_id
        raise


def read_batch(
    messages: list[object], headers: Headers | None, assumed: Revision = UNDECLARED
) -> list[object]:
    """Return the messages of a batch (2025-03-26 only). Raises InvalidRequestError."""
    version = headers.version if headers else None
    revision = assumed if version is None else REVISIONS.get(version)
    if revision is None or not revision.batches or any(map(_has_envelope, messages)):
        raise InvalidRequestError(
            "Invalid request: a batch (a JSON array) is not part of this revision; send one "
            "message per POST."
        )
    if not 0 < len(messages) <= MAX_BATCH:
        raise InvalidRequestError(
            f"Invalid request: a batch must have 1 to {MAX_BATCH} messages, not {len(messages)}."
        )
    if any(isinstance(each, dict) and each.get("method") == "initialize" for each in messages):
        raise InvalidRequestError("Invalid request: initialize must not be part of a batch.")
    return messages


def _has_envelope(message: object) -> bool:
    """Return whether the body declares a modern revision."""
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and PROTOCOL_VERSION in meta


def read_id(message: object) -> RequestId | None:
    """Return the id of a message, or None if it has none. Raises InvalidRequestError."""
    if not isinstance(message, dict):
        kinds = {type(None): "null", str: "a string", bool: "a boolean", list: "an array"}
        kind = kinds.get(type(message), "a number")
        raise InvalidRequestError(
            f"Invalid request: send one JSON-RPC object per POST, not {kind}."
        )
    if "id" not in message:
        return None
    request_id: RequestId = message["id"]
    if isinstance(request_id, str) and len(request_id) <= MAX_ID_LENGTH:
        return request_id
    if type(request_id) is int and -MAX_ID <= request_id < MAX_ID:
        return request_id
    raise InvalidRequestError(
        f"Invalid request: the id must be a string of at most {MAX_ID_LENGTH} characters or a "
        "64-bit integer, not null."
    )


def _read(
    message: Any, request_id: RequestId | None, headers: Headers | None, assumed: Revision
) -> Request | None:
    version = headers.version if headers else None
    revision = assumed if version is None else REVISIONS.get(version)
    if message.get("jsonrpc") != "2.0":
        raise InvalidRequestError('Invalid request: the member "jsonrpc" must be "2.0".')
    if "method" not in message and ("result" in message or "error" in message):
        if revision is None or revision.modern:
            raise InvalidRequestError("Invalid request: clients send requests, not responses.")
        return None
    method = message.get("method")
    if not isinstance(method, str):
        raise InvalidRequestError('Invalid request: the member "method" must be a string.')
    if request_id is None:
        if revision is None:
            raise UnsupportedProtocolVersionError(str(version))
        params = message.get("params")
        given = params if isinstance(params, dict) else {}
        return Request(id=None, method=method, params=given, revision=revision)
    # An initialize request is legacy, regardless of its headers.
    if method == "initialize":
        revision = UNDECLARED
    is_modern = revision is not None and revision.modern
    params = message.get("params", {})
    if params is None and not is_modern:
        params = {}
    if not isinstance(params, dict):
        # Only an object can contain the envelope that a modern request requires.
        kind = MissingEnvelopeError if is_modern else InvalidParamsError
        raise kind('Invalid params: the member "params" must be an object.')
    if is_modern or _has_envelope(message):
        return _read_modern(request_id, method, params, headers)
    if revision is None:
        raise UnsupportedProtocolVersionError(str(version))
    # Clients of these revisions send null for absent members.
    params = {key: each for key, each in params.items() if each is not None or key not in _ABSENT}
    meta = params.get("_meta", {})
    if not isinstance(meta, dict):
        raise InvalidParamsError("Invalid params: params._meta must be an object or be omitted.")
    return Request(id=request_id, method=method, params=params, revision=revision, meta=meta)


def _read_modern(
    request_id: RequestId, method: str, params: JSONObject, headers: Headers | None
) -> Request:
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        raise MissingEnvelopeError(
            f"Invalid params: params._meta must be an object with {PROTOCOL_VERSION!r} and "
            f"{CLIENT_CAPABILITIES!r}."
        )
    for key, types, absent, wanted in _ENVELOPE:
        # Compare types, since a bool is an int.
        if type(meta.get(key, absent)) not in types:
            raise MissingEnvelopeError(f"Invalid params: params._meta[{key!r}] must be {wanted}.")
    version = meta[PROTOCOL_VERSION]
    if headers is not None:
        named = params.get(NAMED_BY.get(method, ""))
        name = named if isinstance(named, str) else None
        # Most match exactly and need no decoding.
        sent = headers.version, headers.method, None if name is None else headers.name
        if sent != (version, method, name):
            headers.check(version, method, name)
    revision = REVISIONS.get(version)
    if revision is None or not revision.modern:
        raise UnsupportedProtocolVersionError(version)
    return Request(
        id=request_id,
        method=method,
        params=params,
        revision=revision,
        meta=meta,
        headers=headers,
        client_info=meta.get(CLIENT_INFO, {}),
        client_capabilities=meta[CLIENT_CAPABILITIES],
    )
