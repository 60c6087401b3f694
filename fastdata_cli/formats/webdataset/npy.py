"""Owns where the pixels lie in a ``.npy`` member, so that they are mapped and not loaded."""

from __future__ import annotations

import io
import math
import tokenize
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.storage.table import npy_bytes

_FIXED = 10
"""Bytes of magic, version and header length in a ``.npy`` of version 1."""


@dataclass(frozen=True, slots=True)
class NpyLayout:
    """What a ``.npy`` says of its array."""

    shape: tuple[int, ...]
    """(H, W, C); two axes are taken as (H, W, 1)."""
    dtype: str
    offset: int
    """Bytes before the first pixel."""

    @property
    def nbytes(self) -> int:
        """Bytes of the pixels."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


def npy_header(shape: tuple[int, ...], dtype: str) -> bytes:
    """Return what precedes the pixels of such an array in a ``.npy`` file."""
    array: NDArray[Any] = np.empty(shape, dtype)
    whole = npy_bytes(array)
    return whole[: len(whole) - array.nbytes]


def npy_layout(head: bytes) -> NpyLayout:
    """Return the layout of an image in a ``.npy``, from its first bytes.

    Raises:
        ValueError: not a ``.npy``, or of an array that is no image in C order.
    """
    length = _FIXED + int.from_bytes(head[8:_FIXED], "little")
    return _parsed(head[:length])


@lru_cache(maxsize=64)
def _parsed(header: bytes) -> NpyLayout:
    stream = io.BytesIO(header)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"a .npy of version {version[0]}.{version[1]}")
    try:
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    except (SyntaxError, TypeError, tokenize.TokenError) as problem:
        raise ValueError("its header is broken") from problem
    if len(shape) not in (2, 3) or 0 in shape:
        raise ValueError(f"an array of shape {list(shape)} is no image")
    if fortran or dtype.kind not in "uif" or not dtype.isnative:
        raise ValueError(f"an array of {dtype.str}{' in Fortran order' if fortran else ''}")
    return NpyLayout((*shape, 1)[:3], dtype.name, len(header))
