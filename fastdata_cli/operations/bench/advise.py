"""``--advise``: tries loader settings in the order practitioners do, and keeps what helps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from fastdata_cli.loading.loader import LoaderOptions
from fastdata_cli.operations.bench.report import Step
from fastdata_cli.timing.measurement import Measurement, compare_measurements
from fastdata_cli.timing.statistics import Comparison, Verdict

MeasurePair = Callable[["Choice", "Choice"], tuple[Measurement, Measurement] | str]
"""Measures two loaders, interleaved; or says why it is not worth it."""

MIN_GAIN = 0.03
"""Less is not worth the memory of a worker, nor another setting in a training script."""

FEW_WORKERS = (2, 4)
_PREFETCH = 4  # torch's default is 2

_NAMES = {"workers": "num_workers"}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A loader and its settings."""

    options: LoaderOptions
    threads: bool = False
    """FastLoader, which has threads and no workers, in place of the DataLoader."""


@dataclass(frozen=True, kw_only=True)
class Advised:
    """The settings that were tried, and the loader that came out best."""

    steps: tuple[Step, ...]
    best: Choice
    ratio: float
    """How many times as fast as the start: the product of the ratios that were kept."""
    complete: bool
    """False where the time was up before everything was tried."""
    seconds: float


def advise(
    start: LoaderOptions,
    measure_pair: MeasurePair,
    *,
    cores: int,
    cuda: bool,
    budget_s: float,
    clock: Callable[[], float] = time.monotonic,
    on_step: Callable[[Step], None] | None = None,
) -> Advised:
    """Return the loader that loads fastest, and how it was found.

    From a DataLoader by ``start`` without workers on, FastLoader and then each setting is measured
    interleaved with the best so far, and kept only if it is at least 3 % faster and that is beyond
    noise.

    Args:
        start: batch size, order, seed and start method; what else it sets is tried anew.
        measure_pair: measures two loaders over the dataset, interleaved, the first being the best
            so far. A loader that fails is a Measurement with a failure.
        cores: that may be used; no more workers are tried.
        cuda: whether there is a GPU to pin memory for.
        budget_s: seconds. A step that would end later, by the longest before it, is not begun;
            the first always is.
        clock: seconds of a clock that never goes back.
        on_step: told of each step when it ends.
    """
    search = _Search(
        best=Choice(
            options=replace(
                start, workers=0, pin_memory=False, prefetch_factor=None, persistent_workers=False
            )
        ),
        measure_pair=measure_pair,
        clock=clock,
        begin=clock(),
        budget_s=budget_s,
    )
    steps = []
    for change in _changes(lambda: search.best, cores=cores, cuda=cuda):
        steps.append(search.step(change))
        if on_step:
            on_step(steps[-1])
    return Advised(
        steps=tuple(steps),
        best=search.best,
        ratio=search.ratio,
        complete=not search.out_of_time,
        seconds=clock() - search.begin,
    )


def _changes(best: Callable[[], Choice], *, cores: int, cuda: bool) -> Iterator[dict[str, Any]]:
    """Yield the settings to try; what makes no sense for the best so far is left out."""
    yield {"threads": True}
    counts = [count for count in FEW_WORKERS if count < cores]
    for count in (*counts, cores):
        yield {"workers": count}
    if cuda:
        yield {"pin_memory": True}
    if best().options.workers:
        yield {"prefetch_factor": _PREFETCH}
        yield {"persistent_workers": True}
    if best().options.order == "random":
        yield {"order": "block"}


@dataclass(kw_only=True)
class _Search:
    """The best loader so far, and the time that is left."""

    best: Choice
    measure_pair: MeasurePair
    clock: Callable[[], float]
    begin: float
    budget_s: float
    ratio: float = 1.0
    longest_s: float = 0.0
    out_of_time: bool = False

    def step(self, change: dict[str, Any]) -> Step:
        """Try one change, and keep it if it helps."""
        changed, setting = _changed(self.best, change)
        before = self.clock()
        if self.longest_s and before + self.longest_s > self.begin + self.budget_s:
            self.out_of_time = True
            return Step(setting=setting, ratio=None, why="not tried: the time was up")
        pair = self.measure_pair(self.best, changed)
        self.longest_s = max(self.longest_s, self.clock() - before)
        if isinstance(pair, str):
            return Step(setting=setting, ratio=None, why=pair)
        old, new = pair
        found = compare_measurements(old, new, same_run=True)
        if found is None:
            return Step(setting=setting, ratio=None, why=_failure(old, new))
        kept = found.verdict is Verdict.FASTER and found.ratio >= 1 + MIN_GAIN
        if kept:
            self.best, self.ratio = changed, self.ratio * found.ratio
        return Step(
            setting=setting,
            ratio=found.ratio,
            low=found.low,
            high=found.high,
            samples_per_s=new.samples_per_s,
            kept=kept,
            why=_why(found, kept),
        )


def _changed(best: Choice, change: dict[str, Any]) -> tuple[Choice, str]:
    """Return the best so far with a change, and the change in words; workers want a DataLoader."""
    if "threads" in change:
        return replace(best, threads=True), "FastLoader"
    setting = ", ".join(f"{_NAMES.get(name, name)}={new!r}" for name, new in change.items())
    threads = best.threads and "workers" not in change
    return Choice(options=replace(best.options, **change), threads=threads), setting


def _why(found: Comparison, kept: bool) -> str:
    if kept:
        return "faster"
    if found.verdict is Verdict.FASTER:
        return f"gains less than {MIN_GAIN:.0%}"
    return "slower" if found.verdict is Verdict.SLOWER else "within noise"


def _failure(*measured: Measurement) -> str:
    failures = [each.failure.message for each in measured if each.failure]
    return f"failed: {failures[0]}" if failures else "delivered no samples"
