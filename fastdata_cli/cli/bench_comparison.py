"""How a run of bench compares with a saved record, as a table and in words."""

from __future__ import annotations

from collections.abc import Iterator

from fastdata_cli.cli.bench_words import number_text
from fastdata_cli.cli.section import Column, Section, make_section, right
from fastdata_cli.operations.bench.compare import ComparisonReport


def comparison_section(found: ComparisonReport) -> Section:
    """Return how each case compares with the record of ``--compare``."""
    columns = (
        Column(head="case", names=True),
        right("before", 2),
        right("now"),
        right("times"),
        right("bounds", 1),
        Column(head="outcome"),
    )
    rows = (
        (
            "",
            (
                change.name,
                number_text(change.before_samples_per_s),
                number_text(change.samples_per_s),
                "" if change.ratio is None else f"{change.ratio:.2f}×",
                "" if change.low is None else f"{change.low:.2f} to {change.high:.2f}",
                "TOO SLOW" if change.too_slow and not change.text else change.outcome.value,
            ),
        )
        for change in found.cases
    )
    remark = "samples/s; beyond noise only where both bounds lie on one side of 1"
    return make_section("comparison", "Against the record", columns, rows, remark=remark)


def slower_lines(found: ComparisonReport) -> Iterator[str]:
    """Yield a line for each case that got slower than allowed."""
    for change in found.slower:
        how = change.text or f"{change.ratio:.2f} times as fast as the record"
        yield f"slower: {change.name}: {how}"
