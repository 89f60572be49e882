"""A CallToolResult as a template can show it. Nothing in it is trusted: it may hold anything."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from django.template.defaultfilters import filesizeformat

from mcp_bridge.server.tools import ERRORS_KEY

# Bytes of a picture or a sound, and characters of a text, that a page shows.
MAX_MEDIA: Final = 2 * 1024 * 1024
MAX_TEXT: Final = 200_000
# What browsers show as it is; SVG is a document that may hold scripts.
_SHOWN: Final = {
    "image": ("image/png", "image/jpeg", "image/gif", "image/webp"),
    "audio": ("audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp4", "audio/ogg", "audio/webm"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """
    One content block. ``source`` is a data: URI, ``link`` an address that may be followed.

    ``kind`` is text, image, audio, resource_link or resource, or what else the block says it is.
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
    errors: list[Mapping[str, Any]] = field(default_factory=list)


def shown(result: bytes | Mapping[str, Any]) -> Shown:
    """What a page shows of a result, given as JSON text or as an object."""
    read: Mapping[str, Any] = json.loads(result) if isinstance(result, bytes) else result
    content = [each for each in read.get("content", ()) if isinstance(each, Mapping)]
    structured, meta = read.get("structuredContent"), read.get("_meta")
    said = [_parsed(str(each.get("text", ""))) for each in content if each.get("type") == "text"]
    errors = meta.get(ERRORS_KEY, ()) if isinstance(meta, Mapping) else ()
    return Shown(
        is_error=read.get("isError") is True,
        blocks=[_block(each) for each in content],
        structured="" if structured is None else _limited(pretty(structured)),
        repeated=structured is not None and any(_says(each, structured) for each in said),
        meta=_limited(pretty(meta)) if meta else "",
        errors=[each for each in errors if isinstance(each, Mapping)],
    )


def _block(block: Mapping[str, Any]) -> Block:
    kind = str(block.get("type", ""))
    if kind == "text":
        return Block(kind=kind, text=_readable(str(block.get("text", ""))))
    if kind in _SHOWN:
        return _media(kind, str(block.get("mimeType", "")), str(block.get("data", "")))
    if kind == "resource_link":
        title = str(block.get("title") or block.get("name") or "")
        uri, about = str(block.get("uri", "")), str(block.get("description", ""))
        return Block(kind=kind, title=title, text=uri, link=_followed(uri), note=about)
    if kind == "resource" and isinstance(block.get("resource"), Mapping):
        return _resource(block["resource"])
    return Block(kind=kind, text=_limited(pretty(block)), note="Shown as it is.")


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


def _resource(resource: Mapping[str, Any]) -> Block:
    uri, mime_type = str(resource.get("uri", "")), str(resource.get("mimeType", ""))
    if "text" in resource:
        text = _readable(str(resource["text"]))
        return Block(kind="resource", title=uri, text=text, note=mime_type)
    # Three bytes are four characters of base64.
    size = filesizeformat(len(str(resource.get("blob", ""))) * 3 // 4)
    note = f"{mime_type or 'bytes'}, about {size}: not shown"
    return Block(kind="resource", title=uri, note=note)


def _followed(uri: str) -> str:
    """The address where a page may link to it, else ""."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    return uri if parts.scheme in ("http", "https") and parts.netloc else ""


def _parsed(text: str) -> Any:
    """The JSON value of a text, or the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _says(said: Any, structured: Any) -> bool:
    return bool(said == structured or {"result": said} == structured)


def _readable(text: str) -> str:
    value = _parsed(text) if text.lstrip().startswith(("{", "[")) else text
    return _limited(text if isinstance(value, str) else pretty(value))


def pretty(value: Any) -> str:
    """The value as JSON to read."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _limited(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n… and {len(text) - MAX_TEXT} more characters"
