"""Single blocks of Blosc chunks: the same bytes as the library gives of the whole."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numcodecs import blosc

from fastdata_cli.errors import BadSampleError
from fastdata_cli.extents import Bytes, Codec, Column, Window
from fastdata_cli.formats.blosc import BloscBuffer, Header, block_codec
from fastdata_cli.formats.chunked import ChunkedRows, StoredChunks
from fastdata_cli.storage.gather import Gather
from fastdata_cli.storage.mapping import FileMaps

ROWS, ROW = 40, 250
CHUNK = ROWS * ROW


def data_of(seed: int) -> Bytes:
    """Rows that shrink, and rows that do not."""
    rng = np.random.default_rng(seed)
    rows = (np.arange(CHUNK).reshape(ROWS, ROW) // 9 % 251).astype(np.uint8)
    rows[::3] = rng.integers(0, 256, rows[::3].shape)
    return rows.reshape(-1)


def compressed(data: Bytes, codec: str, shuffle: int, item: int, block: int, level: int = 5) -> Any:
    blosc.use_threads = False
    return blosc.compress(data, codec.encode(), level, shuffle, block, item)


class OneFilePerChunk:
    """A ChunkIndex over files."""

    codecs: tuple[Codec, ...] = (BloscBuffer(),)

    def __init__(self, folder: Path, chunks: list[bytes]) -> None:
        for number, chunk in enumerate(chunks):
            (folder / str(number)).write_bytes(chunk)
        self.files = FileMaps(lambda number: str(folder / str(number)))
        self.lengths = np.array([len(chunk) for chunk in chunks])
        self.rows = ChunkedRows(self, len(chunks), ROWS, ROW)
        self.gather = Gather(self.files)

    def find(self, chunks: Column) -> StoredChunks:
        zeros = np.zeros_like(chunks)
        return StoredChunks(chunks, zeros, self.lengths[chunks], zeros.astype(np.int8))

    def read(self, wanted: list[int]) -> Bytes:
        out = np.zeros((len(wanted), ROW), np.uint8)
        self.gather.fill(self.rows.locate(np.array(wanted)), out.reshape(-1))
        return out


WANTED = [0, 79, 40, 3, 3, 39, 17, 80, 61, 119]


@pytest.mark.parametrize("codec", ["lz4", "lz4hc", "zstd", "zlib", "blosclz"])
@pytest.mark.parametrize("shuffle", [0, 1, 2])
def test_rows_out_of_blocks_of_any_size(tmp_path: Path, codec: str, shuffle: int) -> None:
    for item, block in itertools.product((1, 2, 8), (ROW, 128, 3 * ROW, 1000, 1040, CHUNK)):
        chunks = [data_of(seed) for seed in range(3)]
        stored = [compressed(chunk, codec, shuffle, item, block) for chunk in chunks]
        folder = tmp_path / f"{item}-{block}"
        folder.mkdir()
        rows = np.concatenate(chunks).reshape(-1, ROW)
        found = OneFilePerChunk(folder, stored).read(WANTED)
        assert np.array_equal(found, rows[WANTED]), (item, block)


def test_less_is_decoded_than_the_chunk(tmp_path: Path) -> None:
    """Blocks of one row are found where their streams are, and need no part of another."""
    chunk = data_of(1)
    places = OneFilePerChunk(tmp_path, [compressed(chunk, "lz4hc", 0, 1, ROW)])
    header = Header.read(places.files.get(0).data, int(places.lengths[0]), CHUNK)
    extents = places.rows.locate(np.array([5, 6, 7]))
    assert extents.packing is not None
    assert extents.packing.whole.tolist() == [header.block_bytes] * 3
    assert (extents.length <= header.block_bytes).all()


def test_chunks_of_different_kinds_in_one_array(tmp_path: Path) -> None:
    """Not compressed, of other blocks, of another codec: each as the library has it."""
    chunks = [data_of(seed) for seed in range(5)]
    noise = np.random.default_rng(9).integers(0, 256, CHUNK, np.uint8)
    chunks[2] = noise
    stored = [
        compressed(chunks[0], "lz4hc", 0, 1, 500),
        compressed(chunks[1], "lz4hc", 0, 1, 1000),
        compressed(chunks[2], "lz4hc", 0, 1, 500),
        compressed(chunks[3], "zstd", 1, 2, 500),
        compressed(chunks[4], "lz4hc", 0, 1, 500, level=0),
    ]
    rows = np.concatenate(chunks).reshape(-1, ROW)
    wanted = [*range(0, 200, 7), 0, 199]
    for first in range(5):  # whichever is read first
        folder = tmp_path / str(first)
        folder.mkdir()
        places = OneFilePerChunk(folder, stored)
        places.read([first * ROWS])
        assert np.array_equal(places.read(wanted), rows[wanted])


@pytest.mark.parametrize(("codec", "shuffle"), [("lz4hc", 0), ("zstd", 2)])
def test_blocks_in_any_order(tmp_path: Path, codec: str, shuffle: int) -> None:
    """Blosc's threads write blocks as they are done."""
    chunk = data_of(4)
    stored = bytearray(compressed(chunk, codec, shuffle, 1, 500))
    header = Header.read(np.frombuffer(bytes(stored), np.uint8), len(stored), CHUNK)
    table = header.table(np.frombuffer(bytes(stored), np.uint8)).tolist()
    blocks = [bytes(stored[a:b]) for a, b in itertools.pairwise([*table, len(stored)])]
    at = table[0]
    for number in np.random.default_rng(2).permutation(len(blocks)).tolist():
        stored[16 + 4 * number : 20 + 4 * number] = at.to_bytes(4, "little")
        stored[at : at + len(blocks[number])] = blocks[number]
        at += len(blocks[number])
    out = np.zeros(CHUNK, np.uint8)
    BloscBuffer().decode(Window.over(np.frombuffer(bytes(stored), np.uint8)), Window.over(out))
    assert np.array_equal(out, chunk), "the library reads it"
    wanted = list(range(39, -1, -1))
    found = OneFilePerChunk(tmp_path, [bytes(stored)]).read(wanted)
    assert np.array_equal(found, chunk.reshape(-1, ROW)[wanted])


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.integers(0, 119), st.integers(0, 255)), min_size=1, max_size=8),
    keep=st.integers(0, 12_000),
    codec=st.sampled_from(["lz4hc", "zstd", "zlib", "blosclz"]),
    shuffle=st.integers(0, 2),
)
def test_no_header_or_table_crashes(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, int]],
    keep: int,
    codec: str,
    shuffle: int,
) -> None:
    stored = bytearray(compressed(data_of(1), codec, shuffle, 1, 500))
    for position, value in changes:
        stored[position] = value
    places = OneFilePerChunk(tmp_path_factory.mktemp("bad"), [bytes(stored[:keep])])
    for row in (0, 20, 39):
        with contextlib.suppress(BadSampleError):
            places.read([row])


def test_a_buffer_is_judged_by_its_header() -> None:
    stored = np.frombuffer(compressed(data_of(1), "lz4", 0, 1, 0), np.uint8)
    assert Header.read(stored, len(stored), CHUNK).nbytes == CHUNK
    for buffer, size in ((stored[:15], CHUNK), (stored[:-1], CHUNK), (stored, CHUNK + 1)):
        with pytest.raises(ValueError, match=r"Blosc buffer|expected are"):
            Header.read(buffer, len(buffer), size)


def test_streams_are_decoded_alone_only_where_they_are_plain() -> None:
    def plain(codec: str, shuffle: int, item: int) -> bool:
        stored = np.frombuffer(compressed(data_of(1), codec, shuffle, item, 1000), np.uint8)
        header = Header.read(stored, len(stored), CHUNK)
        assert block_codec(header, keeps=False).keeps is False
        return header.plain_stream != 0

    assert [plain(codec, 0, 1) for codec in ("lz4", "zstd", "zlib", "blosclz")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert plain("lz4", 1, 1), "single bytes are not shuffled"
    assert not plain("lz4", 1, 2)
    assert not plain("lz4", 2, 1)
