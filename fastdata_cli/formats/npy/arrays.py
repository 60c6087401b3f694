"""Owns which ``.npy`` files of a folder hold images, how many, and where these begin."""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import DamagedDatasetError, UnsupportedError, UsageError
from fastdata_cli.formats.axes import AxisOrder
from fastdata_cli.formats.foreign import LABEL_NAMES, numbered_keys, usable_labels
from fastdata_cli.formats.npy.shapes import images_in
from fastdata_cli.formats.npy_header import (
    MOST_HEADER_BYTES,
    NpyHeader,
    npy_header,
    require_numbers,
)
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import to_bytes
from fastdata_cli.sample import UNLABELLED, Reject
from fastdata_cli.storage.labels import Labels, LabelTable
from fastdata_cli.storage.listing import Listing, list_tree
from fastdata_cli.storage.listing_rows import number_classes
from fastdata_cli.storage.table import npy_array

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
    order: AxisOrder
    """Of the axes of an image."""
    shape: tuple[int, ...]
    """Of every image, as it is stored; three axes."""
    dtype: np.dtype[Any]
    rejects: tuple[Reject, ...]
    notes: Mapping[str, int]
    remarks: tuple[str, ...]
    """What is odd, in words."""


def is_npy_name(name: bytes) -> bool:
    """Tell whether a file is taken for an array, by its name."""
    return name.lower().endswith(b".npy")


def examine(
    path: Path,
    order: AxisOrder | None = None,
    table: LabelTable | None = None,
    classes: Sequence[str] | None = None,
) -> Contents:
    """Read the headers of a file, or of all files below a folder.

    Args:
        path: of the file or folder.
        order: of the axes of the arrays; None takes it from their shapes.
        table: labels that take the place of all others.
        classes: the numbering of the classes.

    Raises:
        UnsupportedError: no file has an array that is read as images; the first reason is named.
        DamagedDatasetError: the files that should have are damaged, or the labels do not fit.
        UsageError: ``table`` names no image, or a class is not in ``classes``.
    """
    if path.is_dir():
        numbering = None if table is not None else classes
        listing = list_tree(path, classes=numbering, is_wanted=is_npy_name)
        found = _Found(listing, order).contents(of_one=False)
    else:
        name = KeyTable.from_keys([path.name])
        listing = Listing(path.parent, name, np.array([UNLABELLED], np.int64))
        found = _Found(listing, order).contents(of_one=True)
    if table is not None:
        return _labelled(found, table, classes)
    if classes is None:
        return found
    labels, names = number_classes(found.labels, classes, classes)
    return replace(found, labels=labels, class_names=names)


def _labelled(found: Contents, table: LabelTable, classes: Sequence[str] | None) -> Contents:
    """Return the contents with labels by a table, of files or of the samples in them."""
    labels = _of_most(table, (found.files, found.keys), classes)
    numbers = labels.labels
    if len(numbers) < len(found.begins):
        numbers = np.repeat(numbers, np.diff([*found.firsts.tolist(), len(found.begins)]))
    notes = dict(sorted({**found.notes, **labels.notes}.items()))
    return replace(found, labels=numbers, class_names=labels.class_names, notes=notes)


def _of_most(table: LabelTable, keys: Sequence[KeyTable], classes: Sequence[str] | None) -> Labels:
    """Return the labels of those keys that more rows of the table are about."""
    found: list[Labels] = []
    for each in keys:
        with contextlib.suppress(UsageError):
            found.append(table.apply(each, classes))
    if not found:
        return table.apply(keys[0], classes)  # which says what is wrong
    return min(found, key=lambda labels: labels.notes.get("label-without-image", 0))


@dataclass(slots=True)
class _Found:
    """The arrays of a listing, as their headers are read."""

    listing: Listing
    wanted: AxisOrder | None
    form: _Form | None = None
    """Of the first image; all others must have it."""
    files: list[str] = field(default_factory=list)
    counts: list[int | None] = field(default_factory=list)
    """Images of each file; None for one that is not in a stack."""
    offsets: array[int] = field(default_factory=lambda: array("q"))
    labels: list[int] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    beside: str | None = None
    """The file of labels."""
    remarks: list[str] = field(default_factory=list)

    def contents(self, *, of_one: bool) -> Contents:
        """Read all headers and return what they come to."""
        for key, label in zip(self.listing.files, self.listing.labels.tolist(), strict=True):
            self._add(key, label)
        rejects = (*self.listing.rejects, *self.rejects)
        if self.form is None:
            raise self._nothing(rejects)
        numbers = np.array([1 if count is None else count for count in self.counts], np.int64)
        firsts = np.cumsum(numbers) - numbers
        labels, notes = usable_labels(self._labels(numbers))
        inside = np.arange(numbers.sum()) - np.repeat(firsts, numbers)
        each = int(np.prod(self.form.shape)) * self.form.dtype.itemsize
        keys = KeyTable.from_keys(self._keys())
        if of_one and self.counts[0] is not None:
            keys = numbered_keys(len(inside))
        return Contents(
            root=self.listing.root,
            files=KeyTable.from_keys(self.files),
            firsts=firsts,
            begins=np.repeat(np.array(self.offsets, np.int64), numbers) + inside * each,
            keys=keys,
            labels=labels,
            class_names=self.listing.class_names,
            order=self.form.order,
            shape=self.form.shape,
            dtype=self.form.dtype,
            rejects=rejects,
            notes={**self.listing.notes, **notes},
            remarks=tuple(self.remarks[:1]),
        )

    def _add(self, key: str, label: int) -> None:
        try:
            header = self._header(key)
            if _are_labels(key, header):
                self.beside = key
                return
            require_numbers(header)
            count, order, shape, remark = images_in(header.shape, self.wanted)
        except ValueError as problem:
            self.rejects.append(Reject(key, _UNUSABLE, str(problem)))
            return
        except _BadFileError as problem:
            self.rejects.append(Reject(key, problem.reason, str(problem)))
            return
        form = _Form(order, shape, header.dtype)
        self.form = self.form or form
        if form != self.form:
            detail = f"images of {form} among {self.form}"
            self.rejects.append(Reject(key, "size-mismatch", detail))
            return
        self.remarks += [f"{key}{remark}"] if remark else []
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
        if self.beside is None or (self.listing.labels != UNLABELLED).any():
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


@dataclass(frozen=True, slots=True)
class _Form:
    """What all images have in common."""

    order: AxisOrder
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        order = "" if self.order.is_upright else f" {'×'.join(str(self.order))}"
        return f"{self.dtype}{list(self.shape)}{order}"


class _BadFileError(Exception):
    """A file cannot be read; never leaves this module."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def path_of(root: Path, key: str) -> bytes:
    """Return the path of a file of a listing."""
    return os.path.join(os.fsencode(os.path.abspath(root)), to_bytes(key))


def _are_labels(key: str, header: NpyHeader) -> bool:
    """Tell whether an array is the labels of the others: whole numbers, by a usual name."""
    named = key.lower().removesuffix(".npy") in LABEL_NAMES
    return named and header.dtype.kind in "iu" and len(header.shape) == 1
