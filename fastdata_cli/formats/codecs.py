"""Codecs that several containers use, each decoding from where it is stored into its place.

They are numcodecs' builds of LZ4 and Zstandard, called without its wrappers where these would copy
(LZ4) or not tell how much was decoded (Zstandard).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from fastdata_cli.extents import Bytes, Codec, Window
from fastdata_cli.formats.streams import DECODE_ERRORS, STREAMS, decoded_to

_SIZE_BYTES = 4


class Lz4Block:
    """One LZ4 block without any frame.

    Args:
        keeps: as ``Codec.keeps``.
    """

    def __init__(self, *, keeps: bool = True) -> None:
        self.keeps = keeps
        self._decompress = _lz4()

    def decode(self, stored: Window, out: Window) -> None:
        """Fill ``out``."""
        if self._decompress(stored, out) != out.size:
            raise ValueError(f"{stored.size} bytes of LZ4 do not give {out.size}")


class Lz4Start(Lz4Block):
    """The first bytes of an LZ4 block, of which no more is decoded.

    Raises:
        LookupError: numcodecs does not export the function.
    """

    def __init__(self) -> None:
        super().__init__(keeps=False)
        self._decompress = _lz4_start()


class Lz4Sized(Lz4Block):
    """An LZ4 block behind four bytes that say what it decodes to: the frame of numcodecs."""

    def decode(self, stored: Window, out: Window) -> None:
        """Fill ``out``."""
        size = int.from_bytes(stored.array[:_SIZE_BYTES].tobytes(), "little")
        if stored.size < _SIZE_BYTES or size != out.size:
            raise ValueError(f"its first bytes tell of {size} bytes, not {out.size}")
        super().decode(stored.part(_SIZE_BYTES, stored.size - _SIZE_BYTES), out)


class ZstdFrame:
    """One Zstandard frame.

    Args:
        keeps: as ``Codec.keeps``.
    """

    def __init__(self, *, keeps: bool = True) -> None:
        self.keeps = keeps
        self._decompress = _zstd()

    def decode(self, stored: Window, out: Window) -> None:
        """Fill ``out``."""
        if self._decompress(stored, out) != out.size:
            raise ValueError(f"{stored.size} bytes of Zstandard do not give {out.size}")


class ZlibStream:
    """One zlib stream."""

    keeps = True

    def decode(self, stored: Window, out: Window) -> None:
        """Fill ``out``."""
        place(decoded_to(out.size, "zlib", None, stored), out)


class NumcodecsCodec:
    """Any codec of numcodecs.

    Args:
        config: its configuration; ``id`` names it.

    Raises:
        ValueError, LookupError, ImportError, TypeError: it cannot be set up.
    """

    keeps = True

    def __init__(self, config: Mapping[str, Any]) -> None:
        import numcodecs

        self._library: Any = numcodecs.get_codec(dict(config))
        self._name = str(config["id"])

    def decode(self, stored: Window, out: Window) -> None:
        """Fill ``out``."""
        if self._name in STREAMS:
            place(decoded_to(out.size, self._name, self._library, stored), out)
        else:
            place(self.decoded(stored.array), out)

    def decoded(self, stored: Bytes) -> Bytes:
        """Return what ``stored`` was made from, of any size.

        Raises:
            ValueError: ``stored`` is damaged.
        """
        try:
            return np.frombuffer(self._library.decode(stored), np.uint8)
        except DECODE_ERRORS as problem:
            raise ValueError(str(problem)) from problem


class Chain:
    """Codecs one after another, as they are undone; all but the last keep the size.

    Args:
        codecs: in the order of decoding. Only the first may change the number of bytes.
    """

    keeps = True

    def __init__(self, *codecs: Codec) -> None:
        self._codecs = codecs

    def decode(self, stored: Window, out: Window) -> None:
        """Fill ``out``."""
        for codec in self._codecs[:-1]:
            between = Window.over(np.empty(out.size, np.uint8))
            codec.decode(stored, between)
            stored = between
        self._codecs[-1].decode(stored, out)


class ByteShuffle:
    """Bytes rearranged by their place in the items.

    Args:
        item: bytes of an item.
    """

    keeps = True

    def __init__(self, item: int) -> None:
        self._item = item

    def decode(self, stored: Window, out: Window) -> None:
        """Fill ``out``."""
        whole = out.size // self._item * self._item
        if stored.size != out.size:
            raise ValueError(f"{stored.size} bytes were shuffled, not {out.size}")
        rows = stored.array[:whole].reshape(self._item, -1)
        out.array[:whole].reshape(-1, self._item)[:] = rows.T
        out.array[whole:] = stored.array[whole:]


def place(decoded: Bytes | bytes, out: Window) -> None:
    """Copy what a codec gave into its place.

    Raises:
        ValueError: it is more or less than that.
    """
    if len(decoded) != out.size:
        raise ValueError(f"decodes to {len(decoded)} bytes, not {out.size}")
    out.array[:] = np.frombuffer(decoded, np.uint8)


_Decompress = Callable[[Window, Window], int]
"""Decodes, and returns how many bytes that gave; a negative number for an error."""


@lru_cache(maxsize=1)
def _lz4() -> _Decompress:
    from numcodecs import lz4

    function = _function(lz4.__file__, "LZ4_decompress_safe")
    if function is None:
        return _lz4_by_numcodecs
    pointer, number = ctypes.c_void_p, ctypes.c_int
    function.argtypes, function.restype = (pointer, pointer, number, number), number

    def decompress(stored: Window, out: Window) -> int:
        found: int = function(stored.address, out.address, stored.size, out.size)
        return found

    return decompress


@lru_cache(maxsize=1)
def _lz4_start() -> _Decompress:
    from numcodecs import lz4

    function = _function(lz4.__file__, "LZ4_decompress_safe_partial")
    if function is None:
        raise LookupError("LZ4_decompress_safe_partial")
    pointer, number = ctypes.c_void_p, ctypes.c_int
    function.argtypes, function.restype = (pointer, pointer, number, number, number), number

    def decompress(stored: Window, out: Window) -> int:
        sizes = (stored.size, out.size, out.size)
        found: int = function(stored.address, out.address, *sizes)
        return found

    return decompress


def _lz4_by_numcodecs(stored: Window, out: Window) -> int:
    """Put what numcodecs wants in front: the size, of four bytes."""
    from numcodecs import lz4

    framed = np.empty(_SIZE_BYTES + stored.size, np.uint8)
    framed[:_SIZE_BYTES] = np.array([out.size], "<i4").view(np.uint8)
    framed[_SIZE_BYTES:] = stored.array
    try:
        lz4.decompress(framed, out.array)
    except DECODE_ERRORS:
        return -1
    return out.size


@lru_cache(maxsize=1)
def _zstd() -> _Decompress:
    from numcodecs import zstd

    function = _function(zstd.__file__, "ZSTD_decompress")
    if function is None:
        return _zstd_by_numcodecs
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    # Errors are the largest numbers: as signed ones, negative.
    function.argtypes, function.restype = (pointer, size, pointer, size), ctypes.c_ssize_t

    def decompress(stored: Window, out: Window) -> int:
        found: int = function(out.address, out.size, stored.address, stored.size)
        return found

    return decompress


def _zstd_by_numcodecs(stored: Window, out: Window) -> int:
    from numcodecs import zstd

    try:
        decoded = zstd.decompress(stored.array)
    except DECODE_ERRORS:
        return -1
    if len(decoded) == out.size:
        place(decoded, out)
    return len(decoded)


def _function(library: str, name: str) -> Any:
    """Return a function of C that a compiled module of Python exports; None where it does not."""
    try:
        return getattr(ctypes.CDLL(library), name)
    except (OSError, AttributeError):
        return None
