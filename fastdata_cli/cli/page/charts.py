"""The charts of the page, each from rows of the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fastdata_cli.cli.bench_sections import LATENCIES
from fastdata_cli.cli.bench_words import labels, number_text, short_names
from fastdata_cli.cli.page import svg
from fastdata_cli.cli.page.scale import decades, ticks
from fastdata_cli.keys import printable
from fastdata_cli.operations.bench.best import best_loader
from fastdata_cli.operations.bench.report import STAGES, BenchReport, ReadRow, StageRow

_ROW = 46
_PLOT = 190
_LEFT, _RIGHT = 11.0, 95.0
_TOP = 18


@dataclass(frozen=True)
class Chart:
    """One drawing with its heading."""

    title: str
    drawing: Markup


@dataclass(frozen=True)
class LegendEntry:
    """A sign and what it stands for."""

    sign: Markup
    words: str


class Charts:
    """Draws the charts of one report; a dataset has the same colour in all of them.

    Args:
        report: what to draw.
    """

    def __init__(self, report: BenchReport) -> None:
        self._report = report
        self._labels = labels([each.path for each in report.datasets])
        self._shorts = short_names(self._labels.values())
        self._numbers = {path: at for at, path in enumerate(self._labels)}

    def datasets_legend(self) -> list[LegendEntry]:
        """Return which mark stands for which dataset; nothing to tell apart gives nothing."""
        if len(self._labels) < 2:
            return []
        return [
            LegendEntry(svg.key(number), self._labels[path])
            for path, number in self._numbers.items()
        ]

    def loaders(self) -> list[Chart]:
        """Return bars of the best loader over each dataset, or of all over the only one."""
        report, several = self._report, len(self._labels) > 1
        best = [best_loader(report, path) for path in self._labels]
        rows = best if several else [*report.loaders, *report.fast_loaders]
        rates = {
            f"{self._short(row.dataset)} · {row.words}" if several else row.words: (
                row.samples_per_s,
                row.dataset,
            )
            for row in rows
            if row is not None and row.samples_per_s
        }
        title = "Each dataset by its best loader" if several else "Each loader"
        return [self._bars("loaders", title, rates)] if rates else []

    def reads(self) -> list[Chart]:
        """Return bars of plain reads: the datasets for each kind, or the kinds of the only one."""
        kinds: dict[str, dict[str, tuple[float, str]]] = {}
        several = len(self._labels) > 1
        for words, rows in self._reads().items():
            for row in rows:
                title, name = (words, self._short(row.dataset)) if several else ("All kinds", words)
                if row.samples_per_s:
                    kinds.setdefault(title, {})[name] = (row.samples_per_s, row.dataset)
        return [
            self._bars(f"reads-{at}", title, rates)
            for at, (title, rates) in enumerate(kinds.items())
        ]

    def stages(self) -> list[Chart]:
        """Return one bar for each dataset, in pieces as long as its stages take."""
        rows: dict[str, list[StageRow]] = {}
        for row in self._report.stages:
            rows.setdefault(row.dataset, []).append(row)
        if not rows:
            return []
        sums = {path: sum(row.seconds_per_sample for row in each) for path, each in rows.items()}
        longest = max(sums.values()) or 1.0
        parts, words = [], []
        for at, (path, each) in enumerate(rows.items()):
            parts += _row_text(at, self._short(path), f"{number_text(sums[path] * 1000)} ms")
            x = 0.0
            for row in each:
                width = row.seconds_per_sample / longest * 100
                parts.append(
                    svg.bar(x, at * _ROW + 20, width, 18, f"fill {stage_style(row.stage)}")
                )
                if width > 14:
                    label = f"{row.share:.0%}"
                    parts.append(
                        svg.text(x + width / 2, at * _ROW + 33, label, anchor="middle", style="on")
                    )
                x += width
            shares = ", ".join(f"{row.stage} {row.share:.0%}" for row in each)
            words.append(f"{self._name(path)}: {number_text(sums[path] * 1000)} ms, {shares}.")
        title = "Milliseconds for a sample, by stage"
        return [Chart(title, svg.chart("stages", title, " ".join(words), len(rows) * _ROW, parts))]

    def stages_legend(self) -> list[LegendEntry]:
        """Return which colour stands for which stage."""
        names = sorted({row.stage for row in self._report.stages}, key=_stage_order)
        return [
            LegendEntry(svg.swatch(f"fill {stage_style(name)}"), printable(name)) for name in names
        ]

    def latency(self) -> list[Chart]:
        """Return curves over the percentiles of single requests, for each kind of read.

        What asks for the same amount has the same scale, so that its charts can be compared.
        """
        made: list[Chart] = []
        for by in dict.fromkeys(row.by for row in self._report.reads):
            values = [
                row.latency_ms[name]
                for row in self._report.reads
                for name in LATENCIES
                if row.by == by and row.latency_ms.get(name)
            ]
            for words, rows in self._reads().items():
                curves = {row.dataset: _curve(row) for row in rows if row.by == by and _curve(row)}
                if curves:
                    name = f"latency-{len(made)}"
                    made.append(
                        self._curves(name, words, curves, decades(min(values), max(values)))
                    )
        return made

    def workers(self) -> list[Chart]:
        """Return samples per second over the number of workers; nothing for one number only."""
        curves: dict[str, dict[str, float]] = {}
        for row in sorted(self._report.loaders, key=lambda row: row.workers):
            if row.samples_per_s:
                curves.setdefault(row.dataset, {})[str(row.workers)] = row.samples_per_s
        if len({row.workers for row in self._report.loaders}) < 2 or not curves:
            return []
        levels = ticks(max(max(curve.values()) for curve in curves.values()))
        title = "Samples/s over the number of workers"
        words = self._curve_words(curves, "with {} workers", "samples/s")
        parts = self._plot(curves, levels, lambda value: value / levels[-1])
        return [Chart(title, svg.chart("workers", title, words, _TOP + _PLOT + 24, parts))]

    def consumers(self) -> list[Chart]:
        """Return how busy an accelerator would be, with the mark to reach."""
        # Of several numbers of workers the best.
        worst_first = sorted(self._report.consumers, key=lambda row: row.utilisation)
        best = {row.dataset: row for row in worst_first}
        rows = {path: best[path] for path in self._labels if path in best}
        if not rows:
            return []
        parts, words = [], []
        for at, (path, row) in enumerate(rows.items()):
            share = f"{row.utilisation:.0%}"
            parts += _row_text(at, self._short(path), share)
            parts.append(svg.bar(0, at * _ROW + 20, 100, 18, "track"))
            parts.append(
                svg.bar(0, at * _ROW + 20, min(row.utilisation, 1) * 100, 18, self._fill(path))
            )
            goal = min(row.goal, 1) * 100
            parts.append(svg.line((goal, at * _ROW + 18), (goal, at * _ROW + 41), "goal"))
            words.append(f"{self._name(path)}: busy {share} of the time, goal {row.goal:.0%}.")
        first = next(iter(rows.values()))
        title = f"Busy with {first.step_ms:g} ms a step; the mark is the goal, {first.goal:.0%}"
        return [
            Chart(title, svg.chart("consumers", title, " ".join(words), len(rows) * _ROW, parts))
        ]

    def _bars(self, name: str, title: str, rates: Mapping[str, tuple[float, str]]) -> Chart:
        """Return a bar for each name: samples per second, and the dataset that gives the colour."""
        best = max(rate for rate, _ in rates.values())
        parts, words = [], []
        for at, (label, (rate, path)) in enumerate(rates.items()):
            parts += _row_text(at, label, f"{number_text(rate)}/s")
            parts.append(svg.bar(0, at * _ROW + 20, 100, 18, "track"))
            parts.append(svg.bar(0, at * _ROW + 20, rate / best * 100, 18, self._fill(path)))
            words.append(f"{label}: {number_text(rate)}.")
        heading = f"{title}, samples/s"
        return Chart(title, svg.chart(name, heading, " ".join(words), len(rates) * _ROW, parts))

    def _curves(
        self,
        name: str,
        words: str,
        curves: Mapping[str, Mapping[str, float]],
        levels: Sequence[float],
    ) -> Chart:
        low, high = math.log(levels[0]), math.log(levels[-1])
        parts = self._plot(curves, levels, lambda value: (math.log(value) - low) / (high - low))
        title = f"Latency in ms of one request: {words}"
        told = self._curve_words(curves, "{}", "ms")
        return Chart(words, svg.chart(name, title, told, _TOP + _PLOT + 24, parts))

    def _plot(
        self,
        curves: Mapping[str, Mapping[str, float]],
        levels: Sequence[float],
        height_of: Callable[[float], float],
    ) -> list[Markup]:
        """Return grid, axes and one line for each dataset; ``height_of`` gives 0 to 1."""
        places = list(dict.fromkeys(place for curve in curves.values() for place in curve))
        step = (_RIGHT - _LEFT) / max(len(places) - 1, 1)
        across = {place: _LEFT + at * step for at, place in enumerate(places)}

        def down(value: float) -> float:
            return _TOP + _PLOT * (1 - height_of(value))

        parts = []
        for level in levels:
            parts.append(svg.line((0, down(level)), (100, down(level)), "grid"))
            parts.append(svg.text(0, down(level) - 4, f"{level:,.10g}", style="tick"))
        for place, x in across.items():
            parts.append(svg.text(x, _TOP + _PLOT + 18, place, anchor="middle", style="tick"))
        for path, curve in curves.items():
            points = [(across[place], down(value)) for place, value in curve.items()]
            parts.append(svg.series(points, self._numbers.get(path, 0)))
        return parts

    def _curve_words(self, curves: Mapping[str, Mapping[str, float]], place: str, unit: str) -> str:
        return " ".join(
            f"{self._name(path)}: "
            + ", ".join(
                f"{number_text(value)} {unit} {place.format(at)}" for at, value in curve.items()
            )
            + "."
            for path, curve in curves.items()
        )

    def _reads(self) -> dict[str, list[ReadRow]]:
        found: dict[str, list[ReadRow]] = {}
        for row in self._report.reads:
            found.setdefault(row.words, []).append(row)
        return found

    def _name(self, path: str) -> str:
        return self._labels.get(path, printable(path))

    def _short(self, path: str) -> str:
        return self._shorts[self._name(path)]

    def _fill(self, path: str) -> str:
        return f"fill s{self._numbers.get(path, 0) % 8}"


def _row_text(at: int, label: str, value: str) -> list[Markup]:
    """Return label and value above a bar."""
    return [
        svg.text(0, at * _ROW + 14, label),
        svg.text(100, at * _ROW + 14, value, anchor="end", style="value"),
    ]


def _curve(row: ReadRow) -> dict[str, float]:
    """Return the percentiles that make a curve; fewer than two make none."""
    found = {name: row.latency_ms[name] for name in LATENCIES if row.latency_ms.get(name)}
    return found if len(found) > 1 else {}


def _stage_order(stage: str) -> int:
    return STAGES.index(stage) if stage in STAGES else len(STAGES)


def stage_style(stage: str) -> str:
    """Return the class with the colour of a stage: always the same for the same stage."""
    return f"g{_stage_order(stage)}"
