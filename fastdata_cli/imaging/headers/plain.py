"""Owns reading the two containers without structure: BMP and the PNM family."""

from __future__ import annotations

import re

from fastdata_cli.imaging.headers.header import (
    Draft,
    corrupt,
    too_deep,
    truncated,
    unsupported,
)
from fastdata_cli.imaging.source import Source

_BMP_MODES = {1: "P", 2: "P", 4: "P", 8: "P", 16: "RGB", 24: "RGB", 32: "RGB"}
_TOKEN = re.compile(rb"(?:[ \t\r\n\v\f]|#[^\r\n]*[\r\n])*([0-9]+)")
_PNM_CHANNELS = {b"P5": 1, b"P6": 3}


def read_bmp(source: Source) -> Draft:
    """Read size and depth.

    Errors:
        BadSampleError: truncated or unsupported-format.
    """
    head = source.read(0, 70)
    size = int.from_bytes(head[14:18], "little")
    if len(head) < min(14 + max(size, 12), 54):
        raise truncated("bmp", "ends inside the header")
    draft = Draft("bmp")
    if size == 12:
        draft.width = int.from_bytes(head[18:20], "little")
        draft.height = int.from_bytes(head[20:22], "little")
        bits = int.from_bytes(head[24:26], "little")
    elif size >= 40:
        draft.width = abs(int.from_bytes(head[18:22], "little", signed=True))
        draft.height = abs(int.from_bytes(head[22:26], "little", signed=True))
        bits = int.from_bytes(head[28:30], "little")
    else:
        raise unsupported("bmp", f"header of {size} bytes")
    if bits not in _BMP_MODES:
        raise unsupported("bmp", f"{bits} bits per pixel")
    draft.mode = _BMP_MODES[bits]
    # Alpha is declared by a fourth mask in headers that are long enough to hold it.
    if bits == 32 and size >= 56 and any(head[66:70]):
        draft.mode = "RGBA"
    return draft


def verify_bmp(source: Source) -> None:
    """Check that uncompressed rows are all there.

    Errors:
        BadSampleError: truncated.
    """
    draft, head = read_bmp(source), source.read(0, 34)
    size = int.from_bytes(head[14:18], "little")
    bits = int.from_bytes(head[24:26] if size == 12 else head[28:30], "little")
    if size > 12 and int.from_bytes(head[30:34], "little") not in (0, 3, 6):
        return
    row = (draft.width * bits + 7) // 8
    # The last row's padding is often left out, and no pixel is in it.
    end = int.from_bytes(head[10:14], "little") + (row + 3) // 4 * 4 * (draft.height - 1) + row
    if source.size < end:
        raise truncated("bmp", f"{source.size} of {end} bytes")


def read_pnm(source: Source) -> Draft:
    """Read size and depth.

    Errors:
        BadSampleError: truncated, corrupt, unsupported-format or unsupported-depth.
    """
    draft, _, _ = _pnm(source)
    return draft


def _pnm(source: Source) -> tuple[Draft, bytes, int]:
    head = source.read(0, 4096)
    kind = head[:2]
    if kind in (b"Pf", b"PF"):
        raise too_deep("pnm", "floating point")
    if kind == b"P7":
        raise unsupported("pnm", "arbitrary map")
    numbers, at = [], 2
    for _ in range(2 if kind in (b"P1", b"P4") else 3):
        found = _TOKEN.match(head, at)
        if found is None:
            raise (truncated if not head[at:].strip() else corrupt)("pnm", "broken header")
        numbers.append(int(found[1]))
        at = found.end()
    draft = Draft("pnm", numbers[0], numbers[1])
    top = numbers[2] if len(numbers) == 3 else 1
    if not 0 < top < 65536:
        raise corrupt("pnm", f"largest value {top}")
    grey = kind in (b"P2", b"P5")
    draft.mode = "1" if len(numbers) == 2 else "L" if grey else "RGB"
    if top > 255:
        draft.note("16-bit")
        draft.mode = "I;16" if grey else "RGB;16"
    return draft, kind, at + 1


def as_grey(data: bytes) -> bytes:
    """A colour PNM as a grey one of the same numbers, three columns to a pixel.

    Pillow keeps the 16 bits of grey, and rounds those of colour to 8 by itself.
    """
    width = _TOKEN.match(data, 2)
    assert width is not None, "its header was read"
    kind = b"P5" if data[:2] == b"P6" else b"P2"
    columns = b"%d" % (3 * int(width[1]))
    return b"".join((kind, data[2 : width.start(1)], columns, data[width.end(1) :]))


def verify_pnm(source: Source) -> None:
    """Check that binary rows are all there.

    Errors:
        BadSampleError: truncated.
    """
    draft, kind, start = _pnm(source)
    if kind == b"P4":
        need = (draft.width + 7) // 8 * draft.height
    elif kind in _PNM_CHANNELS:
        depth = 2 if "16" in draft.mode else 1
        need = draft.width * draft.height * _PNM_CHANNELS[kind] * depth
    else:
        return
    if source.size < start + need:
        raise truncated("pnm", f"{source.size} of {start + need} bytes")
