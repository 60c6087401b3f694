"""The record of a benchmark: versioned JSON with every raw time, written again after each case.

One object. ``fastdata_bench`` is the version of the schema, 1; fields are added within a version,
and one that changes its meaning or goes away raises it. A reader ignores fields it does not know.

    fastdata_bench  1
    tool            version of fastdata that wrote it
    started         UTC, ISO 8601
    finished        false while the run goes on, and for good where it was interrupted
    environment     where it ran (timing/environment.py)
    options         the resolved options of the run
    cases           one for each case (timing/measure.py): every repeat with its raw seconds,
                    warm-up, latency percentiles, warnings, failure
    facts           what else the run found, by section
    verdicts        what follows from it, as shown to the person

History: 1, the first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np

from fastdata_cli import keys
from fastdata_cli._version import __version__
from fastdata_cli.errors import (
    DamagedDatasetError,
    SourceNotFoundError,
    StorageError,
    UsageError,
)
from fastdata_cli.json_text import parse
from fastdata_cli.timing.decode import decode
from fastdata_cli.timing.environment import Environment
from fastdata_cli.timing.measurement import Measurement
from fastdata_cli.whole_file import write_whole

RECORD_VERSION = 1


def utc_now() -> str:
    """Return the time in UTC as ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class Record:
    """One benchmark run, whole or as far as it got."""

    environment: Environment
    options: Mapping[str, Any] = field(default_factory=dict)
    cases: tuple[Measurement, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    """By section (datasets, device, stages …), JSON-able."""
    verdicts: tuple[Mapping[str, Any], ...] = ()
    finished: bool = False
    started: str = field(default_factory=utc_now)
    tool: str = __version__

    def with_case(self, case: Measurement) -> Self:
        """Return the record with ``case`` in place of the one of its name, or at the end."""
        names = [each.name for each in self.cases]
        if case.name not in names:
            return replace(self, cases=(*self.cases, case))
        at = names.index(case.name)
        return replace(self, cases=(*self.cases[:at], case, *self.cases[at + 1 :]))

    def case(self, name: str) -> Measurement | None:
        """Return the case of this name, if it was measured."""
        return next((case for case in self.cases if case.name == name), None)

    def to_json(self) -> str:
        """Return the JSON text. Numbers that JSON lacks (NaN, infinity) become null.

        Raises:
            TypeError: options, facts or verdicts hold something that JSON has no form for.
        """
        record = {"fastdata_bench": RECORD_VERSION, **plain(self)}
        return json.dumps(record, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str) -> Self:
        """Read a record; ``where`` names the file in errors.

        Raises:
            UsageError: no record, or one of another version.
            DamagedDatasetError: a record that lacks a field or holds another kind of value in it.
        """
        try:
            raw = parse(text)
        except ValueError:
            raw = None
        if not isinstance(raw, dict) or "fastdata_bench" not in raw:
            raise UsageError(
                f"{where} is not a record of fastdata bench",
                hint="write one with: fastdata bench PATH --save FILE",
            )
        if raw["fastdata_bench"] != RECORD_VERSION:
            raise UsageError(
                f"{where}: record version {raw['fastdata_bench']!r};"
                f" this fastdata reads {RECORD_VERSION}",
                hint="measure anew with --save, or use the version of fastdata that wrote it",
            )
        try:
            return decode(cls, raw)
        except ValueError as problem:
            raise DamagedDatasetError(
                f"{where}: the record is damaged: {problem}", hint="measure anew with --save"
            ) from problem


def save_record(record: Record, path: Path) -> None:
    """Write the record so that ``path`` holds, at any moment, the old one or the new one, whole.

    Raises:
        StorageError: the operating system refuses.
        TypeError: see ``Record.to_json``.
    """
    text = record.to_json().encode()
    try:
        # Not synced: it survives a kill, and a sync would stir the disk that is measured next.
        write_whole(path, text, sync=False)
    except OSError as problem:
        raise StorageError(
            f"{keys.to_text(str(path))}: the record cannot be written: {problem.strerror}",
            hint="give --save a file in a folder that can be written",
            path=str(path),
        ) from problem


def load_record(path: Path) -> Record:
    """Return the record that a file holds.

    Raises:
        SourceNotFoundError: no such file.
        UsageError: it cannot be read, is no record, or one of another version.
        DamagedDatasetError: a record with something missing.
    """
    where = keys.to_text(str(path))
    try:
        content = path.read_bytes()
    except FileNotFoundError as problem:
        raise SourceNotFoundError(f"{where}: no such file", path=str(path)) from problem
    except OSError as problem:
        raise UsageError(f"{where} cannot be read: {problem.strerror}") from problem
    return Record.from_json(content, where=where)


def plain(value: Any) -> Any:
    """Return ``value`` as JSON holds it: dataclasses as objects, arrays as lists, keys as text.

    Raises:
        TypeError: there is no such form.
    """
    match value:
        case float() | np.floating():
            return float(value) if math.isfinite(value) else None
        case None | bool() | int() | str():
            return value
        case Mapping():
            return {str(name): plain(item) for name, item in value.items()}
        case tuple() | list():
            return [plain(item) for item in value]
        case np.generic() | np.ndarray():
            return plain(value.tolist())
        case Path():
            return keys.to_text(str(value))
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    raise TypeError(f"a {type(value).__name__} has no form in JSON")
