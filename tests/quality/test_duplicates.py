"""Finding duplicates: who is first, what is compared with what, and what the next run knows."""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from fastdata_cli.errors import (
    DestinationExistsError,
    FastdataError,
    SourceNotFoundError,
    StorageError,
    UsageError,
)
from fastdata_cli.quality import duplicates, scratch
from fastdata_cli.quality import index as index_module
from fastdata_cli.quality.duplicates import DEFAULT_DISTANCE, DuplicateFinder, Match
from fastdata_cli.quality.fingerprints import LOOK_BYTES, Fingerprint, exact, near, pixels
from tests.conftest import jpeg

LOOK = bytes([1, *range(48), *[0x0F] * 32]).hex()
WEIRD = "naïve \udcff\nname.jpg"


def hashed(value: int, look: str = LOOK) -> Fingerprint:
    return Fingerprint("near", value, look)


def ones(count: int) -> int:
    return (1 << count) - 1


def found(finder: DuplicateFinder, *values: int) -> list[tuple[str, int] | None]:
    """Ask for hashes in turn, named by their position."""
    matches = [finder.find(str(number), hashed(value)) for number, value in enumerate(values)]
    return [None if match is None else (match.first, match.distance) for match in matches]


def test_the_first_one_wins() -> None:
    with DuplicateFinder("near", 4) as finder:
        assert found(finder, 0, ones(4), ones(64), 0, ones(5), ones(63)) == [
            None,
            ("0", 4),
            None,
            ("0", 0),
            None,
            ("2", 1),
        ]


def test_groups_do_not_drift() -> None:
    with DuplicateFinder("near", 2) as finder:
        steps = [ones(2 * count) for count in range(5)]
        assert found(finder, *steps) == [None, ("0", 2), None, ("2", 2), None]


def test_the_nearest_first_one_counts_then_the_earliest() -> None:
    with DuplicateFinder("near", 4) as finder:
        assert found(finder, 0, ones(6), ones(4), ones(3)) == [None, None, ("1", 2), ("0", 3)]


@pytest.mark.parametrize("distance", [None, 0, 16])
def test_the_distance_is_inclusive(distance: int | None) -> None:
    limit = DEFAULT_DISTANCE if distance is None else distance
    for bits, match in ((limit, ("0", limit)), (limit + 1, None)):
        with DuplicateFinder("near", distance) as finder:
            assert finder.distance == limit
            assert found(finder, 0, ones(bits)) == [None, match]


def test_hashes_are_not_enough() -> None:
    other = bytes([1, *[200] * 48, *[0x0F] * 32]).hex()
    with DuplicateFinder("near", 4) as finder:
        assert finder.find("red", hashed(0)) is None
        assert finder.find("blue", hashed(0, other)) is None
        assert finder.find("blue again", hashed(1, other)) == Match("blue", 1)


def test_pictures_without_detail_have_no_neighbours() -> None:
    flat = bytes([0]).ljust(LOOK_BYTES["near"], b"\7").hex()
    with DuplicateFinder("near", 16) as finder:
        assert finder.find("a", Fingerprint("near", 8, flat, usable=False)) is None
        assert finder.find("b", Fingerprint("near", 9, flat, usable=False)) is None
        assert finder.find("c", Fingerprint("near", 9, flat, usable=False)) == Match("b", 0)


@pytest.mark.parametrize("kind", ["exact", "pixels"])
def test_digests_agree_in_all_bits(kind: str) -> None:
    with DuplicateFinder(kind) as finder:
        assert finder.distance == 0
        assert finder.find("a", Fingerprint(kind, 1, "00" * 8)) is None
        assert finder.find("b", Fingerprint(kind, 1, "00" * 7 + "01")) is None
        assert finder.find("c", Fingerprint(kind, 3, "00" * 8)) is None
        assert finder.find("d", Fingerprint(kind, 1, "00" * 7 + "01")) == Match("b", 0)


def test_each_kind_finds_what_it_is_for() -> None:
    data = jpeg(60, 80, 1)
    image = np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), np.uint8)
    png = bytes(cv2.imencode(".png", image)[1])
    worse = np.asarray(cv2.resize(image, (40, 30), interpolation=cv2.INTER_AREA), np.uint8)
    other = np.ascontiguousarray(image[::-1])
    results = []
    for kind, prints in (
        ("exact", [exact(each) for each in (data, png, data)]),
        ("pixels", [pixels(each) for each in (image, image.copy(), worse)]),
        ("near", [near(each) for each in (image, worse, other)]),
    ):
        with DuplicateFinder(kind) as finder:
            results.append([finder.find(str(n), each) is not None for n, each in enumerate(prints)])
    assert results == [[False, False, True], [False, True, False], [False, True, False]]


