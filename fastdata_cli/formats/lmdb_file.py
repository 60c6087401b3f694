"""Owns reading LMDB data files: the meta pages, the way to a value, the bytes of a value.

The file is read with ``pread``, and every number in it is checked before it is followed. The
library maps the file instead, and there a cut file is a bus error, a flipped byte may be a
segmentation fault, a file opens only once per process, forked children included, and a cold read
faults in one page after the other: 500 images of 100 KB a second on the disk of our tests, where
advised reads of known places give 10,000.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.formats.lmdb_page import META_PAGES, VERSIONS, Extent, Layout, Page, Version

HEAD_BYTES = 64
"""This much of a file tells whether it is LMDB."""

_MAGIC = struct.pack("=I", 0xBEEFC0DE)
# Magic, version, address, map size; the trees of free pages and of entries; last page, commit.
_META = struct.Struct("=IIQQ IHHQQQQQ IHHQQQQQ QQ")
_DUPLICATES = 0x04
_NO_PAGE = (1 << 64) - 1
_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Tree:
    """The record of a tree: its counts, and the page of its root."""

    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    value_pages: int
    entries: int
    root: int

    @property
    def has_duplicates(self) -> bool:
        """Whether a key may have several values."""
        return bool(self.flags & _DUPLICATES)


@dataclass(frozen=True, slots=True)
class Meta:
    """What a meta page says."""

    version: int
    map_size: int
    page_size: int
    tree: Tree
    last_page: int
    commit: int
    """Number of the commit that wrote it."""


class DataFile:
    """One open LMDB data file, in the state of its last commit.

    Reading takes no lock: a writer that is at work may reuse the pages of this state.

    Args:
        path: the data file itself.

    Raises:
        DamagedDatasetError: not an LMDB file, or shorter than its last commit says.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as problem:
            raise _damaged(path, f"cannot be opened: {problem.strerror}") from problem
        try:
            self.meta, self.layout = self._read_meta()
        except BaseException:
            self.close()
            raise
        # Images are read whole from anywhere: what lies behind one is of no use.
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_RANDOM)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def page(self, number: int) -> Page:
        """Read one page of a tree.

        Raises:
            DamagedDatasetError: it is none.
        """
        if not META_PAGES <= number < self.layout.pages:
            raise _damaged(self.path, f"refers to page {number} of {self.layout.pages}")
        size = self.layout.page_size
        return Page(self.layout, number, os.pread(self._descriptor, size, number * size))

    def find(self, key: bytes) -> Extent | None:
        """Return where the value of ``key`` lies, or None; for trees in plain order of bytes."""
        tree = self.meta.tree
        if tree.root == _NO_PAGE:
            return None
        page = self.page(tree.root)
        for _ in range(tree.depth - 1):
            page = self.page(page.child(page.position(key)))
        at = page.position(key)
        return page.value(at) if at >= 0 and page.key(at) == key else None

    def leaf_numbers(self) -> tuple[list[bytes], list[int]]:
        """Return all leaves in order: the least key each may hold, and its page number."""
        tree = self.meta.tree
        if tree.root == _NO_PAGE:
            return [], []
        keys, numbers = [b""], [tree.root]
        for _ in range(tree.depth - 1):
            above, keys, numbers = zip(keys, numbers, strict=True), [], []
            for least, number in above:
                page = self.page(number)
                keys += [least, *(page.key(at) for at in range(1, len(page)))]
                numbers += [page.child(at) for at in range(len(page))]
                if len(numbers) > self.layout.pages:
                    raise _damaged(self.path, "refers to a page more than once")
        return keys, numbers

    def leaves(self) -> Iterator[Page]:
        """Yield every leaf, in order."""
        for number in self.leaf_numbers()[1]:
            yield self.page(number)

    def read(self, extent: Extent) -> bytes:
        """Return one value.

        Raises:
            DamagedDatasetError: the file ends before it.
        """
        value = np.empty(extent.length, np.uint8)
        self.read_into(extent, value)
        return value.tobytes()

    def read_into(self, extent: Extent, out: NDArray[np.uint8]) -> None:
        """Read one value into ``out``, 1-D and as long as the value.

        Raises:
            DamagedDatasetError: the file ends before it.
        """
        at, left = extent.begin, memoryview(out)
        while left:
            count = os.preadv(self._descriptor, [left], at)
            if count == 0:
                raise _damaged(self.path, f"ends {len(left)} bytes early")
            at, left = at + count, left[count:]

    def expect(self, extent: Extent) -> None:
        """Have the system fetch what will be read soon."""
        os.posix_fadvise(self._descriptor, *extent, os.POSIX_FADV_WILLNEED)

    def _read_meta(self) -> tuple[Meta, Layout]:
        head = os.pread(self._descriptor, HEAD_BYTES, 0)
        version = version_of(head)
        if version is None:
            found = "its first page is no meta page" if head else "it is empty"
            raise _damaged(self.path, f"not an LMDB data file of this machine's kind: {found}")
        # The first meta page says how large pages are; the one that was committed last counts.
        first = self._meta_at(version.header, version)
        size = first.page_size
        if size & (size - 1) or not 256 <= size <= 1 << 16:
            raise _damaged(self.path, f"its page size is {size}")
        second = self._meta_at(size + version.header, version)
        meta = max(first, second, key=lambda meta: meta.commit)
        layout = Layout(self.path, version, size, meta.last_page + 1)
        depth = meta.tree.depth
        if depth > _MAX_DEPTH or (depth == 0) != (meta.tree.root == _NO_PAGE):
            raise _damaged(self.path, f"its tree has a depth of {depth}")
        real = os.fstat(self._descriptor).st_size
        if real < layout.size:
            detail = f"{real} bytes, and {layout.size} are expected: it was cut short"
            raise _damaged(self.path, detail, expected=layout.size, found=real)
        return meta, layout

    def _meta_at(self, begin: int, version: Version) -> Meta:
        data = os.pread(self._descriptor, _META.size, begin)
        if len(data) != _META.size:
            raise _damaged(self.path, f"{begin + len(data)} bytes: it was cut short")
        record = _META.unpack(data)
        meta = Meta(record[1], record[3], record[4], Tree(*record[13:20]), *record[20:])
        if not data.startswith(_MAGIC) or meta.version != version.number:
            raise _damaged(self.path, "a meta page is damaged, or of an unknown version")
        return meta


def version_of(head: bytes) -> Version | None:
    """Return the format of a data file that begins with ``head``; None if it is no such file."""
    return next((v for v in VERSIONS if head[v.header :].startswith(_MAGIC)), None)


def _damaged(path: Path, detail: str, **facts: int) -> DamagedDatasetError:
    return DamagedDatasetError(f"{path}: {detail}", path=str(path), **facts)
