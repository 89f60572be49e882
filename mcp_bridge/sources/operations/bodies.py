"""Bodies of requests: JSON, forms, multipart with files, bytes and text."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import unquote, unquote_to_bytes

from mcp_bridge.protocol import JSONObject
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.sources.operations.parameters import (
    QUERY_STYLES,
    brackets,
    form,
    json_text,
    pair,
    refusal,
    scalar,
)
from mcp_bridge.sources.operations.read import Unmappable

FILE_NOTE: Final = "A file: a data: URI (data:image/png;base64,…), or its bytes in base64."
Place = tuple[str | int, ...]
_JSON: Final = re.compile(r"[^/]+/([^/]+\+)?json", re.IGNORECASE)
# Of spaces alone before a parameter: it is written into a header, which a line break would end.
_MEDIA_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+(; *[\w-]+=[\w.+-]+)*", re.ASCII)


class Media(NamedTuple):
    """
    How a body is written ("json", "form", "multipart", "bytes", "text"), and its media type.

    ``plain`` is the JSON that is offered beside a form with files.
    """

    kind: str
    content_type: str
    data: JSONObject
    plain: Media | None = None


class Part(NamedTuple):
    """One part of a multipart body."""

    name: str
    content: bytes
    content_type: str = ""
    filename: str = ""


@dataclass(frozen=True, kw_only=True)
class Body:
    """
    A body, and the arguments that it is made of.

    ``members`` are the names of its members by argument; ``whole`` is the argument that has all of
    it, in their place. ``files`` are the members that are files, and ``filenames`` the arguments
    with their names, by argument. ``objects`` are the members that are objects, or null. Nested
    values of forms are named as OpenAPI says, or as DRF reads them (``is_dotted``:
    ``address.city``, ``lines[0]sku``). Without a file the body is written as ``media.plain``, if
    there is one.
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
        """Return the bytes, and their media type: None where no body is to be sent."""
        for argument, filename in self.filenames.items():
            if filename in arguments and argument not in arguments:
                raise refusal((filename,), f"names a file that was not given: give {argument} too")
        if self.whole is not None:
            if self.whole not in arguments:
                return b"", None
            value = arguments[self.whole]
        else:
            value = {
                name: arguments[argument]
                for argument, name in self.members.items()
                if argument in arguments
            }
            if not value and not self.is_required:
                return b"", None
        media = self._media(value)
        kind, content_type = media.kind, media.content_type
        if kind == "json":
            return encode(value), content_type
        if kind == "text":
            return scalar(value).encode(), content_type
        if kind == "bytes":
            content, own = read_file(value, (self.whole or "",))
            return content, own or content_type
        if not isinstance(value, Mapping):
            raise refusal((self.whole or "",), "must be an object")
        if kind == "form":
            pairs = (self._form(name, each, self._place(name)) for name, each in value.items())
            return "&".join(pair for each in pairs for pair in each).encode(), content_type
        boundary = secrets.token_hex(16)
        written = [_write_part(each, boundary) for each in self._multipart(value, arguments)]
        closing = f"--{boundary}--\r\n".encode()
        return b"".join((*written, closing)), f"multipart/form-data; boundary={boundary}"

    def _media(self, value: object) -> Media:
        """Return how a value is written: JSON keeps null and empty lists, which forms do not."""
        given = value if isinstance(value, Mapping) else {}
        has_file = any(given.get(name) not in (None, []) for name in self.files)
        return self.media if has_file else self.media.plain or self.media

    def _encoding(self, name: str) -> JSONObject:
        encodings = self.media.data.get("encoding")
        found = encodings.get(name) if isinstance(encodings, Mapping) else None
        return found if isinstance(found, Mapping) else {}

    def _place(self, name: str) -> Place:
        """Return the place among the arguments of a member."""
        arguments = {member: argument for argument, member in self.members.items()}
        return (arguments.get(name, name),) if self.whole is None else (self.whole, name)

    def _form(self, name: str, value: object, place: Place) -> Iterator[str]:
        encoding = self._encoding(name)
        style = encoding.get("style")
        if self.is_dotted:
            yield from (pair(*each) for each in self._dotted(name, value, place))
            return
        _refuse_lost(value, place)
        if isinstance(value, Mapping) or _holds_containers(value):
            # OpenAPI leaves open how forms nest; services that take them read brackets.
            yield from (pair(*each) for each in brackets(name, value))
        else:
            known = style if style in QUERY_STYLES else "form"
            explode = encoding.get("explode", known in ("form", "deepObject"))
            yield from form(name, value, str(known), explode)

    def _dotted(
        self, name: str, value: object, place: Place, separator: str = "."
    ) -> Iterator[tuple[str, str]]:
        """Yield the names and texts of a nested value as DRF reads them."""
        plain = re.sub(r"\[\d+\]", ".", name).rstrip(".")
        if _JSON.fullmatch(str(self._encoding(plain).get("contentType"))):
            yield name, json_text(value)
        elif isinstance(value, Mapping) and value:
            for key, each in value.items():
                yield from self._dotted(f"{name}{separator}{key}", each, (*place, key))
        elif _holds_containers(value):
            assert isinstance(value, list)
            for number, each in enumerate(value):
                yield from self._dotted(f"{name}[{number}]", each, (*place, number), "")
        elif name in self.files and value is None:
            yield name, ""
        else:
            _refuse_lost(value, place)
            yield from (
                (name, scalar(each)) for each in (value if isinstance(value, list) else [value])
            )

    def _multipart(self, value: JSONObject, arguments: JSONObject) -> Iterator[Part]:
        for name, each in value.items():
            place = self._place(name)
            if name in self.files and each not in (None, []):
                given = arguments.get(self.filenames.get(str(place[0]), ""))
                listed = isinstance(each, list)
                for number, item in enumerate(each if listed else [each]):
                    where = (*place, number) if listed else place
                    content, own = read_file(item, where)
                    filename = given if isinstance(given, str) and given else ""
                    own = own or mimetypes.guess_type(filename)[0] or "application/octet-stream"
                    filename = filename or _filename(name, number if listed else None, own)
                    yield Part(name, content, own, filename)
                continue
            yield from self._fields(name, each, place)

    def _fields(self, name: str, value: object, place: Place) -> Iterator[Part]:
        if self.is_dotted:
            pairs = self._dotted(name, value, place)
            yield from (Part(key, text.encode()) for key, text in pairs)
            return
        own = str(self._encoding(name).get("contentType", "")).partition(",")[0].strip()
        own = own if _MEDIA_TYPE.fullmatch(own) else ""
        is_json = bool(_JSON.fullmatch(own)) or name in self.objects
        listed = value if isinstance(value, list) and not is_json else [value]
        if not listed:
            _refuse_lost(listed, place)
        for each in listed:
            if isinstance(each, Mapping | list) or is_json:
                yield Part(name, json_text(each).encode(), own or "application/json")
            else:
                _refuse_lost(each, place)
                yield Part(name, scalar(each).encode(), own)


