"""Owns reading the first directory of TIFF files, classic and big."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from fastdata_cli.imaging.exif import read_exif
from fastdata_cli.imaging.headers.header import (
    Draft,
    corrupt,
    too_deep,
    truncated,
    unsupported,
)
from fastdata_cli.imaging.source import Source

_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC = 0x100, 0x101, 0x102, 0x106
_STRIPS, _STRIP_BYTES, _TILES, _TILE_BYTES = 0x111, 0x117, 0x144, 0x145
_ORIENTATION, _SAMPLES, _EXTRA, _FORMAT, _PROFILE = 0x112, 0x115, 0x152, 0x153, 0x8773
_DATE, _EXIF_IFD, _GPS_IFD = 0x132, 0x8769, 0x8825
_TYPES = {1: "B", 2: "B", 3: "H", 4: "I", 6: "b", 7: "B", 8: "h", 9: "i", 13: "I", 16: "Q"}
_MODES = {0: "L", 1: "L", 2: "RGB", 3: "P", 5: "CMYK", 6: "RGB"}
_MAX_ENTRIES = 4096
_MAX_VALUES = 1 << 20


@dataclass(frozen=True, slots=True)
class Directory:
    """The first directory of a file.

    Attributes:
        order: ``<`` or ``>``.
        big: BigTIFF, with offsets of 8 bytes.
        entries: tag to (type, count, the value field's bytes).
        next: offset of the next directory, 0 without one.
    """

    order: str
    big: bool
    entries: dict[int, tuple[int, int, bytes]]
    next: int

    def values(self, source: Source, tag: int) -> tuple[int, ...]:
        """The integers of a tag; empty when it is absent, of another type, or not whole."""
        kind, count, field = self.entries.get(tag, (0, 0, b""))
        code = _TYPES.get(kind)
        if code is None or not 0 < count <= _MAX_VALUES:
            return ()
        size = struct.calcsize(code) * count
        if size > len(field):
            at = struct.unpack(self.order + ("Q" if self.big else "I"), field)[0]
            field = source.read(at, size)
        if len(field) < size:
            return ()
        return struct.unpack(f"{self.order}{count}{code}", field[:size])

    def first(self, source: Source, tag: int, default: int) -> int:
        """The first integer of a tag, or ``default``."""
        return next(iter(self.values(source, tag)), default)


def directory(source: Source) -> Directory:
    """Read the first directory.

    Errors:
        BadSampleError: truncated.
    """
    head = source.read(0, 16)
    order = "<" if head[:1] == b"I" else ">"
    big = head[2:4] in (b"+\0", b"\0+")
    offset, counted, size = ("Q", "Q", 20) if big else ("I", "H", 12)
    if len(head) < (16 if big else 8):
        raise truncated("tiff", "ends inside the header")
    at = struct.unpack_from(order + offset, head, 8 if big else 4)[0]
    width = struct.calcsize(counted)
    start = source.read(at, width)
    if len(start) < width:
        raise truncated("tiff", "ends before the directory")
    count = struct.unpack(order + counted, start)[0]
    if not 0 < count <= _MAX_ENTRIES:
        raise corrupt("tiff", f"{count} tags")
    block = source.read(at + width, size * count + struct.calcsize(offset))
    if len(block) < size * count:
        raise truncated("tiff", "ends inside the directory")
    entries = {}
    for i in range(count):
        tag, kind, number = struct.unpack_from(order + "HH" + offset, block, i * size)
        entries[tag] = (kind, number, block[i * size + (12 if big else 8) : (i + 1) * size])
    tail = block[size * count :]
    following = (
        struct.unpack(order + offset, tail)[0] if len(tail) == struct.calcsize(offset) else 0
    )
    return Directory(order, big, entries, following)


def read(source: Source) -> Draft:
    """Read size, mode, orientation and profile from the first directory.

    Errors:
        BadSampleError: truncated, corrupt, unsupported-format or unsupported-depth.
    """
    ifd = directory(source)
    draft = Draft("tiff", ifd.first(source, _WIDTH, 0), ifd.first(source, _HEIGHT, 0))
    draft.mode = _mode(draft, ifd, source)
    if _ORIENTATION in ifd.entries:
        value = ifd.first(source, _ORIENTATION, 0)
        if 1 <= value <= 8:
            draft.orientation = value
        else:
            draft.note("metadata-broken")
    if not ifd.big and not ifd.entries.keys().isdisjoint((_DATE, _EXIF_IFD, _GPS_IFD)):
        # A TIFF file is laid out like an EXIF block; what it says is looked for near its start.
        found = read_exif(source.read(0, 1 << 16))
        draft.taken, draft.located = found.taken, found.located
    kind, count, field = ifd.entries.get(_PROFILE, (0, 0, b""))
    if kind and count > len(field):
        at = struct.unpack(ifd.order + ("Q" if ifd.big else "I"), field)[0]
        draft.profile(source.read(at, min(count, 4096)))
    if ifd.next:
        draft.note("multi-frame")
    return draft


def _mode(draft: Draft, ifd: Directory, source: Source) -> str:
    bits = max(ifd.values(source, _BITS), default=1)
    if ifd.first(source, _FORMAT, 1) not in (1, 4) and bits > 8:
        raise too_deep("tiff", f"{bits}-bit signed or floating point")
    if bits > 16:
        raise too_deep("tiff", f"{bits} bits per channel")
    photometric = ifd.first(source, _PHOTOMETRIC, 1)
    mode = _MODES.get(photometric)
    if mode is None:
        raise unsupported("tiff", f"photometric interpretation {photometric}")
    if mode == "CMYK":
        draft.note("cmyk")
    if any(ifd.values(source, _EXTRA)) and mode in ("L", "RGB"):
        mode += "A"
    if bits > 8:
        draft.note("16-bit")
        return "I;16" if mode == "L" else mode + ";16"
    return "1" if bits == 1 and mode == "L" else mode


def verify(source: Source) -> None:
    """Check that the directory's strips or tiles lie within the file.

    Errors:
        BadSampleError: truncated or corrupt.
    """
    ifd = directory(source)
    tags = (_TILES, _TILE_BYTES) if _TILES in ifd.entries else (_STRIPS, _STRIP_BYTES)
    starts, lengths = (ifd.values(source, tag) for tag in tags)
    if not starts:
        raise corrupt("tiff", "says nowhere where its data is")
    # Counts of zero are known from old writers; decoders then read on to the end.
    ends = (a + b for a, b in zip(starts, lengths, strict=False))
    if max(starts) >= source.size or max(ends, default=0) > source.size:
        raise truncated("tiff", "data lies beyond the end")
