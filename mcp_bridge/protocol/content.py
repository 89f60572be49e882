"""Content blocks and the result of a tool call, with the names of the MCP schema."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final

from mcp_bridge.protocol.jsonrpc import JSONObject, encode
from mcp_bridge.protocol.revisions import Revision

# The keys in a result's _meta of the errors of the arguments, the seconds to wait before the next
# call, and the call that is pending approval.
ERRORS_KEY: Final = "mcp-bridge/errors"
RETRY_KEY: Final = "mcp-bridge/retryAfter"
PENDING_KEY: Final = "mcp-bridge/pending"

# Members of the schema whose Python names differ.
_SPELLED = {"mime_type": "mimeType"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentBlock:
    """
    The base of blocks; ``annotations`` is MCP's Annotations, ``meta`` is sent as ``_meta``.

    ``others`` are the members of another server's block that the schema does not have.
    """

    type: ClassVar[str]
    annotations: Mapping[str, Any] | None = None
    meta: Mapping[str, Any] | None = None
    others: Mapping[str, Any] | None = None

    def members(self) -> dict[str, Any]:
        """Return the members of this kind of block; None for those that are absent."""
        shared = ("annotations", "meta", "others")
        own = (each.name for each in fields(self) if each.name not in shared)
        return {_SPELLED.get(name, name): getattr(self, name) for name in own}

    def to_json(self) -> bytes:
        """Return the block as JSON text, without absent members."""
        shared = {"annotations": self.annotations, "_meta": self.meta}
        members = {"type": self.type, **self.members(), **shared, **(self.others or {})}
        return encode({name: value for name, value in members.items() if value is not None})


@dataclass(frozen=True, slots=True)
class TextContent(ContentBlock):
    """Text for the model."""

    type: ClassVar[str] = "text"
    text: str

    def to_json(self) -> bytes:
        if not isinstance(self.text, str):
            raise TypeError(f"TextContent holds a str, not a {type(self.text).__name__}")
        if self.annotations is None and self.meta is None and self.others is None:
            # Nearly every result is such a block: skip the intermediate dict.
            return b'{"type":"text","text":' + encode(self.text) + b"}"
        return ContentBlock.to_json(self)


@dataclass(frozen=True, slots=True)
class _Media(ContentBlock):
    data: bytes
    mime_type: str

    def members(self) -> dict[str, Any]:
        return {"data": b64encode(self.data).decode(), "mimeType": self.mime_type}


class ImageContent(_Media):
    """An image: its bytes, and a media type such as "image/png"."""

    type = "image"


class AudioContent(_Media):
    """Sound: its bytes, and a media type such as "audio/wav"."""

    type = "audio"


@dataclass(frozen=True, slots=True)
class ResourceLink(ContentBlock):
    """The URI of a resource that the client may fetch. ``size`` is in bytes."""

    type: ClassVar[str] = "resource_link"
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class EmbeddedResource(ContentBlock):
    """A resource with its contents: text (str), or a blob (bytes)."""

    type: ClassVar[str] = "resource"
    uri: str
    contents: str | bytes
    mime_type: str | None = None

    def members(self) -> dict[str, Any]:
        resource = {"uri": self.uri}
        if self.mime_type is not None:
            resource["mimeType"] = self.mime_type
        if isinstance(self.contents, bytes):
            resource["blob"] = b64encode(self.contents).decode()
        else:
            resource["text"] = self.contents
        return {"resource": resource}


@dataclass(frozen=True, slots=True)
class PromptMessage(ContentBlock):
    """A message of a prompt: a block, or a text, of the ``role`` "user" or "assistant"."""

    block: ContentBlock | str
    role: str = "user"

    def __post_init__(self) -> None:
        if self.role not in ("user", "assistant"):
            raise ValueError(f'the role of a message is "user" or "assistant", not {self.role!r}')

    @property
    def content(self) -> ContentBlock:
        """The block, also of a text."""
        return TextContent(self.block) if isinstance(self.block, str) else self.block

    @property
    def type(self) -> str:  # type: ignore[override]
        return self.content.type

    def to_json(self) -> bytes:
        return b'{"role":"' + self.role.encode() + b'","content":' + self.content.to_json() + b"}"


@dataclass(frozen=True, slots=True)
class OtherContent(ContentBlock):
    """A block that another server sent, with all its members; it is sent on as it came."""

    given: JSONObject

    @property
    def type(self) -> str:  # type: ignore[override]
        return str(self.given.get("type"))

    def members(self) -> dict[str, Any]:
        return dict(self.given)

    def to_json(self) -> bytes:
        return encode(self.given)


@dataclass(frozen=True, kw_only=True)
class CallToolResult:
    """
    The result of a tool call (MCP schema, ``CallToolResult``).

    ``structured`` is the value of ``structuredContent``: a JSON object, or the JSON text of one
    (bytes), which is sent unchanged. ``meta`` is sent as ``_meta``. If the result ``is_foreign``,
    which another server sent, its structured content may be any JSON value, and that of an error is
    sent too; ``others`` are its members that the schema does not have.
    """

    content: Sequence[ContentBlock] = ()
    structured: Any = None
    is_error: bool = False
    meta: JSONObject = field(default_factory=dict)
    is_foreign: bool = False
    others: JSONObject = field(default_factory=dict)
    # All members except _meta as JSON text, by revision: measured first, sent later.
    _written: dict[str, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)
    # The content as JSON text, if already serialised.
    _content: bytes | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def of_json(cls, text: str, plain: bytes, structured: bytes) -> CallToolResult:
        """
        Return a result with a value both as text and as structured content.

        ``plain`` is its compact JSON text; ``text`` is the same, or the string if it is one.
        """
        result = cls(content=[TextContent(text)], structured=structured)
        if not plain.startswith(b'"'):
            plain = b'"' + plain.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
        vars(result)["_content"] = b'[{"type":"text","text":' + plain + b"}]"
        return result

    @classmethod
    def error(cls, text: str, meta: JSONObject | None = None) -> CallToolResult:
        """Return the result of a failed call, with the text for the model."""
        return cls(content=(TextContent(text),), is_error=True, meta=meta or {})

    @property
    def structured_content(self) -> Any:
        """The value of ``structuredContent``, parsed if it is stored as JSON text."""
        if isinstance(self.structured, bytes):
            return json.loads(self.structured)
        return self.structured

    def to_json(self, revision: Revision, server_meta: bytes = b"{}") -> bytes:
        """
        Return JSON text; ``server_meta``, a JSON object, is merged into ``_meta``.

        Raises ValueError or TypeError if the result contains values that JSON cannot represent.
        """
        meta = encode({**self.meta, **json.loads(server_meta)}) if self.meta else server_meta
        members = self._written.get(revision.version) or self._write(revision)
        return members + (b"}" if meta == b"{}" else b',"_meta":' + meta + b"}")

    def _write(self, revision: Revision) -> bytes:
        content = self._content
        if content is None:
            blocks = (_at(revision, block).to_json() for block in self.content)
            content = b"[" + b",".join(blocks) + b"]"
        members = [b'{"content":' + content]
        structured = self.structured
        is_sent = revision.structured_content and (self.is_foreign or not self.is_error)
        if structured is not None and is_sent:
            written = structured if isinstance(structured, bytes) else encode(structured)
            if written.startswith(b"{") or self.is_foreign and revision.modern:
                members.append(b'"structuredContent":' + written)
            elif not self.is_foreign:
                raise ValueError("structured content must be a JSON object")
        members.append(b'"isError":true' if self.is_error else b'"isError":false')
        if revision.modern:
            members.append(b'"resultType":"complete"')
        if self.others:
            members.append(encode(self.others)[1:-1])
        self._written[revision.version] = whole = b",".join(members)
        return whole


def _at(revision: Revision, block: ContentBlock) -> ContentBlock:
    """Return the block, or a text block if the revision does not support its type."""
    if block.type in revision.content_types:
        return block
    if isinstance(block, PromptMessage):
        return PromptMessage(_at(revision, block.content), block.role)
    if block.type == ResourceLink.type:
        link = block.members()
        return TextContent(f"{link.get('title') or link.get('name')}: {link.get('uri')}")
    return TextContent(json.dumps({"type": block.type, "note": f"not part of MCP {revision}"}))
