"""Owns reading AVIF files: the box tree down to the primary picture's properties."""

from __future__ import annotations

from collections.abc import Iterator

from fastdata_cli.imaging.headers.header import Draft, corrupt, truncated
from fastdata_cli.imaging.source import MemorySource, Source

_MAX_META = 1 << 24
# (angle in quarter turns anticlockwise, mirror axis or None) to the EXIF orientation that shows
# the same: the mirror is applied after the turn.
_ORIENTATIONS: dict[tuple[int, int | None], int] = {
    (0, None): 1,
    (0, 0): 4,
    (0, 1): 2,
    (1, None): 8,
    (1, 0): 5,
    (1, 1): 7,
    (2, None): 3,
    (2, 0): 2,
    (2, 1): 4,
    (3, None): 6,
    (3, 0): 7,
    (3, 1): 5,
}


def boxes(source: Source, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Type, start and end of the content of each box from ``at`` on."""
    while at + 8 <= end:
        head = source.read(at, 16)
        if len(head) < 8:
            return
        length, start = int.from_bytes(head[:4], "big"), at + 8
        if length == 1:
            length, start = int.from_bytes(head[8:16], "big"), at + 16
        stop = at + length if length else end
        if stop < start:
            raise corrupt("avif", "impossible box length")
        yield head[4:8], start, stop
        at = stop


def read(source: Source) -> Draft:
    """Read size, transparency and orientation of the primary picture.

    As decoders do, orientation comes from the irot and imir boxes alone, never from EXIF.

    Errors:
        BadSampleError: truncated or corrupt.
    """
    draft = Draft("avif", mode="RGB")
    if source.read(8, 4) == b"avis":
        draft.note("multi-frame")
    meta = b""
    for kind, start, stop in boxes(source, 0, source.size):
        if kind == b"meta":
            meta = source.read(start + 4, min(stop - start - 4, _MAX_META))
            if len(meta) < stop - start - 4:
                raise truncated("avif", "ends inside the header")
            break
    if not meta:
        raise truncated("avif", "no header box")
    _primary(draft, MemorySource(meta))
    return draft


def _primary(draft: Draft, meta: Source) -> None:
    item, listed, links = _tables(meta)
    store = MemorySource(listed)
    found = [(kind, listed[a:b]) for kind, a, b in boxes(store, 0, len(listed))]
    own = [found[n - 1] for n in _linked(links, item) if 0 < n <= len(found)]
    turns: dict[bytes, int] = {}
    for kind, body in own:
        if kind == b"ispe":
            draft.width = int.from_bytes(body[4:8], "big")
            draft.height = int.from_bytes(body[8:12], "big")
        elif kind == b"irot":
            turns[kind] = int.from_bytes(body[:1], "big") & 3
        elif kind == b"imir":
            turns[kind] = int.from_bytes(body[:1], "big") & 1
        elif kind == b"colr" and body[:4] == b"prof":
            draft.profile(body[4:4100])
    if any(kind == b"auxC" and b":alpha" in body for kind, body in found):
        draft.mode = "RGBA"
    draft.orientation = _ORIENTATIONS[turns.get(b"irot", 0), turns.get(b"imir")]


def _tables(meta: Source) -> tuple[int, bytes, bytes]:
    """The primary item's number, the list of all properties, and which belong to which item."""
    item, listed, links = 0, b"", b""
    for kind, start, stop in boxes(meta, 0, meta.size):
        if kind == b"pitm":
            wide = meta.read(start, 1) != b"\0"
            item = int.from_bytes(meta.read(start + 4, 4 if wide else 2), "big")
        elif kind == b"iprp":
            parts = {name: meta.read(a, b - a) for name, a, b in boxes(meta, start, stop)}
            listed, links = parts.get(b"ipco", b""), parts.get(b"ipma", b"")
    return item, listed, links


def _linked(links: bytes, item: int) -> Iterator[int]:
    """Numbers (from 1) of the properties that belong to ``item``."""
    wide_item, wide_link = links[:1] > b"\0", bool(links[3:4] and links[3] & 1)
    count, at = int.from_bytes(links[4:8], "big"), 8
    for _ in range(count):
        size = 4 if wide_item else 2
        if at + size >= len(links):
            return
        here = int.from_bytes(links[at : at + size], "big")
        number, at = links[at + size], at + size + 1
        step = 2 if wide_link else 1
        for link in range(at, at + number * step, step):
            if here == item:
                value = int.from_bytes(links[link : link + step], "big")
                yield value & (0x7FFF if wide_link else 0x7F)
        at += number * step


def verify(source: Source) -> None:
    """Check that no box reaches beyond the end of the file.

    Errors:
        BadSampleError: truncated.
    """
    for _, _, stop in boxes(source, 0, source.size):
        if stop > source.size:
            raise truncated("avif", f"{source.size} of at least {stop} bytes")
