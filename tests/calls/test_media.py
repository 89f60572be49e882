"""Results that are not specific to MCP: files, pictures, bytes, generators."""

from __future__ import annotations

import base64
import io
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import PIL.Image
import pytest
from django.core.files import File
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db.models import FileField
from django.db.models.fields.files import FieldFile
from django.http import FileResponse, HttpResponse, HttpResponseNotFound, StreamingHttpResponse
from matplotlib.figure import Figure
from pydantic import BaseModel, ConfigDict

from mcp_bridge.calls.media import MediaType
from mcp_bridge.calls.results import write
from mcp_bridge.protocol.content import ContentBlock, TextContent
from mcp_bridge.schemas import Outputs
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.serving import giving, messages, names, served
from tests.support.values import UNREADABLE, label

DATA = b"\xfb\xff\xfe\x00"
ENCODED = "+//+AA=="
PNG = Annotated[bytes, MediaType("image/png")]
PDF = Annotated[bytes, MediaType("application/pdf")]


def image(data: str = ENCODED, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "data": data, "mimeType": kind}


def resource(name: str, kind: str, **contents: str) -> dict[str, Any]:
    uri = f"attachment:///{name}"
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, **contents}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def response(data: bytes, name: str, **options: Any) -> FileResponse:
    return FileResponse(io.BytesIO(data), filename=name, **options)


def content_of(client: CheckedClient, settings: Any, function: Any, **options: Any) -> Any:
    """Return the content of what the function's tool gives; nothing is promised or structured."""
    serve(settings, function, **options)
    assert served(function.__name__).output_schema is None
    result = client.call_tool(function.__name__)
    assert (result["isError"], "structuredContent" in result) == (False, False), result
    return result["content"]


BYTES: list[Any] = [
    (PNG, DATA, [image()]),
    (PNG | None, DATA, [image()]),
    (list[PNG], [DATA, DATA], [image(), image()]),
    (tuple[PNG, ...], (DATA,), [image()]),
    (
        Annotated[bytes, MediaType("audio/wav")],
        DATA,
        [{"type": "audio", "data": ENCODED, "mimeType": "audio/wav"}],
    ),
    (PDF, DATA, [resource("result-1.pdf", "application/pdf", blob=ENCODED)]),
    (
        list[PDF],
        [b"a", b"b"],
        [
            resource("result-1.pdf", "application/pdf", blob="YQ=="),
            resource("result-2.pdf", "application/pdf", blob="Yg=="),
        ],
    ),
    (
        Annotated[bytes, MediaType("text/csv")],
        b"a,b\n",
        [resource("result-1.csv", "text/csv", text="a,b\n")],
    ),
    (
        Annotated[bytes, MediaType("text/plain")],
        DATA,
        [resource("result-1.txt", "text/plain", blob=ENCODED)],
    ),
    (PNG | str, "no picture", [text("no picture")]),
    (PNG | None, None, [text("null")]),
    (list[PNG], [], []),
]


@pytest.mark.parametrize(("hint", "value", "content"), BYTES, ids=label)
def test_bytes_become_blocks_by_media_type(
    hint: Any, value: Any, content: Any, modern: CheckedClient, settings: Any
) -> None:
    assert content_of(modern, settings, giving(hint, value)) == content


@pytest.mark.parametrize("name", ["png", "image/", "/png", "image/png; q=1", "image/a b", ""])
def test_invalid_media_type_raises_in_the_decorator(name: str) -> None:
    with pytest.raises(ValueError, match="not a media type"):
        MediaType(name)


def test_several_media_types_are_reported_by_checks(settings: Any) -> None:
    serve(settings, giving(tuple[PNG, PDF], (DATA, DATA)))
    assert names() == []
    (message,) = messages("mcp_bridge.E006")
    assert "application/pdf, image/png" in message


FILES: list[Any] = [
    (File, ContentFile(DATA, "dir/a.png"), [image()]),
    (
        File,
        ContentFile(b"a;b", "data sheet.csv"),
        [resource("data%20sheet.csv", "text/csv", text="a;b")],
    ),
    (File, ContentFile("é", "a.txt"), [resource("a.txt", "text/plain", text="é")]),
    (File, ContentFile(b"{}", "a.json"), [resource("a.json", "application/json", text="{}")]),
    (
        File,
        ContentFile(b"x", "a.csv.gz"),
        [resource("a.csv.gz", "application/octet-stream", blob="eA==")],
    ),
    (File, ContentFile(b"x"), [resource("result-1.bin", "application/octet-stream", blob="eA==")]),
    (Any, ContentFile(DATA, "a.png"), [image()]),
    # A name of bytes that are not UTF-8, as Python reads it from a file system.
    (File, ContentFile(b"x", "caf\udce9.txt"), [resource("caf%3F.txt", "text/plain", text="x")]),
    (SimpleUploadedFile, SimpleUploadedFile("a", DATA, "image/gif"), [image(kind="image/gif")]),
    (
        HttpResponse,
        HttpResponse(b"<p>", "text/html; charset=utf-8"),
        [resource("result-1.html", "text/html", text="<p>")],
    ),
    (HttpResponse, HttpResponse(DATA, "image/webp"), [image(kind="image/webp")]),
]


@pytest.mark.parametrize(("hint", "value", "content"), FILES, ids=label)
def test_files_become_blocks_by_name(
    hint: Any, value: Any, content: Any, modern: CheckedClient, settings: Any
) -> None:
    assert content_of(modern, settings, giving(hint, value)) == content


