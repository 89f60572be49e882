"""Values in paths, query strings and headers, in the styles of OpenAPI."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from mcp_bridge.exceptions import ArgumentError, InvalidArguments
from mcp_bridge.protocol import JSONObject
from mcp_bridge.protocol.text import pointer, quoted
from mcp_bridge.sources.operations.read import Unmappable

QUERY_STYLES: Final = ("form", "spaceDelimited", "pipeDelimited", "deepObject")
_STYLES: Final = {"path": ("simple",), "header": ("simple",), "query": QUERY_STYLES}
# What stands between the items of a list, percent-encoded.
_BETWEEN: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
# Headers that say what the client itself does, so that no document describes them (OpenAPI,
# "Parameter Object"), and those that belong to the connection or the caller.
OWN_HEADERS: Final = frozenset(
    {"accept", "accept-encoding", "authorization", "connection", "content-encoding"}
    | {"content-length", "content-type", "cookie", "expect", "host", "keep-alive"}
    | {"proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter, and the name of the argument that has its value."""

    argument: str
    location: str
    name: str
    style: str
    explode: bool
    is_json: bool = False

    @classmethod
    def read(cls, data: JSONObject, argument: str) -> Parameter:
        """Return a parameter of a document. Raises Unmappable for a style that is not known."""
        location, name = str(data.get("in")), str(data.get("name"))
        style = data.get("style") or _STYLES[location][0]
        if style not in _STYLES[location]:
            raise Unmappable(
                f"its {location} parameter {quoted(name)} has the style {quoted(str(style))}"
            )
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
        """
        Return a value as a header has it, or as a path does, percent-encoded (RFC 6570, 3.2.2).

        Raises InvalidArguments for what would be another path, or no header.
        """
        is_path = self.location == "path"
        encode = escape if is_path else str
        text = encode(json_text(value)) if self.is_json else _simple(value, self.explode, encode)
        if is_path:
            if not text or {".", ".."} & set(unquote(text).replace("\\", "/").split("/")):
                raise refusal((self.argument,), "may not be empty, nor have a part '.' or '..'")
        elif not (text.isascii() and text.isprintable()):
            raise refusal((self.argument,), "may only hold printable characters of ASCII")
        return text

    def query(self, value: object) -> Iterator[str]:
        """Yield the parts of a query string that say a value, percent-encoded."""
        if self.is_json:
            yield pair(self.name, json_text(value))
        else:
            yield from form(self.name, value, self.style, self.explode)


def form(name: str, value: object, style: str, explode: bool) -> Iterator[str]:
    """Yield the parts of a query string or a form for one value."""
    if style == "deepObject":
        for key, each in brackets(name, value):
            yield pair(key, each)
    elif isinstance(value, Mapping):
        if explode:
            for key, each in value.items():
                yield pair(key, scalar(each))
        elif value:
            parts = (escape(each) for key in value for each in (key, scalar(value[key])))
            yield f"{escape(name)}={_BETWEEN[style].join(parts)}"
    elif isinstance(value, list):
        if explode:
            for each in value:
                yield pair(name, scalar(each))
        elif value:
            yield f"{escape(name)}={_BETWEEN[style].join(escape(scalar(each)) for each in value)}"
    elif value is not None:
        yield pair(name, scalar(value))


def brackets(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of a nested value: ``a[b][c]``, ``a[]``, and ``a[0][b]``."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from brackets(f"{name}[{key}]", each)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            index = number if isinstance(each, Mapping | list) else ""
            yield from brackets(f"{name}[{index}]", each)
    elif value is not None:
        yield name, scalar(value)


def pair(name: str, text: str) -> str:
    """Return one ``name=value``, percent-encoded."""
    return f"{escape(name)}={escape(text)}"


def escape(text: str) -> str:
    """Return a text percent-encoded, a space as ``%20``: not every service reads ``+`` as one."""
    return quote(text, safe="")


def scalar(value: object) -> str:
    """Return a value as text: strings as they are, others as JSON."""
    return value if isinstance(value, str) else json_text(value)


def json_text(value: object) -> str:
    """Return a value as JSON, as short as it can be."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def refusal(place: tuple[str | int, ...], message: str) -> InvalidArguments:
    """Return the exception for one argument that no request can be made of."""
    return InvalidArguments([ArgumentError(path=pointer(place), type="value", message=message)])


def _simple(value: object, explode: bool, encode: Callable[[str], str]) -> str:
    if isinstance(value, Mapping):
        between = "=" if explode else ","
        pairs = ((encode(str(key)), encode(scalar(each))) for key, each in value.items())
        return ",".join(map(between.join, pairs))
    if isinstance(value, list):
        return ",".join(encode(scalar(each)) for each in value)
    return "" if value is None else encode(scalar(value))
