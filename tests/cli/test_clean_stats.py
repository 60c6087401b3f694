"""The tables of ``clean --stats``: the right quantiles, within 80 columns."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fastdata_cli.cli.clean_stats import (
    held_back,
    limits_of,
    score_text,
    show,
    stats_sections,
    threshold_text,
)
from fastdata_cli.operations.clean.report import CleanReport
from tests.cli import clean_reports
from tests.conftest import Run


def shown(report: CleanReport, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    show(report, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def cells(report: CleanReport, section: str, row: str) -> list[str]:
    """Return the row that begins so."""
    (table,) = (each for each in stats_sections(report) if each.name == section)
    return next(
        list(cells) for group in table.groups for cells in group.rows if cells[0].startswith(row)
    )


def test_quantiles() -> None:
    scores = {"variance": clean_reports.values("variance", [float(at) for at in range(1001)])}
    report = clean_reports.report(scores=scores)
    row = cells(report, "scores", "variance")
    assert row == ["variance", "0", "10", "50", "250", "500", "750", "950", "990", "1000"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (4e-16, "0"), (0.00004, "4e-05"), (0.00123, ".0012"), (0.0129, "0.013"),
        (0.1234, "0.123"), (7.456, "7.46"), (99.6, "100"), (255.0, "255"), (12345.6, "12346"),
        (123456.0, "123k"), (3.2e6, "3e+06"),
    ],
)  # fmt: skip
def test_scores_take_little_room(value: float, text: str) -> None:
    assert score_text(value) == text


@given(st.one_of(st.floats(0, 1e9), st.floats(0, 0.2)))
def test_no_score_takes_more_than_five_characters(value: float) -> None:
    assert len(score_text(value)) <= 5


def test_everything_fits_80_columns() -> None:
    report = clean_reports.report()
    small = [at / 9000 for at in range(90)]
    scores = {**report.scores, "blur": clean_reports.values("blur", small)}
    text = shown(replace(report, scores=scores))
    assert "left out at this width" not in text
    assert max(map(len, text.splitlines())) <= 80
    heads = ["score", "min", "1%", "5%", "25%", "50%", "75%", "95%", "99%", "max"]
    assert any(line.split() == heads for line in text.splitlines())


def test_in_60_columns_the_tails_stay() -> None:
    text = shown(clean_reports.report(), width=60)
    head = next(line.split() for line in text.splitlines() if line.strip().startswith("score"))
    assert {"min", "1%", "50%", "99%", "max"} <= set(head)
    assert "left out at this width" in text


def test_a_chosen_threshold_was_counted_and_a_suggested_one_is_tried() -> None:
    report = clean_reports.report()
    chosen = cells(report, "thresholds", "--variance-min")
    assert chosen[:3] == ["--variance-min 10", "chosen", "1,234"]
    entropies = report.scores["entropy"].values
    limit = next(each for each in limits_of(report) if each.check.name == "min-entropy")
    expected = int(np.sum(np.array(entropies) < limit.value))
    suggested = cells(report, "thresholds", "--min-entropy")
    assert suggested[1:3] == ["suggested", f"{expected}"]
    # Both ends of brightness were chosen.
    assert cells(report, "thresholds", "--brightness-max")[1] == "chosen"


def test_a_sample_says_that_it_is_one() -> None:
    sides = [20.0] * 10 + [500.0] * 90
    scores = {"side": clean_reports.values("side", sides, count=50_000, missing=7)}
    report = clean_reports.report(scores=scores, looked_at=50_007)
    (limit,) = limits_of(report)
    assert held_back(limit, scores["side"], report) == (5000, False)
    text = " ".join(shown(report).split())
    assert "quantiles of a uniform sample of 100 images; min and max of all" in text
    assert "side: 7 have none" in text
    assert "--min-side 32 suggested ≈ 5,000 10.0%" in text


def test_nothing_measured_is_said() -> None:
    report = clean_reports.report(scores={}, looked_at=0, kept=0, reasons={})
    assert shown(report).strip() == "No image has a score."


def test_codes_have_no_quantiles() -> None:
    scores = {"exif_orientation": clean_reports.values("exif_orientation", [1.0, 6.0])}
    assert stats_sections(clean_reports.report(scores=scores)) == ()


def test_thresholds_are_written_as_they_are_typed() -> None:
    assert [threshold_text(each) for each in (10.0, 0.05, 245.0)] == ["10", "0.05", "245"]


def test_stats_measures_everything_without_a_threshold(
    run: Run, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (tree / "empty.jpg").write_bytes(b"")
    result = run("clean", tree, "--stats")
    assert result.stdout.count("\n") == 20
    for name in ("variance", "blur", "sharpness", "brightness", "side", "aspect", "entropy"):
        assert re.search(rf"^ {name} ", result.stderr, re.MULTILINE), name
    assert re.search(r"^ side +40 +40 +40 +40 +40 +40 +40 +40 +40", result.stderr, re.MULTILINE)
    assert "--variance-min 10" in result.stderr
    assert "Scores of 21 images" in result.stderr
