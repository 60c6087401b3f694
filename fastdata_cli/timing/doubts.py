"""Why a measurement should not be taken at face value: typed warnings that say what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fastdata_cli.timing.statistics import MIN_REPEATS, OUTLIER_SCORE, outliers, summarise

MIN_REPEAT_S = 0.1
"""A repeat shorter than this is mostly timer, scheduler and interpreter."""

MIN_REQUESTS = 16
"""Below this a rate is coarse: each batch, whole or not, is 6 % of it or more."""

_WIDE_SPREAD = 0.05
_BUSY = 0.1


class WarningKind(StrEnum):
    """Why a measurement should not be taken at face value."""

    OUTLIERS = "outliers"
    TOO_SHORT = "too-short"
    SLOW_FIRST = "slow-first"
    WIDE_SPREAD = "wide-spread"
    FEW_REPEATS = "few-repeats"
    FEW_REQUESTS = "few-requests"
    BUDGET = "budget"
    BUSY_MACHINE = "busy-machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingWarning:
    """One reason for doubt; ``text`` says what was seen and what to do."""

    kind: WarningKind
    value: float
    """The number behind it: a count of repeats, seconds, or a share."""
    text: str


def doubts(
    seconds: Sequence[float],
    *,
    per_sample: Sequence[float] = (),
    requests: int = 0,
    others: float = 0.0,
    min_repeat_s: float = MIN_REPEAT_S,
) -> list[TimingWarning]:
    """Return the reasons not to trust these repeats; none for a steady series.

    Args:
        seconds: what each repeat took, in the order in which they ran.
        per_sample: the same for one sample. What repeats differ by shows in these: many run for
            a given time, and deliver more or less in it.
        requests: how many were timed in all repeats, each a batch in a loader; 0 where none were.
        others: share of the processors that other processes took meanwhile.
        min_repeat_s: what a repeat should at least take.
    """
    if not seconds:
        return []
    checks = [_too_short(seconds, min_repeat_s), _few_repeats(seconds), _few_requests(requests)]
    series = per_sample or seconds
    if len(series) >= MIN_REPEATS:
        outlying = [bool(each) for each in outliers(series)]
        first = _slow_first(series) if outlying[0] else None
        far = sum(outlying) - (first is not None)
        checks += [first, _outliers(far, len(series)), _wide_spread(series)]
    checks.append(_busy_machine(others))
    return [warning for warning in checks if warning]


def _too_short(seconds: Sequence[float], least: float) -> TimingWarning | None:
    median = float(np.median(seconds))
    if median >= least:
        return None
    text = (
        f"a repeat took {median * 1000:.3g} ms, and below {least * 1000:g} ms the timer and the "
        "interpreter blur it: measure more samples a repeat"
    )
    return TimingWarning(kind=WarningKind.TOO_SHORT, value=median, text=text)


def _few_repeats(seconds: Sequence[float]) -> TimingWarning | None:
    count = len(seconds)
    if count >= MIN_REPEATS:
        return None
    times = "once" if count == 1 else "twice"
    text = f"measured {times}, so the noise is unknown: allow more repeats, or more time"
    return TimingWarning(kind=WarningKind.FEW_REPEATS, value=count, text=text)


def _few_requests(count: int) -> TimingWarning | None:
    if not 0 < count < MIN_REQUESTS:
        return None
    text = (
        f"only {count} {'batch was' if count == 1 else 'batches were'} timed, and one more or less "
        f"changes the rate by {1 / count:.0%}: allow more time, or make batches smaller"
    )
    return TimingWarning(kind=WarningKind.FEW_REQUESTS, value=count, text=text)


def _slow_first(seconds: Sequence[float]) -> TimingWarning | None:
    others = float(np.median(seconds[1:]))
    if seconds[0] <= others or others == 0:
        return None
    times = seconds[0] / others
    text = (
        f"the first repeat took {times:.2g} times as long as the others, as on a cold cache or "
        "while something starts up: warm up first, or make every repeat start cold"
    )
    return TimingWarning(kind=WarningKind.SLOW_FIRST, value=times, text=text)


def _outliers(count: int, total: int) -> TimingWarning | None:
    if count == 0:
        return None
    lie = "lies" if count == 1 else "lie"
    text = (
        f"{count} of {total} repeats {lie} far from the rest (modified z-score above "
        f"{OUTLIER_SCORE}): something else was running; close it, or allow more repeats"
    )
    return TimingWarning(kind=WarningKind.OUTLIERS, value=count, text=text)


def _wide_spread(seconds: Sequence[float]) -> TimingWarning | None:
    share = summarise(seconds).relative_spread
    if share <= _WIDE_SPREAD:
        return None
    text = (
        f"repeats differ by ±{share:.0%} around their median, so smaller differences mean "
        "nothing: allow more repeats, or measure on an idle machine"
    )
    return TimingWarning(kind=WarningKind.WIDE_SPREAD, value=share, text=text)


def _busy_machine(others: float) -> TimingWarning | None:
    if others <= _BUSY:
        return None
    text = (
        f"others took {others:.0%} of the processors meanwhile, so it may be faster than measured: "
        "measure on an idle machine"
    )
    return TimingWarning(kind=WarningKind.BUSY_MACHINE, value=others, text=text)
