"""The smallest valid PNG and WAV files, made rather than stored."""

from __future__ import annotations

import io
import struct
import wave
import zlib


def red_pixel() -> bytes:
    """Return a PNG image of one red pixel."""
    size_and_format = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    unfiltered_row = b"\x00\xff\x00\x00"
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        (
            _chunk(b"IHDR", size_and_format),
            _chunk(b"IDAT", zlib.compress(unfiltered_row)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def silence() -> bytes:
    """Return a WAV file of ten milliseconds of silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(160))
    return file.getvalue()
