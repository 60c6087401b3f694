"""The loader settings that ``bench --advise`` tried, as a table."""

from __future__ import annotations

from collections.abc import Mapping

from fastdata_cli.cli.bench_comparison import change_text
from fastdata_cli.cli.bench_words import number_text
from fastdata_cli.cli.section import Column, Section, make_section, right
from fastdata_cli.operations.bench.report import BenchReport


def steps_section(report: BenchReport, named: Mapping[str, str]) -> Section:
    """Return the settings in the order in which they were tried.

    Args:
        report: of the run.
        named: short name of each dataset.
    """
    columns = (
        Column(head="setting"),
        right("samples/s"),
        right("change"),
        Column(head="verdict", folds=True),
    )
    rows = (
        (
            named.get(step.dataset, step.dataset),
            (
                step.setting,
                number_text(step.samples_per_s),
                change_text(step.ratio),
                "kept" if step.kept else step.why,
            ),
        )
        for step in report.steps
    )
    remark = "from DataLoader without workers on, each against the best before it"
    return make_section("steps", "What --advise tried", columns, rows, remark=remark)
