"""Owns reading JPEG headers and finding the end of a JPEG picture, without decoding."""

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

# Start-of-frame markers libjpeg-turbo decodes: baseline, extended, progressive, and the two
# arithmetic ones. Lossless and hierarchical ones are valid JPEG that nobody here can read.
_FRAMES = frozenset((0xC0, 0xC1, 0xC2, 0xC9, 0xCA))
_OTHER_FRAMES = frozenset((0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF))
_BARE = frozenset((0x00, 0x01, *range(0xD0, 0xD9)))
_MODES = {1: "L", 3: "RGB", 4: "CMYK"}
# In coded data, FF is followed by 00 (stuffing), a restart marker or a fill byte; all else ends it.
_CODED_END = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_MARKER = re.compile(rb"\xff+([^\xff])", re.DOTALL)
_PROFILE_BYTES = 4096


def read(source: Source) -> Draft:
    """Read the markers up to the frame header.

    Errors:
        BadSampleError: truncated, corrupt, unsupported-format or unsupported-depth.
    """
    draft = Draft("jpeg")
    at = 2
    while True:
        marker, at = _next_marker(source, at)
        if marker in _BARE:
            continue
        length = int.from_bytes(_exactly(source, at, 2), "big")
        if marker in (0xD9, 0xDA) or length < 2:
            raise corrupt("jpeg", "no frame header before the coded data")
        if marker in _FRAMES:
            _frame(draft, _exactly(source, at + 2, 6))
            draft.read_to = at + length
            return draft
        if marker in _OTHER_FRAMES:
            raise unsupported("jpeg", "lossless or hierarchical coding")
        if marker in (0xE1, 0xE2):
            _application(draft, source, marker, at + 2, length - 2)
        at += length


def _next_marker(source: Source, at: int) -> tuple[int, int]:
    """The next marker's second byte and the offset behind it; stray bytes are skipped."""
    pair = source.read(at, 2)
    if len(pair) == 2 and pair[0] == 0xFF and pair[1] != 0xFF:
        return pair[1], at + 2
    while True:
        block = source.read(at, 4096)
        found = _MARKER.search(block)
        if found:
            return found[1][0], at + found.end()
        if len(block) < 4096:
            raise truncated("jpeg", "ends before the frame header")
        at += 4095


def _exactly(source: Source, at: int, count: int) -> bytes:
    block = source.read(at, count)
    if len(block) < count:
        raise truncated("jpeg", "ends before the frame header")
    return block


def _application(draft: Draft, source: Source, marker: int, at: int, length: int) -> None:
    start = source.read(at, min(length, 16))
    if marker == 0xE1 and start.startswith(b"Exif\0"):
        draft.exif(source.read(at, length))
    elif marker == 0xE2 and start.startswith(b"ICC_PROFILE\0\x01"):
        draft.profile(source.read(at, min(length, _PROFILE_BYTES)))


def _frame(draft: Draft, frame: bytes) -> None:
    if frame[0] != 8:
        raise too_deep("jpeg", f"{frame[0]} bits per channel")
    draft.height = int.from_bytes(frame[1:3], "big")
    draft.width = int.from_bytes(frame[3:5], "big")
    mode = _MODES.get(frame[5])
    if mode is None:
        raise unsupported("jpeg", f"{frame[5]} channels")
    draft.mode = mode
    if mode == "CMYK":
        draft.note("cmyk")


def end_of_picture(data: bytes | memoryview, at: int = 2) -> int | None:
    """Offset behind the end marker of the first picture in ``data``, None where it is missing.

    Coded data is searched by one compiled pattern, not walked: about 25 microseconds for 110 KB.

    Args:
        data: the whole file.
        at: where to begin: behind a segment that comes before the coded data.
    """
    scans, size = 0, len(data)
    while at < size:
        if data[at] == 0xFF and at + 1 < size and data[at + 1] != 0xFF:
            marker, at = data[at + 1], at + 2
        else:  # fill bytes, or stray ones
            found = _MARKER.search(data, at)
            if found is None:
                return None
            marker, at = data[found.end() - 1], found.end()
        if marker == 0xD9:
            return at if scans else None
        if marker in _BARE:
            continue
        length = int.from_bytes(data[at : at + 2], "big")
        if length < 2:
            return None
        at += length
        if marker == 0xDA:
            scans += 1
            found = _CODED_END.search(data, at)
            if found is None:
                return None
            at = found.start()
    return None


def trailing(data: bytes | memoryview, end: int) -> bool:
    """True when bytes follow the picture that are not the further pictures of an MPO file."""
    return end < len(data) and b"MPF\0" not in bytes(data[: min(end, 1 << 17)])
