"""Rows of an array through zarr-python: whatever is not read from the files directly."""

from __future__ import annotations

import warnings
import zipfile
from functools import partial
from typing import Any

import numpy as np

from fastdata_cli.errors import DamagedDatasetError, UnsupportedError
from fastdata_cli.extents import Bytes, Column, Window
from fastdata_cli.formats.streams import DECODE_ERRORS
from fastdata_cli.formats.zarr.layout import ArrayLayout
from fastdata_cli.formats.zarr.presence import require_row
from fastdata_cli.storage.decoded import DecodedChunks
from fastdata_cli.storage.gather import corrupt


class LibraryRows:
    """Reads through zarr-python what cannot be located, and what ours is compared with.

    Raises:
        UnsupportedError: a codec, or the dtype, is not known here.
    """

    def __init__(self, layout: ArrayLayout) -> None:
        if layout.shard is not None and layout.index_at_end is None:
            raise UnsupportedError(
                f"{layout.folder}: the index of its shards has codecs that are not read here",
                hint="bytes (little-endian) with crc32c is",
            )
        if layout.shard is not None and not layout.files.can_map:
            raise UnsupportedError(
                f"{layout.folder}: shards that the zip has compressed once more",
                hint="zip it again without compression: zip -0 -r",
            )
        self._layout = layout
        self._array = open_array(layout)
        self._rows = layout.chunk[0]
        self._decoded = DecodedChunks()

    def read(self, start: int, stop: int, out: Bytes) -> None:
        """Fill ``out`` with rows ``start`` to ``stop``, each row of chunks decoded once.

        Raises:
            BadSampleError: a chunk is missing or corrupt.
        """
        done, each = 0, self._layout.row_bytes
        while start < stop:
            number, inside = divmod(start, self._rows)
            rows = min(self._layout.shape[0] - number * self._rows, self._rows)
            end = min(stop, start - inside + rows)
            size = (end - start) * each
            decode = partial(self._decode, number)
            with self._decoded.hold(number, rows * each, decode, wait=True) as band:
                assert band is not None, "it was waited for"
                out[done : done + size] = band.part(inside * each, size).array
            start, done = end, done + size

    def close(self) -> None:
        """Close the store."""
        self._array.store.close()

    def _decode(self, number: int, out: Window) -> None:
        require_row(self._layout, number)
        begin = number * self._rows
        try:
            band = np.ascontiguousarray(self._array[begin : begin + self._rows])
        except DECODE_ERRORS as problem:
            raise corrupt(self._layout.folder, f"chunk {number}: {problem}") from problem
        native = band.astype(band.dtype.newbyteorder("="), copy=False)
        out.array[:] = native.reshape(-1).view(np.uint8)


class ZarrLibrary:
    """Images that are rows of an array, or runs of its rows, through zarr-python.

    Args:
        layout: of the array.
        runs: as of ``ChunkedImages``.
    """

    def __init__(self, layout: ArrayLayout, runs: tuple[Column, Column] | None = None) -> None:
        self._rows, self._runs = LibraryRows(layout), runs
        self._row_bytes = layout.row_bytes

    def images(self, indices: Column) -> list[Bytes]:
        """Return the images; read in their order in the array, so that a chunk is decoded once."""
        starts, counts = indices, np.ones_like(indices)
        if self._runs is not None:
            starts, counts = (column[indices] for column in self._runs)
        images = [np.empty(count * self._row_bytes, np.uint8) for count in counts.tolist()]
        for at in np.argsort(starts, kind="stable").tolist():
            start = int(starts[at])
            self._rows.read(start, start + int(counts[at]), images[at])
        return images

    def close(self) -> None:
        """Close what zarr-python keeps open of a zip."""
        self._rows.close()


def open_array(layout: ArrayLayout) -> Any:
    """Open an array with zarr-python.

    Raises:
        UnsupportedError: a codec or the dtype is unknown to it.
        DamagedDatasetError: it lies in a zip that is broken.
    """
    import numcodecs

    names = [codec["name"] for codec in layout.codecs if codec["name"] != "bytes"]
    try:
        for codec in layout.codecs:
            # Only asking for the codec itself tells that its library is not installed.
            name = codec["name"].removeprefix("numcodecs.")
            if name != "bytes" and (layout.zarr_format == 2 or name != codec["name"]):
                config = {key: value for key, value in codec.items() if key != "name"}
                numcodecs.get_codec({**config, "id": name})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of dtypes and codecs without a specification
            return layout.files.open_array(layout.name, layout.zarr_format)
    except (zipfile.BadZipFile, NotImplementedError) as problem:
        raise DamagedDatasetError(f"{layout.folder}: {problem}") from problem
    except (ImportError, LookupError, ValueError, TypeError, ArithmeticError) as problem:
        raise UnsupportedError(
            f"{layout.folder}: the array {layout.label!r} needs a codec or dtype that is not "
            f"installed here: {', '.join(names) or layout.dtype} ({problem})",
            hint="install the library of that codec, or store the array with another",
        ) from problem
