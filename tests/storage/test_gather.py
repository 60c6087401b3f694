"""The gather core: order, repeats, the caller's memory, parts of what codecs decode, damage."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdata_cli.errors import BadSampleError, DamagedDatasetError
from fastdata_cli.extents import AS_STORED, Bytes, Column, Extents, Packing, Rows, Window, cut
from fastdata_cli.storage import mapping
from fastdata_cli.storage.gather import SWITCH, Gather, arena_for, gather_enabled
from fastdata_cli.storage.mapping import FileMaps, MappedFile

FILES = [np.random.default_rng(seed).integers(0, 256, 500, np.uint8) for seed in range(3)]

RANGES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 500)).flatmap(
        lambda place: st.tuples(
            st.just(place[0]), st.just(place[1]), st.integers(0, 500 - place[1])
        )
    )
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of 500 bytes."""
    folder = tmp_path_factory.mktemp("files")
    for number, content in enumerate(FILES):
        (folder / str(number)).write_bytes(content.tobytes())
    return folder


@pytest.fixture(scope="module")
def gather(folder: Path) -> Gather:
    """An engine over them."""
    return Gather(maps_of(folder))


def maps_of(folder: Path) -> FileMaps:
    return FileMaps(lambda number: str(folder / str(number)))


def columns(rows: Sequence[tuple[int, ...]], width: int) -> list[Column]:
    return list(np.array(rows, np.int64).reshape(-1, width).T)


def extents_of(gather: Gather, rows: list[tuple[int, int, int]]) -> Extents:
    file, offset, length = columns(rows, 3)
    return Extents(gather.files.path_of, file, offset, length)


def gathered(gather: Gather, extents: Extents, spare: int = 0) -> Bytes:
    total = int(extents.sizes.sum())
    out = np.full(total + spare, 255, np.uint8)
    gather.fill(extents, out)
    assert (out[total:] == 255).all(), "what is not needed is not touched"
    return out[:total]


# -- what is stored as it is


@settings(max_examples=50)
@given(RANGES, st.integers(0, 20))
def test_ranges_lie_end_to_end(
    gather: Gather, ranges: list[tuple[int, int, int]], spare: int
) -> None:
    found = gathered(gather, extents_of(gather, ranges), spare)
    wanted = [FILES[file][begin : begin + length] for file, begin, length in ranges]
    assert found.tolist() == np.concatenate([FILES[0][:0], *wanted]).tolist()


@settings(max_examples=50)
@given(st.integers(0, 30), st.integers(1, 40), st.lists(st.integers(0, 11), min_size=1))
def test_rows_of_one_file(gather: Gather, start: int, each: int, rows: list[int]) -> None:
    """Equal ranges at equal distances go another way: as rows of an array."""
    ranges = [(1, start + row * each, each) for row in rows]
    found = gathered(gather, extents_of(gather, ranges))
    assert found.tolist() == [b for _, at, n in ranges for b in FILES[1][at : at + n].tolist()]


def test_rows_are_taken_in_the_short_way_once_files_are_warm(folder: Path) -> None:
    gather, rows = Gather(maps_of(folder)), Rows(start=3, each=7, count=71, file=1)
    order = np.array([70, 0, 5, 5])
    wanted = np.concatenate([FILES[1][3 + 7 * row : 10 + 7 * row] for row in order])
    out = np.zeros(28, np.uint8)
    assert not gather.take(rows, order, out), "who is cold asks ahead, by ``fill``"
    extents = extents_of(gather, [(1, 3 + 7 * int(row), 7) for row in order])
    while gather.is_cold:
        gather.fill(extents, out)
    out[:] = 0
    assert gather.take(rows, order, out)
    assert (out == wanted).all()
    longer = Rows(start=3, each=7, count=72, file=1)
    assert not gather.take(longer, order, out), "the last row reaches beyond the file"


@pytest.mark.parametrize("ranges", [[(0, 490, 11)], [(0, -1, 1)], [(0, 0, 10), (1, 501, 0)]])
def test_outside_of_a_file(gather: Gather, ranges: list[tuple[int, int, int]]) -> None:
    extents = extents_of(gather, ranges)
    with pytest.raises(BadSampleError, match=r"500 bytes, and a sample reaches") as caught:
        gather.fill(extents, np.empty(100, np.uint8))
    assert caught.value.reason == "corrupt"


