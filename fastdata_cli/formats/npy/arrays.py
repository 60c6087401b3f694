"""Owns which ``.npy`` files of a folder hold images, how many, and where these begin."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import DamagedDatasetError, UnsupportedError
from fastdata_cli.formats.foreign import LABEL_NAMES, numbered_keys
from fastdata_cli.formats.npy_header import (
    MOST_HEADER_BYTES,
    NpyHeader,
    npy_header,
    require_numbers,
)
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import to_bytes
from fastdata_cli.sample import UNLABELLED, Reject
from fastdata_cli.storage.listing import Listing, list_tree
from fastdata_cli.storage.table import npy_array

_CHANNELS = (1, 3, 4)
_MOST_CHANNELS = 4
_UNUSABLE = "unsupported-format"


@dataclass(frozen=True, slots=True)
class Contents:
    """N images in F files, known from the headers of these."""

    root: Path
    files: KeyTable
    """Their paths below the root."""
    firsts: NDArray[np.int64]
    """int64[F], the first image of each."""
    begins: NDArray[np.int64]
    """int64[N], where each image begins in its file."""
    keys: KeyTable
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    shape: tuple[int, int, int]
    """(H, W, C) of every image."""
    dtype: np.dtype[Any]
    rejects: tuple[Reject, ...]
    notes: Mapping[str, int]


def is_npy_name(name: bytes) -> bool:
    """Tell whether a file is taken for an array, by its name."""
    return name.lower().endswith(b".npy")


def examine(path: Path) -> Contents:
    """Read the headers of a file, or of all files below a folder.

    Raises:
        UnsupportedError: no file has an array that is read as images; the first reason is named.
        DamagedDatasetError: the files that should have are damaged, or the labels do not fit.
    """
    if path.is_dir():
        listing = list_tree(path, is_wanted=is_npy_name)
        return _Found(listing).contents(of_one=False)
    name = KeyTable.from_keys([path.name])
    listing = Listing(path.parent, name, np.array([UNLABELLED], np.int64))
    return _Found(listing).contents(of_one=True)


@dataclass(slots=True)
class _Found:
    """The arrays of a listing, as their headers are read."""

    listing: Listing
    shape: tuple[int, int, int] | None = None
    dtype: np.dtype[Any] | None = None
    files: list[str] = field(default_factory=list)
    counts: list[int | None] = field(default_factory=list)
    """Images of each file; None for one that is not in a stack."""
    offsets: array[int] = field(default_factory=lambda: array("q"))
    labels: list[int] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    beside: str | None = None
    """The file of labels."""

    def contents(self, *, of_one: bool) -> Contents:
        """Read all headers and return what they come to."""
        for key, label in zip(self.listing.files, self.listing.labels.tolist(), strict=True):
            self._add(key, label)
        rejects = (*self.listing.rejects, *self.rejects)
        if self.shape is None or self.dtype is None:
            raise self._nothing(rejects)
        numbers = np.array([1 if count is None else count for count in self.counts], np.int64)
        firsts = np.cumsum(numbers) - numbers
        inside = np.arange(numbers.sum()) - np.repeat(firsts, numbers)
        each = int(np.prod(self.shape)) * self.dtype.itemsize
        keys = KeyTable.from_keys(self._keys())
        if of_one and self.counts[0] is not None:
            keys = numbered_keys(len(inside))
        return Contents(
            root=self.listing.root,
            files=KeyTable.from_keys(self.files),
            firsts=firsts,
            begins=np.repeat(np.array(self.offsets, np.int64), numbers) + inside * each,
            keys=keys,
            labels=self._labels(numbers),
            class_names=self.listing.class_names,
            shape=self.shape,
            dtype=self.dtype,
            rejects=rejects,
            notes=self.listing.notes,
        )

    def _add(self, key: str, label: int) -> None:
        try:
            header = self._header(key)
            if _are_labels(key, header):
                self.beside = key
                return
            require_numbers(header)
            count, shape = images_in(header.shape)
        except ValueError as problem:
            self.rejects.append(Reject(key, _UNUSABLE, str(problem)))
            return
        except _BadFileError as problem:
            self.rejects.append(Reject(key, problem.reason, str(problem)))
            return
        if self.shape is None or self.dtype is None:
            self.shape, self.dtype = shape, header.dtype
        if (shape, header.dtype) != (self.shape, self.dtype):
            detail = f"images of {header.dtype}{list(shape)} among {self.dtype}{list(self.shape)}"
            self.rejects.append(Reject(key, "size-mismatch", detail))
            return
        self.files.append(key)
        self.counts.append(count)
        self.offsets.append(header.offset)
        self.labels.append(label)

    def _header(self, key: str) -> NpyHeader:
        try:
            with open(path_of(self.listing.root, key), "rb") as file:
                head = file.read(MOST_HEADER_BYTES)
                size = os.fstat(file.fileno()).st_size
        except OSError as problem:
            raise _BadFileError("unreadable", problem.strerror or str(problem)) from problem
        header = npy_header(head)
        expected = header.offset + header.nbytes
        if size != expected and not header.dtype.hasobject:
            reason = "truncated" if size < expected else "corrupt"
            raise _BadFileError(reason, f"{size} bytes, and {expected} are expected")
        return header

    def _keys(self) -> Iterator[str]:
        for key, count in zip(self.files, self.counts, strict=True):
            if count is None:
                yield key
            else:
                yield from (f"{key}/{index:08d}" for index in range(count))

    def _labels(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.beside is None or self.listing.class_names:
            return np.repeat(np.array(self.labels, np.int64), numbers)
        path = Path(os.fsdecode(path_of(self.listing.root, self.beside)))
        labels: NDArray[np.int64] = npy_array(path.read_bytes(), where=str(path)).astype(np.int64)
        if len(labels) != numbers.sum():
            raise DamagedDatasetError(
                f"{path}: {len(labels)} labels for {numbers.sum()} images",
                path=str(path),
                expected=int(numbers.sum()),
                found=len(labels),
            )
        return labels

    def _nothing(self, rejects: tuple[Reject, ...]) -> DamagedDatasetError | UnsupportedError:
        root = str(self.listing.root)
        if not rejects:
            return UnsupportedError(f"{root}: no array of images", path=root)
        first = rejects[0]
        kind = UnsupportedError if first.reason == _UNUSABLE else DamagedDatasetError
        more = f", and {len(rejects) - 1} more are not read either" if rejects[1:] else ""
        return kind(f"{root}/{first.key}: {first.detail or first.reason}{more}", path=root)


class _BadFileError(Exception):
    """A file cannot be read; never leaves this module."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def path_of(root: Path, key: str) -> bytes:
    """Return the path of a file of a listing."""
    return os.path.join(os.fsencode(os.path.abspath(root)), to_bytes(key))


def images_in(shape: tuple[int, ...]) -> tuple[int | None, tuple[int, int, int]]:
    """Return how many images an array of this shape is, and the shape of each.

    The number is None for an array that is one image, not a stack.

    Raises:
        ValueError: it is no image, or has channels where rows should be.
    """
    words = "×".join(map(str, shape)) or "no axes"
    if 0 in shape or len(shape) not in (2, 3, 4):
        raise ValueError(f"an array of {words} is no image")
    if len(shape) > 2 and shape[-1] <= _MOST_CHANNELS:
        height, width, channels = shape[-3:]
        return (shape[0] if len(shape) == 4 else None), (height, width, channels)
    if len(shape) > 2 and shape[-3] in _CHANNELS:
        raise ValueError(f"an array of {words} has its channels first: only last are they read")
    if len(shape) == 4:
        raise ValueError(f"an array of {words} is no image")
    height, width = shape[-2:]
    return (shape[0] if len(shape) == 3 else None), (height, width, 1)


def _are_labels(key: str, header: NpyHeader) -> bool:
    """Tell whether an array is the labels of the others: whole numbers, by a usual name."""
    named = key.lower().removesuffix(".npy") in LABEL_NAMES
    return named and header.dtype.kind in "iu" and len(header.shape) == 1
