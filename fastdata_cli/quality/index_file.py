"""The file of an index: the images that one run kept, for later runs to compare with.

    {"fastdata_duplicates": 1, "kind": …, "formula": …, "count": N, "key_bytes": B, "tool": …}
    hashes   N x 8 bytes     all numbers little-endian
    looks    N x L bytes     L is LOOK_BYTES of the kind
    ends     N x 8 bytes     where each key ends when all are joined
    keys     B bytes         joined, as they stand in file names
    digest   16 bytes        xxh3-128 of all that comes before

The first line ends with a newline, the rest follows without gaps.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Self

import numpy as np
import xxhash

from fastdata_cli._version import __version__
from fastdata_cli.errors import (
    DamagedDatasetError,
    DestinationExistsError,
    NotADatasetError,
    SourceNotFoundError,
    StorageError,
    UnsupportedError,
    UsageError,
)
from fastdata_cli.json_text import parse
from fastdata_cli.keys import printable
from fastdata_cli.quality.entries import Entries
from fastdata_cli.quality.fingerprints import FORMULAS, KINDS, LOOK_BYTES
from fastdata_cli.storage.refusals import storage_errors
from fastdata_cli.whole_file import whole_file

VERSION = 1

_MAGIC = b'{"fastdata_duplicates": '
_LONGEST_HEADER = 4096
_DIGEST_BYTES = 16
_PIECE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class IndexHeader:
    """The first line of the file."""

    fastdata_duplicates: int
    """Version of the layout."""
    kind: str
    formula: str
    """How the fingerprints were made; those of another formula cannot be compared."""
    count: int
    key_bytes: int
    tool: str

    @classmethod
    def of(cls, entries: Entries) -> Self:
        """Return the header of a file that is to hold ``entries``."""
        return cls(
            fastdata_duplicates=VERSION,
            kind=entries.kind,
            formula=FORMULAS[entries.kind],
            count=len(entries),
            key_bytes=entries.keys.num_bytes,
            tool=f"fastdata-cli {__version__}",
        )

    @property
    def body_bytes(self) -> int:
        """Length of what lies between the first line and the digest."""
        return self.count * (8 + LOOK_BYTES[self.kind] + 8) + self.key_bytes


def check_target(path: Path | str) -> None:
    """Raise unless an index may be written to ``path``: nothing is there, or another index.

    Raises:
        DestinationExistsError: something else is there.
        UsageError: its folder is missing or cannot be written.
    """
    target = Path(os.path.realpath(path))
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise UsageError(
            f"cannot write {printable(str(path))}: its folder is missing or not writable",
            hint="give --save-index a file in a folder that can be written",
            path=str(path),
        )
    if not os.path.lexists(target):
        return
    if not _is_index(target):
        raise DestinationExistsError(
            f"{printable(str(path))} is no index of fastdata and is not replaced",
            hint="give --save-index another file",
        )


def save_index(path: Path | str, entries: Entries) -> None:
    """Write an index so that ``path`` holds, at any moment, the old one or the new one, whole.

    Raises:
        StorageError: the system refuses.
    """
    with storage_errors(Path(path)), whole_file(Path(path), sync=True) as file:
        _write(file, entries)


def load_index(path: Path | str, kind: str) -> Entries:
    """Read an index and check that it is sound.

    Args:
        path: the file.
        kind: what its fingerprints have to be of: ``exact``, ``pixels`` or ``near``.

    Raises:
        SourceNotFoundError: no such file.
        NotADatasetError: something else.
        DamagedDatasetError: cut or changed.
        UnsupportedError: of another version or formula.
        UsageError: of another kind.
        StorageError: the system refuses to read it.
    """
    where = printable(os.fspath(path))
    try:
        if not os.path.isfile(path) and os.path.exists(path):
            raise _foreign(where)
        with open(path, "rb") as file:
            return _Loading(file, where).entries(kind)
    except FileNotFoundError as problem:
        raise SourceNotFoundError(
            f"{where}: there is no such index", hint="a run with --save-index FILE writes one"
        ) from problem
    except OSError as problem:
        raise StorageError(
            f"{where}: the index cannot be read: {problem.strerror}", path=where
        ) from problem


class _Loading:
    """One pass over a file, which is hashed on the way."""

    def __init__(self, file: IO[bytes], where: str) -> None:
        self._file = file
        self._where = where
        self._digest = xxhash.xxh3_128()

    def entries(self, kind: str) -> Entries:
        header = self._header()
        self._check(header, kind)
        entries = Entries(kind)
        try:
            self._fill(entries, header)
        except BaseException:
            entries.close()
            raise
        return entries

    def _header(self) -> IndexHeader:
        line = self._file.readline(_LONGEST_HEADER)
        if not line.startswith(_MAGIC):
            raise _foreign(self._where)
        self._digest.update(line)
        try:
            record = parse(line)
            version = record["fastdata_duplicates"]
        except (ValueError, TypeError) as problem:
            raise self._damaged("its first line cannot be read") from problem
        if version != VERSION:
            raise UnsupportedError(
                f"{self._where}: index version {version}; this fastdata reads {VERSION}",
                hint="upgrade fastdata-cli, or write the index anew with --save-index",
            )
        try:
            return IndexHeader(**record)
        except TypeError as problem:
            raise self._damaged("its first line lacks a field") from problem

    def _check(self, header: IndexHeader, kind: str) -> None:
        if header.kind not in KINDS:
            raise self._damaged(f"fingerprints of kind {header.kind!r} are not known")
        if header.kind != kind:
            raise UsageError(
                f"{self._where}: an index of {header.kind} duplicates, and this run compares "
                f"{kind} ones",
                hint=f"--duplicates {header.kind}",
            )
        if header.formula != FORMULAS[kind]:
            raise UnsupportedError(
                f"{self._where}: its fingerprints are {header.formula}; this fastdata makes "
                f"{FORMULAS[kind]}, and the two cannot be compared",
                hint="write the index anew with --save-index",
            )
        if not all(isinstance(n, int) and n >= 0 for n in (header.count, header.key_bytes)):
            raise self._damaged("its first line has an impossible number")
        expected = self._file.tell() + header.body_bytes + _DIGEST_BYTES
        size = os.fstat(self._file.fileno()).st_size
        if size != expected:
            raise self._damaged(f"{size} bytes instead of {expected}")

    def _fill(self, entries: Entries, header: IndexHeader) -> None:
        for piece in self._pieces(8 * header.count):
            entries.hashes.extend(np.frombuffer(piece, "<u8"))
        width = LOOK_BYTES[header.kind]
        for piece in self._pieces(width * header.count, width):
            entries.looks.extend(np.frombuffer(piece, f"V{width}"))
        ends = (np.frombuffer(piece, "<i8") for piece in self._pieces(8 * header.count))
        entries.keys.extend(ends, self._pieces(header.key_bytes, 1))
        digest = self._digest.digest()
        if self._file.read(_DIGEST_BYTES) != digest:
            raise self._damaged("its checksum does not match")

    def _pieces(self, length: int, unit: int = 8) -> Iterator[bytes]:
        """Yield the next ``length`` bytes in pieces of whole units."""
        step = _PIECE // unit * unit
        for begin in range(0, length, step):
            piece = self._file.read(min(step, length - begin))
            self._digest.update(piece)
            yield piece

    def _damaged(self, what: str) -> DamagedDatasetError:
        return DamagedDatasetError(
            f"{self._where}: the index is damaged: {what}",
            hint="write it anew with --save-index",
            path=self._where,
        )


def _write(file: IO[bytes], entries: Entries) -> None:
    header = IndexHeader.of(entries)
    digest = xxhash.xxh3_128()
    for piece in _sections(entries, header):
        digest.update(piece)
        file.write(piece)
    file.write(digest.digest())


def _sections(entries: Entries, header: IndexHeader) -> Iterator[bytes]:
    yield json.dumps(asdict(header)).encode() + b"\n"
    for column in (entries.hashes.values, entries.looks.values, entries.keys.ends):
        for begin in range(0, header.count, _PIECE // 8):
            yield column[begin : begin + _PIECE // 8].tobytes()
    yield from entries.keys.joined()


def _is_index(target: Path) -> bool:
    with storage_errors(target):
        if not target.is_file():
            return False
        with open(target, "rb") as file:
            return file.read(len(_MAGIC)) in (_MAGIC, b"")


def _foreign(where: str) -> NotADatasetError:
    return NotADatasetError(
        f"{where} is no index of duplicates", hint="a run with --save-index FILE writes one"
    )
