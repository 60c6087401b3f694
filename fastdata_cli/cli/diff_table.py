"""Shows what comparing two datasets found."""

from __future__ import annotations

from fastdata_cli.cli import tables
from fastdata_cli.cli.output import data
from fastdata_cli.operations.diff import DiffReport
from fastdata_cli.operations.words import count_text

_SHOWN = 20


def show_diff(report: DiffReport) -> None:
    """Print the comparison: counts, first differences, and the verdict."""
    console = data()
    console.print(
        tables.facts_table(
            f"{report.first} and {report.second}",
            [
                ("samples", " and ".join(f"{count:,}" for count in report.samples)),
                ("compared", f"{report.compared:,} by their {report.compared_as}"),
                ("order", "the same" if report.same_order else "not the same"),
                ("differences", tables.pairs_text(report.counts)),
                ("largest", report.largest),
            ],
        )
    )
    if report.equal:
        verdict = f"equal: {count_text(report.compared, 'sample')}"
        console.print(tables.cell(verdict, "green"))
        return
    total = sum(report.counts.values())
    shown = report.differences[:_SHOWN]
    rows = [(each.key or "the dataset", each.kind, each.detail) for each in shown]
    console.print(tables.faults_table(f"Differences: {total:,}", "what", rows, total))
    console.print(tables.cell(count_text(total, "difference"), "red"))
