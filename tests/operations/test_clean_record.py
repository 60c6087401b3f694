"""Reports of clean as files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from fastdata_cli.errors import StorageError
from fastdata_cli.keys import from_text
from fastdata_cli.operations.clean.record import VerdictFile
from fastdata_cli.quality.verdict import Reason, Verdict

NAMES = ["=cmd|'calc'!A0.jpg", "+1.jpg", "-n.jpg", "@x.jpg", "a=b.jpg", "new\nline%41\udcff.jpg"]


def test_no_name_is_a_formula_in_a_table(tmp_path: Path) -> None:
    with VerdictFile(tmp_path / "why.csv", ["exif_date"]) as report:
        for at, name in enumerate(NAMES):
            reason = Reason("duplicate", detail="=1+1")
            verdict = Verdict(name, at, (reason,), {"exif_date": "=now()"}, duplicate_of=NAMES[0])
            report.add(verdict, moved_to=name)
    with open(tmp_path / "why.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert not [cell for row in rows for cell in row.values() if cell.startswith(tuple("=+-@"))]
    for column in ("key", "moved_to"):
        assert [from_text(row[column]) for row in rows] == NAMES
    assert {from_text(row["duplicate_of"]) for row in rows} == {NAMES[0]}


@pytest.mark.parametrize("name", ["why.csv", "why.jsonl"])
def test_a_report_is_whole_or_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(ZeroDivisionError), VerdictFile(tmp_path / name, []) as report:
        report.add(Verdict("a.jpg", 0, ()), moved_to=str(1 // 0))
    assert list(tmp_path.iterdir()) == []
    with VerdictFile(tmp_path / name, []) as report, VerdictFile(tmp_path / name, []) as other:
        report.add(Verdict("a.jpg", 0, ()))
        other.add(Verdict("b.jpg", 0, ()))
    assert len((tmp_path / name).read_text().splitlines()) == 1 + name.endswith(".csv")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_report_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageError, match=r"none/why\.csv"):
        VerdictFile(tmp_path / "none" / "why.csv", [])
    with VerdictFile(tmp_path / "why.jsonl", []) as report:
        report.add(Verdict("-n.jpg", 0, ()))
    assert json.loads((tmp_path / "why.jsonl").read_text())["key"] == "-n.jpg"

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    with (
        pytest.raises(StorageError, match="no space left"),
        VerdictFile(tmp_path / "why.jsonl", []) as report,
    ):
        report.add(Verdict("b.jpg", 0, ()))
    assert json.loads((tmp_path / "why.jsonl").read_text())["key"] == "-n.jpg"
