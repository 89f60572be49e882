"""A CallToolResult as a template can show it. Nothing in it is trusted: it may hold anything."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from django.template.defaultfilters import filesizeformat

from mcp_bridge.protocol import JSONObject
from mcp_bridge.server.calls import ERRORS_KEY

# Bytes of a picture or a sound, and characters of a text, that a page shows.
MAX_MEDIA: Final = 2 * 1024 * 1024
MAX_TEXT: Final = 200_000
# The types that browsers show as they are; SVG is a document that may hold scripts.
_SHOWN: Final = {
    "image": ("image/png", "image/jpeg", "image/gif", "image/webp"),
    "audio": ("audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp4", "audio/ogg", "audio/webm"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """
    One content block. ``source`` is a data: URI, ``link`` an address that may be followed.

    ``kind`` is the block's type: text, image, audio, resource_link, resource or an unknown one.
    ``note`` is about the block, or says why it is not shown.
    """

    kind: str
    title: str = ""
    text: str = ""
    note: str = ""
    source: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """
    A result. ``structured`` and ``meta`` are JSON, or "" where there is none.

    ``repeated`` is whether a text block says the same as ``structured``. ``errors`` are those of
    refused arguments, for ``ArgumentsForm.add_tool_errors``.
    """

    is_error: bool
    blocks: list[Block] = field(default_factory=list)
    structured: str = ""
    repeated: bool = False
    meta: str = ""
    errors: list[JSONObject] = field(default_factory=list)


def shown(result: bytes | JSONObject) -> Shown:
    """Return a result, given as JSON text or as an object, as a page shows it."""
    read: JSONObject = json.loads(result) if isinstance(result, bytes) else result
    content = [each for each in read.get("content", ()) if isinstance(each, Mapping)]
    structured, meta = read.get("structuredContent"), read.get("_meta")
    texts = [_parsed(str(each.get("text", ""))) for each in content if each.get("type") == "text"]
    errors = meta.get(ERRORS_KEY, ()) if isinstance(meta, Mapping) else ()
    return Shown(
        is_error=read.get("isError") is True,
        blocks=[_block(each) for each in content],
        structured="" if structured is None else _pretty(structured),
        repeated=structured is not None
        and any(structured in (text, {"result": text}) for text in texts),
        meta=_pretty(meta) if meta else "",
        errors=[each for each in errors if isinstance(each, Mapping)],
    )


def _block(block: JSONObject) -> Block:
    kind = str(block.get("type", ""))
    if kind == "text":
        return Block(kind=kind, text=_readable(block.get("text", "")))
    if kind in _SHOWN:
        return _media(kind, str(block.get("mimeType", "")), str(block.get("data", "")))
    if kind == "resource_link":
        title = str(block.get("title") or block.get("name") or "")
        uri, about = str(block.get("uri", "")), str(block.get("description", ""))
        try:
            parts = urlsplit(uri)
            is_safe = parts.scheme in ("http", "https") and bool(parts.netloc)
        except ValueError:
            is_safe = False
        return Block(kind=kind, title=title, text=uri, link=uri if is_safe else "", note=about)
    if kind == "resource" and isinstance(block.get("resource"), Mapping):
        resource = block["resource"]
        uri, mime_type = str(resource.get("uri", "")), str(resource.get("mimeType", ""))
        if "text" in resource:
            return Block(kind=kind, title=uri, text=_readable(resource["text"]), note=mime_type)
        # Three bytes are four characters of base64.
        size = filesizeformat(len(str(resource.get("blob", ""))) * 3 // 4)
        note = f"{mime_type or 'bytes'}, about {size}: not shown"
        return Block(kind=kind, title=uri, note=note)
    return Block(kind=kind, text=_pretty(block), note="Shown as it is.")


def _media(kind: str, mime_type: str, data: str) -> Block:
    try:
        size = len(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return Block(kind=kind, note=f"{mime_type}: not shown, since its data is not base64.")
    about = f"{mime_type}, {filesizeformat(size)}"
    if mime_type not in _SHOWN[kind]:
        return Block(kind=kind, note=f"{about}: not shown, since a page cannot show it safely.")
    if size > MAX_MEDIA:
        return Block(kind=kind, note=f"{about}: too large to be shown.")
    return Block(kind=kind, note=about, source=f"data:{mime_type};base64,{data}")


def _parsed(text: str) -> object:
    """Return the JSON value of a text, or the text itself."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def _readable(given: object) -> str:
    """Return a text, laid out where it is a JSON object or array, cut to MAX_TEXT."""
    text = str(given)
    value = _parsed(text) if text.lstrip().startswith(("{", "[")) else text
    return _limited(text) if isinstance(value, str) else _pretty(value)


def _pretty(value: object) -> str:
    return _limited(json.dumps(value, indent=2, ensure_ascii=False))


def _limited(text: str) -> str:
    rest = len(text) - MAX_TEXT
    return text if rest <= 0 else f"{text[:MAX_TEXT]}\n… and {rest} more characters"