def test_a_saved_index_is_what_the_next_run_compares_with(tmp_path: Path) -> None:
    with DuplicateFinder("near", 4, save=tmp_path / "old") as finder:
        assert finder.find(WEIRD, hashed(0)) is None
        assert finder.find("copy", hashed(1)) == Match(WEIRD, 1)
        assert finder.find("far", hashed(ones(40))) is None
    with DuplicateFinder("near", 4, against=tmp_path / "old", save=tmp_path / "new") as finder:
        assert finder.find("leak", hashed(3)) == Match(WEIRD, 2, against=True)
        assert finder.find("new", hashed(ones(50))) is None
        assert finder.find("new again", hashed(ones(51))) == Match("new", 1)
    with DuplicateFinder("near", 0, against=tmp_path / "new") as finder:
        assert finder.find("1", hashed(0)) == Match(WEIRD, 0, against=True)
        assert finder.find("2", hashed(ones(40))) == Match("far", 0, against=True)
        assert finder.find("3", hashed(ones(50))) == Match("new", 0, against=True)
        assert finder.find("4", hashed(1)) is None


def test_the_index_compared_with_comes_first(tmp_path: Path) -> None:
    with DuplicateFinder("near", 4, save=tmp_path / "old") as finder:
        finder.find("old", hashed(0))
    with DuplicateFinder("near", 4, against=tmp_path / "old") as finder:
        assert finder.find("new", hashed(ones(6))) is None
        assert finder.find("both", hashed(ones(4))) == Match("old", 4, against=True)


def test_one_index_grows_from_run_to_run(tmp_path: Path) -> None:
    path = tmp_path / "index"
    with DuplicateFinder("exact", save=path) as finder:
        finder.find("0", Fingerprint("exact", 0, "00" * 8))
    for run in range(1, 4):
        with DuplicateFinder("exact", against=path, save=path) as finder:
            for earlier in range(run):
                match = finder.find("again", Fingerprint("exact", earlier, "00" * 8))
                assert match == Match(str(earlier), 0, against=True)
            assert finder.find(str(run), Fingerprint("exact", run, "00" * 8)) is None
    assert os.listdir(tmp_path) == ["index"]


def test_large_indexes_answer_as_small_ones_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2**64, 3000, np.uint64)
    values[1500:] = values[:1500] ^ np.uint64(0b10101)
    order = rng.permutation(3000).tolist()

    def run() -> list[Match | None]:
        with DuplicateFinder("near", 3, save=tmp_path / "half") as finder:
            first = [finder.find(f"{n}.jpg", hashed(int(values[n]))) for n in order[:1500]]
        with DuplicateFinder("near", 3, against=tmp_path / "half") as finder:
            return first + [finder.find(f"{n}.jpg", hashed(int(values[n]))) for n in order[1500:]]

    expected = run()
    monkeypatch.setattr(scratch, "IN_MEMORY", 500)
    monkeypatch.setattr(index_module, "_TAIL", 64)
    assert run() == expected
    assert sum(match is not None for match in expected) == 1500
    assert {match.against for match in expected if match is not None} == {True, False}


def test_a_broken_run_saves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with DuplicateFinder("near", save=tmp_path / "index") as finder:
            finder.find("a", hashed(0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []


def test_files_are_released_when_the_write_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StorageError("no")

    monkeypatch.setattr(duplicates, "save_index", refuse)
    monkeypatch.setattr(scratch, "IN_MEMORY", 0)
    finder = DuplicateFinder("near", save=tmp_path / "index")
    finder.find("a", hashed(0))
    with pytest.raises(StorageError):
        finder.close()  # an unclosed file would be a warning, and an error here


@pytest.mark.parametrize(
    ("kind", "options", "error"),
    [
        ("similar", {}, UsageError),
        ("near", {"distance": 17}, UsageError),
        ("near", {"distance": -1}, UsageError),
        ("exact", {"distance": 0}, UsageError),
        ("near", {"against": "missing"}, SourceNotFoundError),
        ("near", {"save": "photo.jpg"}, DestinationExistsError),
        ("near", {"save": "missing/index"}, UsageError),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_read(
    kind: str,
    options: dict[str, object],
    error: type[FastdataError],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("photo.jpg").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(error) as caught:
        DuplicateFinder(kind, **options)  # type: ignore[arg-type]
    assert caught.value.hint
    assert os.listdir() == ["photo.jpg"]
