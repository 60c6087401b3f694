"""Runs cases in turn, round after round, and keeps every raw time.

The cases of a round run one after another (A B C, then B C A, then C A B): what drifts meanwhile,
a clock frequency or a neighbour's load, then meets all of them alike. A *repeat* is one case's
share of a round: as many runs of it as fill ``min_repeat_s``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import FastdataError, UsageError
from fastdata_cli.timing.doubts import MIN_REPEAT_S, TimingWarning, WarningKind, doubts
from fastdata_cli.timing.environment import usable_cores
from fastdata_cli.timing.measurement import Failure, Measurement, Repeat, others_of, per_sample
from fastdata_cli.timing.neighbours import Load, load_now, share_of_others
from fastdata_cli.timing.statistics import MIN_REPEATS, percentiles

_MOST_RUNS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one run of a case has done."""

    samples: int
    bytes: int
    """Of image data delivered; what was read from a device is another matter."""
    latencies_s: NDArray[np.float64] | None = field(default=None, compare=False)
    """Seconds of each single request, float64[requests]; None where none were timed."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else it knows, JSON-able."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Something to measure."""

    name: str
    """Unique among the cases of one run."""
    run: Callable[[], Work]
    prepare: Callable[[], None] | None = None
    """Called before every run, untimed: empties caches, reopens files."""
    parts: int = 1
    """Repeats that go on one after the other from one ``prepare``, where beginning is dear."""


def measure(
    cases: Sequence[Case],
    *,
    repeats: int = 5,
    warmup: int = 1,
    budget_s: float = 60.0,
    min_repeat_s: float = MIN_REPEAT_S,
    clock: Callable[[], float] = time.perf_counter,
    load: Callable[[], Load | None] = load_now,
    on_result: Callable[[Measurement], None] | None = None,
) -> tuple[Measurement, ...]:
    """Measure the cases against each other; one result for each, in their order.

    A case that raises a FastdataError is measured no further and keeps what it has, with the
    failure; the others go on. Any other exception is a programming error and comes through.

    Args:
        cases: what to measure.
        repeats: rounds to measure.
        warmup: rounds before them, recorded but not counted.
        budget_s: seconds for everything, preparation included. No round is begun that would, by
            the length of the one before, end later; each case is measured once all the same.
        min_repeat_s: a case that is done sooner is run again within the repeat.
        clock: seconds of a clock that never goes back.
        load: what the processors were taken for so far; by it others' work is told apart.
        on_result: told of the state of a case after each of its repeats, so that an interruption
            loses nothing.

    Raises:
        UsageError: there are no repeats to do, or two cases of one name.
    """
    if repeats < 1 or warmup < 0:
        raise UsageError(f"{repeats} repeats after {warmup} of warm-up cannot be measured")
    if len({case.name for case in cases}) < len(cases):
        raise UsageError("two of the cases to measure have the same name")
    run = _Run(
        states=[_State(case) for case in cases],
        clock=clock,
        load=load,
        deadline=clock() + budget_s,
        min_repeat_s=min_repeat_s,
        on_result=on_result,
    )
    warmups_done = run.rounds(warmup, warm=True)
    repeats_done = run.rounds(repeats, warm=False)
    if warmups_done < warmup or repeats_done < repeats:
        run.note_budget(repeats_done, repeats, budget_s)
    return tuple(state.measurement(min_repeat_s) for state in run.states)


@dataclass(slots=True)
class _State:
    """What is known of a case so far."""

    case: Case
    warmups: list[Repeat] = field(default_factory=list)
    repeats: list[Repeat] = field(default_factory=list)
    latencies: list[NDArray[np.float64]] = field(default_factory=list)
    failure: Failure | None = None
    budget: TimingWarning | None = None

    def measurement(self, min_repeat_s: float) -> Measurement:
        requests = np.concatenate(self.latencies) if self.latencies else np.empty(0)
        found = doubts(
            [repeat.seconds for repeat in self.repeats],
            per_sample=per_sample(self.repeats),
            requests=len(requests),
            others=others_of(self.repeats),
            min_repeat_s=min_repeat_s,
        )
        return Measurement(
            name=self.case.name,
            repeats=tuple(self.repeats),
            warmups=tuple(self.warmups),
            latency_s=percentiles(requests) if len(requests) else {},
            latencies=len(requests),
            warnings=tuple(self._with_budget(found)),
            failure=self.failure,
        )

    def _with_budget(self, found: Sequence[TimingWarning]) -> list[TimingWarning]:
        """Add that the time was up; that there are few repeats, it says as well."""
        if self.budget is None:
            return list(found)
        return [*(each for each in found if each.kind != WarningKind.FEW_REPEATS), self.budget]


