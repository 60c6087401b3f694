"""Owns reading LMDB environments that others made, as far as their values are image files.

A record of the main database is a sample when its value is an image in a known file format; the
key of the record is the key of the sample, and no sample has a label. Keys that are all integers
are put in numeric order, others stay in the order of their bytes. Whatever is no image (a count,
a text, a pickled list of keys) is left out and counted in ``notes``, but for the texts that
texts.py knows. Values are looked at one by one in environments of up to 20,000 records; beyond,
that would read a page of every value, and all that are long enough for an image are samples: what
is none is found when it is read.

Values in which the image is wrapped (pickled objects, caffe's Datum) are refused.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import DamagedDatasetError, UnsupportedError
from fastdata_cli.formats.lmdb.file import DataFile
from fastdata_cli.formats.lmdb.library import LmdbLibrary
from fastdata_cli.formats.lmdb.page import Extent, Page
from fastdata_cli.formats.lmdb.reader import describe
from fastdata_cli.formats.lmdb.records import MANIFEST, OUR_KEYS, data_path
from fastdata_cli.formats.lmdb.texts import TextRecords, TextTable, is_text_key
from fastdata_cli.formats.located import LocatedReader, StoredRanges
from fastdata_cli.imaging.sniff import DECODED, PICTURES, SNIFF_BYTES, sniff
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import from_bytes, to_bytes
from fastdata_cli.sample import UNLABELLED, Payload, Schema
from fastdata_cli.storage.mapping import FileMaps
from fastdata_cli.storage.table import SampleTable

_LOOKED_AT = 20_000
_LEAST_IMAGE_BYTES = 32
_KEY_BLOCK = 65_536

_PICKLE = re.compile(rb"\x80[\x02-\x05]")
# Fields 1 to 3 of the message: channels, height, width.
_DATUM = re.compile(rb"\x08[\x01-\x04]\x10[\x80-\xff]?[\x00-\x7f]\x18")

_IMAGE, _PICKLED, _CAFFE, _NAMED = "image", "pickled", "caffe Datum", "named database"
_TEXT = "text"
_REFUSALS = {
    _PICKLED: "its values are pickled: loading them would run code",
    _CAFFE: "its values are Datum messages of caffe",
    _NAMED: "it has named databases, and only the main one is read",
}
_HINT = "write the bytes of image files as values, in the main database"


class ForeignLmdbReader(LocatedReader):
    """Reads the records whose values are image files."""

    def _start(self) -> None:
        file = DataFile(data_path(self.path))
        if file.meta.tree.has_duplicates:
            raise UnsupportedError(f"{file.path}: its keys have several values each", hint=_HINT)
        records = _Records()
        for leaf in file.leaves():
            records.add(file, leaf)
        _require_whole(records, file)
        self._commit, self._facts = file.meta.commit, describe(file)
        self._keys, self._extents = records.in_order()
        self._texts = records.texts.of_samples()
        longest = int(self._extents[:, 1].max())
        self.schema = Schema(
            payload=Payload.ENCODED, num_samples=len(self._keys), max_image_bytes=longest
        )
        others = sum(count for kind, count in records.kinds.items() if kind != _IMAGE)
        ignored = others - (0 if self._texts is None else len(records.texts))
        self.notes = {"ignored-record": ignored} if ignored else {}

    def _open_locator(self) -> StoredRanges:
        file = DataFile(data_path(self.path))
        if file.meta.commit != self._commit:
            raise DamagedDatasetError(f"{file.path}: has changed since it was opened")
        begins, lengths = self._extents.T
        return StoredRanges(FileMaps.single(file.mapped), begins, lengths)

    def _open_library(self) -> LmdbLibrary:
        keys = self._keys
        return LmdbLibrary(data_path(self.path), lambda index: to_bytes(keys[index]))

    def _load_table(self) -> SampleTable:
        labels = np.full(len(self), UNLABELLED, np.int64)
        columns = (self._keys, labels, np.empty(0, np.uint64), self._extents[:, 1])
        if self._texts is None:
            return SampleTable(*columns)
        file = DataFile(data_path(self.path))
        return TextTable(
            *columns,
            texts=self._texts,
            content=lambda begin, length: file.read(Extent(begin, length)),
        )

    def describe(self) -> Mapping[str, Any]:
        """Return the layout of the file, and how many records are no samples."""
        return {**self._facts, "ignored_records": self.notes.get("ignored-record", 0)}


class _Records:
    """What a scan has found: the samples as compact columns, all records counted by kind."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.texts = TextRecords()
        self._extents = array("q")
        self._numbers = array("q")
        self._numbered = True
        self._tables: list[KeyTable] = []
        self._block: list[str] = []

    def add(self, file: DataFile, leaf: Page) -> None:
        """Take in the records of a leaf."""
        for at in range(len(leaf)):
            key, extent = leaf.key(at), leaf.value(at)
            if key.startswith(OUR_KEYS):
                detail = f"written by fastdata, and the record {MANIFEST.decode()} is missing"
                raise DamagedDatasetError(f"{file.path}: {detail}")
            kind = _NAMED if leaf.is_named_database(at) else self._kind(file, key, extent)
            self.kinds[kind] += 1
            if kind == _IMAGE:
                self._extents.extend(extent)
                self._add_key(key)
                self.texts.add_image(key)

    def in_order(self) -> tuple[KeyTable, NDArray[np.int64]]:
        """Return keys and extents (int64[N, 2]): numeric order if all keys are integers."""
        keys = KeyTable.concatenate([*self._tables, KeyTable.from_keys(self._block)])
        extents = np.array(self._extents, np.int64).reshape(-1, 2)
        numbers = np.array(self._numbers, np.int64)
        if not self._numbered or (np.diff(numbers) >= 0).all():
            return keys, extents
        order = np.argsort(numbers, kind="stable")
        blocks = (order[begin : begin + _KEY_BLOCK] for begin in range(0, len(order), _KEY_BLOCK))
        tables = [KeyTable.from_keys(keys.take(block)) for block in blocks]
        return KeyTable.concatenate(tables), extents[order]

    def _kind(self, file: DataFile, key: bytes, extent: Extent) -> str:
        if is_text_key(key) and not _is_image(file, extent):
            self.texts.add_text(key, extent)
            return _TEXT
        if self.kinds.total() >= _LOOKED_AT:
            return _IMAGE if extent.length >= _LEAST_IMAGE_BYTES else "short"
        return _kind_at(file, extent)

    def _add_key(self, key: bytes) -> None:
        self._numbered = self._numbered and key.isdigit() and len(key) <= 18
        if self._numbered:
            self._numbers.append(int(key))
        self._block.append(from_bytes(key))
        if len(self._block) == _KEY_BLOCK:
            self._tables.append(KeyTable.from_keys(self._block))
            self._block.clear()


