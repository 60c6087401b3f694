"""Owns where the pixels lie in a ``.npy`` member, so that they are mapped and not loaded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.formats import npy_header as npy
from fastdata_cli.storage.table import npy_bytes


@dataclass(frozen=True, slots=True)
class NpyLayout:
    """What a ``.npy`` says of the image in it."""

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
    header = npy.npy_header(head)
    if len(header.shape) not in (2, 3) or 0 in header.shape:
        raise ValueError(f"an array of shape {list(header.shape)} is no image")
    npy.require_numbers(header)
    return NpyLayout((*header.shape, 1)[:3], header.dtype.name, header.offset)
