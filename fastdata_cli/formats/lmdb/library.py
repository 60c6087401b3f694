"""Owns reading values through py-lmdb: what ours must agree with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.errors import BadSampleError, DamagedDatasetError
from fastdata_cli.extents import Bytes, Column
from fastdata_cli.formats.lmdb.file import DataFile

# The library opens a file only once in a process: readers of one file take turns.
_turn = threading.Lock()


class LmdbLibrary:
    """Has the library find values by their keys; the file is open while it does.

    Args:
        data: the data file.
        key_of: returns the key of a sample.
    """

    def __init__(self, data: Path, key_of: Callable[[int], bytes]) -> None:
        self._data, self._key_of = data, key_of
        self._file = DataFile(data)
        self._looked = False

    def images(self, indices: Column) -> list[Bytes]:
        """Return the images."""
        import lmdb

        keys = [self._key_of(index) for index in indices.tolist()]
        try:
            self._look()
            with (
                _turn,
                lmdb.open(str(self._data), subdir=False, readonly=True, lock=False) as environment,
                environment.begin() as transaction,
            ):
                self._require_same(environment)
                values = [transaction.get(key) for key in keys]
        except (lmdb.Error, DamagedDatasetError) as problem:
            raise BadSampleError(reason="corrupt", detail=str(problem)) from problem
        return [_found(key, value) for key, value in zip(keys, values, strict=True)]

    def _look(self) -> None:
        """Look at every record once: the library believes them, and reads behind the end."""
        if not self._looked:
            for leaf in self._file.leaves():
                for at in range(len(leaf)):
                    if not leaf.is_named_database(at):
                        leaf.value(at)
            self._looked = True

    def _require_same(self, environment: Any) -> None:
        """Raise DamagedDatasetError unless the library reads the state that was looked at."""
        info, stat, meta = environment.info(), environment.stat(), self._file.meta
        theirs = (info["last_txnid"], info["last_pgno"], stat["psize"], stat["depth"])
        ours = (meta.commit, meta.last_page, self._file.layout.page_size, meta.tree.depth)
        if theirs != ours:
            raise self._file.layout.damaged("the library reads another state of it")

    def close(self) -> None:
        """Nothing to do: nothing stays open."""


def _found(key: bytes, value: bytes | None) -> Bytes:
    if value is None:
        detail = f"there is no record {key.decode('utf-8', 'replace')}"
        raise BadSampleError(reason="missing", detail=detail)
    return np.frombuffer(value, np.uint8)
