"""The search for loader settings: on made-up speeds, and on a real DataLoader."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdata_cli import registry
from fastdata_cli.contract import Reader
from fastdata_cli.errors import FastdataError
from fastdata_cli.loading.loader import LoaderOptions, loader_line
from fastdata_cli.operations.bench.advise import Advised, Step, advise
from fastdata_cli.timing.measure import Case, Work, measure
from fastdata_cli.timing.measurement import Failure, Measurement, Repeat
from tests.loading.datasets import write

Speed = Callable[[LoaderOptions], float]


def measured(rate: float, *, noise: float = 0.0, seed: int = 0) -> Measurement:
    """Return five repeats of a hundred samples at about this rate."""
    factors = 1 + noise * np.random.default_rng(seed).uniform(-1, 1, 5)
    repeats = [
        Repeat(seconds=float(100 / rate * factor), samples=100, bytes=0, position=at, runs=1)
        for at, factor in enumerate(factors)
    ]
    return Measurement(name="loader", repeats=tuple(repeats))


@dataclass
class Machine:
    """Loaders of known speed, on a clock that only they move."""

    speed: Speed
    noise: float = 0.0
    seed: int = 0
    pair_s: float = 2.0
    now: float = 0.0
    pairs: list[tuple[LoaderOptions, LoaderOptions]] = field(default_factory=list)

    def measure_pair(self, a: LoaderOptions, b: LoaderOptions) -> tuple[Measurement, Measurement]:
        self.pairs.append((a, b))
        self.now += self.pair_s
        seed = self.seed + 2 * len(self.pairs)
        return (
            measured(self.speed(a), noise=self.noise, seed=seed),
            measured(self.speed(b), noise=self.noise, seed=seed + 1),
        )

    def clock(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("set"), "zarr")


@pytest.fixture(scope="module")
def reader(path: Path) -> Reader:
    return registry.open_reader(path)


def search(
    reader: Reader, machine: Machine, start: LoaderOptions | None = None, **changes: Any
) -> Advised:
    facts = {"cores": 8, "cuda": False, "budget_s": 60.0, "clock": machine.clock, **changes}
    return advise(reader, start or LoaderOptions(), machine.measure_pair, **facts)


def tried(found: Advised) -> list[str]:
    return [step.setting for step in found.steps]


def kept(found: Advised) -> list[str]:
    return [step.setting for step in found.steps if step.kept]


def test_settings_are_tried_in_the_order_of_practitioners(reader: Reader) -> None:
    machine = Machine(lambda options: 100.0 * (1 + options.workers))
    found = search(reader, machine, LoaderOptions(order="random"), cuda=True)
    assert tried(found) == [
        "num_workers=2",
        "num_workers=4",
        "num_workers=8",
        "pin_memory=True",
        "prefetch_factor=4",
        "persistent_workers=True",
        "order='block'",
    ]
    assert kept(found) == ["num_workers=2", "num_workers=4", "num_workers=8"]
    assert found.best == LoaderOptions(order="random", workers=8)
    assert found.line == loader_line(reader, found.best)
    assert "num_workers=8" in found.line
    assert found.ratio == pytest.approx(9)
    assert found.complete


def test_each_is_measured_against_the_best_so_far(reader: Reader) -> None:
    rates = {0: 100.0, 2: 180.0, 4: 120.0, 8: 90.0}
    machine = Machine(
        lambda options: rates[options.workers] * (1.2 if options.prefetch_factor else 1)
    )
    found = search(reader, machine)
    assert [(a.workers, b.workers) for a, b in machine.pairs] == [
        (0, 2),
        (2, 4),
        (2, 8),
        (2, 2),
        (2, 2),
    ]
    assert kept(found) == ["num_workers=2", "prefetch_factor=4"]
    assert machine.pairs[-1][0].prefetch_factor == 4
    assert found.ratio == pytest.approx(1.8 * 1.2)
    assert [step.why for step in found.steps] == [
        "faster",
        "slower",
        "slower",
        "faster",
        "no gain beyond noise",
    ]


def test_two_workers_that_do_not_help_do_not_end_the_search(reader: Reader) -> None:
    rates = {0: 100.0, 2: 90.0, 4: 150.0}
    found = search(reader, Machine(lambda options: rates[options.workers]), cores=4)
    assert found.best.workers == 4


@pytest.mark.parametrize(("cores", "counts"), [(1, [1]), (2, [2]), (3, [2, 3]), (4, [2, 4])])
def test_no_more_workers_than_cores(reader: Reader, cores: int, counts: list[int]) -> None:
    found = search(reader, Machine(lambda _: 100.0), cores=cores)
    assert tried(found) == [f"num_workers={count}" for count in counts]


def test_without_workers_nothing_is_prefetched(reader: Reader) -> None:
    found = search(reader, Machine(lambda options: 100.0 - options.workers), cuda=True)
    assert tried(found)[-1] == "pin_memory=True"
    assert found.best == LoaderOptions()
    assert found.ratio == 1


def test_noise_is_seldom_taken_for_a_gain(reader: Reader) -> None:
    steps = [
        step
        for first in range(40)
        for step in search(reader, Machine(lambda _: 100.0, noise=0.3, seed=first * 100)).steps
    ]
    assert sum(step.kept for step in steps) <= 0.05 * len(steps)


def test_a_gain_within_three_percent_is_not_worth_it(reader: Reader) -> None:
    found = search(reader, Machine(lambda options: 100.0 + 2 * (options.workers == 2)), cores=2)
    assert [(step.kept, step.why) for step in found.steps] == [(False, "gains less than 3%")]
    better = search(reader, Machine(lambda options: 100.0 + 4 * (options.workers == 2)), cores=2)
    assert kept(better) == ["num_workers=2"]


def test_block_shuffle_replaces_random_and_never_the_stored_order(reader: Reader) -> None:
    machine = Machine(lambda options: 900.0 if options.order == "block" else 100.0)
    found = search(reader, machine, LoaderOptions(order="random"))
    assert found.best.order == "block"
    assert "BlockShuffleSampler(len(dataset), block=7" in found.line
    stored = search(reader, machine, LoaderOptions(order="sequential"))
    assert stored.best.order == "sequential"


def test_the_search_begins_without_the_settings_it_tries(reader: Reader) -> None:
    start = LoaderOptions(
        batch_size=9, seed=3, workers=8, prefetch_factor=9, persistent_workers=True
    )
    machine = Machine(lambda options: 100.0 - options.workers)
    assert search(reader, machine, start).best == LoaderOptions(batch_size=9, seed=3)


def test_the_time_is_kept(reader: Reader) -> None:
    machine = Machine(lambda options: 100.0 * (1 + options.workers), pair_s=4.0)
    found = search(reader, machine, budget_s=10.0)
    assert machine.now <= 10
    assert kept(found) == ["num_workers=2", "num_workers=4"]
    assert {step.why for step in found.steps[2:]} == {"not tried: the time was up"}
    assert not found.complete


def test_the_first_step_is_done_whatever_the_time(reader: Reader) -> None:
    found = search(reader, Machine(lambda options: 100.0 + 100 * options.workers), budget_s=0.0)
    assert kept(found) == ["num_workers=2"]


def test_a_loader_that_fails_is_named_and_not_kept(reader: Reader) -> None:
    def pair(a: LoaderOptions, b: LoaderOptions) -> tuple[Measurement, Measurement]:
        if b.workers > 2:
            problem = Failure(kind="StorageError", message="no room in /dev/shm", hint="")
            return measured(100), Measurement(name="b", failure=problem)
        return measured(100), measured(100 + 100 * b.workers)

    found = advise(reader, LoaderOptions(), pair, cores=4, cuda=False, budget_s=60)
    assert found.best.workers == 2
    assert found.steps[1] == Step(
        setting="num_workers=4", ratio=None, why="failed: no room in /dev/shm"
    )
    assert found.complete


def test_what_is_not_worth_it_is_said(reader: Reader) -> None:
    def pair(a: LoaderOptions, b: LoaderOptions) -> tuple[Measurement, Measurement] | str:
        if b.persistent_workers:
            return "not tried: starting workers is little beside an epoch of 90 s"
        return measured(100), measured(100 + 100 * b.workers)

    found = advise(reader, LoaderOptions(), pair, cores=2, cuda=False, budget_s=60)
    last = found.steps[-1]
    assert (last.setting, last.kept, last.ratio) == ("persistent_workers=True", False, None)
    assert last.why.startswith("not tried: starting workers")
    assert found.complete, "it was decided, not cut short"


def test_workers_are_kept_where_that_helps(reader: Reader) -> None:
    speed = {False: 100.0, True: 160.0}
    machine = Machine(lambda options: options.workers * speed[options.persistent_workers] + 1)
    assert kept(search(reader, machine, cores=2)) == ["num_workers=2", "persistent_workers=True"]


def test_nothing_delivered(reader: Reader) -> None:
    def pair(a: LoaderOptions, b: LoaderOptions) -> tuple[Measurement, Measurement]:
        return Measurement(name="a"), Measurement(name="b")

    found = advise(reader, LoaderOptions(), pair, cores=2, cuda=False, budget_s=60)
    assert [step.why for step in found.steps] == ["delivered no samples"]


def test_steps_are_told_as_they_end(reader: Reader) -> None:
    told: list[Step] = []
    found = search(reader, Machine(lambda _: 100.0), on_step=told.append)
    assert tuple(told) == found.steps
    assert json.loads(json.dumps(asdict(found)))["steps"][0]["setting"] == "num_workers=2"


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.timed
def test_a_real_loader(path: Path, reader: Reader) -> None:
    pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    import fastdata_cli.loading
    from fastdata_cli.loading import FastDataset, make_loader

    dataset = FastDataset(path)

    def case(name: str, options: LoaderOptions) -> Case:
        loader = make_loader(dataset, options)

        def run() -> Work:
            return Work(samples=sum(len(images) for images, _ in loader), bytes=0)

        return Case(name=name, run=run)

    def pair(a: LoaderOptions, b: LoaderOptions) -> tuple[Measurement, Measurement]:
        first, second = measure(
            [case("a", a), case("b", b)], repeats=3, min_repeat_s=0.02, budget_s=5
        )
        return first, second

    start = LoaderOptions(batch_size=8)
    found = advise(reader, start, pair, cores=2, cuda=False, budget_s=15)
    (first, *_) = found.steps
    assert first.setting == "num_workers=2"
    # Starting two processes for 41 tiny images never pays.
    assert first.ratio is not None
    assert first.ratio < 1
    assert found.best == start
    names = {name: getattr(fastdata_cli.loading, name) for name in fastdata_cli.loading.__all__}
    pasted = eval(found.line, {"DataLoader": DataLoader, **names, "dataset": dataset})
    assert sum(len(images) for images, _ in pasted) == len(dataset)


def test_errors_that_are_no_measurement_come_through(reader: Reader) -> None:
    def pair(a: LoaderOptions, b: LoaderOptions) -> tuple[Measurement, Measurement]:
        raise FastdataError("the dataset is gone")

    with pytest.raises(FastdataError, match="gone"):
        advise(reader, LoaderOptions(), pair, cores=2, cuda=False, budget_s=60)
