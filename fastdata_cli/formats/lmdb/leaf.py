"""Owns reading all entries of a leaf at once, where its keys are numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.extents import Bytes, Column
from fastdata_cli.formats.lmdb.page import BIG_VALUE, META_PAGES, NODE_BYTES, Page
from fastdata_cli.formats.lmdb.records import KEY_DIGITS

_TENS = 10 ** np.arange(KEY_DIGITS)[::-1]
_PAGE_NUMBER_BYTES = 8


def numbered_values(page: Page) -> tuple[Column, Column, Column]:
    """Return number, place in the file and bytes of the values under keys of ten digits.

    What ``Page`` would refuse, one entry at a time, is left out: ask it for what is missing.
    """
    data, layout = page.array(), page.layout
    at = page.node_offsets()
    at = at[at + NODE_BYTES + KEY_DIGITS <= len(data)]
    low, high, flags, key_size = _words(data, at).T.astype(np.int64)
    keys = _bytes(data, at + NODE_BYTES, KEY_DIGITS)
    value = at + NODE_BYTES + KEY_DIGITS + -KEY_DIGITS % layout.version.key_unit
    length = low | high << 16
    big = flags == BIG_VALUE
    good = (key_size == KEY_DIGITS) & ((keys >= 48) & (keys <= 57)).all(axis=1)
    good &= np.where(big, value + _PAGE_NUMBER_BYTES, value + length) <= len(data)
    good &= big | (flags == 0)
    begin = page.number * layout.page_size + value
    first = _bytes(data, value[good & big], _PAGE_NUMBER_BYTES).view(np.int64).reshape(-1)
    # A number that no file has as many pages as must not overflow below.
    first = np.where((first < META_PAGES) | (first >= layout.pages), 0, first)
    begin[good & big] = first * layout.page_size + layout.version.header
    good &= (begin >= META_PAGES * layout.page_size) & (begin + length <= layout.size)
    numbers = (keys[good].astype(np.int64) - 48) @ _TENS
    return numbers, begin[good], length[good]


def _words(data: Bytes, at: Column) -> NDArray[np.uint16]:
    """Return the four words of each node: length (low, high), flags, size of the key."""
    return _bytes(data, at, NODE_BYTES).view(np.uint16)


def _bytes(data: Bytes, at: Column, count: int) -> Bytes:
    found: Bytes = data[at[:, np.newaxis] + np.arange(count)]
    return found
