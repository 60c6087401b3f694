"""Owns reading the few EXIF tags that matter here, from blocks as damaged as they come."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

_ORIENTATION, _DATE, _SUB_IFD, _DATE_ORIGINAL = 0x0112, 0x0132, 0x8769, 0x9003
_GPS_IFD, _GPS_VERSION = 0x8825, 0
_INTEGERS = {3: "H", 4: "I", 8: "h", 9: "i", 13: "I"}
_PREFIXES = re.compile(rb"(?:Exif\0\0)*")


@dataclass(frozen=True, slots=True)
class Exif:
    """What one EXIF block says.

    Attributes:
        orientation: 1..8; 1 where absent or unusable.
        taken: when the picture was taken, as written (``2020:01:31 10:00:00``), or None.
        broken: the block cannot be read in full, or its orientation is outside 1..8.
        located: the block has GPS data.
    """

    orientation: int = 1
    taken: str | None = None
    broken: bool = False
    located: bool = False


def read_exif(block: bytes) -> Exif:
    """Read an EXIF block, with or without its ``Exif`` prefix. Never raises."""
    # Some writers prefix twice; every reader in use strips what it finds.
    block = _PREFIXES.sub(b"", block, count=1)
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(block[:4])
    if order is None or len(block) < 8:
        return Exif(broken=True)
    tags, whole = _directory(block, order, struct.unpack(order + "I", block[4:8])[0])
    value = _integer(tags.get(_ORIENTATION), order)
    usable = value is not None and 1 <= value <= 8
    wrong = _ORIENTATION in tags and not usable
    orientation = value if value is not None and usable else 1
    return Exif(
        orientation,
        _taken(block, order, tags),
        broken=wrong or not whole,
        located=_located(block, order, tags),
    )


def _directory(block: bytes, order: str, at: int) -> tuple[dict[int, bytes], bool]:
    """Entries (10 bytes after the tag) of the directory at ``at``, and whether all were there."""
    if at + 2 > len(block):
        return {}, False
    count = struct.unpack_from(order + "H", block, at)[0]
    end = min(at + 2 + 12 * count, len(block) - 11)
    tags = {}
    for entry in range(at + 2, end, 12):
        tags[struct.unpack_from(order + "H", block, entry)[0]] = block[entry + 2 : entry + 12]
    return tags, len(block) >= at + 2 + 12 * count


def _integer(entry: bytes | None, order: str) -> int | None:
    if entry is None:
        return None
    kind, count = struct.unpack(order + "HI", entry[:6])
    # Some writers count two where one is meant; what follows the first stands in the entry as well.
    if kind not in _INTEGERS or not 1 <= count <= 4 // struct.calcsize(_INTEGERS[kind]):
        return None
    value: int = struct.unpack_from(order + _INTEGERS[kind], entry, 6)[0]
    return value


def _located(block: bytes, order: str, tags: dict[int, bytes]) -> bool:
    below = _integer(tags.get(_GPS_IFD), order)
    if not below:
        return False
    # Some cameras write a directory that holds its own version and nothing else.
    return bool(_directory(block, order, below)[0].keys() - {_GPS_VERSION})


def _taken(block: bytes, order: str, tags: dict[int, bytes]) -> str | None:
    below = _integer(tags.get(_SUB_IFD), order)
    entry = None
    if below:
        entry = _directory(block, order, below)[0].get(_DATE_ORIGINAL)
    entry = entry or tags.get(_DATE)
    if entry is None:
        return None
    kind, count, at = struct.unpack(order + "HII", entry)
    if kind != 2 or not 5 <= count <= 64:
        return None
    text = block[at : at + count].split(b"\0")[0].decode("ascii", "replace").strip()
    return text or None
