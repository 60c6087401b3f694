"""Owns reading values through py-lmdb: what ours must agree with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fastdata_cli.errors import BadSampleError
from fastdata_cli.extents import Bytes, Column

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

    def images(self, indices: Column) -> list[Bytes]:
        """Return the images."""
        import lmdb

        keys = [self._key_of(index) for index in indices.tolist()]
        try:
            with (
                _turn,
                lmdb.open(str(self._data), subdir=False, readonly=True, lock=False) as environment,
                environment.begin() as transaction,
            ):
                values = [transaction.get(key) for key in keys]
        except lmdb.Error as problem:
            raise BadSampleError(reason="corrupt", detail=str(problem)) from problem
        return [_found(key, value) for key, value in zip(keys, values, strict=True)]

    def close(self) -> None:
        """Nothing to do: nothing stays open."""


def _found(key: bytes, value: bytes | None) -> Bytes:
    if value is None:
        detail = f"there is no record {key.decode('utf-8', 'replace')}"
        raise BadSampleError(reason="missing", detail=detail)
    return np.frombuffer(value, np.uint8)
