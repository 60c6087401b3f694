"""Keeps the record of a run on disk, whole at any moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from fastdata_cli.operations.bench.compare import measurements
from fastdata_cli.operations.bench.report import BenchReport
from fastdata_cli.timing.measurement import Measurement
from fastdata_cli.timing.record import Record, plain, save_record

_SECTIONS = (
    "datasets", "device", "reads", "stages", "ceilings", "loaders",
    "fast_loaders", "consumers", "steps",
)  # fmt: skip

_SENTENCES = ("host_to_device", "notes", "to_paste", "seconds")


class Recorder:
    """Writes the record after each result.

    Args:
        report: with what is known at the beginning.
        path: the file; None keeps the record in memory.

    Attributes:
        record: as far as the run got.
    """

    def __init__(self, report: BenchReport, path: Path | None) -> None:
        self.record = replace(record_of(report), finished=False)
        self._path = path
        self._save()

    def case(self, measurement: Measurement) -> None:
        """Take in the state of a case."""
        self.record = self.record.with_case(measurement)
        self._save()

    def report(self, report: BenchReport, *, finished: bool = False) -> None:
        """Take in all rows so far."""
        self.record = replace(
            self.record,
            facts=facts_of(report),
            verdicts=tuple(plain(each) for each in report.verdicts),
            finished=finished,
        )
        self._save()

    def _save(self) -> None:
        if self._path is not None:
            save_record(self.record, self._path)


def record_of(report: BenchReport) -> Record:
    """Return the record of a finished run, as ``--save`` writes it."""
    return Record(
        environment=report.environment,
        options=report.options,
        started=report.started,
        cases=measurements(report),
        facts=facts_of(report),
        verdicts=tuple(plain(each) for each in report.verdicts),
        finished=True,
    )


def facts_of(report: BenchReport) -> dict[str, Any]:
    """Return the sections of a record: the rows of a report, its measurements named, not repeated.

    A row's ``case`` is the name of its measurement among the cases.
    """
    sections: dict[str, Any] = {name: _rows(getattr(report, name)) for name in _SECTIONS}
    return {**sections, **{name: plain(getattr(report, name)) for name in _SENTENCES}}


def _rows(rows: Any) -> Any:
    if isinstance(rows, Mapping):
        return plain(rows)
    return [_row(row) for row in rows]


def _row(row: Any) -> dict[str, Any]:
    found = {}
    for each in fields(row):
        value = getattr(row, each.name)
        if isinstance(value, Measurement):
            found["case"] = value.name
        else:
            found[each.name] = plain(value)
    return found
