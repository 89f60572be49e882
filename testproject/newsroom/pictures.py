"""Small PNG pictures drawn with the standard library, and the kinds of picture accepted."""

from __future__ import annotations

import random
import struct
import zlib

WIDTH, HEIGHT = 96, 64
SUN = b"\xff\xe0\x60"
SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def image_type(data: bytes) -> str | None:
    """The media type of a PNG, JPEG or GIF picture, by its first bytes; None for all else."""
    for signature, mime_type in SIGNATURES.items():
        if data.startswith(signature):
            return mime_type
    return None


def landscape(rng: random.Random) -> bytes:
    """A sky, a sun and a hillside, as a PNG picture."""
    sky = [rng.randrange(120, 256) for _ in range(3)]
    land = [rng.randrange(20, 120) for _ in range(3)]
    sun = (rng.randrange(15, WIDTH - 15), rng.randrange(10, 28))
    slope, base = rng.uniform(-0.25, 0.25), rng.randrange(38, 50)
    hill = [base + slope * (x - WIDTH / 2) for x in range(WIDTH)]

    def row(y: int) -> bytes:
        shade = 1 - y / HEIGHT / 2
        above, below = (bytes(int(part * shade) for part in colour) for colour in (sky, land))
        pixels = [below if y > top else above for top in hill]
        half = int(max(49 - (y - sun[1]) ** 2, 0) ** 0.5)
        if half:
            pixels[sun[0] - half : sun[0] + half] = [SUN] * (2 * half)
        return b"".join(pixels)

    return png([row(y) for y in range(HEIGHT)])


def png(rows: list[bytes]) -> bytes:
    """A PNG picture of rows of 8-bit RGB pixels, all of one length."""
    header = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
