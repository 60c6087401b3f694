"""Owns reading WebP containers: canvas, EXIF, profile and animation."""

from __future__ import annotations

from collections.abc import Iterator

from fastdata_cli.imaging.headers.header import Draft, corrupt, truncated
from fastdata_cli.imaging.source import Source

_PROFILE, _ALPHA, _EXIF, _ANIMATION = 0x20, 0x10, 0x08, 0x02


def chunks(source: Source) -> Iterator[tuple[bytes, int, int]]:
    """Type, offset of the data and length of each chunk whose head is whole."""
    at, end = 12, _stated_end(source)
    while at + 8 <= end:
        head = source.read(at, 8)
        if len(head) < 8:
            return
        length = int.from_bytes(head[4:], "little")
        yield head[:4], at + 8, length
        at += 8 + length + (length & 1)


def _stated_end(source: Source) -> int:
    return 8 + int.from_bytes(source.read(4, 4), "little")


def read(source: Source) -> Draft:
    """Read the canvas from the first chunk and metadata from the others.

    Errors:
        BadSampleError: truncated or corrupt.
    """
    draft = Draft("webp")
    walk = chunks(source)
    first = next(walk, None)
    if first is None:
        raise truncated("webp", "ends before the header")
    kind, at, _ = first
    head = source.read(at, 10)
    if len(head) < 10:
        raise truncated("webp", "ends inside the header")
    if kind == b"VP8 ":
        _lossy(draft, head)
    elif kind == b"VP8L":
        _lossless(draft, head)
    elif kind == b"VP8X":
        draft.width = 1 + int.from_bytes(head[4:7], "little")
        draft.height = 1 + int.from_bytes(head[7:10], "little")
        draft.mode = "RGBA" if head[0] & _ALPHA else "RGB"
        _extended(draft, source, head[0], walk)
    else:
        raise corrupt("webp", "unknown first chunk")
    return draft


def _lossy(draft: Draft, head: bytes) -> None:
    if head[3:6] != b"\x9d\x01\x2a":
        raise corrupt("webp", "no key frame")
    draft.width = int.from_bytes(head[6:8], "little") & 0x3FFF
    draft.height = int.from_bytes(head[8:10], "little") & 0x3FFF
    draft.mode = "RGB"


def _lossless(draft: Draft, head: bytes) -> None:
    if head[0] != 0x2F:
        raise corrupt("webp", "no lossless signature")
    bits = int.from_bytes(head[1:5], "little")
    draft.width = 1 + (bits & 0x3FFF)
    draft.height = 1 + (bits >> 14 & 0x3FFF)
    draft.mode = "RGBA" if bits >> 28 & 1 else "RGB"


def _extended(
    draft: Draft, source: Source, flags: int, walk: Iterator[tuple[bytes, int, int]]
) -> None:
    frames = 0
    for kind, at, length in walk:
        if kind == b"ANMF":
            frames += 1
        elif kind == b"EXIF" and flags & _EXIF:
            draft.exif(source.read(at, length))
        elif kind == b"ICCP" and flags & _PROFILE:
            draft.profile(source.read(at, min(length, 4096)))
    if flags & _ANIMATION and frames > 1:
        draft.note("multi-frame")


def verify(source: Source) -> None:
    """Check that the file is as long as it says.

    Errors:
        BadSampleError: truncated.
    """
    # An odd last chunk may lack its padding byte; decoders do not ask for it.
    if source.size + 1 < _stated_end(source):
        raise truncated("webp", f"{source.size} of {_stated_end(source)} bytes")
