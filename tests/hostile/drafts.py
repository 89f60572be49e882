"""
Drafts of requests: a good call of the tool ``echo``, and the changes that make it a bad one.

A change is a function of a draft. Cases name changes, and each era gets a new draft of a case.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT: Final = "io.modelcontextprotocol/clientInfo"
# The param that Mcp-Name repeats, by method.
NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
VERSION_HEADER: Final = "MCP-Protocol-Version"
TEXT: Final = "hi"


@dataclass
class Draft:
    """A request; ``own`` are headers that a change has set, with none, one or several values."""

    era: str
    port: int
    secrets: dict[str, str]
    caller: str = ""
    verb: str = "POST"
    target: str = "/mcp"
    protocol: str = "HTTP/1.1"
    message: Any = None
    edits: list[tuple[str, str]] = field(default_factory=list)
    body: bytes | None = None
    own: dict[str, tuple[str, ...]] = field(default_factory=dict)
    chunks: int = 0
    then_close: bool = False
    tail: bytes = b""
    raw: bytes = b""
    # Asks the server for a requestState (tool, arguments), with the credential of a user.
    ask_state: Callable[..., str] | None = None

    def __post_init__(self) -> None:
        self.message = self.request("tools/call", name="echo", arguments={"text": TEXT})

    @property
    def is_modern(self) -> bool:
        return self.era == MODERN

    def filled(self, text: str) -> str:
        """
        Return the text, with the port and the credentials that it names as ``{token}`` filled in.
        """
        for name, value in {**self.secrets, "port": str(self.port)}.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def request(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Return a request of the era, with the id 1."""
        if self.is_modern:
            params["_meta"] = {
                VERSION: MODERN,
                CLIENT: {"name": "hostile", "version": "1"},
                CAPABILITIES: {},
            }
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}

    def content(self) -> bytes:
        """Return the body: the message as JSON, in which each edit replaces a text."""
        if self.body is not None:
            return self.body
        text = json.dumps(self.message, separators=(",", ":"), ensure_ascii=False)
        for old, new in self.edits:
            assert text.count(old) == 1, (old, text[:300])
            text = text.replace(old, new)
        # U+DC80 to U+DCFF stand for the bytes 80 to FF, which are not UTF-8.
        return text.encode("utf-8", "surrogateescape")

    def headers(self, length: int) -> list[tuple[str, str]]:
        """Return the headers of the era, replaced by those that a change has set."""
        known = {
            "Host": f"127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Connection": "close",
        }
        if self.caller:
            known["Authorization"] = f"Bearer {self.caller}"
        if self.era != "none":
            known["MCP-Protocol-Version"] = self.era
        if self.is_modern and isinstance(self.message, dict):
            method, params = self.message.get("method"), self.message.get("params")
            if isinstance(method, str):
                known["Mcp-Method"] = method
                named = params.get(NAMED_BY.get(method)) if isinstance(params, dict) else None
                if isinstance(named, str):
                    known["Mcp-Name"] = in_header(named)
        if self.chunks:
            known["Transfer-Encoding"] = "chunked"
        elif self.verb not in ("GET", "HEAD"):
            known["Content-Length"] = str(length)
        lines = [(name, (value,)) for name, value in known.items() if name not in self.own]
        return [(name, each) for name, values in [*lines, *self.own.items()] for each in values]

    def parts(self) -> list[bytes]:
        """Return the bytes to send."""
        if self.raw:
            return [self.raw]
        body = self.content() if self.verb not in ("GET", "HEAD") else b""
        lines = [f"{self.verb} {self.filled(self.target)} {self.protocol}"]
        lines += [f"{name}: {value}" for name, value in self.headers(len(body))]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        if self.chunks:
            pieces = [body[at : at + self.chunks] for at in range(0, len(body), self.chunks)]
            body = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces) + b"0\r\n\r\n"
        return [head, body + self.tail]


def in_header(text: str) -> str:
    """Return a text as a header value, encoded as clients encode it."""
    if text == text.strip() and text.isascii() and text.isprintable():
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


Change: TypeAlias = Callable[[Draft], None]


def values(**attributes: Any) -> Change:
    """Set attributes of the draft itself, such as verb and target."""
    return lambda draft: vars(draft).update(attributes)


def header(name: str, *given: str) -> Change:
    """Send a header once for each value, or not at all without values; see ``Draft.filled``."""

    def change(draft: Draft) -> None:
        draft.own[name] = tuple(map(draft.filled, given))

    return change


def body(content: str | bytes) -> Change:
    """Send a body that is not a message."""
    given = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    return values(body=given)


def rewritten(function: Callable[[bytes], bytes]) -> Change:
    """Send the result of the function for the good body."""

    def change(draft: Draft) -> None:
        draft.body = function(draft.content())

    return change


def edit(old: str, new: str) -> Change:
    """Replace a part of the body's text that occurs once."""
    return lambda draft: draft.edits.append((old, new))


def argument(text: str) -> Change:
    """Put a JSON text in place of the argument's value."""
    return edit(f'"{TEXT}"', text)


def member(name: str, text: str | None) -> Change:
    """Give a member of the message another JSON text; None omits the member."""

    def change(draft: Draft) -> None:
        old = json.dumps({name: draft.message[name]}, separators=(",", ":"))[1:-1]
        if text is None:
            del draft.message[name]
        else:
            draft.edits.append((old, f'"{name}":{text}'))

    return change


def message(value: Any) -> Change:
    """Send another message, which is any JSON value, instead of the good call."""
    return values(message=value)


def method(name: str, /, **params: Any) -> Change:
    """Send a request of another method, with its params."""

    def change(draft: Draft) -> None:
        draft.message = draft.request(name, **params)

    return change


def call(tool: Any, /, **arguments: Any) -> Change:
    """Call another tool."""
    return method("tools/call", name=tool, arguments=arguments)


def params(**given: Any) -> Change:
    """Set members of params; ... omits one."""

    def change(draft: Draft) -> None:
        for name, value in given.items():
            draft.message["params"][name] = value
            if value is ...:
                del draft.message["params"][name]

    return change


def meta(key: str, value: Any) -> Change:
    """Set a member of params._meta; ... omits it."""

    def change(draft: Draft) -> None:
        found = draft.message["params"].setdefault("_meta", {})
        found[key] = value
        if value is ...:
            del found[key]

    return change
