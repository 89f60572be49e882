"""Encode arguments in requests: in paths, query strings, headers and bodies."""

from __future__ import annotations

import base64
import mimetypes
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, unquote_to_bytes

from mcp_bridge.exceptions import ArgumentError, InvalidArguments
from mcp_bridge.protocol import JSONObject
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.protocol.text import pointer, quoted
from mcp_bridge.schemas.openapi import nested
from mcp_bridge.sources.operations.read import Unmappable

_QUERY_STYLES: Final = ("form", "spaceDelimited", "pipeDelimited", "deepObject")
_STYLES: Final = {"path": ("simple",), "header": ("simple",), "query": _QUERY_STYLES}
# The percent-encoded separators of list items.
_BETWEEN: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
# Headers that the client sets itself, so documents do not describe them (OpenAPI, "Parameter
# Object"), and headers of the connection or the caller.
OWN_HEADERS: Final = frozenset(
    {"accept", "accept-encoding", "authorization", "connection", "content-encoding"}
    | {"content-length", "content-type", "cookie", "expect", "host", "keep-alive"}
    | {"proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"}
)
FILE_NOTE: Final = "A file: a data: URI (data:image/png;base64,…), or its bytes in base64."
_MULTIPART: Final = "multipart/form-data"
# Media types of bodies besides JSON, best first, and the encoding of each.
_WAYS: Final = {
    "application/x-www-form-urlencoded": "form",
    _MULTIPART: "multipart",
    "application/octet-stream": "bytes",
}
JSON_TYPE: Final = re.compile(r"[^/]+/([^/]+\+)?json", re.IGNORECASE)
# Only spaces before a parameter: it goes into a header, which a line break would end.
_MEDIA_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+(; *[\w-]+=[\w.+-]+)*", re.ASCII)
Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter, and the name of the argument with its value."""

    argument: str
    location: str
    name: str
    style: str
    explode: bool
    is_json: bool = False

    @classmethod
    def read(cls, data: JSONObject, argument: str) -> Parameter:
        """Return a parameter of a document. Raises Unmappable for an unknown style."""
        location, name = str(data.get("in")), str(data.get("name"))
        style = data.get("style") or _STYLES[location][0]
        if style not in _STYLES[location]:
            text = f"its {location} parameter {quoted(name)} has the style {quoted(str(style))}"
            raise Unmappable(text)
        explode = data.get("explode")
        return cls(
            argument=argument,
            location=location,
            name=name,
            style=style,
            explode=explode if isinstance(explode, bool) else style in ("form", "deepObject"),
            is_json="schema" not in data and bool(data.get("content")),
        )

    def simple(self, value: object) -> str:
        """Return a value for a header or path. Raises InvalidArguments if it is not allowed."""
        is_path = self.location == "path"
        encode: Callable[[str], str] = escape if is_path else str
        if self.is_json:
            text = encode(json_text(value))
        elif isinstance(value, Mapping):
            between = "=" if self.explode else ","
            pairs = ((encode(str(key)), encode(_scalar(each))) for key, each in value.items())
            text = ",".join(map(between.join, pairs))
        else:
            items = value if isinstance(value, list) else [value]
            text = "" if value is None else ",".join(encode(_scalar(each)) for each in items)
        if is_path:
            if not text or {".", ".."} & set(unquote(text).replace("\\", "/").split("/")):
                raise _refusal((self.argument,), "must not be empty or have a segment '.' or '..'")
        elif not (text.isascii() and text.isprintable()):
            raise _refusal((self.argument,), "must contain only printable ASCII characters")
        return text

    def query(self, value: object) -> list[str]:
        """Return the percent-encoded parts of a query string for a value."""
        if self.is_json:
            return [_pair(self.name, json_text(value))]
        return _form(self.name, value, self.style, self.explode)


class Media(NamedTuple):
    """The encoding of a body, its media type, and the JSON alternative to a form with files."""

    kind: str
    content_type: str
    data: JSONObject
    plain: Media | None = None


@dataclass(frozen=True, kw_only=True)
class Body:
    """
    A body and its arguments.

    ``members`` are its arguments by member; alternatively, ``whole`` is the argument
    for the entire body. ``files`` are the members that are files, and ``filenames`` the arguments
    with their names, by argument. ``objects`` are the members that are objects or null. Nested
    values in forms are named as in OpenAPI, or as DRF reads them (``is_dotted``: ``address.city``,
    ``lines[0]sku``). Without a file, the body is encoded as ``media.plain``, if available.
    """

    media: Media
    is_required: bool
    members: Mapping[str, str] = field(default_factory=dict)
    whole: str | None = None
    files: frozenset[str] = frozenset()
    filenames: Mapping[str, str] = field(default_factory=dict)
    objects: frozenset[str] = frozenset()
    is_dotted: bool = False

    def write(self, arguments: JSONObject) -> tuple[bytes, str | None]:
        """Return the bytes and their media type, which is None without a body."""
        for argument, filename in self.filenames.items():
            if filename in arguments and argument not in arguments:
                raise _refusal((filename,), f"names a file that was not sent: send {argument} too")
        whole = self.whole
        if whole is None:
            members = self.members.items()
            value: Any = {name: arguments[each] for name, each in members if each in arguments}
            is_given = bool(value) or self.is_required
        else:
            value, is_given = arguments.get(whole), whole in arguments
        if not is_given:
            return b"", None
        # JSON can represent null and empty lists, forms cannot.
        given = value if isinstance(value, Mapping) else {}
        has_file = any(given.get(name) not in (None, []) for name in self.files)
        media = self.media if has_file else self.media.plain or self.media
        if media.kind == "json":
            return encode(value), media.content_type
        if media.kind == "text":
            return _scalar(value).encode(), media.content_type
        if media.kind == "bytes":
            content, own = read_file(value, (whole or "",))
            return content, own or media.content_type
        if not isinstance(value, Mapping):
            raise _refusal((whole or "",), "must be an object")
        places: dict[str, Place] = {name: (argument,) for name, argument in self.members.items()}
        if whole is not None:
            places = {name: (whole, name) for name in value}
        if media.kind == "form":
            pairs = (self._pairs(name, each, places[name]) for name, each in value.items())
            return "&".join(pair for each in pairs for pair in each).encode(), media.content_type
        parts = (
            self._files(name, each, places[name], arguments)
            if name in self.files and each not in (None, [])
            else self._fields(name, each, places[name])
            for name, each in value.items()
        )
        return _multipart(each for part in parts for each in part)

    def _encoding(self, name: str) -> JSONObject:
        return nested(nested(self.media.data, "encoding"), name)

    def _pairs(self, name: str, value: object, place: Place) -> list[str]:
        """Return the parts of a form for a member."""
        if self.is_dotted:
            return [_pair(*each) for each in self._dotted(name, value, place)]
        _refuse_lost(value, place)
        if isinstance(value, Mapping) or _holds_containers(value):
            # OpenAPI does not define nesting in forms; services use brackets.
            return [_pair(*each) for each in _brackets(name, value)]
        encoding = self._encoding(name)
        style = encoding.get("style")
        known = style if style in _QUERY_STYLES else "form"
        explode = encoding.get("explode", known in ("form", "deepObject"))
        return _form(name, value, str(known), explode)

    def _dotted(
        self, name: str, value: object, place: Place, separator: str = "."
    ) -> Iterator[tuple[str, str]]:
        """Yield the names and texts of a nested value in DRF's notation."""
        plain = re.sub(r"\[\d+\]", ".", name).rstrip(".")
        if JSON_TYPE.fullmatch(str(self._encoding(plain).get("contentType"))):
            yield name, json_text(value)
        elif isinstance(value, Mapping) and value:
            for key, each in value.items():
                yield from self._dotted(f"{name}{separator}{key}", each, (*place, key))
        elif isinstance(value, list) and _holds_containers(value):
            for number, each in enumerate(value):
                yield from self._dotted(f"{name}[{number}]", each, (*place, number), "")
        elif name in self.files and value is None:
            yield name, ""
        else:
            _refuse_lost(value, place)
            for each in value if isinstance(value, list) else [value]:
                yield name, _scalar(each)

    def _files(self, name: str, value: object, place: Place, sent: JSONObject) -> Iterator[bytes]:
        """Yield the parts of a member that is a file, or a list of them."""
        given = str(sent.get(self.filenames.get(str(place[0]), ""), ""))
        items = value if isinstance(value, list) else [value]
        for number, item in enumerate(items):
            where = (*place, number) if items is value else place
            stem = f"{name}-{number + 1}" if items is value else name
            content, own = read_file(item, where)
            own = own or mimetypes.guess_type(given)[0] or "application/octet-stream"
            extension = mimetypes.guess_extension(own.partition(";")[0]) or ""
            yield _part(name, content, own, given or stem + extension)

    def _fields(self, name: str, value: object, place: Place) -> Iterator[bytes]:
        """Yield the parts of a member that is not a file."""
        if self.is_dotted:
            for key, text in self._dotted(name, value, place):
                yield _part(key, text.encode())
            return
        own = str(self._encoding(name).get("contentType", "")).partition(",")[0].strip()
        own = own if _MEDIA_TYPE.fullmatch(own) else ""
        is_json = bool(JSON_TYPE.fullmatch(own)) or name in self.objects
        listed = value if isinstance(value, list) and not is_json else [value]
        if not listed:
            _refuse_lost(listed, place)
        for each in listed:
            if isinstance(each, Mapping | list) or is_json:
                yield _part(name, json_text(each).encode(), own or "application/json")
            else:
                _refuse_lost(each, place)
                yield _part(name, _scalar(each).encode(), own)


