"""Owns reading images through protobuf: what ours must agree with."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fastdata_cli.errors import BadSampleError
from fastdata_cli.extents import Bytes, Column
from fastdata_cli.formats.located import Locator
from fastdata_cli.formats.tfrecord import framing
from fastdata_cli.formats.tfrecord.example import messages
from fastdata_cli.formats.tfrecord.framing import Record

_FILES = 8


class ExampleLibrary:
    """Finds the record that an image is in, and has protobuf parse it.

    Args:
        places: says in which file an image is, and a byte of it: what tells it from the others.
        feature: the one that holds the image.
    """

    def __init__(self, places: Locator, feature: str) -> None:
        self._places, self._feature = places, feature
        self._records = lru_cache(_FILES)(self._walk)

    def images(self, indices: Column) -> list[Bytes]:
        """Return the images."""
        where = self._places.locate(indices)
        pairs = zip(where.file.tolist(), where.offset.tolist(), strict=True)
        return [self._image(file, begin) for file, begin in pairs]

    def close(self) -> None:
        """Forget where records are."""
        self._records.cache_clear()

    def _image(self, file: int, at: int) -> Bytes:
        from google.protobuf.message import DecodeError

        found = self._records(file)
        data = self._places.files.get(file).data.data
        try:
            record = found[int(np.searchsorted([each.begin for each in found], at, "right")) - 1]
            if not framing.is_sound(data, record):
                raise ValueError("the checksum of a record does not match")
            raw = data[record.begin : record.begin + record.size].tobytes()
            example = messages().example.FromString(raw)
            image = example.features.feature[self._feature].bytes_list.value[0]
        except (DecodeError, ValueError, LookupError) as problem:
            raise BadSampleError(reason="corrupt", detail=str(problem)) from problem
        return np.frombuffer(image, np.uint8)

    def _walk(self, file: int) -> list[Record]:
        data = self._places.files.get(file).data.data
        return [each for each in framing.records(data) if isinstance(each, Record)]
