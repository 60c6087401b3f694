"""Codecs that decode in place: what libraries encoded comes back, what is damaged is refused."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdata_cli.extents import Bytes, Codec, Window
from fastdata_cli.formats import codecs
from fastdata_cli.formats.blosc import BloscBuffer
from fastdata_cli.formats.codecs import (
    ByteShuffle,
    Chain,
    Lz4Block,
    Lz4Sized,
    Lz4Start,
    NumcodecsCodec,
    ZlibStream,
    ZstdFrame,
)
from fastdata_cli.formats.hdf5.decoding import Lz4Filter

DATA = np.concatenate(
    [np.arange(3000) // 7 % 251, np.random.default_rng(1).integers(0, 256, 1000)]
).astype(np.uint8)


def lz4_block(data: Bytes) -> bytes:
    return bytes(numcodecs.LZ4().encode(data))[4:]


def lz4_filter(data: Bytes, each: int = 1500) -> bytes:
    """Encode as HDF5's filter does, a block that does not get shorter as it is."""
    pieces = [len(data).to_bytes(8, "big") + each.to_bytes(4, "big")]
    for begin in range(0, len(data), each):
        block = data[begin : begin + each]
        stored = lz4_block(block)
        stored = stored if len(stored) < len(block) else block.tobytes()
        pieces.append(len(stored).to_bytes(4, "big") + stored)
    return b"".join(pieces)


CASES: dict[str, tuple[Callable[[], Codec], Callable[[Bytes], Any]]] = {
    "lz4": (Lz4Block, lz4_block),
    "lz4 with its size": (Lz4Sized, numcodecs.LZ4().encode),
    "lz4 as a filter": (Lz4Filter, lz4_filter),
    "zstd": (ZstdFrame, numcodecs.Zstd(3).encode),
    "zlib": (ZlibStream, lambda data: zlib.compress(data.data)),
    "gzip": (lambda: NumcodecsCodec({"id": "gzip"}), numcodecs.GZip().encode),
    "bz2": (lambda: NumcodecsCodec({"id": "bz2"}), numcodecs.BZ2().encode),
    "lzma": (lambda: NumcodecsCodec({"id": "lzma"}), numcodecs.LZMA().encode),
    "blosc": (BloscBuffer, numcodecs.Blosc("zstd", 3, 2).encode),
    "shuffled": (
        lambda: Chain(ZstdFrame(), ByteShuffle(4)),
        lambda data: numcodecs.Zstd().encode(numcodecs.Shuffle(4).encode(data)),
    ),
}


@pytest.fixture(params=["called", "by numcodecs"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """With the functions of numcodecs' libraries, and where it does not export them."""
    if request.param != "called":
        monkeypatch.setattr(codecs, "_function", lambda library, name: None)
    for cached in (codecs._lz4, codecs._zstd):
        cached.cache_clear()
    yield request.param
    for cached in (codecs._lz4, codecs._zstd):
        cached.cache_clear()


@pytest.mark.parametrize("case", CASES)
def test_what_was_encoded_comes_back(way: str, case: str) -> None:
    make, encode = CASES[case]
    assert np.array_equal(decoded(make(), encode(DATA), len(DATA)), DATA)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [0, 1, len(DATA) - 1, len(DATA) + 1, 2 * len(DATA)])
def test_another_size_is_refused(way: str, case: str, size: int) -> None:
    make, encode = CASES[case]
    with pytest.raises(ValueError, match=r"."):
        decoded(make(), encode(DATA), size)


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(CASES)),
    st.lists(st.tuples(st.integers(0, 3999), st.integers(0, 255)), max_size=6),
    st.integers(0, 5000),
)
def test_no_damage_crashes(case: str, changes: list[tuple[int, int]], keep: int) -> None:
    """What is changed or cut is refused, or decoded to as many bytes and none beside them."""
    make, encode = CASES[case]
    stored = bytearray(encode(DATA))
    for position, value in changes:
        stored[position % len(stored)] = value
    around = np.full(len(DATA) + 200, 7, np.uint8)
    out = Window.over(around).part(100, len(DATA))
    with contextlib.suppress(ValueError):
        make().decode(Window.over(np.frombuffer(bytes(stored[:keep]), np.uint8)), out)
    assert (around[:100] == 7).all()
    assert (around[-100:] == 7).all()


