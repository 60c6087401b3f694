"""Makes the small pictures, sound and damaged, that the imaging tests need."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def scene(width: int, height: int, seed: int = 0) -> Pixels:
    """Smooth random RGB, H x W x 3."""
    rough = np.random.default_rng(seed).integers(0, 256, (6, 7, 3), dtype=np.uint8)
    big = Image.fromarray(rough).resize((width, height), Image.Resampling.BICUBIC)
    return np.array(big, np.uint8)


def save(image: Image.Image | Pixels, kind: str, **options: Any) -> bytes:
    """An encoded picture."""
    if not isinstance(image, Image.Image):
        image = Image.fromarray(image)
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def jpeg(pixels: Image.Image | Pixels, **options: Any) -> bytes:
    """A JPEG of high quality without chroma subsampling."""
    return save(pixels, "JPEG", **({"quality": 95, "subsampling": 0} | options))


def exif(orientation: int, order: str = "<", extra: bytes = b"") -> bytes:
    """A bare EXIF block that holds an orientation."""
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8)
    entry = struct.pack(order + "HHIHH", 0x112, 3, 1, orientation, 0)
    return head + struct.pack(order + "H", 1) + entry + bytes(4) + extra


def segment(marker: int, body: bytes) -> bytes:
    """A JPEG marker segment."""
    return bytes((0xFF, marker)) + struct.pack(">H", len(body) + 2) + body


def insert(data: bytes, *segments: bytes) -> bytes:
    """A JPEG with segments right after its start."""
    return data[:2] + b"".join(segments) + data[2:]


def chunk(kind: bytes, body: bytes, damage: int = 0) -> bytes:
    """A PNG chunk; ``damage`` spoils the checksum."""
    check = zlib.crc32(kind + body) ^ damage
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)


def png(
    width: int,
    height: int,
    depth: int,
    colour: int,
    rows: list[bytes],
    before: bytes = b"",
    after: bytes = b"",
    damage: int = 0,
) -> bytes:
    """A PNG from ready rows; ``damage`` spoils its data's checksum."""
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    parts = (chunk(b"IHDR", head), before, chunk(b"IDAT", body, damage), after)
    return SIGNATURE + b"".join(parts) + chunk(b"IEND", b"")


def rgb_png(pixels: Pixels, **options: Any) -> bytes:
    """An 8-bit RGB PNG."""
    height, width = pixels.shape[:2]
    return png(width, height, 8, 2, [row.tobytes() for row in pixels], **options)


def stored(upright: Pixels, orientation: int) -> Pixels:
    """What a camera writes down so that ``orientation`` shows ``upright``."""
    turned = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: upright.transpose(1, 0, 2)[::-1],
        7: upright.transpose(1, 0, 2)[::-1, ::-1],
        8: upright.transpose(1, 0, 2)[:, ::-1],
    }[orientation]
    return np.ascontiguousarray(turned)
