"""Reads a list of paths and finds what their keys are relative to."""

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

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""How editors and shells of other systems begin a text: a byte-order mark, in UTF-8."""


def read_path_list(stream: BinaryIO, *, nul: bool) -> Iterator[bytes]:
    """Yield the paths of a list, as raw bytes, in bounded memory.

    Args:
        stream: the list, opened in binary.
        nul: paths end in NUL, and are taken as they are. Otherwise they end in a newline, before
            which a carriage return is dropped, and so is a byte-order mark before the first
            (lists come from other systems; names that really have one need NUL).

    Empty lines are skipped.

    Raises:
        UsageError: the list has the other kind of ends, or is UTF-16.
    """
    separator = b"\0" if nul else b"\n"
    rest = b"" if nul else _opening(stream)
    while chunk := stream.read(_READ_BYTES):
        if nul and not rest and b"\0" not in chunk and b"\n" in chunk:
            raise UsageError(
                "the list has lines, and no NUL ends a path in it", hint="leave out -0"
            )
        *lines, rest = (rest + chunk).split(separator)
        yield from _paths(lines, nul)
    yield from _paths(rest.split(separator), nul)


def _opening(stream: BinaryIO) -> bytes:
    """Return the first bytes of a list of lines, without a byte-order mark."""
    first = b""
    while len(first) < 4 and (more := stream.read(4 - len(first))):
        first += more
    # Only with its zeros: names that are not UTF-8 may begin with the bytes of the mark.
    if (first[:2], first[3:]) == (b"\xff\xfe", b"\0") or first[:3] == b"\xfe\xff\0":
        raise UsageError(
            "the list is UTF-16, and paths are bytes", hint="save it as UTF-8, or as it is in Linux"
        )
    return first.removeprefix(BYTE_ORDER_MARK)


def _paths(lines: Iterable[bytes], nul: bool) -> Iterator[bytes]:
    for line in lines:
        path = line if nul else line.removesuffix(b"\r")
        if path:
            yield path


def start_of(paths: Iterable[bytes], folders: Sequence[Path]) -> tuple[Path, Iterator[bytes]]:
    """Return the folder that the relative paths of a list start at, and the whole list again.

    It is the first of ``folders`` that holds any of the list's first paths, or else the first of
    all: a list may be relative to where it was made, to the root or to its own folder, and says
    nowhere to which.
    """
    rest = iter(paths)
    first = list(itertools.islice(rest, _PROBED))
    relative = [path for path in first if not path.startswith(b"/")]
    holders = (
        folder
        for folder in folders
        if any(os.path.lexists(os.path.join(os.fsencode(folder), path)) for path in relative)
    )
    return next(holders, folders[0]), itertools.chain(first, rest)


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
        raise UsageError(
            "the list of paths holds NUL bytes", hint="add -0 if its paths are separated by NUL"
        )
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