@pytest.mark.parametrize("size", [0, 1, 700, len(DATA)])
def test_no_more_of_a_block_is_decoded_than_asked_for(size: int) -> None:
    around = np.full(size + 200, 7, np.uint8)
    stored = Window.over(np.frombuffer(lz4_block(DATA), np.uint8))
    Lz4Start().decode(stored, Window.over(around).part(0, size))
    assert np.array_equal(around[:size], DATA[:size])
    assert (around[size:] == 7).all()
    with pytest.raises(ValueError, match="LZ4"):
        decoded(Lz4Start(), lz4_block(DATA), len(DATA) + 1)


@pytest.mark.parametrize("item", [1, 2, 3, 8])
def test_shuffled_bytes_as_numcodecs_shuffles_them(item: int) -> None:
    data = DATA[: len(DATA) // item * item]
    stored = numcodecs.Shuffle(item).encode(data)
    assert np.array_equal(decoded(ByteShuffle(item), stored, len(data)), data)


def test_a_window_is_a_range_of_memory() -> None:
    whole = Window.over(np.arange(100, dtype=np.uint8))
    inner = whole.part(10, 50).part(5, 20)
    assert inner.array.tolist() == list(range(15, 35))
    assert inner.address == whole.address + 15
    assert inner.address == inner.array.ctypes.data


def decoded(codec: Codec, stored: Any, size: int) -> Bytes:
    out = np.zeros(size, np.uint8)
    codec.decode(Window.over(np.frombuffer(bytes(stored), np.uint8)), Window.over(out))
    return out


@pytest.mark.parametrize("name", ["zlib", "gzip", "bz2", "lzma"])
def test_streams_stop_at_what_is_expected(name: str) -> None:
    stored = np.frombuffer(numcodecs.get_codec({"id": name}).encode(bytes(1 << 24)), np.uint8)
    codec = NumcodecsCodec({"id": name})
    out = np.ones(1 << 24, np.uint8)
    codec.decode(Window.over(stored), Window.over(out))
    assert not out.any()
    with pytest.raises(ValueError, match="decodes to 101 bytes, not 100"):
        codec.decode(Window.over(stored), Window.over(out[:100]))
    with pytest.raises(ValueError, match=r"cut|decodes to|Compressed"):
        codec.decode(Window.over(stored[:-1]), Window.over(out))


@pytest.mark.parametrize("name", ["gzip", "bz2", "lzma"])
def test_streams_one_after_another(name: str) -> None:
    codec, library = NumcodecsCodec({"id": name}), numcodecs.get_codec({"id": name})
    stored = b"".join(bytes(library.encode(part)) for part in (DATA[:7], DATA[7:1000], DATA[1000:]))
    assert np.array_equal(decoded(codec, stored, len(DATA)), DATA)
    for size in (len(DATA) - 1, len(DATA) + 1):
        with pytest.raises(ValueError, match="decodes to"):
            decoded(codec, stored, size)
    with pytest.raises(ValueError, match=r"ended|EOF|end-of-stream"):
        decoded(codec, stored[:-4], len(DATA))


@pytest.mark.parametrize("chosen", [{"format": "x"}, {"filters": 7}, {"format": 9}], ids=repr)
def test_settings_of_a_stream_that_are_none(chosen: dict[str, Any]) -> None:
    stored = numcodecs.LZMA().encode(DATA)
    with pytest.raises(ValueError, match=r"."):
        decoded(NumcodecsCodec({"id": "lzma", **chosen}), stored, len(DATA))
