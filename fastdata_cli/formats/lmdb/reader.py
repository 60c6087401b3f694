"""Owns reading the LMDB files that fastdata wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fastdata_cli.errors import BadSampleError, DamagedDatasetError
from fastdata_cli.extents import Column, Extents
from fastdata_cli.formats.base import not_as_opened
from fastdata_cli.formats.lmdb.file import DataFile
from fastdata_cli.formats.lmdb.library import LmdbLibrary
from fastdata_cli.formats.lmdb.numbered import children, values
from fastdata_cli.formats.lmdb.page import Extent
from fastdata_cli.formats.lmdb.records import (
    MANIFEST,
    data_path,
    read_columns,
    sample_key,
)
from fastdata_cli.formats.located import LocatedReader, Locator
from fastdata_cli.manifest import Manifest
from fastdata_cli.storage.mapping import FileMaps
from fastdata_cli.storage.table import SampleTable


class NumberedValues(Locator):
    """Where the samples of a file are that are numbered by their keys.

    Only the branches of the tree are read at once. A leaf is read when one of its samples is asked
    for, and then where all its samples are is known: 16 bytes each.
    """

    def __init__(self, file: DataFile, count: int) -> None:
        self.file, self.files = file, FileMaps.single(file.mapped)
        self._begins = np.full(count, -1, np.int64)
        self._lengths = np.zeros(count, np.int64)
        self._least, self._pages = _leaves(file)

    def locate(self, indices: Column) -> Extents:
        """Return where the samples are.

        Raises:
            BadSampleError: there is no record of one of them.
        """
        begins = self._begins[indices]
        if (begins < 0).any():
            self._find(np.unique(indices[begins < 0]))
            begins = self._begins[indices]
        zeros = np.zeros_like(indices)
        return Extents(self.files.path_of, zeros, begins, self._lengths[indices])

    def _find(self, indices: Column) -> None:
        numbers = self._pages[np.searchsorted(self._least, indices, side="right") - 1]
        try:
            for number in self._expected(np.unique(numbers)):
                self._note(*values(self.file.page(number)))
            for index in indices[self._begins[indices] < 0].tolist():
                begin, length = self._find_one(sample_key(index))
                self._note(np.array([index]), np.array([begin]), np.array([length]))
        except DamagedDatasetError as problem:
            raise BadSampleError(reason="corrupt", detail=problem.message) from problem

    def _find_one(self, key: bytes) -> Extent:
        """Return where a value is that its leaf did not give: this says what is wrong with it."""
        extent = self.file.find(key)
        if extent is None:
            raise BadSampleError(reason="missing", detail=f"there is no record {key.decode()}")
        return extent

    def _note(self, indices: Column, begins: Column, lengths: Column) -> None:
        there = indices < len(self._begins)
        # In this order: another thread that sees where a value begins also sees its length.
        self._lengths[indices[there]] = lengths[there]
        self._begins[indices[there]] = begins[there]

    def _expected(self, numbers: Column) -> list[int]:
        """Return pages, which the system is fetching already."""
        pages: list[int] = numbers.tolist()
        size = self.file.layout.page_size
        there = (each for each in pages if each < self.file.layout.pages)
        self.file.expect(Extent(each * size, size) for each in there)
        return pages


def _leaves(file: DataFile) -> tuple[Column, Column]:
    """Return the least sample that each leaf with samples may hold, and its page."""
    pages = np.array(file.root(), np.int64)
    least = np.zeros_like(pages)
    for _ in range(file.meta.tree.depth - 1):
        found = [children(file.page(number)) for number in pages.tolist()]
        first = np.cumsum([0, *(len(samples) for samples, _ in found[:-1])])
        below = np.concatenate([samples for samples, _ in found])
        below[first] = least
        least, pages = below, np.concatenate([numbers for _, numbers in found])
        file.check_count(len(pages))
    return least, pages


class LmdbReader(LocatedReader):
    """Reads samples by their number."""

    def _start(self) -> None:
        path = data_path(self.path)
        file = DataFile(path)
        text = file.get(MANIFEST)
        if text is None:
            raise DamagedDatasetError(f"{path}: the record {MANIFEST.decode()} is missing")
        self._text, manifest = text, Manifest.from_json(text, where=str(path))
        self._facts = describe(file)
        self.manifest, self.schema = manifest, manifest.schema
        self._columns: Any = manifest.layout.get("columns", {})
        expected, found = manifest.layout.get("entries"), self._facts["entries"]
        if expected != found:
            raise DamagedDatasetError(
                f"{path}: {found} records, and {expected} are expected",
                expected=expected,
                found=found,
            )

    def _open_locator(self) -> NumberedValues:
        return NumberedValues(self._opened_again(grown=True), len(self))

    def _open_library(self) -> LmdbLibrary:
        return LmdbLibrary(self._opened_again(grown=True).path, sample_key)

    def _load_table(self) -> SampleTable:
        file = self._opened_again()
        columns = read_columns(file, self._columns)
        table = SampleTable.from_columns(columns, where=str(file.path))
        if len(table) != len(self):
            raise DamagedDatasetError(f"{file.path}: {len(table)} rows for {len(self)} samples")
        return table

    def _opened_again(self, *, grown: bool = False) -> DataFile:
        """Open the file anew.

        Args:
            grown: the larger file that an append has put in its place will do.
        """
        file = DataFile(data_path(self.path))
        text = file.get(MANIFEST)
        if text != self._text:
            now = None if text is None else Manifest.from_json(text, where=str(file.path))
            if now is None or self.manifest is None or not (grown and now.continues(self.manifest)):
                raise not_as_opened(self.path)
        return file

    def describe(self) -> Mapping[str, Any]:
        """Return the layout of the file."""
        return self._facts


def describe(file: DataFile) -> dict[str, Any]:
    """Return the layout of any LMDB file, JSON-able."""
    tree = file.meta.tree
    return {
        "codec": "none",
        "file_format": file.layout.version.name,
        "page_size": file.layout.page_size,
        "map_size": file.meta.map_size,
        "depth": tree.depth,
        "entries": tree.entries,
        "tree_pages": tree.branch_pages + tree.leaf_pages,
        "value_pages": tree.value_pages,
    }