def choose_media(content: object, has_files: Callable[[object], bool]) -> Media:
    """Return the media type to use for a body. Raises Unmappable if none is supported."""
    if not isinstance(content, Mapping) or not content:
        raise Unmappable("its request body lacks content")
    types = {str(name): each if isinstance(each, Mapping) else {} for name, each in content.items()}
    plain = {name: name.partition(";")[0].strip().lower() for name in types}
    named = {kind: types[name] for name, kind in reversed(plain.items())}
    ranks = ("application/json", "application/merge-patch+json")
    found = [name for name in types if JSON_TYPE.fullmatch(plain[name])]
    anything = [types[name] for name in types if plain[name] in ("*/*", "application/*")]
    as_json = Media("json", "application/json", anything[0]) if anything else None
    if found:
        # JSON Patch and similar types need lists of changes, which are harder for models.
        chosen = min(found, key=lambda name: (*ranks, plain[name]).index(plain[name]))
        as_json = Media("json", chosen, types[chosen])
    if _MULTIPART in named and has_files(named[_MULTIPART].get("schema")):
        return Media("multipart", _MULTIPART, named[_MULTIPART], as_json)
    if as_json is not None:
        return as_json
    for kind, way in _WAYS.items():
        if kind in named:
            return Media(way, kind, named[kind])
    for name, kind in plain.items():
        if kind.startswith("text/"):
            return Media("text", f"{kind}; charset=utf-8", types[name])
        if kind.startswith(("image/", "audio/", "video/")):
            return Media("bytes", kind.replace("*", "octet-stream"), types[name])
    raise Unmappable(f"its request body is {' or '.join(types)}, which is not supported")


