"""What is asked of the disk ahead: in order, near ranges as one, and only while files are cold."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdata_cli import registry
from fastdata_cli.extents import Column
from fastdata_cli.formats.raw import FORMAT
from fastdata_cli.sample import Payload
from fastdata_cli.storage import readahead
from fastdata_cli.storage.mapping import MappedFile
from fastdata_cli.storage.readahead import ReadAhead, ask
from fastdata_cli.testing import pixel_samples, write_dataset

KIB = 1 << 10


class Asked:
    """Stands for a mapped file, and notes what is asked of it."""

    def __init__(self, name: str, log: list[tuple[str, int, int]]) -> None:
        self._name, self._log = name, log

    def advise(self, advice: int, begin: int, length: int) -> None:
        assert advice == mmap.MADV_WILLNEED
        self._log.append((self._name, begin, begin + length))


def asked(names: str, ranges: list[tuple[int, int]]) -> list[tuple[str, int, int]]:
    """Return what is asked for when each range is wanted of the file of its letter."""
    log: list[tuple[str, int, int]] = []
    files: dict[str, Any] = {name: Asked(name, log) for name in names}
    ask([files[name] for name in names], *columns(ranges))
    return log


def columns(ranges: list[tuple[int, int]]) -> tuple[Column, Column]:
    begins, ends = np.array(ranges, np.int64).reshape(-1, 2).T * KIB
    return begins, ends - begins


def in_kib(log: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    return [(name, begin // KIB, end // KIB) for name, begin, end in log]


def test_one_file_in_order_and_near_ranges_as_one() -> None:
    log = asked("a", [(5000, 5100), (0, 100), (200, 300), (5150, 5200), (1000, 1001)])
    assert in_kib(log) == [("a", 0, 300), ("a", 1000, 1001), ("a", 5000, 5200)]


def test_files_are_not_mixed() -> None:
    log = asked("abab", [(0, 10), (0, 10), (10, 20), (5000, 5010)])
    assert sorted(in_kib(log)) == [("a", 0, 20), ("b", 0, 10), ("b", 5000, 5010)]


def test_ranges_that_overlap_or_repeat_are_asked_for_once() -> None:
    assert in_kib(asked("a", [(0, 900), (100, 200), (0, 900)])) == [("a", 0, 900)]


def test_nothing_is_asked_for_nothing() -> None:
    assert asked("a", []) == []


def test_advice_stops_where_files_are_in_memory_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = iter([5, 5, 5, 6])
    monkeypatch.setattr(readahead, "_major_faults", lambda: next(faults))
    log: list[tuple[str, int, int]] = []
    files: list[Any] = [Asked("a", log)]
    ahead = ReadAhead()

    def batch() -> int:
        before = len(log)
        ahead.end(ahead.begin(files, *columns([(0, 100)])))
        return len(log) - before

    cold = [batch() for _ in range(32)]
    assert cold == [1] * 32, "files are taken to be cold at first"
    assert not ahead.is_cold
    assert batch() == 0, "asked for nothing, and came from memory"
    assert batch() == 0, "came from disk"
    assert ahead.is_cold
    assert batch() == 1


def test_a_scan_asks_for_the_block_after_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = pixel_samples(40, (64, 64, 3))
    path = write_dataset(FORMAT, tmp_path / "a.raw", samples, Payload.PIXELS)
    monkeypatch.setattr("fastdata_cli.formats.base._SCAN_BYTES", 10 * 64 * 64 * 3)
    ranges: list[tuple[int, int]] = []
    advise = MappedFile.advise

    def noted(file: MappedFile, advice: int, begin: int = 0, length: int | None = None) -> None:
        ranges.append((begin // (64 * 64 * 3), (length or 0) // (64 * 64 * 3)))
        advise(file, advice, begin, length)

    monkeypatch.setattr(MappedFile, "advise", noted)
    assert len(list(registry.open_reader(path).scan())) == 40
    assert ranges == [(10, 10), (0, 10), (20, 10), (10, 10), (30, 10), (20, 10), (30, 10)]
