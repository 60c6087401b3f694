"""The words and units that tables show."""

from __future__ import annotations

from typing import Any

import pytest

from fastdata_cli.cli import tables
from fastdata_cli.operations.words import count_text


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, ""),
        ({"chunk": 1000, "codec": "lz4"}, "chunk 1000, codec lz4"),
        ({"sidecar": True, "strict": False, "level": None, "features": []}, "sidecar"),
        ({"level": 0}, "level 0"),
        ({"samples_per_shard": [4, 8]}, "samples per shard 4 to 8"),
        ({"rows_per_group": [5, 5]}, "rows per group 5"),
        ({"map_size": 64 << 20, "page_size": 4096}, "map size 67.1 MB, page size 4096"),
        ({"clean": {"min_side": 32, "grayscale": True}}, "clean (min side 32, grayscale)"),
        ({"features": ["a", "b"]}, "features a b"),
    ],
)
def test_settings_in_words(values: dict[str, Any], words: str) -> None:
    assert tables.words_text(values) == words


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 samples"), (1, "1 sample"), (2000, "2,000 samples")]
)
def test_counts_in_words(count: int, words: str) -> None:
    assert count_text(count, "sample") == words


def test_counts_with_a_verb() -> None:
    assert count_text(1, "name holds", "names hold") == "1 name holds"
    assert count_text(2, "name holds", "names hold") == "2 names hold"


def test_notes_of_one_kind_stand_together() -> None:
    notes = {"empty-class: a": 1, "hidden": 3, "empty-class: b": 2}
    assert tables.notes_text(notes) == "empty-class=3 (a, b), hidden=3"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.04 s"), (0.1, "0.1 s"), (59.94, "59.9 s"), (60, "1 min 00 s"), (3660, "1 h 01 min")],
)
def test_durations(seconds: float, words: str) -> None:
    assert tables.time_text(seconds) == words
