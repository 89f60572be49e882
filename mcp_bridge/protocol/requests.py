"""
From bytes and headers to requests, each with its revision: which era a message is of.

The body decides and the headers are a cross-check (MCP 2026-07-28, "Versioning", "Backward
compatibility"). The order of checks follows the specification's server validation: the
envelope in ``params._meta``, then the headers, then the version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_bridge.protocol import jsonrpc
from mcp_bridge.protocol.errors import (
    InvalidParamsError,
    InvalidRequestError,
    MissingEnvelopeError,
    ProtocolError,
    UnsupportedProtocolVersionError,
)
from mcp_bridge.protocol.headers import Headers
from mcp_bridge.protocol.revisions import (
    LATEST,
    REVISIONS,
    SUPPORTED_VERSIONS,
    UNDECLARED,
    Revision,
)

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"

MAX_BATCH: Final = 50
# The parameter that the header Mcp-Name mirrors, for the methods that have one.
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """
    A JSON-RPC request and the revision it speaks; ``meta`` is ``params._meta``.

    ``headers`` are those that mirror the body, or None where the transport or the revision has
    none.
    """

    id: jsonrpc.RequestId
    method: str
    params: Mapping[str, Any]
    revision: Revision
    meta: Mapping[str, Any] = field(default_factory=dict)
    headers: Headers | None = None

    @property
    def client_info(self) -> Mapping[str, Any]:
        info = self.meta.get(CLIENT_INFO) if self.revision.modern else None
        return info if isinstance(info, dict) else {}

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        capabilities = self.meta.get(CLIENT_CAPABILITIES) if self.revision.modern else None
        return capabilities if isinstance(capabilities, dict) else {}


def read_message(message: Any, headers: Headers | None) -> Request | None:
    """
    One message as a request, or None where nothing is to be answered.

    ``headers`` is None on a transport without headers. Raises ProtocolError; the id is then in
    its ``request_id`` where it could be read.
    """
    request_id = jsonrpc.read_id(message)
    try:
        return _read(message, request_id, headers)
    except ProtocolError as error:
        error.request_id = request_id
        raise


def read_batch(messages: list[Any], headers: Headers | None) -> list[Any]:
    """
    The messages of a JSON-RPC batch, which only 2025-03-26 has.

    Raises InvalidRequestError where a batch is not allowed or too long.
    """
    version = headers.version if headers else None
    revision = UNDECLARED if version is None else REVISIONS.get(version)
    allowed = revision is not None and revision.batches and not any(map(_envelope, messages))
    if not allowed:
        raise InvalidRequestError(
            "Invalid request: a batch (a JSON array) is not part of this revision; send one "
            "message per POST."
        )
    if not 0 < len(messages) <= MAX_BATCH:
        raise InvalidRequestError(
            f"Invalid request: a batch has 1 to {MAX_BATCH} messages, not {len(messages)}."
        )
    if any(isinstance(each, dict) and each.get("method") == "initialize" for each in messages):
        raise InvalidRequestError("Invalid request: initialize must not be part of a batch.")
    return messages


def _read(
    message: dict[str, Any], request_id: jsonrpc.RequestId | None, headers: Headers | None
) -> Request | None:
    version = headers.version if headers else None
    if message.get("jsonrpc") != "2.0":
        raise InvalidRequestError('Invalid request: the member "jsonrpc" must be "2.0".')
    if "method" not in message and ("result" in message or "error" in message):
        if version is not None and (version not in REVISIONS or REVISIONS[version].modern):
            raise InvalidRequestError("Invalid request: clients send requests, not responses.")
        return None
    method = message.get("method")
    if not isinstance(method, str):
        raise InvalidRequestError('Invalid request: the member "method" must be a string.')
    if request_id is None:
        if version is not None and version not in REVISIONS:
            raise UnsupportedProtocolVersionError(version, SUPPORTED_VERSIONS)
        return None
    params = message.get("params", {})
    if not isinstance(params, dict):
        # Only an object can hold the envelope that a modern request must have.
        modern = version == LATEST.version
        kind = MissingEnvelopeError if modern else InvalidParamsError
        raise kind('Invalid params: the member "params" must be an object.')
    if _envelope(message) or _declares_modern(method, version):
        return _modern(request_id, method, params, headers)
    return _legacy(request_id, method, params, version)


def _envelope(message: Any) -> bool:
    """Whether the body speaks a modern revision, by its own word."""
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and PROTOCOL_VERSION in meta


def _declares_modern(method: str, version: str | None) -> bool:
    """Whether the headers speak a modern revision; an initialize is legacy whatever they say."""
    return method != "initialize" and version in REVISIONS and REVISIONS[str(version)].modern


def _modern(
    request_id: jsonrpc.RequestId, method: str, params: dict[str, Any], headers: Headers | None
) -> Request:
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        raise MissingEnvelopeError(
            f"Invalid params: params._meta must be an object with {PROTOCOL_VERSION!r} and "
            f"{CLIENT_CAPABILITIES!r}."
        )
    version = _member(meta, PROTOCOL_VERSION, str, "a string")
    _member(meta, CLIENT_CAPABILITIES, dict, "an object")
    if CLIENT_INFO in meta:
        _member(meta, CLIENT_INFO, dict, "an object")
    token = meta.get("progressToken", "")
    if isinstance(token, bool) or not isinstance(token, str | int):
        raise MissingEnvelopeError(
            "Invalid params: params._meta['progressToken'] must be a string or an integer."
        )
    if headers is not None:
        named = params.get(_NAMED_BY.get(method, ""))
        headers.check(version, method, named if isinstance(named, str) else None)
    revision = REVISIONS.get(version)
    if revision is None or not revision.modern:
        raise UnsupportedProtocolVersionError(version, SUPPORTED_VERSIONS)
    return Request(
        id=request_id,
        method=method,
        params=params,
        revision=revision,
        meta=meta,
        headers=headers,
    )


def _legacy(
    request_id: jsonrpc.RequestId, method: str, params: dict[str, Any], version: str | None
) -> Request:
    revision = UNDECLARED if version is None else REVISIONS.get(version)
    if method == "initialize":
        revision = UNDECLARED
    if revision is None:
        raise UnsupportedProtocolVersionError(str(version), SUPPORTED_VERSIONS)
    meta = params.get("_meta")
    known = meta if isinstance(meta, dict) else {}
    return Request(id=request_id, method=method, params=params, revision=revision, meta=known)


def _member(meta: dict[str, Any], key: str, kind: type, wanted: str) -> Any:
    value = meta.get(key)
    if not isinstance(value, kind):
        raise MissingEnvelopeError(f"Invalid params: params._meta[{key!r}] must be {wanted}.")
    return value