def test_a_range_whose_end_is_beyond_all_numbers(gather: Gather) -> None:
    extents = extents_of(gather, [(0, 2**63 - 10, 20)])
    with pytest.raises(BadSampleError, match="cut short"):
        gather.fill(extents, np.empty(100, np.uint8))


def test_views_are_the_file_itself(gather: Gather) -> None:
    view = gather.view(extents_of(gather, [(2, 100, 50)]))
    assert np.array_equal(view, FILES[2][100:150])
    assert not view.flags.writeable
    assert np.shares_memory(view, gather.files.get(2).data)


# -- what codecs decode


class Doubling:
    """Every byte is stored once and decoded twice; ``calls`` are the ranges it decoded."""

    def __init__(self, *, keeps: bool) -> None:
        self.keeps = keeps
        self.calls: list[int] = []
        self.pause = threading.Event()
        self.pause.set()

    def decode(self, stored: Window, out: Window) -> None:
        self.calls.append(stored.size)
        assert self.pause.wait(20)
        if 2 * stored.size != out.size:
            raise ValueError("not twice as much")
        out.array[:] = np.repeat(stored.array, 2)


PARTS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4)).flatmap(
        lambda chunk: st.tuples(
            st.just(chunk[0]), st.just(chunk[1]), st.integers(0, 200), st.booleans()
        )
    )
)


@settings(max_examples=50)
@given(PARTS, st.booleans(), st.data())
def test_parts_of_decoded_chunks(
    gather: Gather, parts: list[tuple[int, int, int, bool]], keeps: bool, data: st.DataObject
) -> None:
    """Chunks of 100 bytes that decode to 200, some of them stored as they are."""
    codec = Doubling(keeps=keeps)
    rows, wanted, numbers = [], [], []
    for number, chunk, at, encoded in parts:
        stored = FILES[number][chunk * 100 : chunk * 100 + 100]
        decoded = np.repeat(stored, 2) if encoded else stored
        at = min(at, len(decoded))
        count = data.draw(st.integers(0, len(decoded) - at))
        rows.append((number, chunk * 100, 100, len(decoded), at, count))
        numbers.append(0 if encoded else AS_STORED)
        wanted += decoded[at : at + count].tolist()
    file, offset, length, whole, begin, size = columns(rows, 6)
    packing = Packing((codec,), np.array(numbers, np.int8), whole, begin, size)
    extents = Extents(gather.files.path_of, file, offset, length, packing)
    fresh = Gather(gather.files)
    assert gathered(fresh, extents, 3).tolist() == wanted
    partial = {
        (f, c)
        for (f, c, *_, w, b, s), number in zip(rows, numbers, strict=True)
        if number == 0 and (b > 0 or s < w)
    }
    assert len(codec.calls) <= len(rows)
    before = len(codec.calls)
    assert gathered(fresh, extents).tolist() == wanted
    again = len(codec.calls) - before
    assert again == (before - len(partial) if keeps else before)


def test_what_a_codec_refuses_names_the_file(gather: Gather, folder: Path) -> None:
    extents = whole_chunk(gather, Doubling(keeps=False), whole=150)
    with pytest.raises(BadSampleError, match="not twice as much") as caught:
        gather.fill(extents, np.empty(300, np.uint8))
    assert caught.value.reason == "corrupt"
    assert str(folder) in caught.value.detail


def test_threads_decode_a_kept_chunk_once(gather: Gather) -> None:
    codec, fresh = Doubling(keeps=True), Gather(gather.files)
    codec.pause.clear()
    extents = whole_chunk(gather, codec, begin=20)
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(gathered, fresh, extents) for _ in range(4)]
        codec.pause.set()
        results = [each.result(20) for each in found]
    assert codec.calls == [100]
    wanted = np.repeat(FILES[0][:100], 2)[20:]
    assert all(np.array_equal(result, wanted) for result in results)


def test_a_chunk_that_could_not_be_decoded_is_tried_again(gather: Gather) -> None:
    codec, fresh = Doubling(keeps=True), Gather(gather.files)
    for _ in range(2):
        with pytest.raises(BadSampleError):
            fresh.fill(whole_chunk(gather, codec, whole=150, begin=1), np.empty(300, np.uint8))
    assert codec.calls == [100, 100]
    assert len(gathered(fresh, whole_chunk(gather, codec, begin=1))) == 199


