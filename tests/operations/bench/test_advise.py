"""The search for loader settings, on made-up speeds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pytest

from fastdata_cli.errors import FastdataError
from fastdata_cli.loading.loader import LoaderOptions
from fastdata_cli.operations.bench.advise import Advised, Choice, advise
from fastdata_cli.operations.bench.report import Step
from fastdata_cli.timing.measurement import Failure, Measurement, Repeat

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
    fast: float = 50.0
    """Of FastLoader."""
    now: float = 0.0
    pairs: list[tuple[LoaderOptions, LoaderOptions]] = field(default_factory=list)
    """Of DataLoaders."""

    def measure_pair(self, a: Choice, b: Choice) -> tuple[Measurement, Measurement]:
        if not (a.threads or b.threads):
            self.pairs.append((a.options, b.options))
        self.now += self.pair_s
        seed = self.seed + round(2 * self.now / self.pair_s)
        first, second = (self.fast if c.threads else self.speed(c.options) for c in (a, b))
        return (
            measured(first, noise=self.noise, seed=seed),
            measured(second, noise=self.noise, seed=seed + 1),
        )

    def clock(self) -> float:
        return self.now


def search(machine: Machine, start: LoaderOptions | None = None, **changes: Any) -> Advised:
    facts = {"cores": 8, "cuda": False, "budget_s": 60.0, "clock": machine.clock, **changes}
    return advise(start or LoaderOptions(), machine.measure_pair, **facts)


def tried(found: Advised) -> list[str]:
    return [step.setting for step in found.steps]


def kept(found: Advised) -> list[str]:
    return [step.setting for step in found.steps if step.kept]


def test_settings_are_tried_in_the_order_of_practitioners() -> None:
    machine = Machine(lambda options: 100.0 * (1 + options.workers))
    found = search(machine, LoaderOptions(order="random"), cuda=True)
    assert tried(found) == [
        "FastLoader",
        "num_workers=2",
        "num_workers=4",
        "num_workers=8",
        "pin_memory=True",
        "prefetch_factor=4",
        "persistent_workers=True",
        "order='block'",
    ]
    assert kept(found) == ["num_workers=2", "num_workers=4", "num_workers=8"]
    assert found.best == Choice(options=LoaderOptions(order="random", workers=8))
    assert found.ratio == pytest.approx(9)
    assert found.complete


def test_each_is_measured_against_the_best_so_far() -> None:
    rates = {0: 100.0, 2: 180.0, 4: 120.0, 8: 90.0}
    machine = Machine(
        lambda options: rates[options.workers] * (1.2 if options.prefetch_factor else 1)
    )
    found = search(machine)
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
        "slower",
        "faster",
        "slower",
        "slower",
        "faster",
        "within noise",
    ]


def test_two_workers_that_do_not_help_do_not_end_the_search() -> None:
    rates = {0: 100.0, 2: 90.0, 4: 150.0}
    found = search(Machine(lambda options: rates[options.workers]), cores=4)
    assert found.best.options.workers == 4


@pytest.mark.parametrize(("cores", "counts"), [(1, [1]), (2, [2]), (3, [2, 3]), (4, [2, 4])])
def test_no_more_workers_than_cores(cores: int, counts: list[int]) -> None:
    found = search(Machine(lambda _: 100.0), cores=cores)
    assert tried(found) == ["FastLoader", *(f"num_workers={count}" for count in counts)]


def test_without_workers_nothing_is_prefetched() -> None:
    found = search(Machine(lambda options: 100.0 - options.workers), cuda=True)
    assert tried(found)[-1] == "pin_memory=True"
    assert found.best == Choice(options=LoaderOptions())
    assert found.ratio == 1


def test_noise_is_seldom_taken_for_a_gain() -> None:
    steps = [
        step
        for first in range(40)
        for step in search(Machine(lambda _: 100.0, noise=0.3, seed=first * 100)).steps
    ]
    assert sum(step.kept for step in steps) <= 0.05 * len(steps)


def test_a_gain_within_three_percent_is_not_worth_it() -> None:
    found = search(Machine(lambda options: 100.0 + 2 * (options.workers == 2)), cores=2)
    assert [(step.kept, step.why) for step in found.steps] == [
        (False, "slower"),
        (False, "gains less than 3%"),
    ]
    better = search(Machine(lambda options: 100.0 + 4 * (options.workers == 2)), cores=2)
    assert kept(better) == ["num_workers=2"]


def test_block_shuffle_replaces_random_and_never_the_stored_order() -> None:
    machine = Machine(lambda options: 900.0 if options.order == "block" else 100.0)
    found = search(machine, LoaderOptions(order="random"))
    assert found.best.options.order == "block"
    stored = search(machine, LoaderOptions(order="sequential"))
    assert stored.best.options.order == "sequential"


def test_the_search_begins_without_the_settings_it_tries() -> None:
    start = LoaderOptions(
        batch_size=9, seed=3, workers=8, prefetch_factor=9, persistent_workers=True
    )
    machine = Machine(lambda options: 100.0 - options.workers)
    assert search(machine, start).best.options == LoaderOptions(batch_size=9, seed=3)


def test_the_time_is_kept() -> None:
    machine = Machine(lambda options: 100.0 * (1 + options.workers), pair_s=4.0)
    found = search(machine, budget_s=14.0)
    assert machine.now <= 14
    assert kept(found) == ["num_workers=2", "num_workers=4"]
    assert {step.why for step in found.steps[3:]} == {"not tried: the time was up"}
    assert not found.complete


def test_the_first_step_is_done_whatever_the_time() -> None:
    found = search(Machine(lambda _: 100.0, fast=200.0), budget_s=0.0)
    assert kept(found) == ["FastLoader"]


def test_a_loader_that_fails_is_named_and_not_kept() -> None:
    def pair(a: Choice, b: Choice) -> tuple[Measurement, Measurement]:
        if b.options.workers > 2:
            problem = Failure(kind="StorageError", message="no room in /dev/shm", hint="")
            return measured(100), Measurement(name="b", failure=problem)
        return measured(100), measured(100 + 100 * b.options.workers)

    found = advise(LoaderOptions(), pair, cores=4, cuda=False, budget_s=60)
    assert found.best.options.workers == 2
    assert found.steps[2] == Step(
        setting="num_workers=4", ratio=None, why="failed: no room in /dev/shm"
    )
    assert found.complete


def test_what_is_not_worth_it_is_said() -> None:
    def pair(a: Choice, b: Choice) -> tuple[Measurement, Measurement] | str:
        if b.options.persistent_workers:
            return "not tried: starting workers is little beside an epoch of 90 s"
        return measured(100), measured(100 + 100 * b.options.workers)

    found = advise(LoaderOptions(), pair, cores=2, cuda=False, budget_s=60)
    last = found.steps[-1]
    assert (last.setting, last.kept, last.ratio) == ("persistent_workers=True", False, None)
    assert last.why.startswith("not tried: starting workers")
    assert found.complete, "it was decided, not cut short"


def test_workers_are_kept_where_that_helps() -> None:
    speed = {False: 100.0, True: 160.0}
    machine = Machine(lambda options: 90 + options.workers * speed[options.persistent_workers])
    assert kept(search(machine, cores=2)) == ["num_workers=2", "persistent_workers=True"]


def test_nothing_delivered() -> None:
    def pair(a: Choice, b: Choice) -> tuple[Measurement, Measurement]:
        return Measurement(name="a"), Measurement(name="b")

    found = advise(LoaderOptions(), pair, cores=2, cuda=False, budget_s=60)
    assert [step.why for step in found.steps] == ["delivered no samples"] * 2


def test_steps_are_told_as_they_end() -> None:
    told: list[Step] = []
    found = search(Machine(lambda _: 100.0), on_step=told.append)
    assert tuple(told) == found.steps
    assert json.loads(json.dumps(asdict(found)))["steps"][1]["setting"] == "num_workers=2"


def test_what_beats_fastloader_is_a_dataloader_again() -> None:
    machine = Machine(lambda options: 100.0 + 150 * options.workers, fast=300.0)
    found = search(machine, cores=4)
    assert kept(found) == ["FastLoader", "num_workers=2", "num_workers=4"]
    assert found.best == Choice(options=LoaderOptions(workers=4))


def test_fastloader_takes_on_what_is_no_matter_of_workers() -> None:
    machine = Machine(lambda options: 100.0 + options.workers, fast=300.0)
    found = search(machine, LoaderOptions(order="random"), cores=2, cuda=True)
    assert tried(found) == ["FastLoader", "num_workers=2", "pin_memory=True", "order='block'"]
    assert found.best == Choice(options=LoaderOptions(order="random"), threads=True)
    assert found.ratio == pytest.approx(3)


def test_errors_that_are_no_measurement_come_through() -> None:
    def pair(a: Choice, b: Choice) -> tuple[Measurement, Measurement]:
        raise FastdataError("the dataset is gone")

    with pytest.raises(FastdataError, match="gone"):
        advise(LoaderOptions(), pair, cores=2, cuda=False, budget_s=60)
