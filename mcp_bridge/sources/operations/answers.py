"""What a service answered, as a CallToolResult or as an error."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import responses
from typing import Any, Final, TypeAlias

from mcp_bridge.calls.media import block, header_parameter
from mcp_bridge.exceptions import ArgumentError, InvalidArguments, ToolError
from mcp_bridge.protocol import CallToolResult, ProtocolError, TextContent, jsonrpc
from mcp_bridge.protocol.text import cut
from mcp_bridge.sources.operations.mapping import MappedOperation
from mcp_bridge.sources.operations.values import json_text

# Codecs of Python that are no character set, or that spell what is no character: they raise, take
# time by the square of the text, or return lone surrogates, which no JSON can hold.
_NO_CHARSETS: Final = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
)
# Space outside strings, which are kept as they are. Possessive, as no string is read twice.
_SPACE: Final = re.compile(rb'("(?:[^"\\]++|\\.)*+")|[ \t\r\n]+', re.DOTALL)
_IS_JSON: Final = re.compile(r"[^/]+/([^/]+\+)?json")
_IS_TEXT: Final = re.compile(r"text/.*|application/(.*\+)?(xml|yaml|x-yaml|javascript)")
# Members of an error that say what is wrong, the better ones first (RFC 9457; DRF; many others).
_SAYING: Final = ("detail", "message", "error_description", "error", "title")
# Members that are no field of a form: what they say is of the whole (DRF).
_OF_ALL: Final = ("non_field_errors", "__all__")
_LONGEST: Final = 2000
# What is known of a call that failed: one that only reads can be made again.
LATER: Final = "The same call may succeed later."
MAYBE: Final = "What was asked may or may not have been done."
_MAX_FIELDS: Final = 25
# The part of a request that an error is in, the place there, and what is wrong.
_Told: TypeAlias = tuple[str | None, Sequence[str | int], str]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer over HTTP, or one like it; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def media_type(self) -> str:
        """The media type, without its parameters; "" where none is named."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def reason(self) -> str:
        """The status with its name: "404 Not Found"."""
        return f"{self.status} {responses.get(self.status, '')}".rstrip()

    def text(self) -> str:
        """Return the body as text, in the character set that the answer names, or in UTF-8."""
        with suppress(LookupError, ValueError):
            written = header_parameter(self.headers.get("content-type", ""), "charset")
            charset = codecs.lookup(written).name
            if charset not in _NO_CHARSETS:
                # Raises LookupError for a codec of bytes, such as base64.
                return self.body.decode(charset, "replace")
        return self.body.decode("utf-8", "replace")


def read_answer(answer: Answer, mapped: MappedOperation) -> CallToolResult:
    """Return the result of a call, the JSON as it came. Raises InvalidArguments and ToolError."""
    if answer.status >= 400:
        raise read_error(answer, mapped)
    if answer.status >= 300:
        raise ToolError(f"The service answered with a redirect ({answer.reason}): not followed.")
    if not answer.body:
        return CallToolResult(content=[TextContent(f"Done ({answer.reason}).")])
    media_type = answer.media_type
    is_bare = not media_type and answer.body.lstrip()[:1] in (b"{", b"[")
    if is_bare or _IS_JSON.fullmatch(media_type):
        return _read_json(answer)
    contents = [each.get("content") for each in mapped.operation.responses.values()]
    is_promised = any(isinstance(each, Mapping) and "text/html" in each for each in contents)
    if media_type == "text/html" and not is_promised:
        text = f"The service answered with a page of HTML ({answer.reason}), and not with data."
        raise ToolError(text)
    if _IS_TEXT.fullmatch(media_type):
        return CallToolResult(content=[TextContent(answer.text())])
    name = header_parameter(answer.headers.get("content-disposition", ""), "filename")
    return CallToolResult(content=[block((answer.body, media_type, name), 1)])