def whole_chunk(gather: Gather, codec: Doubling, *, whole: int = 200, begin: int = 0) -> Extents:
    file, offset, length, all_bytes, first, size = columns(
        [(0, 0, 100, whole, begin, whole - begin)], 6
    )
    packing = Packing((codec,), np.zeros(1, np.int8), all_bytes, first, size)
    return Extents(gather.files.path_of, file, offset, length, packing)


# -- samples of several rows


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=8), st.integers(1, 20))
def test_runs_are_cut_at_multiples(runs: list[tuple[int, int]], each: int) -> None:
    starts, counts = columns(list(runs), 2)
    run, multiple, first, stop = cut(starts, counts, each)
    assert (first < stop).all()
    assert (first // each == multiple).all()
    assert ((stop - 1) // each == multiple).all()
    covered: list[list[int]] = [[] for _ in runs]
    for number, begin, end in zip(run.tolist(), first.tolist(), stop.tolist(), strict=True):
        covered[number] += range(begin, end)
    assert covered == [list(range(start, start + count)) for start, count in runs]


def test_sizes_of_samples_of_several_rows_or_none(gather: Gather) -> None:
    sizes = np.array([5, 6, 7], np.int64)
    extents = Extents(
        gather.files.path_of, np.zeros(3, np.int64), sizes, sizes, None, np.array([0, 2, 2])
    )
    assert extents.sample_sizes(4).tolist() == [5, 0, 13, 0]
    assert [extents.first(size).sizes.tolist() for size in (0, 3, 5, 8, 99)] == [
        [], [3], [5], [5, 3], [5, 6, 7],
    ]  # fmt: skip


# -- mapped files


def test_files_that_are_not_there_or_empty(tmp_path: Path) -> None:
    (tmp_path / "0").touch()
    maps = maps_of(tmp_path)
    assert (maps.get(0).size, maps.get(0).data.size) == (0, 0)
    with pytest.raises(BadSampleError) as caught:
        maps.get(1)
    assert caught.value.reason == "missing"


def test_a_file_that_is_shorter_than_its_samples(folder: Path) -> None:
    maps = FileMaps(lambda number: str(folder / str(number)), [500, 501, 0])
    assert maps.get(0).size == 500
    with pytest.raises(DamagedDatasetError, match="reach to 501"):
        maps.get(1)


def test_few_files_are_mapped_and_views_outlive_their_maps(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "MOST_MAPS", 1)
    maps = maps_of(folder)
    view = maps.get(0).data[10:20]
    for number in (1, 2, 1):
        assert np.array_equal(maps.get(number).data, FILES[number])
    assert np.array_equal(view, FILES[0][10:20])
    names = [
        line for line in Path("/proc/self/maps").read_text().splitlines() if f"{folder}" in line
    ]
    assert len(names) <= 2 + 3  # those of the module's own engine are mapped as well


def test_advice_is_taken_for_any_range(folder: Path) -> None:
    import mmap

    file = MappedFile(str(folder / "0"))
    file.advise(mmap.MADV_WILLNEED)
    file.advise(mmap.MADV_RANDOM, 17, 100)
    assert np.array_equal(file.data, FILES[0])


# -- arenas, and the switch


def test_an_arena_that_is_too_small_is_refused() -> None:
    with pytest.raises(ValueError, match="out holds 9 bytes; these samples need 10"):
        arena_for(np.array([5, 5]), np.empty(9, np.uint8))


def test_sums_beyond_two_gigabytes() -> None:
    """Lengths are added as int64: nothing wraps, and the check comes before the copy."""
    lengths = np.full(3, 1 << 30, np.int64)
    with pytest.raises(ValueError, match=f"need {3 << 30}"):
        arena_for(lengths, np.empty(8, np.uint8))


def test_no_images() -> None:
    offsets, arena = arena_for(np.empty(0, np.int64), None)
    assert (offsets.tolist(), arena.size) == ([0], 0)


@pytest.mark.parametrize(("value", "enabled"), [("off", False), (" OFF", False), ("on", True)])
def test_the_switch(monkeypatch: pytest.MonkeyPatch, value: str, enabled: bool) -> None:
    monkeypatch.setenv(SWITCH, value)
    assert gather_enabled() is enabled