def is_file(schema: JSONObject) -> bool:
    """Return whether a converted schema is that of a file or a list of files."""
    branches = schema.get("anyOf")
    if isinstance(branches, list):
        return any(is_file(each) for each in branches)
    if schema.get("type") == "array":
        items = schema.get("items")
        return isinstance(items, Mapping) and is_file(items)
    return "contentMediaType" in schema and "contentEncoding" not in schema


def read_file(value: object, place: Place) -> tuple[bytes, str]:
    """Return the bytes and media type of a data: URI or Base64. Never opens other URLs."""
    if not isinstance(value, str):
        raise _refusal(place, "must be a file: a data: URI, or base64")
    media_type, text = "", value
    if value[:5].lower() == "data:":
        head, comma, text = value[5:].partition(",")
        if not comma:
            raise _refusal(place, "is not a data: URI: a comma must precede the data")
        is_base64 = head.lower().endswith(";base64")
        media_type = head[: -len(";base64")] if is_base64 else head
        media_type = media_type if _MEDIA_TYPE.fullmatch(media_type) else ""
        if not is_base64:
            return unquote_to_bytes(text), media_type
        text = unquote(text)
    try:
        return base64.b64decode("".join(text.split()), validate=True), media_type
    except ValueError:
        advice = "" if media_type else "; URLs other than data: are not opened"
        raise _refusal(place, f"is not valid base64{advice}") from None


