"""Streams of the standard library, decoded as far as is expected and no further."""

from __future__ import annotations

import bz2
import lzma
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from fastdata_cli.extents import Window

DECODE_ERRORS = (
    RuntimeError, ValueError, OSError, EOFError, zlib.error, lzma.LZMAError,
    zipfile.BadZipFile,
    # Sizes that the bytes tell of: no memory holds them, or they are negative.
    MemoryError, OverflowError, SystemError,
)  # fmt: skip
"""What libraries raise over bytes that are not theirs."""

STREAMS: Mapping[str, Callable[[Any], Any]] = {
    "zlib": lambda _: zlib.decompressobj(),
    "gzip": lambda _: zlib.decompressobj(zlib.MAX_WBITS | 16),
    "bz2": lambda _: bz2.BZ2Decompressor(),
    "lzma": lambda codec: lzma.LZMADecompressor(codec.format, filters=codec.filters),
}
"""Codecs of numcodecs that are streams of the standard library: made from their settings."""


def decoded_to(size: int, stream: Any, stored: Window) -> bytes:
    """Return what a stream decodes to, or one byte more than ``size``.

    Some bytes of a stream stand for a thousand times as many: no more is decoded than that.

    Raises:
        ValueError: it is damaged, or cut.
    """
    try:
        data: bytes = stream.decompress(stored.array.data, size + 1)
    except DECODE_ERRORS as problem:
        raise ValueError(str(problem)) from problem
    if len(data) <= size and not stream.eof:
        raise ValueError("it is cut")
    return data
