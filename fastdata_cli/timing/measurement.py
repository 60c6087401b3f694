"""What was measured of one case, and how two such measurements compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastdata_cli.timing.doubts import TimingWarning
from fastdata_cli.timing.statistics import RUN_TO_RUN, Comparison, Summary, compare, summarise

_MEGA = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """One repeat of one case."""

    seconds: float
    samples: int
    bytes: int
    position: int
    """When it ran: 0 for the first repeat of all cases, warm-up included."""
    runs: int
    """How often the case was run to fill the repeat."""
    others: float | None = None
    """Share of the processors that others took meanwhile; None where that cannot be seen."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Of the runs, later ones over earlier ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The error that ended a case."""

    kind: str
    """Name of its class."""
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """All that was measured of one case; without repeats if it failed before the first."""

    name: str
    repeats: tuple[Repeat, ...] = ()
    warmups: tuple[Repeat, ...] = ()
    """Not part of any statistic."""
    latency_s: Mapping[str, float] = field(default_factory=dict)
    """Percentiles over the requests of all repeats; empty where none were timed."""
    latencies: int = 0
    """How many requests they stand for."""
    warnings: tuple[TimingWarning, ...] = ()
    failure: Failure | None = None

    @property
    def seconds(self) -> tuple[float, ...]:
        """Raw seconds of each repeat, in the order in which they ran."""
        return tuple(repeat.seconds for repeat in self.repeats)

    @property
    def summary(self) -> Summary | None:
        """Summary of ``seconds_per_sample``; None where none were delivered."""
        found = self.seconds_per_sample
        return summarise(found) if found else None

    @property
    def seconds_per_sample(self) -> tuple[float, ...]:
        """Of each repeat that delivered samples: what comparisons are made of."""
        return per_sample(self.repeats)

    @property
    def samples_per_s(self) -> float | None:
        """Median over the repeats; None without repeats."""
        return self._rate([repeat.samples for repeat in self.repeats])

    @property
    def megabytes_per_s(self) -> float | None:
        """Median over the repeats, in 10⁶ bytes; None without repeats."""
        return self._rate([repeat.bytes / _MEGA for repeat in self.repeats])

    @property
    def others(self) -> float:
        """Share of the processors that others took during the repeats; 0 where it is not known."""
        return others_of(self.repeats)

    def _rate(self, amounts: Sequence[float]) -> float | None:
        pairs = zip(amounts, self.seconds, strict=True)
        rates = [amount / seconds for amount, seconds in pairs if seconds > 0]
        return float(np.median(rates)) if rates else None


def per_sample(repeats: Sequence[Repeat]) -> tuple[float, ...]:
    """Return the seconds for a sample in each repeat that delivered any."""
    return tuple(each.seconds / each.samples for each in repeats if each.samples)


def others_of(repeats: Sequence[Repeat]) -> float:
    """Return the share of the processors that others took, over all repeats; 0 if not known."""
    seen = [(each.others, each.seconds) for each in repeats if each.others is not None]
    seconds = sum(seconds for _, seconds in seen)
    return sum(share * seconds for share, seconds in seen) / seconds if seconds else 0.0


def compare_measurements(
    a: Measurement, b: Measurement, *, same_run: bool = False
) -> Comparison | None:
    """Say how many times as fast ``b`` delivers samples as ``a``; None if one delivered none.

    Args:
        same_run: they were interleaved, so that what drifts or disturbs met both alike. Else the
            bounds allow for the difference between runs, and for what others took of the
            processors in each: on a busy machine only what is large is beyond noise.
    """
    if not a.seconds_per_sample or not b.seconds_per_sample:
        return None
    return compare(
        a.seconds_per_sample,
        b.seconds_per_sample,
        run_to_run=0.0 if same_run else RUN_TO_RUN,
        others=(0.0, 0.0) if same_run else (a.others, b.others),
    )
