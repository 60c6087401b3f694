"""Every row of the benchmarks runs on a tiny set and produces its record; nothing is timed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import data as data_module
from benchmarks import document, loops, photos, run, suite
from benchmarks.data import Data
from benchmarks.memory import Peak, peak_of
from benchmarks.peers import environments
from benchmarks.results import Judgement, TableFacts, Verdict, facts_of, judge
from benchmarks.row import Limit, Ready, Row, Side, Table
from benchmarks.rows import cold, limits
from benchmarks.tables import markdown
from fastdata_cli.cli.main import build_app
from fastdata_cli.errors import FastdataError, MissingDependencyError, UsageError
from fastdata_cli.timing.cache import Residency
from fastdata_cli.timing.environment import environment
from fastdata_cli.timing.measurement import Failure, Measurement, Repeat
from fastdata_cli.timing.record import Record, load_record, plain

SIDES = [(table, side) for table in suite.TABLES for side in table.sides]
OURS = [
    pytest.param(table, side, id=table.case_name(side)) for table, side in SIDES if not side.peer
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Data]:
    """A dozen painted images, and containers made within this process."""
    work = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(photos, "_LARGE_SIDE", 400)
        patch.setattr(photos, "LARGE_COUNT", 2)
        patch.setattr(data_module, "run_convert", convert_here)
        patch.setattr(loops, "PIXELS_A_RUN", 1)
        patch.setattr(limits, "peak_of", peak_here)
        # What can be evicted depends on the file system under the tests.
        gone = Residency(total_bytes=1, resident_bytes=0, method="none")
        patch.setattr(cold, "evict", lambda files: gone)
        patch.setattr(os, "sync", lambda: None)
        made = photos.make_photos(work, None, 12)
        yield Data(
            photos=made.folder,
            large=made.large,
            work=str(Path(made.folder).parent),
            decoded=6,
            many=400,
            threads=2,
        )


def convert_here(words: Sequence[str]) -> None:
    from typer.testing import CliRunner

    result = CliRunner().invoke(build_app("convert"), ["convert", *words, "--quiet"])
    assert result.exit_code == 0, result.output


def peak_here(command: Sequence[str]) -> Peak:
    convert_here(command[command.index("convert") + 1 : -1])
    return Peak(rss_bytes=1_000_000, pss_bytes=1_000_000)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("table", "side"), OURS)
def test_every_side_runs(table: Table, side: Side, tiny: Data) -> None:
    ready = side.ready(tiny)
    if ready.before:
        ready.before()
    work = ready.run()
    assert work.samples > 0
    assert all(path.is_file() for path in ready.files)
    for limit in next((row.limits for row in table.rows if row.name == side.name), ()):
        assert limit.fact is None or limit.fact in work.facts


def test_names_are_unique() -> None:
    names = [table.case_name(side) for table, side in SIDES]
    assert len(names) == len(set(names))
    assert all(
        row.name.startswith(f"{table.name}/") for table in suite.TABLES for row in table.rows
    )
    assert {side.peer for _, side in SIDES if side.peer} == set(environments.REQUIREMENTS)


def test_peak_of_a_command() -> None:
    peak = peak_of([sys.executable, "-c", "import time; x = b'1' * 80_000_000; time.sleep(0.4)"])
    assert 80_000_000 < peak.pss_bytes < 200_000_000
    assert 80_000_000 < peak.rss_bytes < 200_000_000
    with pytest.raises(FastdataError, match="exit code 3"):
        peak_of([sys.executable, "-c", "raise SystemExit(3)"])


# -- images ----------------------------------------------------------------------------------------


def test_painted_images_are_labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photos, "_LARGE_SIDE", 300)
    monkeypatch.setattr(photos, "LARGE_COUNT", 1)
    painted = photos.make_photos(tmp_path, None, 3)
    assert painted.words.startswith("No photographs: 3 JPEG files, the painted images")
    given = photos.make_photos(tmp_path, photos.SAMPLE_DATA / "scenes", 40)
    assert given.distinct < 40
    assert given.words.startswith(f"40 JPEG files, copies of {given.distinct} different ones.")
    assert "no camera's" in given.words
    copies = data_module.files_below(given.folder)
    assert len({path.stat().st_ino for path in copies}) == 40
    with pytest.raises(FastdataError, match="no such folder"):
        photos.make_photos(tmp_path, tmp_path / "absent", 3)


# -- what follows from measurements ----------------------------------------------------------------


def _side(name: str, **fields: str) -> Side:
    return Side(name=name, what=f"what {name} does", ready=_never, **fields)


def _never(data: Data) -> Ready:
    raise AssertionError(f"nothing is made ready here, not even {data}")


def _row(name: str, **fields: object) -> Row:
    return Row(name=f"t/{name}", what=name, ready=_never, **fields)  # type: ignore[arg-type]


def _measured(name: str, seconds: float, **facts: float) -> Measurement:
    repeats = [
        Repeat(seconds=seconds, samples=100, bytes=100, position=at, runs=2, facts=facts)
        for at in range(5)
    ]
    return Measurement(name=name, repeats=tuple(repeats))


def _failed(name: str) -> Measurement:
    failure = Failure(kind="MissingDependencyError", message="x is not there", hint="pip install x")
    return Measurement(name=name, failure=failure)


def _judged(table: Table, *cases: Measurement) -> tuple[Record, TableFacts, list[Judgement]]:
    facts = facts_of(table, {}, {})
    record = Record(environment=environment([]), cases=cases, facts={"tables": [plain(facts)]})
    return record, facts, list(judge(record, facts))


def test_a_row_is_judged_by_its_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = _side("r")
    table = Table(
        name="t",
        title="T",
        text="x",
        rows=(
            _row("fast", reference=reference, target=1.5),
            _row("slow", reference=reference, target=0.9, why="Reading takes it all."),
            _row("absent", reference=reference, target=0.9),
            _row("free", reference=reference),
        ),
        peers=(_side("peer", peer="grain"), _side("not asked for", peer="ffcv")),
        fact="bytes_read",
        column="read",
    )
    record, facts, judged = _judged(
        table,
        _measured("t/r", 2.0),
        _measured("t/fast", 1.0),
        _measured("t/slow", 4.0),
        _failed("t/absent"),
        _measured("t/free", 8.0),
        _measured("t/peer", 0.5, bytes_read=1.25),
    )
    assert [each.verdict for each in judged] == [
        Verdict.MET, Verdict.NOT_MET, Verdict.NOT_MEASURED, Verdict.NO_TARGET,
    ]  # fmt: skip
    text = "\n".join(markdown(record, facts))
    assert "| **fast** | 100 | r | 50 | 2.00 (2.00–2.00) | — | 1.5 | met |" in text
    assert "| **slow** | 25 | r | 50 | 0.50 (0.50–0.50) | — | 0.9 | **not met** |" in text
    assert "| **free** | 12 | r | 50 | 0.25 (0.25–0.25) | — |  |  |" in text
    assert "| what peer does | 200 | r | 50 | 4.00 (4.00–4.00) | 1.25 |  |  |" in text
    assert "not asked for" not in text
    assert "- absent: x is not there (pip install x)." in text
    monkeypatch.setattr(document, "TABLES", (table,))
    losses = list(document._losses(record, [facts]))
    assert losses == [
        "- **T**: slow 0.50 (0.50–0.50) of 0.9. Reading takes it all.",
        "- **T**: absent not measured; free 0.25 (0.25–0.25) of its reference. Not explained yet.",
        "- **T: what peer does** is ahead of: fast 0.50 (0.50–0.50); slow 0.12 (0.12–0.12);"
        " free 0.06 (0.06–0.06).",
    ]


@pytest.mark.parametrize("there", [True, False])
def test_a_reference_that_is_absent_has_a_stand_in(there: bool) -> None:
    row = _row("a", reference=_side("best", peer="ffcv"), target=1.0, stand_in=(_side("r"), 3.0))
    best = _measured("t/best", 1.0) if there else _failed("t/best")
    table = Table(name="t", title="T", text="x", rows=(row,))
    _, _, (judged,) = _judged(table, best, _measured("t/r", 2.0), _measured("t/a", 1.0))
    assert judged.reference is not None
    found = (judged.reference.name, judged.target, judged.verdict)
    assert found == (("best", 1.0, Verdict.MET) if there else ("r", 3.0, Verdict.NOT_MET))


def test_a_limit_is_judged_by_the_largest_figure() -> None:
    limit = Limit(most=400, unit="MB", fact="peak_mb")
    rows = (
        _row("small", limits=(limit,)),
        _row("large", limits=(limit,)),
        _row("quick", limits=(Limit(most=0.5, unit="s"),)),
        _row("unknown", limits=(limit,)),
    )
    table = Table(name="t", title="T", text="x", rows=rows)
    record, facts, judged = _judged(
        table,
        _measured("t/small", 1.0, peak_mb=100.0),
        _measured("t/large", 1.0, peak_mb=401.0),
        _measured("t/quick", 0.9),  # two runs
        _measured("t/unknown", 1.0),
    )
    assert [each.verdict for each in judged] == [
        Verdict.MET, Verdict.NOT_MET, Verdict.MET, Verdict.NOT_MEASURED,
    ]  # fmt: skip
    assert "| **quick** | 0.45 s | 0.5 s | met |" in "\n".join(markdown(record, facts))


# -- a whole run -----------------------------------------------------------------------------------


def test_a_run_gives_a_record_and_a_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(photos, "_LARGE_SIDE", 300)
    monkeypatch.setattr(document, "DOCUMENT", tmp_path / "performance.md")
    monkeypatch.setattr(document, "RESULTS", tmp_path / "results")
    monkeypatch.delenv("PHOTOS", raising=False)
    saved = tmp_path / "record.json"
    words = ["--only", "bare/raw", "--rounds", "1", "--samples", "8", "--seconds", "0"]
    assert run.main([*words, "--work", str(tmp_path / "work"), "--save", str(saved)]) == 0
    assert "**raw, read_many**" in capsys.readouterr().out
    record = load_record(saved)
    assert record.finished
    assert {case.name for case in record.cases} == {"bare/memmap", "bare/raw"}
    assert all(case.repeats[0].samples == 20_000 for case in record.cases)
    (table,) = record.facts["tables"]
    assert {each["after"] for each in table["warmth"]} <= {"warm", "unknown"}
    assert str(tmp_path) not in saved.read_text()
    assert document.main([str(saved)]) == 0
    text = (tmp_path / "performance.md").read_text()
    (kept,) = (tmp_path / "results").iterdir()
    assert f"results/{kept.name}" in text
    assert load_record(kept) == record
    assert "No photographs" in text
    assert document.main([str(saved), str(saved)]) == 0
    assert (
        "one run of it, bare once more with 1 rounds" in (tmp_path / "performance.md").read_text()
    )


def test_tables_that_were_measured_again() -> None:
    def record(rate: float, table: str, version: str = "1") -> Record:
        facts = {"tables": [{"name": "t", "text": table}, {"name": "u"}][: 1 + (rate == 1)]}
        where = replace(environment(()), fastdata=version)
        return Record(
            environment=where,
            options={"rounds": 9},
            cases=(_measured("t/a", rate),),
            facts=facts,
        )

    first, later = record(1, "old"), record(2, "new")
    merged = document.measured_again(first, later)
    assert merged.cases == later.cases
    assert merged.facts["tables"] == [{"name": "t", "text": "new"}, {"name": "u"}]
    assert merged.facts["again"] == ["t once more with 9 rounds"]
    with pytest.raises(UsageError, match="do not mix"):
        document.measured_again(first, record(2, "new", version="2"))


def test_a_side_that_fails_costs_only_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "ENVIRONMENTS", tmp_path)
    with pytest.raises(MissingDependencyError, match="was not installed"):
        environments.python_for("grain")
    monkeypatch.setitem(environments.REQUIREMENTS, "grain", ("./no-such-directory",))
    environments.install_missing(["grain"])
    with pytest.raises(MissingDependencyError, match=r"could not be installed: .*no-such"):
        environments.python_for("grain")
    assert environments.versions(["grain"]) == {}


@pytest.mark.parametrize("wrong", ["nothing", "pixels/nothing"])
def test_an_unknown_row_is_a_usage_error(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--only", wrong]) == UsageError.exit_code
    assert "hint: " in capsys.readouterr().err


def test_chosen_rows_keep_their_references() -> None:
    (table,) = run._chosen(["pixels/raw", "pixels/h5py"])
    assert [side.name for side in table.sides] == ["memmap", "pixels/raw", "h5py"]
    assert [table.name for table in run._chosen(None)] == [
        table.name for table in suite.TABLES if table.by_default
    ]
