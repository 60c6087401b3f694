"""Owns walking a tar that anyone wrote: its members in order, up to where it is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from mmap import ACCESS_READ, mmap
from pathlib import Path

from fastdata_cli.formats.sharded.compressed import refuse_compressed
from fastdata_cli.keys import from_bytes

BLOCK = 512

Bytes = mmap | bytes
"""A mapped file; no bytes for an empty one, which cannot be mapped."""

_ZEROS = bytes(BLOCK)
# The end mark, and the zeros up to a whole record of 20 blocks, which tar writes: no more than this
# follows a whole archive. A longer tail of zeros was not written, or has overwritten members.
_ODDLY_LONG = 21 * BLOCK
_NAME_BYTES = 100
_LENGTH_DIGITS = 20
_CHECKSUM = slice(148, 156)
_FILES = b"0\x007"
_WITHOUT_CONTENT = b"123456"


class Kind(Enum):
    """What a member is, as far as samples go."""

    FILE = "file"
    HARD_LINK = "hard link"
    SPARSE = "sparse file"
    FOLDER = "folder"
    OTHER = "other"
    """A symbolic link, a device …: nothing with content."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member; its content is ``data[begin:begin + size]``."""

    name: str
    """As stored; bytes that are not UTF-8 as surrogates."""
    kind: Kind
    begin: int
    size: int
    target: str = ""
    """What a hard link names."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Where a tar stops making sense; members before it are whole."""

    name: str
    """Of the member that is cut or has the bad header, where it can be told."""
    at: int
    """Byte at which the damage was met."""
    detail: str


@dataclass(slots=True)
class Walk:
    """Iterates over the members of a tar, and over one ``Damage`` at the end if there is any.

    Zero blocks in the middle are passed over, so that concatenated tars are read to the end.
    ``flavours`` grows with what was met: v7, ustar, gnu, pax.
    """

    data: Bytes
    flavours: set[str] = field(default_factory=set)
    _at: int = 0
    _extended: dict[str, bytes] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Member | Damage]:
        try:
            while self._skip_zeros():
                member = self._next()
                if member is not None:
                    yield member
        except _DamagedError as problem:
            yield problem.damage

    def _skip_zeros(self) -> bool:
        """Move on to the next header; False at the end of a tar that ends as it should."""
        begin = at = self._at
        while self.data[at : at + BLOCK] == _ZEROS:
            at += BLOCK
        self._at = at
        ended = at > begin
        if at < len(self.data) and self.data[at : at + BLOCK].strip(b"\0"):
            return True
        if not self.data:
            raise _DamagedError("", 0, "an empty file is no tar")
        if not ended:
            detail = "the file ends without an end-of-archive mark: it was cut, or never finished"
            raise _DamagedError("", at, detail)
        if at - begin > _ODDLY_LONG:
            detail = f"only zeros from here on, {at - begin} bytes: an unfinished download is so"
            raise _DamagedError("", begin, detail)
        return False

    def _next(self) -> Member | None:
        """Read the header at ``_at`` and what belongs to it; None for one that describes others."""
        at, block = self._at, self.data[self._at : self._at + BLOCK]
        name = self._name(block)
        if len(block) < BLOCK:
            name = name if len(block) >= _NAME_BYTES else ""
            detail = f"truncated: the file ends {len(block)} bytes into a header"
            raise _DamagedError(name, at, detail)
        if not header_is_sound(block):
            raise _DamagedError(name if name.isprintable() else "", at, "corrupt header")
        kind = block[156:157]
        try:
            size = _number(block[124:136])
            if kind in (b"x", b"g", b"L", b"K"):
                name = ""  # it is about the member that follows
                self._describe(kind, size)
                return None
            return self._member(block, kind, size)
        except (ValueError, KeyError) as problem:
            raise _DamagedError(name, at, f"corrupt header ({problem})") from None

    def _name(self, block: bytes) -> str:
        if "path" in self._extended:
            return _text(self._extended["path"])
        name, prefix = _text(block[:_NAME_BYTES]), _text(block[345:500])
        return f"{prefix}/{name}" if prefix and _is_posix(block) else name

    def _describe(self, kind: bytes, size: int) -> None:
        content = self._take("", self._at + BLOCK, size)
        if kind in (b"L", b"K"):
            self.flavours.add("gnu")
            self._extended["path" if kind == b"L" else "linkpath"] = content.split(b"\0", 1)[0]
            return
        self.flavours.add("pax")
        if kind == b"x":  # a global one holds comments and the like
            self._extended.update(pax_records(content))

    def _member(self, block: bytes, kind: bytes, size: int) -> Member:
        name = self._name(block)
        extended, self._extended = self._extended, {}
        marked = block[257:262] == b"ustar"
        self.flavours.add("ustar" if _is_posix(block) else "gnu" if marked else "v7")
        size = int(extended.get("size", size))
        begin = self._at + BLOCK
        if kind in _WITHOUT_CONTENT:
            size = 0
        if kind == b"S":
            begin = self._after_maps(begin)
        sparse = kind == b"S" or any(record.startswith("GNU.sparse") for record in extended)
        if "GNU.sparse.name" in extended:
            name = _text(extended["GNU.sparse.name"])
        self._take(name, begin, size, keep=False)
        target = _text(extended.get("linkpath", block[157:257]))
        return Member(name, _kind(kind, name, sparse), begin, size, target)

    def _after_maps(self, begin: int) -> int:
        """Return where the content of an old GNU sparse file begins: its maps may go on."""
        more = self.data[begin - 30]
        while more and begin + BLOCK <= len(self.data):
            more = self.data[begin + 504]
            begin += BLOCK
        return begin

    def _take(self, name: str, begin: int, size: int, *, keep: bool = True) -> bytes:
        """Check that the content is there, move beyond it, and return it if wanted."""
        end = begin + size
        if size < 0 or end > len(self.data):
            detail = f"truncated: this member reaches to byte {end}, the file to {len(self.data)}"
            raise _DamagedError(name, len(self.data), detail)
        self._at = end + -size % BLOCK
        return self.data[begin:end] if keep else b""


