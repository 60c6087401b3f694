"""Owns what the header of a ``.npy`` file says of its array; nothing is unpickled, or loaded."""

from __future__ import annotations

import io
import math
import tokenize
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

MOST_HEADER_BYTES = 10_012
"""A header that NumPy reads is no longer; ours have 128 bytes."""

_MAGIC = b"\x93NUMPY"
# Bytes of magic, version and header length. Version 3 is for names of fields, which we have not.
_FIXED = {(1, 0): 10, (2, 0): 12}


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
    return head.startswith(_MAGIC)


def npy_header(head: bytes) -> NpyHeader:
    """Return what a ``.npy`` says, from its first bytes, at most ``MOST_HEADER_BYTES``.

    Raises:
        ValueError: not a ``.npy``, or a broken one.
    """
    if not is_npy(head):
        raise ValueError("not a .npy file")
    version = (head[6], head[7]) if len(head) > 7 else (0, 0)
    fixed = _FIXED.get(version)
    if fixed is None:
        raise ValueError(f"a .npy of version {version[0]}.{version[1]}")
    return _parsed(head[: fixed + int.from_bytes(head[8:fixed], "little")])


@lru_cache(maxsize=64)
def _parsed(header: bytes) -> NpyHeader:
    stream = io.BytesIO(header)
    version = np.lib.format.read_magic(stream)
    read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
    try:
        shape, fortran, dtype = read[version[0]](stream)
    except (SyntaxError, TypeError, tokenize.TokenError) as problem:
        raise ValueError("its header is broken") from problem
    if any(side < 0 for side in shape):
        raise ValueError("its header is broken")
    return NpyHeader(shape, fortran, dtype, len(header))


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