def _is_image(file: DataFile, extent: Extent) -> bool:
    return extent.length >= _LEAST_IMAGE_BYTES and _kind_at(file, extent) == _IMAGE


def _kind_at(file: DataFile, extent: Extent) -> str:
    return kind_of(file.read(Extent(extent.begin, min(extent.length, SNIFF_BYTES))))


def kind_of(value: bytes) -> str:
    """Return what a value is, from its first bytes: an image, or why it is none."""
    if _PICKLE.match(value):
        return _PICKLED
    if _DATUM.match(value):
        return _CAFFE
    kind = sniff(value)
    return _IMAGE if kind in DECODED | PICTURES else kind


def _require_whole(records: _Records, file: DataFile) -> None:
    """Refuse an environment without samples, or with fewer records than it says."""
    found, expected = records.kinds.total(), file.meta.tree.entries
    if found != expected:
        raise DamagedDatasetError(
            f"{file.path}: {found} records, and {expected} are expected",
            expected=expected,
            found=found,
        )
    if records.kinds[_IMAGE]:
        return
    kinds = records.kinds.most_common()
    listed = ", ".join(f"{count} {kind}" for kind, count in kinds) or "it is empty"
    why = next((_REFUSALS[kind] for kind, _ in kinds if kind in _REFUSALS), None)
    raise UnsupportedError(
        f"{file.path}: {why or f'no value is an image ({listed})'}", hint=_HINT, path=str(file.path)
    )
