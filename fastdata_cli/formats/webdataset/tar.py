"""Owns writing tar members: the same bytes for the same members, in large sequential writes."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from typing import Any

from fastdata_cli.formats.sharded.cutter import PieceStream, total_bytes

BLOCK = 512
END_OF_ARCHIVE = bytes(2 * BLOCK)

_NAME_BYTES = 100
_CHECKSUM = slice(148, 156)


def header(name: str, size: int) -> bytes:
    """Return the header of a regular file: USTAR where the name fits, preceded by PAX where not.

    Owner, mode and time are constant.

    Args:
        name: as the file system would have it: bytes that are not UTF-8 as surrogates.
        size: bytes of its content.
    """
    if name.isascii() and len(name) <= _NAME_BYTES and size < 8**11:
        return _short(name.encode(), size)
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    if name.isascii():
        try:
            return info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape")
        except ValueError:  # no slash where the name could be cut in two
            pass
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def padding(size: int) -> bytes:
    """Return what follows ``size`` bytes of content up to the next block."""
    return bytes(-size % BLOCK)


def member(name: str, *content: Any) -> list[Any]:
    """Return one member as bytes-like pieces: its header, the content, its padding."""
    size = total_bytes(content)
    return [header(name, size), *content, padding(size)]


class MemberStream(PieceStream):
    """Appends whole members to an open tar."""

    def append_content(self, name: str, content: bytes) -> int:
        """Append a member; return where its content begins."""
        pieces = member(name, content)
        begin = self.position + len(pieces[0])
        self.append(pieces)
        return begin

    def end(self) -> None:
        """Append the mark that ends an archive, and write everything."""
        self.append([END_OF_ARCHIVE])
        self.flush()


def _template() -> Callable[[bytes, int], bytes]:
    """Return a maker of headers for short ASCII names, ten times as fast as the general one."""
    blank = bytearray(tarfile.TarInfo("x").tobuf(tarfile.USTAR_FORMAT))
    blank[0] = 0
    blank[_CHECKSUM] = b" " * 8
    before, after = bytes(blank[_NAME_BYTES:124]), bytes(blank[156:])
    constant = sum(before) + sum(after) + 8 * ord(" ")

    def make(name: bytes, size: int) -> bytes:
        sizes = b"%011o\x00%011o\x00" % (size, 0)
        checksum = b"%06o\x00 " % (constant + sum(name) + sum(sizes))
        return b"".join((name.ljust(_NAME_BYTES, b"\0"), before, sizes, checksum, after))

    return make


_short = _template()