class _DamagedError(Exception):
    def __init__(self, name: str, at: int, detail: str) -> None:
        super().__init__(detail)
        self.damage = Damage(name, at, detail)


def map_file(path: Path) -> Bytes:
    """Map a tar for reading; an empty file gives no bytes.

    Raises:
        UnsupportedError: it is compressed.
    """
    with open(path, "rb") as file:
        head = file.read(8)
        refuse_compressed(path, head)
        return mmap(file.fileno(), 0, access=ACCESS_READ) if head else b""


def header_is_sound(block: bytes) -> bool:
    """Tell whether 512 bytes are a tar header, by its checksum."""
    try:
        stored = _number(block[_CHECKSUM])
    except ValueError:
        return False
    rest = block[: _CHECKSUM.start] + block[_CHECKSUM.stop :]
    unsigned = sum(rest) + 8 * ord(" ")
    # Some old writers summed signed bytes.
    return stored == unsigned or stored == unsigned - 256 * sum(byte > 127 for byte in rest)


def pax_records(content: bytes) -> dict[str, bytes]:
    """Return the records of a PAX extended header.

    Raises:
        ValueError: they are not as the standard has them.
    """
    records: dict[str, bytes] = {}
    content, at = content.rstrip(b"\0"), 0
    while at < len(content):
        begin = content.find(b" ", at, at + _LENGTH_DIGITS) + 1
        end = at + int(content[at : begin - 1]) if begin else 0
        key, equals, value = content[begin:end].partition(b"=")
        if not begin < end <= len(content) or not equals or not value.endswith(b"\n"):
            raise ValueError("a PAX record is broken")
        records[key.decode("utf-8", "surrogateescape")] = value[:-1]
        at = end
    return records


def _kind(kind: bytes, name: str, sparse: bool) -> Kind:
    if sparse:
        return Kind.SPARSE
    if kind == b"5" or (kind == b"\0" and name.endswith("/")):
        return Kind.FOLDER
    if kind in _FILES:
        return Kind.FILE
    return Kind.HARD_LINK if kind == b"1" else Kind.OTHER


def _is_posix(block: bytes) -> bool:
    return block[257:263] == b"ustar\0"


def _number(digits: bytes) -> int:
    if digits[0] & 0x80:  # base 256, for what octal digits cannot hold
        return int.from_bytes(bytes([digits[0] & 0x7F]) + digits[1:], "big")
    return int(digits.split(b"\0", 1)[0].strip() or b"0", 8)


def _text(raw: bytes) -> str:
    return from_bytes(raw.split(b"\0", 1)[0])
