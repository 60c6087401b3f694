"""Owns files in which each image is a dataset of its own: which they are, and where they lie.

    cat/0001.jpg    1-D uint8, or one opaque value: the bytes of an image file
    cat/0002        H×W×C numbers: pixels, all of one shape and type

The key is the path in the file. Where there is more than one group at the top, they are classes,
as the folders of a tree are. A file has encoded images or pixels: where it has both, the first.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.formats.axes import AxisOrder
from fastdata_cli.formats.hdf5.elsewhere import require_parts
from fastdata_cli.formats.hdf5.filters import require_filters
from fastdata_cli.imaging.sniff import DECODED, PICTURES, SNIFF_BYTES, sniff
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import from_bytes
from fastdata_cli.sample import UNLABELLED, Payload, Reject, Schema
from fastdata_cli.storage.listing_rows import number_classes

_IMAGES = DECODED | PICTURES
_LEAST_IMAGE_BYTES = 32
_USUAL = AxisOrder("HWC")
_CHANNELS = (1, 3, 4)


@dataclass(frozen=True, slots=True)
class Pieces:
    """The datasets of a file that are an image each."""

    schema: Schema
    """With the shape of pixels as it is stored."""
    order: AxisOrder
    keys: KeyTable
    """Their paths."""
    begins: NDArray[np.int64]
    """int64[N], where the bytes of each begin in the file; -1 where HDF5 alone can tell."""
    lengths: NDArray[np.int64]
    labels: NDArray[np.int64]
    rejects: tuple[Reject, ...]
    others: int
    """Datasets that are no image."""


def find_pieces(file: Any, path: Path, order: AxisOrder | None) -> Pieces | None:
    """Return the images of an open ``h5py.File``; None where it has none of this kind.

    Args:
        file: the open file.
        path: of it.
        order: of the axes of pixels; None for H×W×C.

    Raises:
        UnsupportedError, MissingDependencyError: a filter is not installed.
        UnsupportedError, DamagedDatasetError: as ``require_parts``.
    """
    pixels = _Found(order or _USUAL, Payload.PIXELS)
    encoded = _Found(_USUAL, Payload.ENCODED)
    others, in_place = 0, file.userblock_size == 0  # addresses count from behind that block
    with open(path, "rb") as raw:
        for name, dataset in _datasets(file):
            begin = _begin(dataset) if in_place else -1
            if begin < 0:
                require_parts(path, dataset)
            if pixels.takes(dataset, usual=order is None):
                pixels.add(name, dataset, begin)
            elif _is_encoded(dataset) and _begins_as_image(dataset, begin, raw):
                encoded.add(name, dataset, begin)
            else:
                others += 1
    found, left = (encoded, pixels) if encoded.names else (pixels, encoded)
    return found.pieces(others + len(left.names)) if found.names else None


@dataclass(slots=True)
class _Found:
    """The images of one payload, as they are met."""

    order: AxisOrder
    payload: Payload
    names: list[str] = field(default_factory=list)
    begins: array[int] = field(default_factory=lambda: array("q"))
    lengths: array[int] = field(default_factory=lambda: array("q"))
    form: tuple[tuple[int, ...], np.dtype[Any]] | None = None
    rejects: list[Reject] = field(default_factory=list)

    def takes(self, dataset: Any, *, usual: bool) -> bool:
        """Tell whether a dataset is pixels; the usual ones are unsigned, with colours last."""
        kinds = "u" if usual else "uif"
        if not self.order.is_one or dataset.dtype.kind not in kinds:
            return False
        if usual and (dataset.ndim != 3 or dataset.shape[-1] not in _CHANNELS):
            return False
        return self.order.fits(dataset.shape)

    def add(self, name: str, dataset: Any, begin: int) -> None:
        """Take in an image; pixels of another form than the first are rejects."""
        if self.payload is Payload.PIXELS:
            form = self.order.stored_shape(dataset.shape), dataset.dtype.newbyteorder("=")
            self.form = self.form or form
            if form != self.form:
                wanted = f"{self.form[1]}{list(self.form[0])}"
                detail = f"{dataset.dtype}{list(form[0])} among {wanted}"
                self.rejects.append(Reject(name, "size-mismatch", detail))
                return
        if begin < 0:
            require_filters(dataset)
        self.names.append(name)
        self.begins.append(begin)
        self.lengths.append(dataset.size * dataset.dtype.itemsize)

    def pieces(self, others: int) -> Pieces:
        """Return all of them."""
        shape, dtype = self.form or (None, np.dtype(np.uint8))
        labels, names = _classes(self.names)
        lengths = np.array(self.lengths, np.int64)
        schema = Schema(
            payload=self.payload,
            num_samples=len(self.names),
            image_shape=shape,
            dtype=dtype.name,
            max_image_bytes=None if shape else int(lengths.max()),
            class_names=names,
        )
        begins = np.array(self.begins, np.int64)
        keys = KeyTable.from_keys(self.names)
        rejects = tuple(self.rejects)
        return Pieces(schema, self.order, keys, begins, lengths, labels, rejects, others)


def _datasets(file: Any) -> Iterator[tuple[str, Any]]:
    """Yield paths and datasets whose types NumPy has, in the order of their names."""
    import h5py

    names: list[str | bytes] = []
    file.visititems(
        lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
    )
    for name in names:
        dataset = file[name]
        try:
            if dataset.dtype is not None and dataset.size:
                # h5py has bytes for what is not UTF-8.
                yield from_bytes(name) if isinstance(name, bytes) else name, dataset
        except TypeError:
            continue


def _is_encoded(dataset: Any) -> bool:
    opaque = dataset.dtype.kind == "V" and not dataset.dtype.names and dataset.size == 1
    flat = dataset.dtype == np.uint8 and dataset.ndim == 1
    return bool((opaque or flat) and dataset.size * dataset.dtype.itemsize >= _LEAST_IMAGE_BYTES)


def _begins_as_image(dataset: Any, begin: int, raw: Any) -> bool:
    if begin >= 0:
        raw.seek(begin)
        return sniff(raw.read(SNIFF_BYTES)) in _IMAGES
    head = dataset[()] if dataset.dtype.kind == "V" else dataset[:SNIFF_BYTES]
    return sniff(np.asarray(head).tobytes()[:SNIFF_BYTES]) in _IMAGES


def _begin(dataset: Any) -> int:
    """Return where the values of a dataset begin in its file, if they lie there as in memory."""
    offset = dataset.id.get_offset()  # None of one in chunks, and of what was never written
    return -1 if offset is None or not dataset.dtype.isnative or dataset.external else int(offset)


def _classes(names: list[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    tops = [name.partition("/")[0] if "/" in name else "" for name in names]
    groups = sorted(set(tops) - {""})
    if len(groups) < 2:
        return np.full(len(names), UNLABELLED, np.int64), ()
    positions = {group: at for at, group in enumerate(groups)}
    codes = np.array([positions.get(top, UNLABELLED) for top in tops], np.int64)
    return number_classes(codes, groups, None)
