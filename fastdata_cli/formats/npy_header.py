"""Owns what the header of a ``.npy`` file says of its array; nothing is unpickled, or loaded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastdata_cli.storage.npy_text import MAGIC, parse_npy_header

MOST_HEADER_BYTES = 10_012
"""A header that NumPy reads is no longer; ours have 128 bytes."""


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What a ``.npy`` says of its array."""

    shape: tuple[int, ...]
    fortran: bool
    """The first axis varies fastest."""
    dtype: np.dtype[Any]
    offset: int
    """Bytes before the array."""

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


def is_npy(head: bytes) -> bool:
    """Tell whether a file that begins so is a ``.npy``."""
    return head.startswith(MAGIC)


def npy_header(head: bytes) -> NpyHeader:
    """Return what a ``.npy`` says, from its first bytes, at most ``MOST_HEADER_BYTES``.

    Raises:
        ValueError: not a ``.npy``, or a broken one.
    """
    return NpyHeader(*parse_npy_header(head))


def require_numbers(header: NpyHeader) -> None:
    """Raise unless an array is plain numbers in C order and the byte order of this machine.

    Raises:
        ValueError: it is not, and why.
    """
    if header.dtype.hasobject:
        raise ValueError("its values are pickled: loading them would run code")
    if header.dtype.kind not in "uif" or not header.dtype.isnative:
        raise ValueError(f"an array of {header.dtype.str}")
    if header.fortran and sum(side > 1 for side in header.shape) > 1:
        raise ValueError("an array in Fortran order")
