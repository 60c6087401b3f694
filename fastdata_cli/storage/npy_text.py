"""Reads the header of a ``.npy`` as every writer of them has it, without Python's own parser.

NumPy hands the header to ``ast.literal_eval``. Up to Python 3.12 that counts its depth in one place
for all threads: headers that two threads read at once end in a SystemError, however sound they are.
"""

from __future__ import annotations

import io
import re
import tokenize
from functools import lru_cache
from typing import Any

import numpy as np

MAGIC = b"\x93NUMPY"

_USUAL = re.compile(
    rb"\{'descr': ?'([<>|=]?[biufcSUVO?]\d*)', ?'fortran_order': ?(False|True), ?"
    rb"'shape': ?\(((?:\d+, ?)*\d*)\),? ?\}\s*"
)
# Bytes of magic and version, and of the header's length. Version 3 is for names of fields.
_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4}

# What NumPy raises on a header with a flipped bit, and on a shape that no memory holds.
_BROKEN = (ValueError, EOFError, SyntaxError, TypeError, SystemError, tokenize.TokenError)

NpyFacts = tuple[tuple[int, ...], bool, np.dtype[Any], int]
"""Shape, whether the first axis varies fastest, dtype, and the bytes before the array."""


def parse_npy_header(head: bytes) -> NpyFacts:
    """Return what the header at the beginning of ``head`` says; more may follow it.

    Raises:
        ValueError: not a ``.npy``, one of a version that is not known, or a broken header.
    """
    if not head.startswith(MAGIC):
        raise ValueError("not a .npy file")
    version = (head[6], head[7]) if len(head) > 7 else (0, 0)
    width = _LENGTH_BYTES.get(version)
    if width is None:
        raise ValueError(f"a .npy of version {version[0]}.{version[1]}")
    end = 8 + width + int.from_bytes(head[8 : 8 + width], "little")
    if end > len(head):
        raise ValueError("its header is broken: it was cut")
    return (*_parsed(head[:end], 8 + width), end)


@lru_cache(maxsize=64)  # the images of a set have one header
def _parsed(head: bytes, text_at: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    usual = _USUAL.fullmatch(head, text_at)
    shape, fortran, dtype = _unusual(head) if usual is None else _usual(usual)
    if any(side < 0 for side in shape):
        raise ValueError("its header is broken")
    return shape, fortran, dtype


def _usual(found: re.Match[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    sides = tuple(int(side) for side in found[3].replace(b" ", b"").split(b",") if side)
    try:
        return sides, found[2] == b"True", np.dtype(found[1].decode("ascii"))
    except TypeError as problem:
        raise ValueError("its header is broken") from problem


def _unusual(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    stream = io.BytesIO(head)
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(stream)
        return np.lib.format.read_array_header_2_0(stream)
    except _BROKEN as problem:
        raise ValueError("its header is broken") from problem
