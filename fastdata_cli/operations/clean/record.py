"""Verdicts and reports as JSON-able data, and as JSONL and CSV files (docs/clean-json.md)."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fastdata_cli.errors import UsageError
from fastdata_cli.keys import inert, to_text
from fastdata_cli.operations.clean.report import CleanReport
from fastdata_cli.quality.verdict import Reason, Score, Verdict
from fastdata_cli.storage.refusals import storage_errors
from fastdata_cli.whole_file import whole_file

VERSION = 1
HEAD = "fastdata_clean"
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)

_COLUMNS = (
    "key",
    "kept",
    "reasons",
    "detail",
    "notes",
    "duplicate_of",
    "distance",
    "moved_to",
)
_JSON_SUFFIXES = (".jsonl", ".ndjson")


def verdict_record(verdict: Verdict, moved_to: str | None = None) -> dict[str, Any]:
    """Return a verdict as JSON-able data; names stand in their text form."""
    first = verdict.duplicate_of
    return {
        HEAD: VERSION,
        "key": to_text(verdict.key),
        "index": verdict.index,
        "kept": verdict.kept,
        "reasons": [_reason(reason) for reason in verdict.reasons],
        "scores": {name: _plain(score) for name, score in verdict.scores.items()},
        "notes": list(verdict.notes),
        "duplicate_of": None if first is None else to_text(first),
        "against": verdict.against,
        "distance": verdict.distance,
        "moved_to": None if moved_to is None else to_text(moved_to),
    }


def report_record(report: CleanReport) -> dict[str, Any]:
    """Return a report as JSON-able data; of each score its quantiles."""
    return {
        HEAD: VERSION,
        "source": to_text(report.source),
        "looked_at": report.looked_at,
        "kept": report.kept,
        "bad": report.bad,
        "reasons": dict(report.reasons),
        "notes": {to_text(name): count for name, count in report.notes.items()},
        "thresholds": {name: _plain(value) for name, value in report.thresholds.items()},
        "scores": {
            name: {
                "count": found.count,
                "missing": found.missing,
                "quantiles": {f"{share:g}": found.quantile(share) for share in QUANTILES},
            }
            for name, found in report.scores.items()
        },
        "groups": [
            {
                "first": to_text(group.first),
                "against": group.against,
                "reason": group.reason,
                "count": group.count,
                "members": [
                    {"key": to_text(each.key), "distance": each.distance} for each in group.members
                ],
            }
            for group in report.groups
        ],
        "groups_found": report.groups_found,
        "cached": report.cached,
        "moved": report.moved,
        "seconds": report.seconds,
        "stages": [asdict(stage) for stage in report.stages],
    }


class VerdictFile:
    """Writes every verdict into a file, which appears whole when the run is over.

    Args:
        path: ``.jsonl``, ``.ndjson`` or ``.csv``. What is no file, such as a pipe, is written to
            as the verdicts come.
        scores: names of the scores: the columns of CSV.

    Raises:
        UsageError: another suffix, or a file that is no such report stands there.
        StorageError: it cannot be written.
    """

    def __init__(self, path: Path, scores: Sequence[str]) -> None:
        self._path = path
        self._is_csv = path.suffix == ".csv"
        if not self._is_csv and path.suffix not in _JSON_SUFFIXES:
            raise UsageError(
                f"--report {path}: its suffix stands for no kind of report",
                hint="end it in .jsonl or .csv",
            )
        self._scores = scores
        if path.is_file() or not path.exists():
            _require_ours(path)
        self._opened = ExitStack()
        with storage_errors(path):
            whole = self._opened.enter_context(whole_file(path, sync=True))
        self._file = TextIOWrapper(whole, encoding="utf-8", newline="")
        self._opened.callback(self._file.detach)  # it writes what it holds, and closes nothing
        if self._is_csv:
            self._rows = csv.writer(self._file)
            self._rows.writerow([*_COLUMNS, *scores])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with storage_errors(self._path):
            self._opened.__exit__(kind, problem, trace)

    def add(self, verdict: Verdict, moved_to: str | None = None) -> None:
        """Write one verdict."""
        record = verdict_record(verdict, moved_to)
        with storage_errors(self._path):
            if self._is_csv:
                self._rows.writerow(self._row(record))
            else:
                self._file.write(json.dumps(record) + "\n")

    def _row(self, record: Mapping[str, Any]) -> list[Any]:
        cells = {
            **record,
            "kept": str(record["kept"]).lower(),
            "reasons": " ".join(reason["name"] for reason in record["reasons"]),
            "detail": "; ".join(filter(None, (reason["detail"] for reason in record["reasons"]))),
            "notes": " ".join(record["notes"]),
        }
        row = [*(cells[name] for name in _COLUMNS), *map(record["scores"].get, self._scores)]
        # Names and EXIF are whatever a stranger made them.
        return [inert(cell) if isinstance(cell, str) else cell for cell in row]


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        "name": reason.name,
        "score": reason.score or None,
        "value": _plain(reason.value),
        "threshold": _plain(reason.threshold),
        "detail": to_text(reason.detail),
    }


def _plain(score: Score) -> Score:
    """Return a score as JSON has it, which lacks infinity."""
    return None if isinstance(score, float) and not math.isfinite(score) else score


def _require_ours(path: Path) -> None:
    """Raise if something else stands where a report is to go."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
    except FileNotFoundError:
        return
    except OSError as problem:
        raise UsageError(f"--report {path}: cannot be written ({problem.strerror})") from problem
    starts = (f'{{"{HEAD}":'.encode(), ",".join(_COLUMNS).encode()[:64])
    if head and not head.startswith(starts):
        raise UsageError(
            f"--report {path}: another file stands there; it was not touched",
            hint="choose another name",
        )
