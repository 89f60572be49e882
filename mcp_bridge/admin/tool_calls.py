"""Calls of tools from the admin, and their results as shown on a page."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from django.http import HttpRequest
from django.utils.translation import ngettext

import mcp_bridge
from mcp_bridge.admin.base import cell
from mcp_bridge.confirmation.queue import approve_own
from mcp_bridge.confirmation.rendering import visible
from mcp_bridge.features import Client
from mcp_bridge.protocol import ERRORS_KEY, LATEST, JSONObject, ProtocolError
from mcp_bridge.protocol.errors import UnknownFeatureError
from mcp_bridge.protocol.jsonrpc import decode, encode
from mcp_bridge.protocol.text import cut, harmless
from mcp_bridge.server.perform import call_labelled
from mcp_bridge.server.server import MCPServer
from mcp_bridge.transports.http import context_of

# The most bytes of a picture or sound, and characters of a text, that a page shows.
MAX_MEDIA: Final = 2 * 1024 * 1024
MAX_TEXT: Final = 200_000
# The most rows and columns of a table, and characters of a cell; the JSON has all.
MAX_ROWS, MAX_COLUMNS, MAX_CELL = 200, 20, 300
# Types that browsers show safely; SVG is a document that may contain scripts.
_SHOWN: Final = {
    "image": ("image/png", "image/jpeg", "image/gif", "image/webp"),
    "audio": ("audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp4", "audio/ogg", "audio/webm"),
}
_CLIENT: Final = Client(info={"name": "mcp_bridge admin", "version": mcp_bridge.__version__})


class Outcome(NamedTuple):
    """The end of a call: a CallToolResult, or a sentence that explains why there is none."""

    result: dict[str, Any] | None = None
    refusal: str = ""


class Block(NamedTuple):
    """
    A content block of the type ``kind``, as ``given``; ``hidden`` is why it is not shown.

    ``link`` is a data: URI of ``size`` bytes, or a URL that may be followed.
    """

    kind: str
    given: JSONObject
    text: str = ""
    link: str = ""
    size: int = 0
    hidden: str = ""


class Table(NamedTuple):
    """A list of flat objects: the member it is in, its columns and rows, and those not shown."""

    name: str
    columns: list[str]
    rows: list[list[str]]
    more: int


class Shown(NamedTuple):
    """
    A result. ``structured`` and ``meta`` are JSON, or "" if absent.

    ``repeated`` says that a text block has the same content as ``structured``, which is not among
    the blocks if there are ``tables`` of it. ``errors`` are those of invalid arguments, for
    ``ArgumentsForm.add_tool_errors``.
    """

    is_error: bool
    tables: list[Table]
    blocks: list[Block]
    structured: str
    repeated: bool
    meta: str
    errors: list[JSONObject]


def call(
    label: str, arguments: JSONObject, request: HttpRequest, *, confirmed: bool = False
) -> Outcome:
    """
    Call a tool, or another feature, as the user of the request, with the usual checks.

    ``confirmed`` says that this user has just read and approved the arguments. Raises ValueError
    or TypeError for arguments that are not JSON.
    """
    context = replace(context_of(request), client=_CLIENT)
    server = MCPServer()
    try:
        sent = decode(encode(arguments))
        tool = server.snapshot.by_label.get(label)
        # The confirmation is bound to them.
        sent = sent if tool is None else tool.as_sent(sent)
        if confirmed and tool and tool.options.confirm and server.policy.allows(tool, context):
            approve_own(tool, sent, context)
        return Outcome(json.loads(call_labelled(server, label, sent, context).to_json(LATEST)))
    except ProtocolError as error:
        refused = {"error": error, "is_unknown": isinstance(error, UnknownFeatureError)}
        return Outcome(refusal=cell("refused", refused))


def find_errors(label: str, arguments: JSONObject, request: HttpRequest) -> list[JSONObject]:
    """Return the errors of arguments for a tool that the user may call, without calling it."""
    server = MCPServer()
    tool = server.snapshot.by_label.get(label)
    try:
        if tool and server.policy.allows(tool, context_of(request)):
            tool.check(arguments)
    except Exception as error:
        # InvalidArguments has errors; the call reports other exceptions.
        found = getattr(error, "errors", ()) if isinstance(error, mcp_bridge.ToolError) else ()
        return [asdict(each) for each in found]
    return []


def shown(result: bytes | JSONObject) -> Shown:
    """Return a result, given as JSON text or as an object, as a page shows it."""
    read: JSONObject = json.loads(result) if isinstance(result, bytes) else result
    content = [each for each in read.get("content", ()) if isinstance(each, Mapping)]
    structured, meta = read.get("structuredContent"), read.get("_meta")
    texts = [_parsed(str(each.get("text", ""))) for each in content if each.get("type") == "text"]
    errors = meta.get(ERRORS_KEY, ()) if isinstance(meta, Mapping) else ()
    only = texts[0] if structured is None and len(texts) == 1 else structured
    tables = _tables(only)
    structured = only if tables else structured
    same = [text for text in texts if structured in (text, {"result": text})]
    return Shown(
        is_error=read.get("isError") is True,
        tables=tables,
        blocks=[
            _block(each)
            for each in content
            if not (tables and "text" in each and _parsed(str(each["text"])) in same)
        ],
        structured="" if structured is None else _pretty(structured),
        repeated=structured is not None and bool(same),
        meta=_pretty(meta) if meta else "",
        errors=[each for each in errors if isinstance(each, Mapping)],
    )


def _tables(value: object) -> list[Table]:
    """Return a table for each member that is a list of small flat objects, or for such a list."""
    tables = []
    for name, rows in (value if isinstance(value, Mapping) else {"": value}).items():
        if isinstance(rows, list) and any(rows) and all(map(_is_flat, rows)):
            columns = [*dict.fromkeys(key for row in rows for key in row)]
            if len(columns) <= MAX_COLUMNS:
                cells = [[_cell(row.get(key)) for key in columns] for row in rows[:MAX_ROWS]]
                title = "" if name == "result" else _cell(name)
                tables.append(Table(title, [*map(_cell, columns)], cells, len(rows) - len(cells)))
    return tables


def _is_flat(row: object) -> bool:
    return isinstance(row, Mapping) and not any(isinstance(v, list | Mapping) for v in row.values())


def _cell(value: object) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    return cut(harmless(text), MAX_CELL)


def _block(block: JSONObject) -> Block:
    # Untrusted content.
    kind, resource = str(block.get("type", "")), block.get("resource")
    if kind == "text":
        return Block(kind, block, _readable(block.get("text", "")))
    if kind in _SHOWN:
        return _media(kind, block)
    if kind == "resource_link":
        uri, link = str(block.get("uri", "")), ""
        with suppress(ValueError):
            scheme, host, *_ = urlsplit(uri)
            link = uri if scheme in ("http", "https") and host else ""
        return Block(kind, block, uri, link)
    if kind == "resource" and isinstance(resource, Mapping):
        if "text" in resource:
            return Block(kind, resource, _readable(resource["text"]))
        # Four characters of base64 are three bytes.
        size = len(str(resource.get("blob", ""))) * 3 // 4
        return Block(kind, resource, size=size, hidden="bytes")
    return Block("other", block, _pretty(block))


def _media(kind: str, block: JSONObject) -> Block:
    mime_type, data = str(block.get("mimeType", "")), str(block.get("data", ""))
    try:
        size = len(base64.b64decode(data, validate=True))
    except ValueError:
        return Block(kind, block, hidden="invalid")
    hidden = "large" if size > MAX_MEDIA else ""
    hidden = hidden if mime_type in _SHOWN[kind] else "unsafe"
    link = "" if hidden else f"data:{mime_type};base64,{data}"
    return Block(kind, block, link=link, size=size, hidden=hidden)


def _parsed(text: str) -> Any:
    """Return the JSON value of a text, or the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _readable(given: object) -> str:
    """Return a text truncated to MAX_TEXT; JSON objects and arrays are indented."""
    text = str(given)
    value = _parsed(text) if text.lstrip().startswith(("{", "[")) else text
    return _limited(harmless(text)) if isinstance(value, str) else _pretty(value)


def _pretty(value: object) -> str:
    return _limited(visible(json.dumps(value, indent=2, ensure_ascii=False)))


def _limited(text: str) -> str:
    rest = len(text) - MAX_TEXT
    if rest <= 0:
        return text
    more = ngettext("… and %(count)d more character", "… and %(count)d more characters", rest)
    return f"{text[:MAX_TEXT]}\n{more % {'count': rest}}"
