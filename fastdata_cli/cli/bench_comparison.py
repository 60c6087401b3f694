"""How a run of bench compares with a saved record, as a table and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fastdata_cli.cli.bench_words import labels, number_text
from fastdata_cli.cli.section import Column, Section, make_section, right
from fastdata_cli.keys import printable
from fastdata_cli.operations.bench.compare import CaseChange, ComparisonReport, Outcome
from fastdata_cli.operations.bench.report import split_case_name

TOO_SLOW = "TOO SLOW"
DIFFERS = "What else differs, from the record to this run, and may be the cause:"
_VERDICTS = {
    Outcome.SAME: "within noise",
    Outcome.NEW: "not in the record",
    Outcome.GONE: "not in this run",
    Outcome.UNMEASURED: "had failed",
}
_GRAVEST_FIRST = (
    Outcome.FAILED,
    Outcome.SLOWER,
    Outcome.FASTER,
    Outcome.SAME,
    Outcome.UNMEASURED,
    Outcome.NEW,
    Outcome.GONE,
)
_MANIFOLD = 10.0
"""From here on a factor is easier to read than a percentage."""
_SMALL = 0.095


def comparison_section(found: ComparisonReport) -> Section:
    """Return how each case compares with the record of ``--compare``."""
    columns = (
        Column(head="case"),
        right("before"),
        right("now"),
        right("change"),
        Column(head="bounds", right=True, rank=1, means="of the change, with 95% confidence"),
        Column(head="verdict"),
    )
    parts = [split_case_name(change.name) for change in found.cases]
    named = labels([*dict.fromkeys(dataset for dataset, _ in parts if dataset)])
    rows = (
        (
            named.get(dataset, ""),
            (
                words,
                number_text(change.before_samples_per_s),
                number_text(change.samples_per_s),
                change_text(_ratio(change)),
                _bounds(change),
                _verdict(change),
            ),
        )
        for change, (dataset, words) in zip(found.cases, parts, strict=True)
    )
    return make_section(
        "comparison", "Against the record", columns, rows, remark=_summary(found, named)
    )


def _ratio(change: CaseChange) -> float | None:
    """Return the ratio of the rates that are shown: medians, as the bounds are not made from."""
    before, now = change.before_samples_per_s, change.samples_per_s
    return now / before if before and now is not None else change.ratio


def change_text(ratio: float | None) -> str:
    """Return ``+1.2%`` or ``-30%`` for how many times as fast it became; ``12.0×`` for much."""
    if ratio is None:
        return ""
    if ratio >= _MANIFOLD:
        return f"{number_text(ratio)}×"
    change = ratio - 1
    return f"{change:+.1%}" if abs(change) < _SMALL else f"{change:+.0%}"


def _bounds(change: CaseChange) -> str:
    low, high = change_text(change.low), change_text(change.high)
    return low and f"{low} to {high}"


def _verdict(change: CaseChange) -> str:
    if change.too_slow and change.outcome is not Outcome.FAILED:
        return TOO_SLOW
    return _VERDICTS.get(change.outcome, change.outcome.value)


def _summary(found: ComparisonReport, named: dict[str, str]) -> str:
    """Return how many cases became what, the name of an only dataset before it."""
    counts = Counter(map(_verdict, found.cases))
    order = [TOO_SLOW, *(_VERDICTS.get(each, each.value) for each in _GRAVEST_FIRST)]
    told = [f"{counts[each]} {each}" for each in order if counts[each]]
    if counts[TOO_SLOW]:
        told[0] += f" (over {found.share * 100:.3g}% more time)"
    words = f"samples/s · {', '.join(told)}"
    return f"{next(iter(named.values()))}: {words}" if len(named) == 1 else words


def slower_lines(found: ComparisonReport) -> Iterator[str]:
    """Yield a line for each case that got slower than allowed."""
    for change in found.slower:
        rates = (number_text(change.before_samples_per_s), number_text(change.samples_per_s))
        how = change.text or f"{' → '.join(rates)} samples/s, {change_text(_ratio(change))}"
        yield f"slower: {printable(change.name)}: {how}"
