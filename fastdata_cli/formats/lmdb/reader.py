"""Owns reading the LMDB files that fastdata wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError, DamagedDatasetError
from fastdata_cli.formats.lmdb.file import DataFile
from fastdata_cli.formats.lmdb.page import Extent, Page
from fastdata_cli.formats.lmdb.records import (
    MANIFEST,
    data_path,
    read_columns,
    sample_index,
    sample_key,
)
from fastdata_cli.formats.lmdb.values import ValueReader
from fastdata_cli.manifest import Manifest
from fastdata_cli.storage.table import SampleTable


class NumberedValues:
    """An open file whose samples are numbered by their keys.

    Only the branches of the tree are held: a value is found by its number in its leaf.
    """

    def __init__(self, file: DataFile) -> None:
        self.file = file
        least, pages = file.leaf_numbers()
        indices = [0, *(sample_index(key) for key in least[1:])]
        # Beyond the first key that is no number there are only the columns beside the samples.
        count = indices.index(None) if None in indices else len(least)
        self._least = np.array(indices[:count], np.int64)
        self._pages = np.array(pages[:count], np.int64)

    def locate(self, indices: NDArray[np.int64]) -> list[Extent]:
        """Return where the samples lie.

        Raises:
            BadSampleError: there is no record of one of them.
        """
        at = np.searchsorted(self._least, indices, side="right") - 1
        numbers, offsets = self._pages[at], indices - self._least[at]
        leaves = {number: self.file.page(number) for number in self._expected(numbers)}
        wanted = zip(numbers.tolist(), offsets.tolist(), indices.tolist(), strict=True)
        return [
            _value(leaves[number], offset, sample_key(index)) for number, offset, index in wanted
        ]

    def _expected(self, numbers: NDArray[np.int64]) -> list[int]:
        """Return the different pages, which the system is fetching already."""
        different: list[int] = np.unique(numbers).tolist()
        size, pages = self.file.layout.page_size, self.file.layout.pages
        self.file.expect(Extent(each * size, size) for each in different if each < pages)
        return different


def _value(leaf: Page, offset: int, key: bytes) -> Extent:
    """Return where the value of a sample lies, by its distance from the least key of the leaf."""
    if offset < len(leaf) and leaf.key(offset) == key:
        return leaf.value(offset)
    # Where an interrupted run was continued, the least key need not be there itself.
    at = leaf.position(key)
    if at < 0 or leaf.key(at) != key:
        raise BadSampleError(reason="missing", detail=f"there is no record {key.decode()}")
    return leaf.value(at)


class LmdbReader(ValueReader):
    """Reads samples by their number."""

    def _start(self) -> None:
        path = data_path(self.path)
        file = DataFile(path)
        text = file.get(MANIFEST)
        if text is None:
            raise DamagedDatasetError(f"{path}: the record {MANIFEST.decode()} is missing")
        manifest = Manifest.from_json(text, where=str(path))
        self._facts = describe(file)
        self.manifest, self.schema = manifest, manifest.schema
        self._columns: Mapping[str, Any] = manifest.layout.get("columns", {})
        expected, found = manifest.layout.get("entries"), self._facts["entries"]
        if expected != found:
            raise DamagedDatasetError(
                f"{path}: {found} records, and {expected} are expected",
                expected=expected,
                found=found,
            )

    def _open(self) -> NumberedValues:
        return NumberedValues(DataFile(data_path(self.path)))

    def _load_table(self) -> SampleTable:
        file = self._handle.get().file
        columns = read_columns(file, self._columns)
        table = SampleTable.from_columns(columns, where=str(file.path))
        if len(table) != len(self):
            raise DamagedDatasetError(f"{file.path}: {len(table)} rows for {len(self)} samples")
        return table

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
