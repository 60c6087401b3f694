"""Owns reading images through Python's tarfile: what ours must agree with."""

from __future__ import annotations

import contextlib
import io
import tarfile
from functools import lru_cache

import numpy as np

from fastdata_cli.errors import BadSampleError
from fastdata_cli.extents import Bytes, Column
from fastdata_cli.formats.located import Locator
from fastdata_cli.sample import Payload, Schema

_SHARDS = 8


class TarLibrary:
    """Finds the member that holds an image, and has tarfile read it.

    Args:
        places: says in which shard an image is, and a byte of it: what tells it from the others.
        schema: of the dataset.
    """

    def __init__(self, places: Locator, schema: Schema) -> None:
        self._places = places
        self._pixels = schema.payload is Payload.PIXELS
        self._members = lru_cache(_SHARDS)(_members)

    def images(self, indices: Column) -> list[Bytes]:
        """Return the images."""
        where = self._places.locate(indices)
        shards = map(where.path_of, where.file.tolist())
        try:
            pairs = zip(shards, where.offset.tolist(), strict=True)
            return [self._image(path, begin) for path, begin in pairs]
        except (tarfile.TarError, OSError, ValueError) as problem:
            raise BadSampleError(reason="corrupt", detail=str(problem)) from problem

    def close(self) -> None:
        """Forget the members."""
        self._members.cache_clear()

    def _image(self, path: str, begin: int) -> Bytes:
        begins, members = self._members(path)
        number = int(np.searchsorted(begins, begin, "right")) - 1
        if number < 0 or begin > members[number].offset_data + members[number].size:
            raise tarfile.ReadError(f"{path}: no member at byte {begin}")
        member = members[number]
        with tarfile.open(path) as tar:
            file = tar.extractfile(member)
            content = file.read() if file is not None else b""
        if self._pixels:
            array = np.load(io.BytesIO(content), allow_pickle=False)
            return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return np.frombuffer(content, np.uint8)


def _members(path: str) -> tuple[Column, list[tarfile.TarInfo]]:
    """Return the files of a tar, by where their content begins; of a damaged one, those before."""
    files: list[tarfile.TarInfo] = []
    with tarfile.open(path, ignore_zeros=True) as tar, contextlib.suppress(tarfile.ReadError):
        files.extend(member for member in iter(tar.next, None) if member.isreg())
    return np.array([member.offset_data for member in files], np.int64), files
