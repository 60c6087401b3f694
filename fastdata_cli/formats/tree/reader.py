"""Reads a tree: the files of a listing, or of the sidecar that our writer left."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fastdata_cli import registry
from fastdata_cli.contract import Finding
from fastdata_cli.errors import BadSampleError, DamagedDatasetError
from fastdata_cli.formats.base import TABLE_CHANGED, Images, IndexedReader
from fastdata_cli.formats.tree import sidecar as tree_sidecar
from fastdata_cli.formats.tree.classes import load_classes
from fastdata_cli.formats.tree.files import read_file, read_files
from fastdata_cli.formats.tree.sidecar import Sidecar
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import to_bytes
from fastdata_cli.options import Options, option
from fastdata_cli.sample import Payload, Reject, Sample, Schema, metadata_of
from fastdata_cli.storage.disk_files import files_below
from fastdata_cli.storage.gather import arena_for
from fastdata_cli.storage.labels import LabelTable, load_labels
from fastdata_cli.storage.listing import Listing, list_image, list_tree
from fastdata_cli.storage.listing_rows import digests, number_classes
from fastdata_cli.storage.table import SampleTable


@dataclass(frozen=True, kw_only=True)
class TreeReadOptions(Options):
    """How a tree is read."""

    labels: str | None = option(None, "CSV or JSONL file with the label of each image")
    classes: str | None = option(None, "file or dataset whose class numbering is used")


@dataclass(frozen=True)
class _Contents:
    """What a tree holds, known without opening a file of it."""

    listing: Listing
    sidecar: Sidecar | None = None
    surplus: Sequence[str] = ()
    """Images in the folder that the sidecar does not know."""


class TreeReader(IndexedReader[bytes]):
    """Reads image files below a folder, in the order of a listing or of the sidecar.

    It pickles with its listing, so that workers read what was listed, whatever happens meanwhile.
    """

    def __init__(
        self, path: Path, options: TreeReadOptions, contents: _Contents | None = None
    ) -> None:
        self._contents = _examine(path, options) if contents is None else contents
        super().__init__(path, options)

    @classmethod
    def from_listing(cls, listing: Listing) -> Self:
        """Return a reader of exactly these files."""
        return cls(listing.root, TreeReadOptions(), _Contents(listing))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.options, self._contents)

    @property
    def listing(self) -> Listing:
        """The files, with labels, rejects and notes."""
        return self._contents.listing

    def _start(self) -> None:
        listing, sidecar = self._contents.listing, self._contents.sidecar
        self.rejects, self.notes = listing.rejects, listing.notes
        self.manifest = sidecar.manifest if sidecar else None
        self.schema = Schema(
            payload=Payload.ENCODED,
            num_samples=len(listing.files),
            max_image_bytes=sidecar.manifest.schema.max_image_bytes if sidecar else None,
            class_names=listing.class_names,
        )

    def _open(self) -> bytes:
        """Return what every file's path begins with: files themselves are not held open."""
        return os.fsencode(os.path.abspath(self.listing.root)) + b"/"

    def _close(self, handle: bytes) -> None:
        """Nothing to do."""

    def _load_table(self) -> SampleTable:
        listing, sidecar = self._contents.listing, self._contents.sidecar
        if sidecar is not None:
            return replace(sidecar.table, labels=listing.labels)
        unknown = np.broadcast_to(np.int64(0), len(listing.files))
        return SampleTable(listing.files, listing.labels, np.empty(0, np.uint64), unknown)

    def _fetch(self, handle: bytes, indices: NDArray[np.int64], out: NDArray[Any] | None) -> Images:
        images = self.read_each(indices)
        offsets, arena = arena_for(np.array([image.size for image in images], np.int64), out)
        if images:
            np.concatenate(images, out=arena[: offsets[-1]])
        return Images(arena, offsets)

    def read_each(self, indices: Sequence[int] | NDArray[np.int64]) -> list[NDArray[np.uint8]]:
        """Return the images at ``indices`` one by one; they are the caller's own."""
        images = []
        for image in read_files(map(self._file, self._checked(indices).tolist())):
            if isinstance(image, BadSampleError):
                raise image
            images.append(image)
        return images

    def read(self, index: int) -> Sample:
        """Return one sample; its image is the caller's own."""
        if not 0 <= index < len(self):
            return super().read(index)
        return self._sample(index, self._image(index))

    def head(self, index: int, size: int) -> NDArray[np.uint8]:
        """Return the first bytes of one file, reading no more of it."""
        return self._image(index, size)

    def scan(self, span: range | None = None) -> Iterator[Sample | Reject]:
        """Yield the samples of a span in order, the next files on their way; bad ones as rejects.

        All of it happens in the calling thread.
        """
        span = range(len(self)) if span is None else span
        for index, image in zip(span, read_files(map(self._file, span)), strict=True):
            if isinstance(image, BadSampleError):
                yield Reject(image.key, image.reason, image.detail, index)
            else:
                yield self._read_or_reject(index, partial(self._sample, index), image)

    def check_table(self) -> Finding | None:
        """Compare the sidecar with its manifest, whatever labels the caller wants instead."""
        sidecar = self._contents.sidecar
        if sidecar is None or not sidecar.manifest.table:
            return None
        if sidecar.table.digest() == sidecar.manifest.table:
            return None
        return TABLE_CHANGED

    def verify_whole(self) -> Iterator[Finding]:
        """Yield also the files that the sidecar does not know."""
        yield from super().verify_whole()
        for key in self._contents.surplus:
            yield Finding(-1, key, "surplus", "the sidecar does not know this file")

    def files(self) -> Iterator[Path]:
        """Yield the files of the samples, and those of the sidecar."""
        root = self._handle.get()
        for name in self.listing.files:
            yield Path(os.fsdecode(root + to_bytes(name)))
        if self._contents.sidecar is not None:
            yield from files_below(tree_sidecar.sidecar_path(self.path))

    def describe(self) -> Mapping[str, Any]:
        """Return the layout: one file for each image."""
        return {"codec": "none", "sidecar": self._contents.sidecar is not None}

    def _file(self, index: int) -> tuple[bytes, str]:
        """Return the path and the key of a sample."""
        name = key = self.listing.files[index]
        if self._contents.sidecar is not None:
            key = self._table.get().keys[index]
        return self._handle.get() + to_bytes(name), key

    def _image(self, index: int, limit: int | None = None) -> NDArray[np.uint8]:
        return read_file(*self._file(index), limit)

    def _sample(self, index: int, image: NDArray[np.uint8]) -> Sample:
        table = self._table.get()
        key = table.keys[index]
        text = table.metadata.text(index) if table.metadata is not None else None
        return Sample(key, image, int(table.labels[index]), metadata_of(text, key))