def test_file_on_disk_is_read_and_closed(
    modern: CheckedClient, settings: Any, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("words")
    field = FileField(storage=FileSystemStorage(tmp_path))
    file = FieldFile(None, field, "a.txt")  # type: ignore[arg-type]
    content = content_of(modern, settings, giving(FieldFile, file))
    assert content == [resource("a.txt", "text/plain", text="words")]
    assert file.closed


@pytest.mark.parametrize("attached", [True, False])
def test_file_response_is_sent_as_its_file(
    attached: bool, modern: CheckedClient, settings: Any
) -> None:
    sent = response(b"x" * 9000, "über uns.pdf", as_attachment=attached)
    (block,) = content_of(modern, settings, giving(FileResponse, sent))
    assert block["resource"]["uri"] == "attachment:///%C3%BCber%20uns.pdf"
    assert block["resource"]["mimeType"] == "application/pdf"
    assert base64.b64decode(block["resource"]["blob"]) == b"x" * 9000
    assert sent.file_to_stream.closed


@pytest.mark.parametrize("named", UNREADABLE)
def test_unreadable_filename_of_a_response_is_dropped(
    named: str, modern: CheckedClient, settings: Any
) -> None:
    sent = HttpResponse(
        DATA, "application/pdf", headers={"Content-Disposition": f"attachment; {named}"}
    )
    content = content_of(modern, settings, giving(HttpResponse, sent))
    assert content == [resource("result-1.pdf", "application/pdf", blob=ENCODED)]


async def chunks() -> AsyncIterator[bytes]:
    yield b"x"


@pytest.mark.parametrize(
    "sent", [HttpResponseNotFound(), StreamingHttpResponse(chunks())], ids=["404", "asynchronous"]
)
def test_response_without_a_file_is_a_tool_failure(
    sent: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, giving(HttpResponse, sent))
    assert "reference" in text_of(modern.call_tool("give"))


class Endless(io.RawIOBase):
    """A file that never ends."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, *place: int) -> int:
        return 0

    def readinto(self, buffer: Any) -> int:
        buffer[:] = b"x" * len(buffer)
        return len(buffer)


@pytest.mark.parametrize(
    "make", [lambda: FileResponse(Endless()), lambda: File(io.BufferedReader(Endless()), "a")]
)
def test_oversized_file_is_not_read_completely(
    make: Callable[[], Any], modern: CheckedClient, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"MAX_RESULT_BYTES": 50_000}
    serve(settings, giving(Any, make()))
    assert "50000" in text_of(modern.call_tool("give"))


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "1", "P", "CMYK", "F", "I;16"])
def test_picture_is_a_png(mode: str, modern: CheckedClient, settings: Any) -> None:
    picture = PIL.Image.new(mode, (3, 2))
    (block,) = content_of(modern, settings, giving(PIL.Image.Image, picture))
    assert block["mimeType"] == "image/png"
    assert PIL.Image.open(io.BytesIO(base64.b64decode(block["data"]))).size == (3, 2)


def test_figure_is_a_png(modern: CheckedClient, settings: Any) -> None:
    figure = Figure(figsize=(1, 1))
    (block,) = content_of(modern, settings, giving(Figure, figure))
    assert base64.b64decode(block["data"]).startswith(b"\x89PNG")


@dataclass
class Hit:
    n: int


@pytest.mark.parametrize("hint", [list[ContentBlock | Hit | str], list, Any], ids=label)
def test_plain_values_beside_blocks_are_text_blocks(
    hint: Any, modern: CheckedClient, settings: Any
) -> None:
    values = ["words", TextContent("block"), Hit(1), {"a": [1]}, None, ContentFile(DATA, "a.png")]
    serve(settings, giving(hint, values))
    if hint is list:
        assert modern.call_tool("give")["isError"]  # its schema promises a structure
        return
    told = ["words", "block", '{"n":1}', '{"a":[1]}', "null"]
    assert modern.call_tool("give")["content"] == [*map(text, told), image()]


def test_non_json_value_beside_blocks_is_a_failure(modern: CheckedClient, settings: Any) -> None:
    serve(settings, giving(Any, [TextContent("a"), float("nan")]))
    assert "reference" in text_of(modern.call_tool("give"))


class Stored(BaseModel):
    """With a custom configuration that does not mention bytes."""

    model_config = ConfigDict(extra="forbid")
    data: bytes
    parts: list[Stored] = []


@dataclass
class Packed:
    data: bytes


NESTED = Stored(data=DATA, parts=[Stored(data=DATA)])
ENCODINGS: list[Any] = [
    (Stored | None, NESTED, {"data": ENCODED, "parts": [{"data": ENCODED, "parts": []}]}),
    (list[Packed], [Packed(DATA)], [{"data": ENCODED}]),
    (list[dict[bytes, int]], [{DATA: 1}], [{ENCODED: 1}]),
    (bytes, DATA, ENCODED),
    (list[bytes], [DATA], [ENCODED]),
    (bytes | int, DATA, ENCODED),
    (bytes | int, 5, 5),
    (str | bytes, DATA, ENCODED),
    (bytes | None, None, None),
]


@pytest.mark.parametrize(("hint", "value", "written"), ENCODINGS, ids=label)
def test_bytes_in_structures_use_standard_base64(
    hint: Any, value: Any, written: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, giving(hint, value))
    assert modern.call_tool("give")["structuredContent"] == {"result": written}


def test_non_bytes_are_not_written_as_bytes() -> None:
    with pytest.raises(ValueError, match="1 validation error"):
        write(Outputs(bytes), 5)
