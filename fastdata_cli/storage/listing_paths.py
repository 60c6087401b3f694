"""Reads lists of paths, all at once or as they come, and finds what keys are relative to."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from fastdata_cli.errors import UsageError
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import from_bytes, to_text
from fastdata_cli.storage.listing_rows import Rows, text_of, texts_of

_READ_BYTES = 1 << 20
_BLOCK = 4096
_PROBED = 64

# No system takes longer paths; a list without separators is no list.
_LONGEST = 1 << 20

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""How editors and shells of other systems begin a text: a byte-order mark, in UTF-8."""

# What a list may begin with that is no path, and how many bytes tell.
_MARKS = (b"\xef", b"\xff", b"\xfe")
_OPENING = 4


class PathLines:
    """Cuts the bytes of a list into its lines as they come; the last may lack its end.

    Args:
        nul: paths end in NUL, and are taken as they are. Otherwise they end in a newline, and a
            byte-order mark before the first is no part of it (a name that has one needs NUL).

    Lines come back byte for byte, without their ends; ``path_of`` says which path one stands for.
    Empty ones do not, nor those with nothing but a carriage return.
    """

    def __init__(self, *, nul: bool) -> None:
        self._separator = b"\0" if nul else b"\n"
        self._blank = (b"",) if nul else (b"", b"\r")
        self._nul = nul
        self._rest = b""
        self._opened = nul
        self._ended = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in ``chunk``.

        Raises:
            UsageError: the list has the other kind of ends, is UTF-16, or is none.
        """
        text = self._rest + chunk
        if not self._opened and len(text) < _OPENING and text.startswith(_MARKS):
            self._rest = text
            return []
        *lines, self._rest = self._cut(text)
        self._ended = self._ended or bool(lines)
        if len(self._rest) > _LONGEST:
            self._require_ends()
            raise UsageError("a path of the list is longer than 1 MiB: this is no list of paths")
        return [line for line in lines if line not in self._blank]

    def finish(self) -> list[bytes]:
        """Return what nothing ended, if there is anything.

        Raises:
            UsageError: as ``feed``.
        """
        lines = self._cut(self._rest)
        self._require_ends()
        return [line for line in lines if line not in self._blank]

    def _cut(self, text: bytes) -> list[bytes]:
        if not self._opened:
            text = self._open(text)
        if not self._nul and b"\0" in text:
            raise _holds_nul()
        return text.split(self._separator)

    def _open(self, text: bytes) -> bytes:
        """Return the first bytes of a list of lines, without a byte-order mark."""
        self._opened = True
        # Only with its zeros: names that are not UTF-8 may begin with the bytes of the mark.
        if (text[:2], text[3:4]) == (b"\xff\xfe", b"\0") or text[:3] == b"\xfe\xff\0":
            raise UsageError(
                "the list is UTF-16, and paths are bytes",
                hint="save it as UTF-8, or as it is in Linux",
            )
        return text.removeprefix(BYTE_ORDER_MARK)

    def _require_ends(self) -> None:
        if self._nul and not self._ended and b"\n" in self._rest:
            raise UsageError(
                "the list has lines, and no NUL ends a path in it", hint="leave out -0"
            )


def read_path_list(stream: BinaryIO, *, nul: bool) -> Iterator[bytes]:
    """Yield the lines of a list (see ``PathLines``), in bounded memory.

    Raises:
        UsageError: the list has the other kind of ends, is UTF-16, or is none.
    """
    lines = PathLines(nul=nul)
    while chunk := stream.read(_READ_BYTES):
        yield from lines.feed(chunk)
    yield from lines.finish()


def path_of(line: bytes, start: bytes, *, nul: bool) -> bytes:
    """Return the path that a line stands for.

    Lists come from systems that end lines with a carriage return as well. It belongs to a name
    only where something has that name, below ``start`` if it is relative, or where NUL ends it.
    """
    if nul or not line.endswith(b"\r") or os.path.lexists(os.path.join(start, line)):
        return line
    return line[:-1]


def start_of(
    lines: Iterable[bytes], folders: Sequence[Path], *, nul: bool = False
) -> tuple[Path, Iterator[bytes]]:
    """Return the folder that the relative paths of a list start at, and all its paths.

    It is the first of ``folders`` that holds any of the list's first paths, or else the first of
    all: a list may be relative to where it was made, to the root or to its own folder, and says
    nowhere to which.
    """
    rest = iter(lines)
    first = list(itertools.islice(rest, _PROBED))
    relative = [line for line in first if not line.startswith(b"/")]
    holders = (
        folder
        for folder, start in zip(folders, map(os.fsencode, folders), strict=True)
        if any(os.path.lexists(_below(start, line, nul)) for line in relative)
    )
    found = next(holders, folders[0])
    start = os.fsencode(found)
    again = itertools.chain(first, rest)
    return found, again if nul else (path_of(line, start, nul=nul) for line in again)


def _below(start: bytes, line: bytes, nul: bool) -> bytes:
    return os.path.join(start, path_of(line, start, nul=nul))


def _holds_nul() -> UsageError:
    return UsageError(
        "the list of paths holds NUL bytes", hint="add -0 if its paths are separated by NUL"
    )


def below_root(
    paths: Iterable[bytes | str], root: Path | None, start: Path | None = None
) -> tuple[Path, KeyTable]:
    """Return the root of a list, and its keys in the list's order.

    Args:
        paths: ``.``, ``..`` and repeated slashes are resolved by their letters, without looking
            at links.
        root: what keys are relative to; None takes the deepest folder that holds all of them.
        start: where relative paths start; None is the working directory.

    Raises:
        UsageError: a path lies outside the root, is the root, or holds a NUL byte.
    """
    table, common = _absolute(paths, os.fsencode(os.path.abspath(start or "")))
    base = common if root is None else os.fsencode(os.path.abspath(root))
    prefix = base.rstrip(b"/") + b"/"
    return Path(os.fsdecode(base)), _cut(table, prefix)


def _absolute(paths: Iterable[bytes | str], here: bytes) -> tuple[KeyTable, bytes]:
    """Return all paths made absolute, in their text form, and the deepest folder above all."""
    rows, block = Rows(), []
    common: bytes | None = None
    for path in paths:
        absolute = _resolved(os.fsencode(path), here)
        if common is None:
            common = os.path.dirname(absolute)
        elif not absolute.startswith(common.rstrip(b"/") + b"/"):
            common = os.path.commonpath((common, os.path.dirname(absolute)))
        block.append(absolute)
        if len(block) == _BLOCK:
            rows.add(texts_of(block), 0)
            block = []
    rows.add(texts_of(block), 0)
    return rows.files(), here if common is None else common


def _resolved(path: bytes, here: bytes) -> bytes:
    if b"\0" in path:
        raise _holds_nul()
    full = path if path.startswith(b"/") else here + b"/" + path.removeprefix(b"./")
    if b"/." in full or b"//" in full or full.endswith(b"/"):
        # POSIX keeps two leading slashes apart; Linux does not.
        return b"/" + os.path.normpath(full).lstrip(b"/")
    return full


def _cut(table: KeyTable, prefix: bytes) -> KeyTable:
    """Return the rows without the prefix that all of them must have."""
    start = text_of(prefix)
    blob, begins = table.blob, table.offsets[:-1]
    lengths = np.diff(table.offsets) - len(start)
    inside = lengths > 0
    for position, byte in enumerate(start):
        inside[inside] = blob[begins[inside] + position] == byte
    if not inside.all():
        path = table.text(int(np.argmin(inside)))
        raise UsageError(
            f"{path} does not lie below the root {to_text(from_bytes(prefix.rstrip(b'/'))) or '/'}",
            hint="choose another --root, or leave it out",
            path=path,
        )
    keep = np.ones(len(blob), bool)
    for position in range(len(start)):
        keep[begins + position] = False
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return KeyTable(blob[keep], offsets)
