"""Owns reading PNG chunks: header, metadata, checksums, and what a decoder needs of them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from fastdata_cli.imaging.headers.header import Draft, corrupt, truncated
from fastdata_cli.imaging.source import MemorySource, Source

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_MODES = {0: "L", 2: "RGB", 3: "P", 4: "LA", 6: "RGBA"}
# Chunks of a fixed size; another size is damage that some decoders refuse the picture for.
_SIZES = {b"tIME": 7, b"pHYs": 9, b"gAMA": 4, b"cHRM": 32, b"sRGB": 1, b"acTL": 8}
_NEEDED = frozenset((b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"))
_PROFILE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk: its type, where its data starts, and how long it says it is."""

    kind: bytes
    start: int
    length: int

    @property
    def end(self) -> int:
        """Offset behind the checksum."""
        return self.start + self.length + 4

    @property
    def critical(self) -> bool:
        """A chunk without which the picture cannot be shown."""
        return self.kind[0] & 0x20 == 0


def chunks(source: Source) -> Iterator[Chunk]:
    """The chunks up to and including IEND, or up to the first one whose head is not whole."""
    at = len(SIGNATURE)
    while True:
        head = source.read(at, 8)
        if len(head) < 8:
            return
        chunk = Chunk(head[4:], at + 8, int.from_bytes(head[:4], "big"))
        yield chunk
        if chunk.kind == b"IEND":
            return
        at = chunk.end


def read(source: Source) -> Draft:
    """Read the header chunk, then orientation, profile and animation from the others.

    Errors:
        BadSampleError: truncated or corrupt.
    """
    draft = Draft("png")
    walk = chunks(source)
    first = next(walk, None)
    if first is None:
        raise truncated("png", "ends before the header")
    if first.kind != b"IHDR" or first.length != 13:
        raise corrupt("png", "does not begin with a header chunk")
    head = source.read(first.start, 17)
    if len(head) < 17:
        raise truncated("png", "ends inside the header")
    if zlib.crc32(head[:13], zlib.crc32(b"IHDR")) != int.from_bytes(head[13:], "big"):
        raise corrupt("png", "wrong checksum of the header")
    _header(draft, head)
    _others(draft, source, walk)
    return draft


def _others(draft: Draft, source: Source, walk: Iterator[Chunk]) -> None:
    frames, default_is_first, coded = 0, False, False
    for chunk in walk:
        if chunk.kind == b"IHDR":
            raise corrupt("png", "has two header chunks")
        if chunk.kind == b"IDAT":
            coded = True
        elif chunk.kind == b"fcTL" and not coded:
            default_is_first = True
        elif chunk.kind == b"acTL":
            frames = int.from_bytes(source.read(chunk.start, 4), "big")
        elif not chunk.critical:
            _metadata(draft, source, chunk)
    if frames and frames + (not default_is_first) > 1:
        draft.note("multi-frame")


def _header(draft: Draft, head: bytes) -> None:
    draft.width = int.from_bytes(head[:4], "big")
    draft.height = int.from_bytes(head[4:8], "big")
    depth, colour = head[8], head[9]
    if depth not in _DEPTHS.get(colour, ()) or head[10] or head[11] or head[12] > 1:
        raise corrupt("png", "impossible header")
    draft.mode = _MODES[colour]
    if depth == 16:
        draft.note("16-bit")
        draft.mode = "I;16" if colour == 0 else draft.mode + ";16"
    elif depth == 1 and colour == 0:
        draft.mode = "1"


def _metadata(draft: Draft, source: Source, chunk: Chunk) -> None:
    if _SIZES.get(chunk.kind, chunk.length) != chunk.length:
        draft.note("metadata-broken")
    elif chunk.kind == b"eXIf":
        body = source.read(chunk.start - 4, chunk.length + 8)
        # Orientation from a damaged chunk would turn the picture at random.
        if zlib.crc32(body[:-4]) == int.from_bytes(body[-4:], "big"):
            draft.exif(body[4:-4])
        else:
            draft.note("metadata-broken")
    elif chunk.kind == b"iCCP":
        packed = source.read(chunk.start, min(chunk.length, _PROFILE_BYTES))
        _, _, rest = packed.partition(b"\0")
        try:
            draft.profile(zlib.decompressobj().decompress(rest[1:], _PROFILE_BYTES))
        except zlib.error:
            draft.note("metadata-broken")