def read_error(answer: Answer, mapped: MappedOperation) -> ToolError:
    """Return what a model reads of an answer whose status is 400 or more."""
    if answer.status >= 500:
        later = LATER if mapped.annotations.get("readOnlyHint", False) else MAYBE
        return ToolError(f"The service failed ({answer.reason}). {later}")
    data: object = None
    if _IS_JSON.fullmatch(answer.media_type):
        with suppress(ProtocolError):
            data = jsonrpc.decode(answer.body)
    if answer.status in (400, 422):
        errors = []
        for location, path, text in _told(data):
            found = mapped.argument_path(location, path) if path else None
            # Those of no argument have no path.
            told = text if found or not path else f"{'.'.join(map(str, path))}: {text}"
            errors.append(ArgumentError(path=found or "", type="service", message=cut(told, 300)))
        if any(each.path for each in errors) or (errors and _said(data) is None):
            return InvalidArguments(errors[:_MAX_FIELDS])
    said = _said(data) or ("" if data is None else json_text(data))
    if not said and answer.media_type == "text/plain":
        said = answer.text().strip()
    said = cut(said, _LONGEST) or f"The service refused this ({answer.reason})."
    wait = answer.headers.get("retry-after", "")
    return ToolError(f"{said} Try again in {wait} seconds." if wait.isdecimal() else said)


def _read_json(answer: Answer) -> CallToolResult:
    written = answer.body.strip()
    try:
        value = jsonrpc.decode(written)
    except ProtocolError as why:
        text = f"The service answered with what is no JSON ({answer.reason}), though it says so."
        raise ToolError(text) from why
    if any(each in written for each in (b"\n", b"\r", b"\t")):
        # Indentation is nothing but tokens; numbers and strings stay as they are written.
        written = _SPACE.sub(rb"\1", written)
    text = value if isinstance(value, str) else written.decode()
    structured = written if isinstance(value, dict) else b'{"result":' + written + b"}"
    return CallToolResult.of_json(text, written, structured)


def _said(data: Any) -> str | None:
    """Return the text of an error that says what is wrong in one of the usual members."""
    if isinstance(data, str):
        return data or None
    for name in _SAYING if isinstance(data, dict) else ():
        found = data.get(name)
        found = _said(found) if isinstance(found, dict) else found
        if isinstance(found, str) and found.strip():
            return found.strip()
    return None


def _told(data: object) -> Iterator[_Told]:
    """Yield where errors are in a request, as far as the service says it, and their texts."""
    if isinstance(data, list):
        yield from _located(data)
        yield from _by_field([each for each in data if isinstance(each, str)], ())
    if not isinstance(data, dict):
        return
    for name in ("detail", "errors", "violations"):
        found = data.get(name)
        if isinstance(found, list) and any(isinstance(each, dict) for each in found):
            # FastAPI and django-ninja; RFC 9457 with pointers; others with fields.
            yield from _located(found)
            return
    fields = data.get("errors")
    if not isinstance(fields, dict):
        # Beside a message, a text is about the whole request, even under an argument's name.
        is_told = _said(data) is not None
        fields = {k: each for k, each in data.items() if not (is_told and isinstance(each, str))}
    yield from _by_field(fields, ())


def _located(found: list[object]) -> Iterator[_Told]:
    """Yield the errors of a list, each of which says where it is."""
    for each in [each for each in found if isinstance(each, dict)]:
        text = next((each[name] for name in ("msg", *_SAYING) if each.get(name)), None)
        place = each.get("loc", each.get("pointer", each.get("field", each.get("name"))))
        if not isinstance(text, str):
            continue
        location: str | None = None
        path: list[str | int] = []
        if isinstance(place, list):
            path = [part for part in place if isinstance(part, str | int)]
            if path and path[0] in ("body", "query", "path", "header", "form", "file"):
                location, *path = path  # type: ignore[assignment]
                location = "body" if location in ("form", "file") else location
        elif isinstance(place, str):
            separator = "/" if place.startswith(("#", "/")) else "."
            parts = place.removeprefix("#").lstrip("/").split(separator)
            path = [int(part) if part.isdecimal() else part for part in parts if part]
        yield location, path, text


def _by_field(data: object, path: tuple[str | int, ...]) -> Iterator[_Told]:
    """Yield the errors of an object with a list of texts for each field, nested as the fields."""
    if isinstance(data, dict):
        for name, each in data.items():
            yield from _by_field(each, path if name in _OF_ALL else (*path, name))
    elif isinstance(data, list):
        for number, each in enumerate(data):
            yield from _by_field(each, path if isinstance(each, str) else (*path, number))
    elif isinstance(data, str) and data:
        yield None, path, data
