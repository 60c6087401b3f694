"""A bench report as one HTML page that needs nothing else: no network, no script."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from markupsafe import Markup

from fastdata_cli.cli import bench_words as words
from fastdata_cli.cli.bench_comparison import DIFFERS, comparison_section
from fastdata_cli.cli.bench_export import to_json
from fastdata_cli.cli.bench_sections import latency_section, sections
from fastdata_cli.cli.page.charts import Charts
from fastdata_cli.cli.page.template import load_template
from fastdata_cli.keys import printable
from fastdata_cli.operations.bench.compare import ComparisonReport
from fastdata_cli.operations.bench.report import BenchReport

# What HTML could take for the end of a script, and what JavaScript once took for the end of a line.
_ESCAPES = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}


def render_page(report: BenchReport, changes: ComparisonReport | None = None) -> str:
    """Return the page, with the record embedded for programs.

    Args:
        report: what to show.
        changes: how it compares with an earlier record.
    """
    made = [*sections(report), latency_section(report)]
    if changes is not None:
        made.append(comparison_section(changes))
    tables = {section.name: section for section in made if section.groups}
    return load_template("page.html").render(
        headline=words.headline(report),
        day=datetime.now(UTC).date().isoformat(),
        seconds=words.number_text(report.seconds),
        verdicts=[
            {
                "dataset": each.dataset,
                "limit": words.limit_words(each.bottleneck),
                "sentence": printable(each.sentence),
                "action": words.split_action(each.action),
            }
            for each in words.verdicts(report)
        ],
        to_paste=words.pasted(report),
        charts=Charts(report),
        tables=tables,
        notes=words.notes(report),
        environment=words.environment_lines(report.environment),
        changed=changes.warnings if changes else (),
        differs=DIFFERS,
        record=Markup(
            json.dumps(json.loads(to_json(report)), separators=(",", ":")).translate(_ESCAPES)
        ),
    )
