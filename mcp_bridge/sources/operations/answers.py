"""Convert the response of a service to a CallToolResult or an error."""

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
from mcp_bridge.sources.operations.values import JSON_TYPE, json_text

# Python codecs that are not character sets: they raise, take quadratic time, or return lone
# surrogates, which JSON cannot contain.
_NO_CHARSETS: Final = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
)
# Whitespace outside strings. Possessive quantifiers avoid backtracking into strings.
_SPACE: Final = re.compile(rb'("(?:[^"\\]++|\\.)*+")|[ \t\r\n]+', re.DOTALL)
_IS_TEXT: Final = re.compile(r"text/.*|application/(.*\+)?(xml|yaml|x-yaml|javascript)")
# Members of an error that describe it, best first (RFC 9457; DRF; many others).
_SAYING: Final = ("detail", "message", "error_description", "error", "title")
# Members with errors about the whole form rather than a field (DRF).
_OF_ALL: Final = ("non_field_errors", "__all__")
_LONGEST: Final = 2000
# The advice after a failed call: a read-only one can be retried.
LATER: Final = "The same call may succeed later."
MAYBE: Final = "The action may or may not have been performed."
_MAX_FIELDS: Final = 25
# The part of a request with an error, the path in it, and the text.
_Told: TypeAlias = tuple[str | None, Sequence[str | int], str]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An HTTP response, or similar; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def media_type(self) -> str:
        """The media type without parameters; "" if there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def reason(self) -> str:
        """The status with its name: "404 Not Found"."""
        return f"{self.status} {responses.get(self.status, '')}".rstrip()

    def text(self) -> str:
        """Return the body decoded with the declared character set, or as UTF-8."""
        with suppress(LookupError, ValueError):
            written = header_parameter(self.headers.get("content-type", ""), "charset")
            charset = codecs.lookup(written).name
            if charset not in _NO_CHARSETS:
                # Raises LookupError for a bytes codec such as base64.
                return self.body.decode(charset, "replace")
        return self.body.decode("utf-8", "replace")


def read_answer(answer: Answer, mapped: MappedOperation) -> CallToolResult:
    """Return the result with the JSON as received. Raises InvalidArguments and ToolError."""
    if answer.status >= 400:
        raise read_error(answer, mapped)
    if answer.status >= 300:
        raise ToolError(f"The service answered with a redirect ({answer.reason}): not followed.")
    if not answer.body:
        return CallToolResult(content=[TextContent(f"Done ({answer.reason}).")])
    media_type = answer.media_type
    is_bare = not media_type and answer.body.lstrip()[:1] in (b"{", b"[")
    if is_bare or JSON_TYPE.fullmatch(media_type):
        return _read_json(answer)
    contents = [each.get("content") for each in mapped.operation.responses.values()]
    is_promised = any(isinstance(each, Mapping) and "text/html" in each for each in contents)
    if media_type == "text/html" and not is_promised:
        text = f"The service answered with an HTML page ({answer.reason}) instead of data."
        raise ToolError(text)
    if _IS_TEXT.fullmatch(media_type):
        return CallToolResult(content=[TextContent(answer.text())])
    name = header_parameter(answer.headers.get("content-disposition", ""), "filename")
    return CallToolResult(content=[block((answer.body, media_type, name), 1)])


def read_error(answer: Answer, mapped: MappedOperation) -> ToolError:
    """Return the error for the model from a response with a status of 400 or more."""
    if answer.status >= 500:
        later = LATER if mapped.annotations.get("readOnlyHint", False) else MAYBE
        return ToolError(f"The service failed ({answer.reason}). {later}")
    data: object = None
    if JSON_TYPE.fullmatch(answer.media_type):
        with suppress(ProtocolError):
            data = jsonrpc.decode(answer.body)
    if answer.status in (400, 422):
        errors = []
        for location, path, text in _told(data):
            found = mapped.argument_path(location, path) if path else None
            # Errors that do not belong to an argument are without a path.
            told = text if found or not path else f"{'.'.join(map(str, path))}: {text}"
            errors.append(ArgumentError(path=found or "", type="service", message=cut(told, 300)))
        if any(each.path for each in errors) or (errors and _said(data) is None):
            return InvalidArguments(errors[:_MAX_FIELDS])
    said = _said(data) or ("" if data is None else json_text(data))
    if not said and answer.media_type == "text/plain":
        said = answer.text().strip()
    said = cut(said, _LONGEST) or f"The service refused this ({answer.reason})."
    wait = answer.headers.get("retry-after", "")
    error = ToolError(f"{said} Try again in {wait} seconds." if wait.isdecimal() else said)
    error.status = answer.status
    return error


def _read_json(answer: Answer) -> CallToolResult:
    written = answer.body.strip()
    try:
        value = jsonrpc.decode(written)
    except ProtocolError as why:
        text = f"The service answered with invalid JSON ({answer.reason})."
        raise ToolError(text) from why
    if any(each in written for each in (b"\n", b"\r", b"\t")):
        # Indentation only costs tokens; numbers and strings are not changed.
        written = _SPACE.sub(rb"\1", written)
    text = value if isinstance(value, str) else written.decode()
    structured = written if isinstance(value, dict) else b'{"result":' + written + b"}"
    return CallToolResult.of_json(text, written, structured)


def _said(data: Any) -> str | None:
    """Return the text of an error from one of the usual members, or None."""
    if isinstance(data, str):
        return data.strip() or None
    found = (_said(data.get(name)) for name in _SAYING if isinstance(data, dict))
    return next(filter(None, found), None)


def _told(data: object) -> Iterator[_Told]:
    """Yield the places of errors in a request, as far as the service names them, and the texts."""
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
    """Yield the errors of a list in which each names its place."""
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
    """Yield the errors of an object with lists of texts by field, nested like the fields."""
    if isinstance(data, dict):
        for name, each in data.items():
            yield from _by_field(each, path if name in _OF_ALL else (*path, name))
    elif isinstance(data, list):
        for number, each in enumerate(data):
            yield from _by_field(each, path if isinstance(each, str) else (*path, number))
    elif isinstance(data, str) and data:
        yield None, path, data
