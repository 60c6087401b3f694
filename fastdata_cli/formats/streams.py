"""Streams of the standard library, decoded as far as is expected and no further."""

from __future__ import annotations

import bz2
import gzip
import io
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
    # Settings in the metadata that some codecs do not look at before.
    TypeError, ZeroDivisionError,
)  # fmt: skip
"""What libraries raise over bytes that are not theirs."""

STREAMS: Mapping[str, Callable[[Any], Any]] = {
    "zlib": lambda _: zlib.decompressobj(),
    "gzip": lambda _: zlib.decompressobj(zlib.MAX_WBITS | 16),
    "bz2": lambda _: bz2.BZ2Decompressor(),
    "lzma": lambda codec: lzma.LZMADecompressor(codec.format, filters=codec.filters),
}
"""Codecs of numcodecs that are streams of the standard library: made from their settings."""

# Those of which several may follow one another: they are read as a file, which takes longer.
_FILES: Mapping[str, Callable[[Any, io.BytesIO], Any]] = {
    "gzip": lambda _, file: gzip.GzipFile(fileobj=file),
    "bz2": lambda _, file: bz2.BZ2File(file),
    "lzma": lambda codec, file: lzma.LZMAFile(  # noqa: SIM115 - nothing is held but memory
        file, format=codec.format, filters=codec.filters
    ),
}


def decoded_to(size: int, name: str, codec: Any, stored: Window) -> bytes:
    """Return what a stream decodes to, or one byte more than ``size``.

    Some bytes of a stream stand for a thousand times as many: no more is decoded than that.

    Args:
        size: bytes that are expected.
        name: of the codec, one of ``STREAMS``.
        codec: its settings; None where it has none.
        stored: the stream, or several where the codec may have them.

    Raises:
        ValueError: it is damaged, or cut; or the settings are none.
    """
    try:
        stream = STREAMS[name](codec)
        data: bytes = stream.decompress(stored.array.data, size + 1)
        if len(data) <= size and not stream.eof:
            raise ValueError("it is cut")
        if len(data) < size and stream.unused_data and name in _FILES:
            data = _FILES[name](codec, io.BytesIO(stored.array.data)).read(size + 1)
    except DECODE_ERRORS as problem:
        raise ValueError(str(problem)) from problem
    return data
