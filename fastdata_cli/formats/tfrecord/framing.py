"""Owns the frame around a record: its length and two checksums, written, checked and walked.

    uint64 length · uint32 masked CRC-32C of these 8 bytes · data · uint32 masked CRC-32C of data

Numbers are little-endian. The mask is TensorFlow's, so that a checksum stored among data that has
a checksum of its own does no harm: the CRC rotated right by 15 bits, plus 0xa282ead8.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

HEADER_BYTES = 12
FOOTER_BYTES = 4

_MASK = 0xA282EAD8
_HEADER = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")


class Record(NamedTuple):
    """Where the data of a record lies in its file."""

    begin: int
    size: int

    @property
    def end(self) -> int:
        """Where the next record begins."""
        return self.begin + self.size + FOOTER_BYTES


@dataclass(frozen=True, slots=True)
class Damage:
    """Where the frames of a file stop making sense; nothing behind it can be found."""

    record: int
    """Number of the record."""
    at: int
    """Byte at which it begins."""
    detail: str


def header(size: int) -> bytes:
    """Return what precedes ``size`` bytes of data."""
    length = _LENGTH.pack(size)
    return length + _CRC.pack(masked_crc(length))


def footer(crc: int) -> bytes:
    """Return what follows data of that masked checksum."""
    return _CRC.pack(crc)


def masked_crc(*pieces: bytes | memoryview) -> int:
    """Return the masked CRC-32C of some bytes, given in pieces."""
    import crc32c

    crc = 0
    for piece in pieces:
        crc = crc32c.crc32c(piece, crc)
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def is_header(head: bytes) -> bool:
    """Tell whether a file that begins so begins with a record: one in 4 billion others does too."""
    return len(head) >= HEADER_BYTES and header(_HEADER.unpack_from(head)[0]) == head[:HEADER_BYTES]


def is_sound(data: memoryview, record: Record) -> bool:
    """Tell whether the data of a record has its checksum; ``data`` is the whole file."""
    (stored,) = _CRC.unpack_from(data, record.begin + record.size)
    return bool(stored == masked_crc(data[record.begin : record.begin + record.size]))


def records(data: memoryview) -> Iterator[Record | Damage]:
    """Yield the records of a file, and ``Damage`` at the end if it does not end as it should.

    The checksums of lengths are compared, and lengths with what is left of the file; those of data
    are left to who reads it.
    """
    at, number = 0, 0
    while at < len(data):
        left = len(data) - at
        if left < HEADER_BYTES:
            yield Damage(number, at, f"truncated: the file ends {left} bytes into a record")
            return
        size, crc = _HEADER.unpack_from(data, at)
        if crc != masked_crc(data[at : at + _LENGTH.size]):
            yield Damage(number, at, "the checksum of the record's length does not match")
            return
        record = Record(at + HEADER_BYTES, size)
        if record.end > len(data):
            detail = f"truncated: a record reaches to byte {record.end}, the file to {len(data)}"
            yield Damage(number, at, detail)
            return
        yield record
        at, number = record.end, number + 1
