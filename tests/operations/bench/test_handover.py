"""What handing a batch over costs, and what ends a worker's epochs."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from fastdata_cli.loading.loader import LoaderOptions
from fastdata_cli.operations.bench import handover
from fastdata_cli.operations.bench.advise import Choice
from fastdata_cli.operations.bench.epochs import EpochCase
from fastdata_cli.operations.bench.handover import handover_seconds
from fastdata_cli.operations.bench.pairs import Pairs
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.timing.measurement import Measurement
from fastdata_cli.timing.process_tree import ProcessTree
from tests.operations.bench.readers import SHAPE, subject_of, write_raw

BEST = Choice(options=LoaderOptions(batch_size=16, workers=1))
KEPT = Choice(options=LoaderOptions(batch_size=16, workers=1, persistent_workers=True))


def workers() -> set[int]:
    """Return the processes that load, of this one."""
    found = set()
    for pid in ProcessTree().pids():
        words = " ".join(psutil.Process(pid).cmdline())
        if pid != psutil.Process().pid and "resource_tracker" not in words:
            found.add(pid)
    return found


@pytest.mark.parametrize(
    ("without", "with_one", "cost"), [(0.002, 0.010, 0.0005), (0.010, 0.009, 0.0)]
)
def test_it_is_what_one_worker_takes_longer_than_none(
    monkeypatch: pytest.MonkeyPatch, without: float, with_one: float, cost: float
) -> None:
    took = {0: without, 1: with_one}
    monkeypatch.setattr(
        handover, "_batch_seconds", lambda image, size, start, workers, seconds: took[workers]
    )
    assert handover_seconds((SHAPE, "uint8"), 16, None, 1.0) == pytest.approx(cost)


def test_a_real_worker_hands_over_and_goes() -> None:
    before = workers()
    assert 0 <= handover_seconds((SHAPE, "uint8"), 16, "fork", 0.1) < 1
    assert workers() == before


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    return subject_of(write_raw(tmp_path / "a.raw", 48))


@pytest.mark.parametrize("kept", [True, False])
def test_an_epoch_is_whole_and_workers_live_as_long_as_asked(subject: Subject, kept: bool) -> None:
    options = LoaderOptions(batch_size=16, workers=1, persistent_workers=kept)
    case = EpochCase(subject, options, "tried")
    before = workers()
    try:
        case.prepare()
        first = workers() - before
        works = [case.run() for _ in range(2)]
        case.prepare()
        again = workers() - before
    finally:
        case.stop()
    assert [(work.samples, work.bytes) for work in works] == [(48, 48 * 64 * 64 * 3)] * 2
    assert bool(first) == kept
    assert again == first, "the loader is made once"
    assert workers() == before


def test_workers_that_are_kept_are_compared_over_whole_epochs(subject: Subject) -> None:
    pair = Pairs(subject, 2.0).measure(BEST, KEPT)
    assert not isinstance(pair, str)
    assert all(isinstance(each, Measurement) and each.failure is None for each in pair)
    assert all(repeat.samples % 48 == 0 for each in pair for repeat in each.repeats)


def test_an_epoch_that_is_too_long_is_not_begun(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = Pairs(subject, 1.0)
    pairs._rates[BEST] = 4.0
    monkeypatch.setattr(EpochCase, "prepare", lambda case: pytest.fail("it was begun"))
    said = pairs.measure(BEST, KEPT)
    assert said == "not tried: starting workers is little beside an epoch of 12 s"


def test_fastloader_is_compared_with_a_dataloader(subject: Subject) -> None:
    fast = Choice(options=LoaderOptions(batch_size=16), threads=True)
    pair = Pairs(subject, 1.0).measure(Choice(options=LoaderOptions(batch_size=16)), fast)
    assert not isinstance(pair, str)
    assert ["FastLoader" in each.name for each in pair] == [False, True]
    assert all(each.samples_per_s for each in pair)
