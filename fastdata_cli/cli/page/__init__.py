"""A bench report as one HTML page that needs nothing else: no network, no script."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from fastdata_cli.cli import bench_words as words
from fastdata_cli.cli.bench_sections import latency_section, sections
from fastdata_cli.cli.page.charts import Charts
from fastdata_cli.keys import printable
from fastdata_cli.operations.bench.report import BenchReport

if TYPE_CHECKING:
    from jinja2 import Template

# What HTML could take for the end of a script, and what JavaScript once took for the end of a line.
_ESCAPES = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}


def render_page(report: BenchReport, record: str, *, started: str = "") -> str:
    """Return the page.

    Args:
        report: what to show.
        record: the same as JSON text, embedded for programs.
        started: when it was measured, to be shown.
    """
    tables = {section.name: section for section in (*sections(report), latency_section(report))}
    named = words.labels([each.path for each in report.datasets])
    return _template().render(
        headline=words.headline(report),
        started=started,
        seconds=words.number_text(report.seconds),
        verdicts=[
            {
                "dataset": named.get(each.dataset, printable(each.dataset)),
                "limit": words.limit_words(each.bottleneck),
                "sentence": printable(each.sentence),
                "action": printable(each.action),
            }
            for each in report.verdicts
        ],
        best_line=printable(report.best_line),
        charts=Charts(report),
        tables=tables,
        notes=words.notes(report),
        environment=words.environment_lines(report.environment),
        record=Markup(record.translate(_ESCAPES)),
    )


@cache
def _template() -> Template:
    # Imported here: every other verb does without it.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("fastdata_cli.cli.page", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["zip"] = zip
    return environment.get_template("page.html")