def choose_media(content: object, has_files: Callable[[object], bool]) -> Media:
    """
    Return the media type of a request body to write; ``has_files`` tells it of a schema.

    Raises Unmappable where none can be written.
    """
    types = {
        str(name): each if isinstance(each, Mapping) else {}
        for name, each in (content.items() if isinstance(content, Mapping) else ())
    }
    if not types:
        raise Unmappable("its request body has no content")
    plain = {name: name.partition(";")[0].strip().lower() for name in types}
    named = {kind: name for name, kind in reversed(plain.items())}
    multipart = named.get("multipart/form-data")
    if multipart is not None and has_files(types[multipart].get("schema")):
        return Media(
            "multipart", "multipart/form-data", types[multipart], _json_media(types, plain)
        )
    if (found := _json_media(types, plain)) is not None:
        return found
    for kind, way in (
        ("application/x-www-form-urlencoded", "form"),
        ("multipart/form-data", "multipart"),
        ("application/octet-stream", "bytes"),
    ):
        if kind in named:
            return Media(way, kind, types[named[kind]])
    for name, kind in plain.items():
        if kind.startswith("text/"):
            return Media("text", f"{kind}; charset=utf-8", types[name])
        if kind.startswith(("image/", "audio/", "video/")):
            return Media("bytes", kind.replace("*", "octet-stream"), types[name])
    raise Unmappable(f"its request body is {' or '.join(types)}, which no arguments can be")