@dataclass(slots=True)
class _Run:
    """One call of ``measure``: the states of its cases, and the time that is left."""

    states: list[_State]
    clock: Callable[[], float]
    load: Callable[[], Load | None]
    deadline: float
    min_repeat_s: float
    on_result: Callable[[Measurement], None] | None
    begun: int = 0
    """Rounds, by which the order is rotated."""
    position: int = 0
    round_s: float = 0.0
    """How long the round before took."""

    def rounds(self, count: int, *, warm: bool) -> int:
        """Do up to ``count`` rounds and return how many; at least one that is not warm-up."""
        for done in range(count):
            must = done == 0 and not warm
            begin = self.clock()
            if begin + self.round_s > self.deadline and not must:
                return done
            self._round(warm=warm)
            self.round_s = self.clock() - begin
        return count

    def note_budget(self, done: int, wanted: int, budget_s: float) -> None:
        """Warn that the time was up before all rounds were done."""
        lacking = "so the noise is unknown" if done < MIN_REPEATS else "so the noise is less known"
        if done == wanted:
            lacking = "with less warm-up than asked for"
        text = f"{done} of {wanted} repeats fit into {budget_s:.2g} s, {lacking}: allow more time"
        for state in self.states:
            if state.failure is None:
                state.budget = TimingWarning(kind=WarningKind.BUDGET, value=done, text=text)

    def _round(self, *, warm: bool) -> None:
        shift = self.begun % max(1, len(self.states))
        self.begun += 1
        for state in (*self.states[shift:], *self.states[:shift]):
            if state.failure is not None:
                continue
            try:
                for part in range(state.case.parts):
                    repeat, latencies = self._repeat(state.case, prepared=part > 0)
                    (state.warmups if warm else state.repeats).append(repeat)
                    if not warm:
                        state.latencies.extend(latencies)
            except FastdataError as problem:
                state.failure = Failure(
                    kind=type(problem).__name__, message=problem.message, hint=problem.hint
                )
            if self.on_result:
                self.on_result(state.measurement(self.min_repeat_s))

    def _repeat(self, case: Case, *, prepared: bool) -> tuple[Repeat, list[NDArray[np.float64]]]:
        total = Repeat(seconds=0.0, samples=0, bytes=0, position=self.position, runs=0)
        latencies = []
        self.position += 1
        before = self.load()
        while True:
            work, seconds = self._once(case, prepared=prepared and not total.runs)
            total = replace(
                total,
                seconds=total.seconds + seconds,
                samples=total.samples + work.samples,
                bytes=total.bytes + work.bytes,
                runs=total.runs + 1,
                facts={**total.facts, **work.facts},
            )
            if work.latencies_s is not None:
                latencies.append(work.latencies_s)
            if self._filled(total, work):
                return replace(total, others=self._others(before)), latencies

    def _once(self, case: Case, *, prepared: bool) -> tuple[Work, float]:
        if case.prepare and not prepared:
            case.prepare()
        begin = self.clock()
        work = case.run()
        return work, self.clock() - begin

    def _filled(self, total: Repeat, work: Work) -> bool:
        # An empty dataset would never fill it, and a spent budget must not be.
        ended = work.samples == 0 or total.runs >= _MOST_RUNS or self.clock() >= self.deadline
        return ended or total.seconds >= self.min_repeat_s

    def _others(self, before: Load | None) -> float | None:
        after = self.load()
        if before is None or after is None:
            return None
        allowed = len(os.sched_getaffinity(0))
        return share_of_others(before, after, allowed=allowed, usable=usable_cores())
