"""Thumbnails that wait on disk until it is known which images turn out to be duplicates."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Collection
from pathlib import Path
from struct import Struct
from typing import IO

import numpy as np
import xxhash

from fastdata_cli.keys import to_bytes
from fastdata_cli.operations.clean.gallery_thumbnail import Thumbnail
from fastdata_cli.storage.durable import write_all

MOST_BYTES = 4 << 30
"""Beyond this, some 700,000 thumbnails, later ones are let go."""
_SIZE = Struct("<II")


class Spool:
    """A file without a name that holds thumbnails by key, with 16 bytes of memory for each.

    Args:
        folder: where the file lies. It never shows there, and is gone when this is closed or
            the process ends, however that happens.
        most_bytes: of the file.
    """

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._room = most_bytes
        self._file: IO[bytes] | None = None
        self._hashes = array("Q")
        self._ends = array("Q", [0])

    def add(self, key: str, thumbnail: Thumbnail) -> None:
        """Keep a thumbnail, unless there is no room for it."""
        record = _SIZE.pack(*thumbnail.size) + thumbnail.whole
        if self._ends[-1] + len(record) > self._room:
            return
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
            write_all(self._file.fileno(), memoryview(record))
        except OSError:  # a full disk costs pictures, not the run
            self._room = 0
            return
        self._hashes.append(_hash(key))
        self._ends.append(self._ends[-1] + len(record))

    def find(self, keys: Collection[str]) -> dict[str, Thumbnail]:
        """Return the thumbnails of these keys, as far as they are there."""
        hashes = np.frombuffer(self._hashes, np.uint64)
        found = {}
        for key in keys:
            places = np.flatnonzero(hashes == _hash(key))
            if len(places):
                found[key] = self._read(int(places[0]))
        return found

    def _read(self, place: int) -> Thumbnail:
        assert self._file is not None
        begin, end = self._ends[place], self._ends[place + 1]
        record = os.pread(self._file.fileno(), end - begin, begin)
        height, width = _SIZE.unpack_from(record)
        return Thumbnail((height, width), record[_SIZE.size :])

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _hash(key: str) -> int:
    return xxhash.xxh3_64_intdigest(to_bytes(key))
