"""
Files, pictures and bytes that a tool returns, as content blocks.

``image/*`` becomes ImageContent, ``audio/*`` AudioContent, anything else an EmbeddedResource with
an address of its own, ``attachment:///NAME``, which nothing resolves. Of optional libraries only
the names of their types are known: a value is at hand only where its library is.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from email.message import Message
from functools import lru_cache
from io import BytesIO
from typing import Any, Final, get_args
from urllib.parse import quote

from django.core.files import File
from django.http.response import HttpResponseBase

from mcp_bridge.conf import conf
from mcp_bridge.protocol import ContentBlock
from mcp_bridge.protocol.content import AudioContent, EmbeddedResource, ImageContent
from mcp_bridge.schemas.outputs import register_content

SCHEME: Final = "attachment"
_UNKNOWN: Final = "application/octet-stream"
_MEDIA_TYPE: Final = re.compile(r"[a-z]+/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*")
_TEXTUAL: Final = re.compile(
    r"text/.*|.*[+](json|xml|yaml)|application/(json|xml|yaml|toml|javascript|sql)"
)
# What PNG can hold; pictures of other modes become RGB.
_PNG_MODES: Final = frozenset({"1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"})


@dataclass(frozen=True, slots=True)
class MediaType:
    """
    The media type of bytes, in a return hint: ``Annotated[bytes, MediaType("image/png")]``.

    Raises ValueError for a text that is no media type.
    """

    name: str

    def __post_init__(self) -> None:
        if not _MEDIA_TYPE.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no media type such as image/png")


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """Bytes with their media type and name ("" for none)."""

    data: bytes
    media_type: str
    name: str = ""

    def block(self, number: int = 1) -> ContentBlock:
        """Return the content block; ``number`` tells those without a name apart."""
        kind = self.media_type.partition("/")[0]
        if kind == "image":
            return ImageContent(self.data, self.media_type)
        if kind == "audio":
            return AudioContent(self.data, self.media_type)
        name = self.name.rpartition("/")[2]
        if not name:
            name = f"result-{number}{mimetypes.guess_extension(self.media_type) or ''}"
        return EmbeddedResource(f"{SCHEME}:///{quote(name)}", self._contents(), self.media_type)

    def _contents(self) -> str | bytes:
        if not _TEXTUAL.fullmatch(self.media_type):
            return self.data
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError:
            return self.data


Reader = Callable[[Any], Media]


@lru_cache(maxsize=1024)
def reader(kind: type) -> Reader | None:
    """Return the function that reads values of a type as Media, or None where there is none."""
    if issubclass(kind, File):
        return _of_file
    if issubclass(kind, HttpResponseBase):
        return _of_response
    for each in kind.__mro__:
        found = _OPTIONAL.get(f"{each.__module__}.{each.__qualname__}")
        if found is not None:
            return found
    return None


def media_type_in(hint: Any) -> str | None:
    """
    Return the media type that a return hint names anywhere, or None.

    Raises ValueError where it names several, since bytes do not say which of them they have.
    """
    names = sorted({each.name for each in _parts(hint) if isinstance(each, MediaType)})
    if len(names) > 1:
        raise ValueError(
            f"its return hint names several media types ({', '.join(names)}): return content "
            "blocks, such as ImageContent(data, media_type)"
        )
    return names[0] if names else None


def of_bytes(data: bytes, media_type: str | None) -> Media:
    """Return bytes that a tool returned as Media, of the media type in its hint."""
    return Media(data=data, media_type=media_type or _UNKNOWN)


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for each in (*get_args(hint), *getattr(hint, "__metadata__", ())):
        yield from _parts(each)


def _promises_media(hint: Any) -> bool:
    """Return whether values of a part of a hint become content here."""
    return isinstance(hint, MediaType) or (isinstance(hint, type) and reader(hint) is not None)


def _of_file(file: File[Any]) -> Media:
    name = file.name or ""
    with file.open() as opened:
        data = opened.read(conf.MAX_RESULT_BYTES + 1)
    if isinstance(data, str):
        data = data.encode()
    return Media(data=data, media_type=_type_of(file, name), name=name)


def _type_of(file: File[Any], name: str) -> str:
    """Return the type that an upload declares, or that of its name; no text where compressed."""
    guessed, compression = mimetypes.guess_type(name)
    declared = getattr(file, "content_type", None)
    return declared or (guessed if guessed and not compression else _UNKNOWN)


def _of_response(response: Any) -> Media:
    if response.status_code != 200:
        raise ValueError(f"a response of status {response.status_code} is no file")
    if getattr(response, "is_async", False):
        raise TypeError("a response that streams asynchronously cannot be read as a file")
    header = Message()
    for name in ("Content-Disposition", "Content-Type"):
        if name in response.headers:
            header[name] = response.headers[name]
    # Not response.close(), which tells all of Django that the request is over.
    with closing(getattr(response, "file_to_stream", None) or BytesIO()):
        data = _bounded(response.streaming_content if response.streaming else [response.content])
    return Media(data=data, media_type=header.get_content_type(), name=header.get_filename() or "")


def _bounded(chunks: Iterable[bytes]) -> bytes:
    """Return the chunks joined, but no more than shows that a result is too large to be sent."""
    whole = bytearray()
    for chunk in chunks:
        whole += chunk
        if len(whole) > conf.MAX_RESULT_BYTES:
            break
    return bytes(whole)


def _of_picture(picture: Any) -> Media:
    written = BytesIO()
    fit = picture if picture.mode in _PNG_MODES else picture.convert("RGB")
    fit.save(written, "PNG")
    return Media(data=written.getvalue(), media_type="image/png")


def _of_figure(figure: Any) -> Media:
    written = BytesIO()
    figure.savefig(written, format="png")
    return Media(data=written.getvalue(), media_type="image/png")


_OPTIONAL: Final[dict[str, Reader]] = {
    "PIL.Image.Image": _of_picture,
    "matplotlib.figure.Figure": _of_figure,
}

register_content(_promises_media)