def verify(data: bytes, draft: Draft, allow_truncated: bool) -> None:
    """Check that all chunks are there and that checksums match.

    A wrong checksum of an ancillary chunk only adds a note; so does a missing end when
    ``allow_truncated``.

    Errors:
        BadSampleError: truncated or corrupt.
    """
    source, view = MemorySource(data), memoryview(data)
    complete = coded = False
    for chunk in chunks(source):
        if chunk.end > len(data):
            break
        if chunk.kind == b"IEND":
            complete = True
            break
        coded = coded or chunk.kind == b"IDAT"
        stored = int.from_bytes(view[chunk.end - 4 : chunk.end], "big")
        if zlib.crc32(view[chunk.start - 4 : chunk.end - 4]) != stored:
            if chunk.critical:
                name = chunk.kind.decode("ascii", "backslashreplace")
                raise corrupt("png", f"wrong checksum of a {name} chunk")
            draft.note("metadata-broken")
    if complete and coded:
        return
    if not allow_truncated:
        raise truncated("png", "ends before its end chunk" if not complete else "has no data")
    draft.note("truncated")


def essential(data: bytes) -> bytes:
    """The same picture with only the chunks that decide its pixels.

    Decoders refuse, or print about, damaged comments and profiles, and some show an animation's
    first frame in place of the default picture: none of that is left.
    """
    view = memoryview(data)
    parts: list[bytes | memoryview] = [SIGNATURE]
    parts.extend(
        view[chunk.start - 8 : chunk.end]
        for chunk in chunks(MemorySource(data))
        if chunk.kind in _NEEDED and chunk.end <= len(data)
    )
    return b"".join(parts)


def too_short(data: bytes) -> bool:
    """True when the coded data of a sound PNG ends, properly, before the last row.

    This unpacks all of it, in small parts.
    """
    packed, total, wanted = zlib.decompressobj(), 0, 0
    for chunk in chunks(MemorySource(data)):
        body = data[chunk.start : chunk.start + chunk.length]
        if chunk.kind == b"IHDR":
            wanted = _raw_bytes(body)
        elif chunk.kind == b"IDAT":
            while body:
                total += len(packed.decompress(body, 1 << 20))
                body = packed.unconsumed_tail
    return total + len(packed.flush()) < wanted


def completed(data: bytes) -> bytes:
    """An incomplete PNG with its missing rows as zeros and its end chunk added.

    Whatever of the coded data can be unpacked is kept.
    """
    head, palette, coded = b"", b"", []
    for chunk in chunks(MemorySource(data)):
        body = data[chunk.start : chunk.start + chunk.length]
        if chunk.kind == b"IHDR":
            head = body
        elif chunk.kind == b"IDAT":
            coded.append(body)
        elif chunk.kind in (b"PLTE", b"tRNS") and chunk.end <= len(data):
            palette += data[chunk.start - 8 : chunk.end]
    wanted = _raw_bytes(head)
    try:
        rows = zlib.decompressobj().decompress(b"".join(coded), wanted)
    except zlib.error as problem:
        raise corrupt("png", "damaged data") from problem
    rows += bytes(wanted - len(rows))
    parts = (_chunk(b"IHDR", head), palette, _chunk(b"IDAT", zlib.compress(rows, 1)))
    return SIGNATURE + b"".join(parts) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, body: bytes) -> bytes:
    check = zlib.crc32(body, zlib.crc32(kind))
    return len(body).to_bytes(4, "big") + kind + body + check.to_bytes(4, "big")


def _raw_bytes(head: bytes) -> int:
    """Bytes of the unpacked rows, filter bytes included, interlaced or not."""
    width, height = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:8], "big")
    bits = head[8] * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[head[9]]
    steps = [(0, 0, 1, 1)]
    if head[12]:
        steps = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4)]
        steps += [(0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    total = 0
    for x, y, dx, dy in steps:
        columns, rows = -(-(width - x) // dx), -(-(height - y) // dy)
        if columns > 0 and rows > 0:
            total += rows * (1 + (columns * bits + 7) // 8)
    return total
