"""The page of ``bench --report``: whole in one file, safe, legible; looked at by a real browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fastdata_cli.cli.page import render_page
from fastdata_cli.cli.page.charts import STAGES
from fastdata_cli.cli.page.scale import decades, ticks
from fastdata_cli.operations.bench.report import BenchReport
from fastdata_cli.timing.record import plain
from tests.cli import bench_reports

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")

HOSTILE = (
    '/data/</script><script>document.title="taken"</script><img src=x onerror=alert(1)>&"\'.zarr'
)
VOID = {"meta", "link", "br", "img"}


class Outline(HTMLParser):
    """What a screen reader goes by: headings, pictures, regions; and whether tags are closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.levels: list[int] = []
        self.images: list[dict[str, str | None]] = []
        self.titles: dict[str, str] = {}
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.scripts: list[dict[str, str | None]] = []
        self.tables = 0
        self._open: list[str] = []
        self._told: str | None = None
        self.feed(page)
        assert self._open == [], self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag not in VOID:
            self._open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if tag == "svg" and found.get("role") == "img":
            self.images.append(found)
        if tag == "script":
            self.scripts.append(found)
        self.tables += tag == "table"
        if found.get("id"):
            self.ids.append(str(found["id"]))
        self._told = str(found.get("id")) if tag in ("title", "desc") else None
        self.fetched += [str(found[name]) for name in ("src", "href", "srcset") if found.get(name)]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if found := dict(attrs).get("src"):
            self.fetched.append(found)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self._told = None

    def handle_data(self, data: str) -> None:
        if self._told:
            self.titles[self._told] = data


@pytest.mark.parametrize("count", [1, 4])
def test_outline(count: int) -> None:
    outline = Outline(render_page(bench_reports.report(bench_reports.PATHS[:count])))
    assert outline.levels[0] == 1
    assert outline.levels.count(1) == 1
    assert all(
        after <= before + 1
        for before, after in zip(outline.levels, outline.levels[1:], strict=False)
    )
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.tables == 8
    for image in outline.images:
        for name in str(image["aria-labelledby"]).split():
            assert outline.titles[name].strip(), name


def test_charts_of_everything() -> None:
    outline = Outline(render_page(bench_reports.report()))
    names = {str(image["aria-labelledby"]).split()[0] for image in outline.images}
    assert {"loaders-title", "workers-title", "stages-title", "consumers-title"} <= names
    assert {"reads-0-title", "latency-0-title"} <= names
    assert "pixels.zarr: 2,780" in outline.titles["loaders-desc"].replace(" · 8 workers", "")
    assert all(f"{stage} " in outline.titles["stages-desc"] for stage in STAGES)


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
    assert len(found["cases"]) == len(report.reads) + len(report.loaders)


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
        replace(bench_reports.report(), loaders=(), consumers=(), verdicts=(), best_line=""),
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


def chromium(
    arguments: Sequence[str], page: Path, folder: Path
) -> subprocess.CompletedProcess[str]:
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder / 'profile'}",
        *arguments, page.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)


@browser
def test_in_a_browser_nothing_is_asked_for_and_nothing_complains(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(render_page(bench_reports.report((HOSTILE, *bench_reports.PATHS))))
    log = tmp_path / "net.json"
    done = chromium(
        ["--dump-dom", "--enable-logging=stderr", "--v=0", f"--log-net-log={log}"], page, tmp_path
    )
    assert done.stdout.count('role="img"') >= 10
    assert re.findall("<title>(.*?)</title>", done.stdout)[0].startswith("Fastest")
    assert "CONSOLE" not in done.stderr
    assert len(embedded(done.stdout)["facts"]["datasets"]) == 5
    hosts = set(re.findall(r'"url":"(?:https?|wss?)://([^/"]+)', log.read_text()))
    # What the browser asks for itself, whatever page it shows.
    assert {host for host in hosts if not re.search(r"google(apis)?\.com$", host)} == set()


@browser
@pytest.mark.parametrize("width", [360, 800, 1200])
def test_in_a_browser_it_fits_its_width(tmp_path: Path, width: int) -> None:
    report = bench_reports.report(("/d/" + "x" * 150 + ".zarr", *bench_reports.PATHS))
    inner = render_page(report).replace("<details>", "<details open>")
    outer = tmp_path / "outer.html"
    # A frame has the width that it is given; the window of a browser may have a least one.
    outer.write_text(
        f'<iframe style="border:0;width:{width}px;height:800px" '
        f'srcdoc="{html.escape(inner)}"></iframe>'
        "<script>onload = () => { const root = frames[0].document.documentElement;"
        "document.title = `${root.clientWidth} ${root.scrollWidth}` }</script>"
    )
    done = chromium(["--dump-dom"], outer, tmp_path)
    shown = re.findall("<title>(.*?)</title>", done.stdout)[0]
    inside, needed = map(int, shown.split())
    assert needed <= inside
    assert width - 20 <= inside <= width