def _json_media(types: Mapping[str, JSONObject], plain: Mapping[str, str]) -> Media | None:
    """Return the JSON among media types, or None; ``plain`` has their names without parameters."""
    ranks = ("application/json", "application/merge-patch+json")
    found = [name for name in types if _JSON.fullmatch(plain[name])]
    if found:
        # JSON Patch and the like want lists of changes, which are harder to write.
        chosen = min(found, key=lambda name: (*ranks, plain[name]).index(plain[name]))
        return Media("json", chosen, types[chosen])
    for name in types:
        if plain[name] in ("*/*", "application/*"):
            return Media("json", "application/json", types[name])
    return None


def is_file(schema: JSONObject) -> bool:
    """Return whether a converted schema is that of a file, or of a list of them."""
    branches = schema.get("anyOf")
    if isinstance(branches, list):
        return any(is_file(each) for each in branches)
    if schema.get("type") == "array":
        items = schema.get("items")
        return isinstance(items, Mapping) and is_file(items)
    return "contentMediaType" in schema and "contentEncoding" not in schema


def read_file(value: object, place: Place) -> tuple[bytes, str]:
    """
    Return the bytes of a data: URI or of base64, and the media type that the former names.

    Raises InvalidArguments for anything else: no other address is ever opened.
    """
    if not isinstance(value, str):
        raise refusal(place, "must be a file: a data: URI, or base64")
    media_type, text = "", value
    if value[:5].lower() == "data:":
        head, comma, text = value[5:].partition(",")
        if not comma:
            raise refusal(place, "is no data: URI: a comma comes before the data")
        is_base64 = head.lower().endswith(";base64")
        media_type = head[: -len(";base64")] if is_base64 else head
        media_type = media_type if _MEDIA_TYPE.fullmatch(media_type) else ""
        if not is_base64:
            return unquote_to_bytes(text), media_type
        text = unquote(text)
    try:
        return base64.b64decode("".join(text.split()), validate=True), media_type
    except (binascii.Error, ValueError):
        advice = "" if media_type else "; other addresses than data: are not opened"
        raise refusal(place, f"is not valid base64{advice}") from None


def _refuse_lost(value: object, place: Place) -> None:
    """Raise InvalidArguments for null, [] and {} in a value, at any depth: no form can say them."""
    if value is None or value in ([], {}):
        raise refusal(
            place, f"cannot be {json_text(value)} in a form: leave it out, or give a value"
        )
    if isinstance(value, Mapping | list):
        for key, each in value.items() if isinstance(value, Mapping) else enumerate(value):
            _refuse_lost(each, (*place, key))


def _filename(name: str, number: int | None, media_type: str) -> str:
    stem = name if number is None else f"{name}-{number + 1}"
    return stem + (mimetypes.guess_extension(media_type.partition(";")[0]) or "")


def _holds_containers(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(each, Mapping | list) for each in value)


def _write_part(part: Part, boundary: str) -> bytes:
    lines = [f"--{boundary}", f'Content-Disposition: form-data; name="{_escaped(part.name)}"']
    if part.filename:
        lines[1] += f'; filename="{_escaped(part.filename)}"'
    if part.content_type:
        lines.append(f"Content-Type: {part.content_type}")
    return "\r\n".join((*lines, "", "")).encode() + part.content + b"\r\n"


def _escaped(text: str) -> str:
    # As browsers do (HTML, "Multipart form data").
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
