"""Owns reading all nodes of a page at once, where the keys are the numbers of samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.extents import Bytes, Column
from fastdata_cli.formats.lmdb.page import BIG_VALUE, META_PAGES, NODE_BYTES, Page
from fastdata_cli.formats.lmdb.records import KEY_DIGITS

_TENS = 10 ** np.arange(KEY_DIGITS)[::-1]
_PAGE_NUMBER_BYTES = 8
_DIGITS = (ord("0"), ord("9"))


def children(page: Page) -> tuple[Column, Column]:
    """Return the least sample that each child of a branch may hold, and its page.

    The first child has no least sample: -1. Those from the first key on that is no number are left
    out: the columns beside the samples are there.

    Raises:
        DamagedDatasetError: the page is damaged.
    """
    data, at = page.array(), page.node_offsets()
    if len(at) != len(page) or (at + NODE_BYTES > len(data)).any():
        raise page.damaged()
    words = _words(data, at)
    samples, good = _samples(data, at, words[:, 3])
    samples[0], good[0] = -1, True
    count = len(good) if good.all() else int(np.argmin(good))
    pages = words[:, 0] | words[:, 1] << 16 | words[:, 2] << 32
    return samples[:count], pages[:count]


def values(page: Page) -> tuple[Column, Column, Column]:
    """Return the samples of a leaf, where their values begin in the file, and their bytes.

    What ``Page.value`` would refuse, one node at a time, is left out: ask it what is wrong.
    """
    data, layout, at = page.array(), page.layout, page.node_offsets()
    at = at[at + NODE_BYTES <= len(data)]
    low, high, flags, key_size = _words(data, at).T
    samples, good = _samples(data, at, key_size)
    length, big = low | high << 16, flags == BIG_VALUE
    value = at + NODE_BYTES + KEY_DIGITS + -KEY_DIGITS % layout.version.key_unit
    good &= value + np.where(big, _PAGE_NUMBER_BYTES, length) <= len(data)
    good &= big | (flags == 0)
    begin = page.number * layout.page_size + value
    far = good & big
    first = _bytes(data, value[far], _PAGE_NUMBER_BYTES).view(np.int64).reshape(-1)
    # A number of a page that the file has not must not overflow here; 0 is refused below.
    first = np.where((first < META_PAGES) | (first >= layout.pages), 0, first)
    begin[far] = first * layout.page_size + layout.version.header
    good &= (begin >= META_PAGES * layout.page_size) & (begin + length <= layout.size)
    return samples[good], begin[good], length[good]


def _samples(data: Bytes, at: Column, key_size: Column) -> tuple[Column, NDArray[np.bool_]]:
    """Return the samples that the keys of nodes stand for, and which of them are numbers."""
    good = (key_size == KEY_DIGITS) & (at + NODE_BYTES + KEY_DIGITS <= len(data))
    keys = _bytes(data, np.where(good, at + NODE_BYTES, 0), KEY_DIGITS)
    good &= ((keys >= _DIGITS[0]) & (keys <= _DIGITS[1])).all(axis=1)
    return (keys.astype(np.int64) - _DIGITS[0]) @ _TENS, good


def _words(data: Bytes, at: Column) -> Column:
    """Return the four words of each node: length (low, high), flags, size of the key."""
    return _bytes(data, at, NODE_BYTES).view(np.uint16).astype(np.int64)


def _bytes(data: Bytes, at: Column, count: int) -> Bytes:
    found: Bytes = data[at[:, np.newaxis] + np.arange(count)]
    return found
