"""Owns one page of an LMDB tree: its keys, the pages and the values it refers to, all checked.

Little differs between the versions of the file format: in 1.0 a page has a longer header, nodes
are counted from its end, and keys are padded to even lengths.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import DamagedDatasetError

META_PAGES = 2
"""The first pages of a file; those of trees come after them."""

BIG_VALUE = 0x01
"""The flag of a node whose value has pages of its own."""

_BRANCH, _LEAF, _DIRTY = 0x01, 0x02, 0x10
_NAMED_DATABASE, _DUPLICATES = 0x02, 0x04

_PAGE_NUMBER = struct.Struct("=Q")
_FLAGS_AND_BOUNDS = struct.Struct("=HHH")
_NODE_OFFSET = struct.Struct("=H")
_NODE = struct.Struct("=HHHH")
NODE_BYTES = _NODE.size
"""Bytes of a node before its key: length of the value (low, high word), flags, size of the key."""


@dataclass(frozen=True, slots=True)
class Version:
    """How one version of the file format lays out a page."""

    name: str
    number: int
    header: int
    """Bytes before the body of a page."""
    base: int
    """What node offsets are counted from."""
    key_unit: int
    """Keys are padded to a multiple of this."""


VERSIONS = (Version("0.9", 1, 16, 0, 1), Version("1.0", 3, 24, 24, 2))


@dataclass(frozen=True, slots=True)
class Layout:
    """What a page must know of its file."""

    path: Path
    version: Version
    page_size: int
    pages: int

    @property
    def size(self) -> int:
        """Bytes that the file needs at least."""
        return self.pages * self.page_size

    def damaged(self, detail: str) -> DamagedDatasetError:
        """Return the error that names the file."""
        return DamagedDatasetError(f"{self.path}: {detail}", path=str(self.path))


class Extent(NamedTuple):
    """Where a value lies in the file."""

    begin: int
    length: int


class Page:
    """A branch or leaf; its nodes are numbered from 0, in order of their keys.

    Args:
        layout: of the file that it is from.
        number: its place in the file.
        data: its bytes.

    Raises:
        DamagedDatasetError: here and in all methods, when a number in the page cannot be.
    """

    __slots__ = ("_count", "_data", "_upper", "layout", "number")

    def __init__(self, layout: Layout, number: int, data: bytes) -> None:
        self.number = number
        self.layout, self._data = layout, data
        version = layout.version
        if len(data) != layout.page_size or _PAGE_NUMBER.unpack_from(data)[0] != number:
            raise self.damaged()
        flags, lower, upper = _FLAGS_AND_BOUNDS.unpack_from(data, version.header - 6)
        self._upper: int = upper
        self._count: int = (lower - version.header + version.base) >> 1
        if flags & ~_DIRTY not in (_BRANCH, _LEAF) or self._count < 1:
            raise self.damaged()
        if not lower <= upper <= len(data) - version.base:
            raise self.damaged()

    def __len__(self) -> int:
        return self._count

    def array(self) -> NDArray[np.uint8]:
        """Return the bytes of the page."""
        return np.frombuffer(self._data, np.uint8)

    def node_offsets(self) -> NDArray[np.int64]:
        """Return where the nodes begin in the page, those left out that cannot be there."""
        version = self.layout.version
        offsets = np.frombuffer(self._data, np.uint16, self._count, version.header)
        return offsets[offsets >= self._upper].astype(np.int64) + version.base

    def position(self, key: bytes) -> int:
        """Return the last node whose key is not above ``key``; -1 if there is none."""
        return bisect_right(range(self._count), key, key=self.key) - 1

    def key(self, at: int) -> bytes:
        """Return the key of a node; empty for the first of a branch, which has none."""
        begin, size, *_ = self._node(at)
        return self._data[begin : begin + size]

    def child(self, at: int) -> int:
        """Return the page that a node of a branch refers to."""
        _, _, low, middle, high = self._node(at)
        return low | middle << 16 | high << 32

    def is_named_database(self, at: int) -> bool:
        """Return whether a node of a leaf holds the root of another tree instead of a value."""
        return bool(self._node(at)[4] & _NAMED_DATABASE)

    def value(self, at: int) -> Extent:
        """Return where the value of a node of a leaf lies."""
        key, key_size, low, high, flags = self._node(at)
        begin, length = key + key_size + -key_size % self.layout.version.key_unit, low | high << 16
        if flags & _DUPLICATES:
            raise self.damaged()
        if flags & BIG_VALUE:
            return self._big_value(begin, length)
        if begin + length > len(self._data):
            raise self.damaged()
        return Extent(self.number * self.layout.page_size + begin, length)

    def _big_value(self, at: int, length: int) -> Extent:
        """Return the extent of a value that has pages of its own, the first named at ``at``."""
        if at + _PAGE_NUMBER.size > len(self._data):
            raise self.damaged()
        first = int(_PAGE_NUMBER.unpack_from(self._data, at)[0])
        extent = Extent(first * self.layout.page_size + self.layout.version.header, length)
        if first < META_PAGES or sum(extent) > self.layout.size:
            raise self.damaged()
        return extent

    def _node(self, at: int) -> tuple[int, int, int, int, int]:
        """Return where the key of a node begins, its size, and the three words before it."""
        version, end = self.layout.version, len(self._data)
        offset = _NODE_OFFSET.unpack_from(self._data, version.header + 2 * at)[0]
        key = offset + version.base + _NODE.size
        if offset < self._upper or key > end:
            raise self.damaged()
        low, middle, high, size = _NODE.unpack_from(self._data, key - _NODE.size)
        if key + size > end:
            raise self.damaged()
        return key, size, low, middle, high

    def damaged(self) -> DamagedDatasetError:
        """Return the error that names the page."""
        return self.layout.damaged(f"page {self.number} is damaged")