def json_text(value: object) -> str:
    """Return a value as compact JSON."""
    return encode(value).decode()


def escape(text: str) -> str:
    """Return a text percent-encoded, with ``%20`` for a space: not all services read ``+``."""
    return quote(text, safe="")


def _form(name: str, value: object, style: str, explode: bool) -> list[str]:
    """Return the parts of a query string or a form for one value."""
    if style == "deepObject":
        return [_pair(*each) for each in _brackets(name, value)]
    if isinstance(value, Mapping):
        if explode:
            return [_pair(key, _scalar(each)) for key, each in value.items()]
        parts = [text for key, each in value.items() for text in (key, _scalar(each))]
    elif isinstance(value, list):
        parts = [_scalar(each) for each in value]
        if explode:
            return [_pair(name, each) for each in parts]
    else:
        return [] if value is None else [_pair(name, _scalar(value))]
    return [f"{escape(name)}={_BETWEEN[style].join(map(escape, parts))}"] if parts else []


def _brackets(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of a nested value: ``a[b][c]``, ``a[]``, and ``a[0][b]``."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _brackets(f"{name}[{key}]", each)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            index = number if isinstance(each, Mapping | list) else ""
            yield from _brackets(f"{name}[{index}]", each)
    elif value is not None:
        yield name, _scalar(value)


def _pair(name: str, text: str) -> str:
    return f"{escape(name)}={escape(text)}"


def _scalar(value: object) -> str:
    """Return a value as text: strings unchanged, others as JSON."""
    return value if isinstance(value, str) else json_text(value)


def _holds_containers(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(each, Mapping | list) for each in value)


def _refusal(place: Place, message: str) -> InvalidArguments:
    return InvalidArguments([ArgumentError(path=pointer(place), type="value", message=message)])


def _refuse_lost(value: object, place: Place) -> None:
    """Raise InvalidArguments for null, [] and {} at any depth, which forms cannot represent."""
    if value is None or value in ([], {}):
        text = f"cannot be {json_text(value)} in a form: leave it out, or send a value"
        raise _refusal(place, text)
    if isinstance(value, Mapping | list):
        for key, each in value.items() if isinstance(value, Mapping) else enumerate(value):
            _refuse_lost(each, (*place, key))


def multipart(
    texts: Iterable[tuple[str, str]], files: Iterable[tuple[str, Any]]
) -> tuple[bytes, str]:
    """Return the body of a form with files (UploadedFile, in Django), and its media type."""
    written = [_part(name, text.encode()) for name, text in texts]
    for name, file in files:
        written.append(_part(name, file.read(), file.content_type or "", file.name or name))
    return _multipart(written)


def _multipart(parts: Iterable[bytes]) -> tuple[bytes, str]:
    boundary = secrets.token_hex(16)
    written = b"".join(f"--{boundary}\r\n".encode() + each for each in parts)
    return written + f"--{boundary}--\r\n".encode(), f"{_MULTIPART}; boundary={boundary}"


def _part(name: str, content: bytes, content_type: str = "", filename: str = "") -> bytes:
    """Return a part of a multipart body, without the boundary (RFC 7578)."""
    # As browsers do (HTML, "Multipart form data").
    encoded = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})
    head = f'Content-Disposition: form-data; name="{name.translate(encoded)}"'
    head += f'; filename="{filename.translate(encoded)}"' if filename else ""
    head += f"\r\nContent-Type: {content_type}" if content_type else ""
    return f"{head}\r\n\r\n".encode() + content + b"\r\n"
