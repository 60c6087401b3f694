"""Owns reading LMDB data files: the meta pages, and the way through the tree to a value.

The library is not asked, because knowing where values lie lets the gather core fetch a batch of
them at once. The library faults in one page after the other: 400 images of 100 KB a second from a
cold disk of our tests, where advised reads give 12,000. It also opens a file only once per process,
forked children included, and follows what stands in a damaged file, into a crash. Here the size of
the file and every number on the way are checked before they are believed.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.formats.lmdb.page import META_PAGES, VERSIONS, Extent, Layout, Page, Version
from fastdata_cli.storage.mapping import MappedFile

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
    """An LMDB data file in the state of its last commit; it is closed with its last view.

    Reading takes no lock: a writer that is at work may reuse the pages of this state.

    Args:
        path: the data file itself.

    Raises:
        DamagedDatasetError: not an LMDB file, or shorter than its last commit says.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as problem:
            raise _damaged(path, f"cannot be opened: {problem.strerror}") from problem
        try:
            self.meta, self.layout = _read_meta(path, descriptor)
            self.mapped = MappedFile(str(path), descriptor)
            """The mapped file; extents are ranges of it."""
        finally:
            os.close(descriptor)
        # Images are read whole from anywhere: what lies behind one is of no use.
        self.mapped.advise(mmap.MADV_RANDOM)

    def page(self, number: int) -> Page:
        """Read one page of a tree.

        Raises:
            DamagedDatasetError: it is none.
        """
        if not META_PAGES <= number < self.layout.pages:
            raise _damaged(self.path, f"refers to page {number} of {self.layout.pages}")
        begin = number * self.layout.page_size
        return Page(self.layout, number, self.read(Extent(begin, self.layout.page_size)))

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

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        extent = self.find(key)
        return None if extent is None else self.read(extent)

    def root(self) -> list[int]:
        """Return the page of the root; nothing for an empty tree."""
        root = self.meta.tree.root
        return [] if root == _NO_PAGE else [root]

    def leaves(self) -> Iterator[Page]:
        """Yield every leaf, in order."""
        numbers = self.root()
        for _ in range(self.meta.tree.depth - 1):
            branches, numbers = numbers, []
            for page in map(self.page, branches):
                numbers += [page.child(at) for at in range(len(page))]
                self.check_count(len(numbers))
        yield from map(self.page, numbers)

    def check_count(self, pages: int) -> None:
        """Refuse a level of the tree with more pages than the file has.

        Raises:
            DamagedDatasetError: it has: a page refers to one above it.
        """
        if pages > self.layout.pages:
            raise _damaged(self.path, "refers to a page more than once")

    def read(self, extent: Extent) -> bytes:
        """Return one value."""
        return self.mapped.data[extent.begin : extent.begin + extent.length].tobytes()

    def expect(self, extents: Iterable[Extent]) -> None:
        """Have the system fetch values that will be read now."""
        # A smaller one lies in the page of the tree that has just been read.
        least = self.layout.page_size // 2
        for begin, length in extents:
            if length > least:
                self.mapped.advise(mmap.MADV_WILLNEED, begin, length)


def _read_meta(path: Path, descriptor: int) -> tuple[Meta, Layout]:
    head = os.pread(descriptor, HEAD_BYTES, 0)
    version = version_of(head)
    if version is None:
        found = "its first page is no meta page" if head else "it is empty"
        raise _damaged(path, f"not an LMDB data file of this machine's kind: {found}")
    # The first meta page says how large pages are; the one that was committed last counts.
    first = _meta_at(path, descriptor, 0, version)
    size = first.page_size
    if size & (size - 1) or not 256 <= size <= 1 << 16:
        raise _damaged(path, f"its page size is {size}")
    second = _meta_at(path, descriptor, size, version)
    meta = max(first, second, key=lambda meta: meta.commit)
    depth = meta.tree.depth
    if depth > _MAX_DEPTH or (depth == 0) != (meta.tree.root == _NO_PAGE):
        raise _damaged(path, f"its tree has a depth of {depth}")
    layout = Layout(path, version, size, meta.last_page + 1)
    real = os.fstat(descriptor).st_size
    if real < layout.size:
        detail = f"{real} bytes, and {layout.size} are expected: it was cut short"
        raise _damaged(path, detail, expected=layout.size, found=real)
    return meta, layout


def _meta_at(path: Path, descriptor: int, page: int, version: Version) -> Meta:
    """Read the meta page that begins at byte ``page``."""
    data = os.pread(descriptor, _META.size, page + version.header)
    if len(data) != _META.size:
        raise _damaged(path, f"{os.fstat(descriptor).st_size} bytes: it was cut short")
    record = _META.unpack(data)
    meta = Meta(record[1], record[3], record[4], Tree(*record[13:20]), *record[20:])
    if not data.startswith(_MAGIC) or meta.version != version.number:
        raise _damaged(path, "a meta page is damaged, or of an unknown version")
    return meta


def version_of(head: bytes) -> Version | None:
    """Return the format of a data file that begins with ``head``; None if it is no such file."""
    return next((v for v in VERSIONS if head[v.header :].startswith(_MAGIC)), None)


def _damaged(path: Path, detail: str, **sizes: int) -> DamagedDatasetError:
    facts: dict[str, Any] = {"path": str(path), **sizes}
    return DamagedDatasetError(f"{path}: {detail}", **facts)
