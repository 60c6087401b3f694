"""The page of ``bench --report``: whole in one file, safe, legible; looked at by a real browser."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastdata_cli.cli.page import render_page
from fastdata_cli.cli.page.scale import decades, ticks
from fastdata_cli.operations.bench.report import STAGES, BenchReport
from fastdata_cli.timing.record import plain
from tests.cli import bench_reports
from tests.cli.pages import Outline, browser, measure_in_frame, visit

HOSTILE = (
    '/data/</script><script>document.title="taken"</script><img src=x onerror=alert(1)>&"\'.zarr'
)


@pytest.mark.parametrize("count", [1, 4])
def test_outline(count: int) -> None:
    outline = Outline(render_page(bench_reports.report(bench_reports.PATHS[:count])))
    outline.check()
    assert outline.tables == 9


def test_charts_of_everything() -> None:
    outline = Outline(render_page(bench_reports.report()))
    names = {str(image["aria-labelledby"]).split()[0] for image in outline.images}
    assert {"loaders-title", "workers-title", "stages-title", "consumers-title"} <= names
    assert {"reads-0-title", "latency-0-title"} <= names
    assert "pixels.zarr: 2,780" in outline.titles["loaders-desc"].replace(
        " · DataLoader, 8 workers", ""
    )
    assert all(f"{stage} " in outline.titles["stages-desc"] for stage in STAGES)


def test_one_dataset_has_a_bar_for_each_loader() -> None:
    outline = Outline(render_page(bench_reports.report(bench_reports.PATHS[:1])))
    told = outline.titles["loaders-desc"]
    assert [line.split(":")[0] for line in told.split(". ")] == [
        *(f"DataLoader, {count} workers" for count in (0, 2, 4, 8)),
        "FastLoader",
    ]


def test_the_verdict_comes_first() -> None:
    page = render_page(bench_reports.report())
    body = page[page.index("<body>") :]
    places = [body.index(text) for text in ("<h1>Fastest: pixels.zarr", "68% of the time", "<svg")]
    assert places == sorted(places)
    assert "--codec</span> lz4" in body


def test_it_needs_nothing_else() -> None:
    page = render_page(bench_reports.report())
    outline = Outline(page)
    assert outline.fetched == ["data:,"]
    assert outline.scripts == [{"type": "application/json", "id": "record"}]
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    assert not re.search(r"url\(|@import|https?://", page)
    assert '<html lang="en">' in page
    assert "width=device-width" in page
    assert "prefers-color-scheme: dark" in page
    assert len(page.encode()) < 300_000


def test_the_record_is_embedded() -> None:
    report = bench_reports.report((HOSTILE, *bench_reports.PATHS[:1]))
    found = embedded(render_page(report))
    assert found["fastdata_bench"] == 1
    assert found["facts"]["datasets"] == plain(report)["datasets"]
    rows = (*report.reads, *report.loaders, *report.fast_loaders)
    assert len(found["cases"]) == len(rows)


def embedded(page: str) -> dict[str, Any]:
    found = re.search(
        r'<script type="application/json" id="record">(.*?)</script>', page, re.DOTALL
    )
    assert found
    record: dict[str, Any] = json.loads(found[1])
    return record


def test_hostile_names_stay_text() -> None:
    page = render_page(bench_reports.report((HOSTILE, "/data/\udcff\x1b[2J\u202e.zarr")))
    outline = Outline(page)
    assert len(outline.scripts) == 1
    assert outline.fetched == ["data:,"]
    assert "\x1b" not in page
    assert "\u202e" not in page
    page.encode()


@pytest.mark.parametrize(
    "report",
    [
        bench_reports.empty_report(),
        replace(
            bench_reports.report(),
            loaders=(),
            fast_loaders=(),
            consumers=(),
            verdicts=(),
            to_paste="",
            steps=(),
        ),
        replace(bench_reports.report(), reads=(), stages=(), device={}, ceilings=()),
        bench_reports.report(workers=(2,), threads=(1,)),
        bench_reports.report(tuple(f"/d/{at}/{'long' * 20}.zarr" for at in range(9))),
        bench_reports.broken_report(),
    ],
    ids=["empty", "no-loader", "no-reads", "one-of-each", "nine-long-names", "failed"],
)
def test_whatever_is_missing(report: BenchReport) -> None:
    page = render_page(report)
    Outline(page)
    assert "None" not in page.split('id="record"')[0]
    assert len(page.encode()) < 600_000


def test_ticks_are_round_and_reach() -> None:
    assert ticks(2780) == [0, 1000, 2000, 3000]
    assert ticks(0.03)[-1] >= 0.03
    assert ticks(0) == [0, 1]
    assert decades(0.3, 4) == pytest.approx([0.2, 0.5, 1, 2, 5])
    assert decades(0.1, 5000) == pytest.approx([0.1, 1, 10, 100, 1000, 5000])
    for value in (1, 2, 0.07, 99.99, 1000):
        low, *_, high = decades(value, value)
        assert low <= value * 1.001
        assert value <= high * 1.001
        assert low < high


@browser
def test_in_a_browser_nothing_is_asked_for_and_nothing_complains(tmp_path: Path) -> None:
    page = render_page(bench_reports.report((HOSTILE, *bench_reports.PATHS)))
    shown = visit(page, tmp_path)
    assert shown.count('role="img"') >= 10
    assert re.findall("<title>(.*?)</title>", shown)[0].startswith("Fastest")
    assert len(embedded(shown)["facts"]["datasets"]) == 5


@browser
@pytest.mark.parametrize("width", [360, 800, 1200])
def test_in_a_browser_it_fits_its_width(tmp_path: Path, width: int) -> None:
    report = bench_reports.report(("/d/" + "x" * 150 + ".zarr", *bench_reports.PATHS))
    page = render_page(report).replace("<details>", "<details open>")
    sizes = "[root.clientWidth, root.scrollWidth]"
    inside, needed = measure_in_frame(page, width, tmp_path, sizes)
    assert needed <= inside
    assert width - 20 <= inside <= width
