"""
Convert files, images and bytes that a tool returns to content blocks.

``image/*`` becomes ImageContent, ``audio/*`` AudioContent, anything else an EmbeddedResource at
``attachment:///NAME``, a URI that does not resolve. Types of optional libraries are recognised by
name, so that the libraries need not be imported.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any, Final, TypeAlias, get_args
from urllib.parse import quote

from django.core.files import File
from django.utils.http import parse_header_parameters

from mcp_bridge.conf import conf
from mcp_bridge.protocol import ContentBlock
from mcp_bridge.protocol.content import AudioContent, EmbeddedResource, ImageContent
from mcp_bridge.schemas.outputs import register_content

# Bytes with their media type and file name, each "" if unknown.
Media: TypeAlias = tuple[bytes, str, str]

_MEDIA_TYPE: Final = re.compile(r"[a-z]+/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*")
_TEXTUAL: Final = re.compile(
    r"text/.*|.*[+](json|xml|yaml)|application/(json|xml|yaml|toml|javascript|sql)"
)
_LONGEST_HEADER: Final = 4096
# The Pillow modes that PNG supports; images of other modes are converted to RGB.
_PNG_MODES: Final = frozenset({"1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"})


@dataclass(frozen=True, slots=True)
class MediaType:
    """
    The media type of bytes, in a return hint: ``Annotated[bytes, MediaType("image/png")]``.

    Raises ValueError if the name is not a valid media type.
    """

    name: str

    def __post_init__(self) -> None:
        if not _MEDIA_TYPE.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is not a media type such as image/png")


def media_type_in(hint: Any) -> str:
    """
    Return the media type that a return hint names at any depth, or "".

    Raises ValueError if it names several, since bytes do not indicate their type.
    """
    names = sorted({each.name for each in _parts(hint) if isinstance(each, MediaType)})
    if len(names) > 1:
        raise ValueError(
            f"its return hint names several media types ({', '.join(names)}): return content "
            "blocks, such as ImageContent(data, media_type)"
        )
    return names[0] if names else ""


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for each in (*get_args(hint), *getattr(hint, "__metadata__", ())):
        yield from _parts(each)


def block(media: Media, number: int) -> ContentBlock:
    """Return the content block of media; ``number`` makes the names of unnamed ones unique."""
    data, media_type, name = media
    media_type = media_type or "application/octet-stream"
    kind = media_type.partition("/")[0]
    if kind == "image":
        return ImageContent(data, media_type)
    if kind == "audio":
        return AudioContent(data, media_type)
    contents: str | bytes = data
    if _TEXTUAL.fullmatch(media_type):
        with suppress(UnicodeDecodeError):
            contents = data.decode("utf-8")
    name = name.rpartition("/")[2]
    if not name:
        name = f"result-{number}{mimetypes.guess_extension(media_type) or ''}"
    # Surrogates, which Python uses for file names that are not UTF-8, cannot be sent.
    address = f"attachment:///{quote(name, errors='replace')}"
    return EmbeddedResource(address, contents, media_type)


def header_parameter(header: str, name: str) -> str:
    """Return a parameter of a header such as Content-Type, or "" if none can be read."""
    # Python's parser takes quadratic time. It raises TypeError for RFC 2231 continuations of which
    # only some are numbered, and LookupError for an unknown character set.
    with suppress(LookupError, TypeError, ValueError):
        parameters = parse_header_parameters(header[:_LONGEST_HEADER])[1]
        return str(parameters.get(name, "")).strip()
    return ""


@lru_cache(maxsize=1024)
def reader(kind: type) -> Callable[[Any], Media] | None:
    """Return the function that reads values of a type as media, or None if it is not media."""
    names = (f"{each.__module__}.{each.__qualname__}" for each in kind.__mro__)
    return next((_READERS[name] for name in names if name in _READERS), None)


def _of_file(file: File[Any]) -> Media:
    with file.open() as opened:
        data = opened.read(conf.MAX_RESULT_BYTES + 1)
    name = file.name or ""
    guessed, compression = mimetypes.guess_type(name)
    # The type that an upload declares, else the one guessed from its name if not compressed.
    media_type = getattr(file, "content_type", None) or ("" if compression else guessed or "")
    return data.encode() if isinstance(data, str) else data, media_type, name


def _of_response(response: Any) -> Media:
    if response.status_code != 200:
        raise ValueError(f"a response with status {response.status_code} is not a file")
    if getattr(response, "is_async", False):
        raise TypeError("a response that streams asynchronously cannot be read as a file")
    data = bytearray()
    # Not response.close(), which would send Django's request_finished signal.
    with closing(getattr(response, "file_to_stream", None) or BytesIO()):
        for chunk in response.streaming_content if response.streaming else [response.content]:
            data += chunk
            if len(data) > conf.MAX_RESULT_BYTES:
                # Already too large to be sent; the size check refuses it.
                break
    media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    name = header_parameter(response.headers.get("Content-Disposition", ""), "filename")
    return bytes(data), media_type, name


def _png(save: Callable[..., object]) -> Media:
    written = BytesIO()
    save(written, format="png")
    return written.getvalue(), "image/png", ""


_READERS: Final[dict[str, Callable[[Any], Media]]] = {
    "django.core.files.base.File": _of_file,
    "django.http.response.HttpResponseBase": _of_response,
    "PIL.Image.Image": lambda it: _png((it if it.mode in _PNG_MODES else it.convert("RGB")).save),
    "matplotlib.figure.Figure": lambda figure: _png(figure.savefig),
}

register_content(
    lambda part: isinstance(part, MediaType) or (isinstance(part, type) and bool(reader(part)))
)
