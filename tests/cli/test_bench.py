"""``fastdata bench`` as its users type it, and what it prints of a report."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from fastdata_cli.cli import bench_tables
from fastdata_cli.cli.bench_comparison import comparison_section
from fastdata_cli.cli.bench_export import to_csv, to_json, to_markdown
from fastdata_cli.cli.bench_sections import sections
from fastdata_cli.cli.bench_words import (
    headline,
    labels,
    notes,
    number_text,
    short_names,
    verdicts,
)
from fastdata_cli.operations.bench.compare import (
    CaseChange,
    ComparisonReport,
    Outcome,
    compare_records,
)
from fastdata_cli.operations.bench.report import BenchReport
from fastdata_cli.timing.record import Record, load_record
from tests.cli import bench_reports
from tests.conftest import Run

LONG = tuple(f"/data/{'very' * 30}/{at}-{'long' * 20}.zarr" for at in range(3))
WIDE = ("/data/画像データセット画像データセット画像.zarr", "/data/b.lmdb")
REPORTS = {
    "one": bench_reports.report(bench_reports.PATHS[:1]),
    "four": bench_reports.report(),
    "long names": bench_reports.report(LONG),
    "wide names": bench_reports.report(WIDE),
    "one worker": bench_reports.report(workers=(8,), threads=(1,)),
    "failed": bench_reports.broken_report(),
    "empty": bench_reports.empty_report(),
}


def shown(report: BenchReport, width: int, before: Record | None = None) -> str:
    console = Console(width=width, file=io.StringIO(), highlight=False)
    changes = compare_records(report, before) if before else None
    bench_tables.show(report, console, changes)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def record_of(report: BenchReport) -> Record:
    return Record.from_json(to_json(report), where="here")


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("name", REPORTS)
def test_tables_fit_and_are_not_folded(name: str, width: int) -> None:
    report = REPORTS[name]
    text, _, block = shown(report, width).partition("\nTo paste\n")
    assert block.rstrip("\n") == report.to_paste, "at the margin and in one piece"
    lines = [line.rstrip() for line in text.splitlines()]
    assert max(map(cell_len, lines)) <= width
    for section in sections(report):
        at = lines.index(section.title)
        rule = next(n for n in range(at, len(lines)) if "──" in lines[n])
        table = lines[rule + 1 : lines.index("", rule)]
        rows = sum(len(group.rows) + bool(group.name) for group in section.groups)
        if not any(column.folds for column in section.columns):
            assert len(table) == rows, table


@pytest.mark.parametrize("width", [80, 100])
def test_what_matters_most_is_shown_at_any_width(width: int) -> None:
    text = shown(REPORTS["four"], width)
    for word in ("samples/s", "of best", "p50 ms", "p99 ms", "first batch", "0.62×", "best"):
        assert word in text, word
    assert ("left out at this width" in text) == (width == 80)


def test_the_verdict_comes_first() -> None:
    lines = shown(REPORTS["four"], 120).splitlines()
    assert lines[0] == (
        "Fastest: pixels.zarr, 2,780 samples/s in training batches (DataLoader, 8 workers), "
        "limited by decoding"
    )
    assert lines[1].startswith("- pixels.zarr: decoding takes 68%")


def test_a_broken_command_can_be_pasted() -> None:
    lines = [line.strip() for line in shown(REPORTS["one"], 80).splitlines()]
    first = next(n for n, line in enumerate(lines) if line.startswith("fastdata convert"))
    assert lines[first].endswith("\\")
    joined = " ".join(line.removesuffix("\\").strip() for line in lines[first : first + 2])
    assert joined == REPORTS["one"].verdicts[0].action


def test_starved_processors_are_told_once_for_all() -> None:
    starved = [
        replace(
            verdict,
            bottleneck="starved",
            sentence=f"The processors are starved: others took {80 + at}% of them meanwhile",
            action=f"fastdata bench {verdict.dataset} --workers 2  (once the others are done)",
        )
        for at, verdict in enumerate(REPORTS["four"].verdicts)
    ]
    one = replace(REPORTS["four"], verdicts=(*starved[:1], *REPORTS["four"].verdicts[1:]))
    assert len(verdicts(one)) == len(starved)
    told = verdicts(replace(REPORTS["four"], verdicts=tuple(starved)))
    assert [each.dataset for each in told] == ["pixels.zarr and 3 more"]
    paths = " ".join(each.dataset for each in starved)
    assert told[0].action == f"fastdata bench {paths} --workers 2  (once the others are done)"
    assert shown(replace(REPORTS["four"], verdicts=tuple(starved)), 100).count("starved:") == 1


def test_words_without_room_stand_below_their_table() -> None:
    text = shown(REPORTS["long names"], 80)
    table = text[text.index("Datasets") : text.index("Device")]
    assert "layout of " in table
    assert table.count(": chunk=1000, codec=lz4") + table.count(": shards=12") == 3


def test_what_failed_has_no_cache_to_differ_by() -> None:
    section = next(each for each in sections(REPORTS["failed"]) if each.name == "reads")
    assert section.remark == "cache: cold"


def test_order_of_the_parts() -> None:
    text = shown(REPORTS["four"], 100)
    titles = [section.title for section in sections(REPORTS["four"])]
    places = [text.index(f"\n{title}\n") for title in [*titles, "Measured on", "To paste"]]
    assert places == sorted(places)
    assert len(titles) == 8


def test_long_names_keep_what_tells_them_apart() -> None:
    text = shown(REPORTS["long names"], 80)
    named = re.findall(r"\d-longl\S*…\S*\.zarr", text)
    assert len(set(named)) == 3


ALIKE = tuple(f"/d/{'a' * 26}{at}{'z' * 26}.zarr" for at in range(2))


def test_names_that_would_look_alike_are_whole() -> None:
    assert set(short_names(["short", "b" * 27])) == {"short", "b" * 27}
    assert short_names(["b" * 27]) == {"b" * 27: f"{'b' * 8}…{'b' * 17}"}
    assert len(set(short_names([f"{'a' * 10}{at}{'z' * 30}" for at in range(3)]).values())) == 3
    assert short_names(ALIKE) == {name: name for name in ALIKE}
    text = shown(bench_reports.report(ALIKE), 80)
    assert max(map(cell_len, text[: text.index("To paste")].splitlines())) <= 80
    assert text.count("0zzzz") > 5
    assert text.count("1zzzz") > 5


def test_each_kind_of_doubt_is_one_line() -> None:
    found = notes(REPORTS["four"])
    assert len([line for line in found if "repeats differ" in line]) == 1
    assert any(" and 7 more: repeats differ" in line for line in found)
    assert REPORTS["four"].notes[0] in found


def test_what_holds_for_several_datasets_is_said_once() -> None:
    one, two = bench_reports.PATHS[:2]
    texts = (f"{one}: slow disk", f"{two}: slow disk", f"{one}: bad", "of nobody")
    found = notes(replace(bench_reports.report((one, two)), notes=texts))
    assert found[:3] == ("all: slow disk", "pixels.zarr: bad", "of nobody")


def test_what_stands_beside_a_command_is_not_pasted() -> None:
    verdict = replace(REPORTS["one"].verdicts[0], action="fastdata bench a  (when it is quiet)")
    lines = shown(replace(REPORTS["one"], verdicts=(verdict,)), 80).splitlines()
    assert [line.strip() for line in lines if "bench a" in line or "quiet" in line] == [
        "fastdata bench a",
        "when it is quiet",
    ]


def test_what_failed_and_what_arrived_wrong_stands_out() -> None:
    text = shown(REPORTS["failed"], 80)
    assert re.search(r"files.lmdb +failed", text)
    assert "WRONG" in text


def test_headlines() -> None:
    assert headline(REPORTS["one"]).startswith("pixels.zarr, 2,780 samples/s")
    assert headline(REPORTS["empty"]) == "Nothing was measured"
    reads = replace(REPORTS["one"], loaders=(), fast_loaders=(), verdicts=())
    assert headline(reads).endswith("in plain reads (sequential, by batch, 4 threads)")


def test_fastloader_is_told_where_it_wins() -> None:
    fast = bench_reports.fast_row(bench_reports.PATHS[0], 5000.0)
    won = replace(REPORTS["one"], fast_loaders=(fast,))
    assert headline(won).startswith("pixels.zarr, 5,000 samples/s in training batches (FastLoader)")
    verdict = replace(won.verdicts[0], bottleneck="loader")
    assert headline(replace(won, verdicts=(verdict,))).endswith("(FastLoader)")
    assert re.search(r"reached +5,000 +FastLoader", shown(won, 80))
    assert re.search(r"FastLoader +5,000 .* best", shown(won, 80))


def test_fastloader_ahead_by_chance_is_a_note() -> None:
    path = bench_reports.PATHS[0]
    little = replace(REPORTS["one"], fast_loaders=(bench_reports.fast_row(path, 2900.0),))
    assert "(DataLoader, 8 workers)" in headline(little)
    told = "pixels.zarr: FastLoader is 4% faster than the DataLoader, too little to"
    assert told in "\n".join(notes(little))
    once = bench_reports.fast_row(path, 3200.0)
    once = replace(
        once, measurement=replace(once.measurement, repeats=once.measurement.repeats[:1])
    )
    found = notes(replace(REPORTS["one"], fast_loaders=(once,)))
    assert "FastLoader is 15% faster than the DataLoader, which may be noise" in "\n".join(found)
    assert "faster than the DataLoader" not in "\n".join(notes(REPORTS["one"]))


def test_what_else_differs_is_told_below_the_comparison() -> None:
    before = replace(record_of(REPORTS["one"]), finished=False)
    text = shown(REPORTS["one"], 80, before)
    at = text.index("What else differs, from the record")
    assert text.index("Against the record") < at < text.index("of a run that was interrupted")


def test_what_advise_tried_is_a_table() -> None:
    text = shown(REPORTS["one"], 80)
    table = text[text.index("What --advise tried") :]
    assert re.search(r"FastLoader +1,350 +-10% +slower", table)
    assert re.search(r"num_workers=2 +2,400 +\+60% +kept", table)
    assert re.search(r"num_workers=4 +not tried: the time was up", table)


def test_labels_are_what_is_below_the_shared_folder() -> None:
    assert labels(["/a/b/c.zarr", "/a/d"]) == {"/a/b/c.zarr": "b/c.zarr", "/a/d": "d"}
    assert labels(["/a/c.zarr", "/b/c.zarr"]) == {
        "/a/c.zarr": "/a/c.zarr",
        "/b/c.zarr": "/b/c.zarr",
    }
    assert labels(["c.zarr", "/b/c.zarr"])["c.zarr"] == "c.zarr"
    assert labels(["data/images/"]) == {"data/images/": "images"}
    assert labels(["/a/\x1b\udcff"]) == {"/a/\x1b\udcff": "%1B%FF"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0, "0.00"),
        (0.123, "0.12"),
        (9.996, "10.0"),
        (99.96, "100"),
        (12345.6, "12,346"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert number_text(value) == text


def test_csv() -> None:
    report = bench_reports.report(("/data/=cmd.zarr", *bench_reports.PATHS))
    rows = list(csv.DictReader(io.StringIO(to_csv(report))))
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in ("read", "loader")}
    assert len(kinds["read"]) == len(report.reads)
    assert float(kinds["loader"][3]["samples_per_s"]) == pytest.approx(2780, abs=1)
    assert float(kinds["read"][0]["latency_p99_ms"]) > 0
    assert {row["kind"] for row in rows} == {
        "device", "read", "loader", "fast loader", "stage", "ceiling", "setting", "consumer",
    }  # fmt: skip
    formula = bench_reports.report(("=1+1",))
    assert {row["dataset"] for row in csv.DictReader(io.StringIO(to_csv(formula)))} == {"%3D1+1"}


def test_markdown() -> None:
    text = to_markdown(bench_reports.report(("/d/a|b<c>.zarr", "/d/x.lmdb")))
    assert text.startswith("**Fastest: a\\|b\\<c\\>.zarr")
    tables = [block for block in text.split("\n\n") if block.startswith("| ")]
    assert len(tables) == 8
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.strip().splitlines()}
        assert len(widths) == 1, table
    assert "```python\nfrom fastdata_cli import FastLoader\n\nloader = FastLoader(" in text


def test_json_is_the_record() -> None:
    record = record_of(REPORTS["four"])
    assert record.finished
    assert len(record.cases) == len(REPORTS["four"].reads) + 4 * len(REPORTS["one"].loaders) + 4
    assert record.verdicts[0]["bottleneck"] == "decode"


def compared(width: int, *changes: CaseChange, share: float = 0.05) -> list[str]:
    """Return the lines of the table of a comparison, blanks made one."""
    console = Console(width=width, file=io.StringIO(), highlight=False)
    section = comparison_section(ComparisonReport(cases=changes, share=share))
    console.print(bench_tables.section_table(section, width))
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert max(map(cell_len, lines)) <= width
    return [re.sub(" {2,}", "  ", line.strip()) for line in lines]


def change(name: str, now: float, low: float, high: float, **others: Any) -> CaseChange:
    outcome = Outcome.FASTER if low > 1 else Outcome.SLOWER if high < 1 else Outcome.SAME
    return CaseChange(
        name=name,
        **{
            "outcome": outcome,
            "before_samples_per_s": 1000.0,
            "samples_per_s": now,
            "ratio": now / 1000,
            "low": low,
            "high": high,
            **others,
        },
    )


def test_a_comparison_tells_what_changed_by_how_much_and_whether_it_counts() -> None:
    lines = compared(
        100,
        change("/d/a.zarr · read, random, by batch", 1020, 0.97, 1.08),
        change("/d/a.zarr · DataLoader, block, 2 workers", 400, 0.35, 0.46, too_slow=True),
        change("/d/b.zarr · DataLoader, block, 2 workers", 970, 0.95, 0.99),
        change("/d/b.zarr · DataLoader, block, 8 workers", 12_500, 11.9, 13.1),
        CaseChange(name="/d/b.zarr · FastLoader, block", outcome=Outcome.NEW, samples_per_s=9.0),
        CaseChange(name="/d/b.zarr · read", outcome=Outcome.GONE, before_samples_per_s=8.0),
    )
    assert " ".join(lines[2:4]) == (
        "samples/s · 1 TOO SLOW (over 5% more time), 1 slower, 1 faster, 1 within noise, "
        "1 not in the record, 1 not in this run · bounds: of the change, with 95% confidence"
    )
    assert lines[7:-1] == [
        "a.zarr",
        "read, random, by batch  1,000  1,020  +2.0%  -3.0% to +8.0%  within noise",
        "DataLoader, block, 2 workers  1,000  400  -60%  -65% to -54%  TOO SLOW",
        "b.zarr",
        "DataLoader, block, 2 workers  1,000  970  -3.0%  -5.0% to -1.0%  slower",
        "DataLoader, block, 8 workers  1,000  12,500  12.5×  11.9× to 13.1×  faster",
        "FastLoader, block  9.00  not in the record",
        "read  8.00  not in this run",
    ]


@pytest.mark.parametrize("width", [80, 100])
def test_compared_cases_can_be_told_apart(width: int) -> None:
    words = [f"read, sequential, by batch, {threads} threads" for threads in (16, 128)]
    names = [f"{path} · {each}" for path in ALIKE for each in words]
    lines = compared(width, *(change(name, 1000, 0.99, 1.01) for name in names))
    assert sum(line.startswith(words[0]) for line in lines) == 2
    assert sum(line.startswith(words[1]) for line in lines) == 2
    whole = "".join(line for line in lines if re.fullmatch(r"[az01.r]+", line))
    assert all(Path(path).name in whole for path in ALIKE)


def test_one_dataset_is_named_above_its_comparison() -> None:
    lines = compared(80, change("/d/a.zarr · FastLoader, block", 1000, 0.99, 1.01))
    assert lines[2].startswith("a.zarr: samples/s · 1 within noise")


def slowed(report: BenchReport, times: float) -> BenchReport:
    def slow(row: Any) -> Any:
        repeats = tuple(replace(r, seconds=r.seconds * times) for r in row.measurement.repeats)
        return replace(row, measurement=replace(row.measurement, repeats=repeats))

    return replace(report, reads=tuple(map(slow, report.reads)))


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch, tree: Path) -> tuple[Path, list[BenchReport]]:
    """A dataset, and the reports that measuring it gives, one after another."""
    answers: list[BenchReport] = []

    def bench(readers: Sequence[Any], options: Any, **others: Any) -> BenchReport:
        assert [each[2] for each in readers] == ["tree"]
        return answers.pop(0)

    monkeypatch.setattr("fastdata_cli.cli.commands.bench.bench", bench)
    return tree, answers


def test_exports_are_alone_on_stdout(
    run: Run, faked: tuple[Path, list[BenchReport]], tmp_path: Path
) -> None:
    path, answers = faked
    answers += [REPORTS["four"]] * 4
    assert json.loads(run("bench", path, "--json").stdout)["fastdata_bench"] == 1
    assert run("bench", path, "--csv").stdout.startswith("kind,")
    assert run("bench", path, "--markdown").stdout.startswith("**Fastest")
    result = run("bench", path, "--report", tmp_path / "page.html")
    assert "page.html" in result.stderr
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_slower_ends_with_3_only_if_it_is_seen_each_time(
    run: Run, faked: tuple[Path, list[BenchReport]], tmp_path: Path
) -> None:
    path, answers = faked
    fast, slow = REPORTS["one"], slowed(REPORTS["one"], 1.3)
    (tmp_path / "old.json").write_text(to_json(fast))
    guard = ("bench", path, "--compare", tmp_path / "old.json", "--fail-if-slower", "5%")
    answers += [fast]
    assert "Against the record" in run(*guard).stdout
    for seen in (1, 2, 3):
        answers += [*[slow] * seen, fast]
        run(*guard)
    answers += [slow] * 4
    result = run(*guard, code=3)
    assert "slower: /data/birds/pixels.zarr · read, " in result.stderr
    assert "TOO SLOW" in result.stdout
    answers += [slow]
    assert "TOO SLOW" in run(*guard[:4]).stdout
    assert not answers


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--json", "--csv"], "exclude each other"),
        (["--fail-if-slower", "5%"], "--compare"),
        (["--compare", "nowhere.json"], "no such file"),
        (["--save", "nowhere/out.json"], "cannot be written"),
        (["--report", "."], "is a folder"),
    ],
)
def test_refused_before_anything_is_measured(
    run: Run, faked: tuple[Path, list[BenchReport]], arguments: list[str], words: str
) -> None:
    assert words in run("bench", faked[0], *arguments, code=2).stderr


def test_no_dataset(run: Run, tmp_path: Path) -> None:
    assert "nothing here" in run("bench", tmp_path / "none.zarr", code=2).stderr


def test_for_real(run: Run, tree: Path, tmp_path: Path) -> None:
    run("convert", tree, tmp_path / "train-%06d.tar", "--shard-samples", 7)
    saved, page = tmp_path / "run.json", tmp_path / "page.html"
    quick = (
        "--quick",
        "--seconds",
        3,
        "--workers",
        0,
        "--repeats",
        1,
        "--no-device",
        "--batch-size",
        4,
    )
    result = run("bench", tmp_path / "train-%06d.tar", *quick, "--save", saved, "--report", page)
    assert "samples/s in training batches (" in result.stdout
    assert "webdataset" in result.stdout
    record = load_record(saved)
    assert record.finished
    assert record.cases
    assert 'role="img"' in page.read_text()