def _examine(path: Path, options: TreeReadOptions) -> _Contents:
    labels = load_labels(Path(options.labels)) if options.labels else None
    classes = load_classes(Path(options.classes)) if options.classes else None
    if path.is_file():
        return _Contents(list_image(path, labels=labels, classes=classes))
    sidecar = tree_sidecar.load(path)
    if sidecar is not None:
        return _with_sidecar(path, sidecar, labels, classes)
    listing = list_tree(path, labels=labels, classes=classes)
    claimed = None if len(listing.files) else registry.by_suffix(path)
    if claimed is not None:
        raise DamagedDatasetError(
            f"{path}: named like {claimed.name}, but its content is neither that nor images",
            path=str(path),
        )
    return _Contents(listing)


def _with_sidecar(
    path: Path, sidecar: Sidecar, labels: LabelTable | None, classes: Sequence[str] | None
) -> _Contents:
    """Take everything from the sidecar but labels that the caller wants otherwise."""
    numbers, names = sidecar.table.labels, sidecar.manifest.schema.class_names
    notes: Mapping[str, int] = {}
    if labels is not None:
        found = labels.apply(sidecar.table.keys, classes)
        numbers, names, notes = found.labels, found.class_names, found.notes
    elif classes is not None:
        numbers, names = number_classes(numbers, names or classes, classes)
    there = list_tree(path).files
    unknown = np.flatnonzero(~np.isin(digests(there), digests(sidecar.names)))
    surplus = KeyTable.from_keys(there.take(unknown))
    if len(surplus):
        notes = {**notes, "surplus-file": len(surplus)}
    return _Contents(Listing(path, sidecar.names, numbers, names, (), notes), sidecar, surplus)
