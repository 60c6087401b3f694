"""Owns one run: the data, a process for each side, rounds of all sides in turn, the record."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.data import Data
from benchmarks.peers.environments import install_missing, python_for, versions
from benchmarks.photos import Photos, make_photos
from benchmarks.process import SideProcess
from benchmarks.results import facts_of, tables_of
from benchmarks.row import Side, Table
from benchmarks.tables import markdown
from fastdata_cli.errors import FastdataError
from fastdata_cli.timing.cache import Residency, residency, touch
from fastdata_cli.timing.environment import Environment, environment, usable_cores
from fastdata_cli.timing.measure import measure
from fastdata_cli.timing.measurement import Failure, Measurement
from fastdata_cli.timing.record import Record, plain, save_record

# A run is never cut short by it: the rounds are the limit.
_BUDGET_S = 3600.0

# A record may be published: it names no folder of this machine.
_PLACES = ("work", "photos", "save", "folder", "large")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the caller chose."""

    work: Path
    photos: Path | None
    samples: int
    decoded: int
    many: int
    rounds: int
    seconds: float
    save: Path | None
    fresh: bool
    peers: bool


def run_tables(tables: Sequence[Table], settings: Settings) -> Record:
    """Measure tables one after another, print each as it is done, and keep the record.

    Raises:
        FastdataError: there is no data to measure with; a side that fails costs only its row.
    """
    wanted = (side.peer for table in tables for side in table.sides if settings.peers)
    peers = tuple(dict.fromkeys(peer for peer in wanted if peer))
    install_missing(peers)
    photos = make_photos(
        settings.work.resolve(), settings.photos, settings.samples, fresh=settings.fresh
    )
    print(photos.words, flush=True)
    data = Data(
        photos=photos.folder,
        large=photos.large,
        work=str(Path(photos.folder).parent),
        decoded=settings.decoded,
        many=settings.many,
        threads=usable_cores(),
    )
    record = Record(
        environment=_anywhere(settings.work),
        options={name: value for name, value in asdict(settings).items() if name not in _PLACES},
        facts={"photos": _described(photos), "peers": versions(peers), "tables": []},
    )
    for table in tables:
        begin = time.monotonic()
        record = _TableRun(table, settings, data).into(record)
        print(f"{table.name}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
        if settings.save:
            save_record(record, settings.save)
        print("\n" + "\n".join(markdown(record, tables_of(record)[-1])), flush=True)
    record = replace(record, finished=True)
    if settings.save:
        save_record(record, settings.save)
    return record


def _anywhere(work: Path) -> Environment:
    """Describe the machine without saying where on it the data lies."""
    found = environment([work])
    return replace(found, storage=tuple(replace(each, path="data") for each in found.storage))


def _described(photos: Photos) -> dict[str, Any]:
    return {name: value for name, value in asdict(photos).items() if name not in _PLACES}


class _TableRun:
    """One table under way."""

    def __init__(self, table: Table, settings: Settings, data: Data) -> None:
        self.table = table
        self.settings = settings
        self.data = data
        seconds = table.min_repeat_s
        self.min_repeat_s = settings.seconds if seconds is None else seconds
        self.failures: dict[str, Measurement] = {}

    def into(self, record: Record) -> Record:
        """Measure all sides and return the record with them."""
        sides = [side for side in self.table.sides if self.settings.peers or not side.peer]
        with contextlib.ExitStack() as stack:
            with ThreadPoolExecutor(self.data.threads) as pool:
                started = pool.map(lambda side: self._started(side, stack), sides)
            running = [process for process in started if process]
            files = {process.name: process.files for process in running}
            touch(dict.fromkeys(path for paths in files.values() for path in paths))
            before = _warmth(files)
            measured = measure(
                [process.case() for process in running],
                repeats=self.table.rounds or self.settings.rounds,
                warmup=self.table.warmup,
                min_repeat_s=self.min_repeat_s,
                budget_s=_BUDGET_S,
            )
            after = _warmth(files)
        for case in (*measured, *self.failures.values()):
            record = record.with_case(case)
        tables = [*record.facts["tables"], plain(facts_of(self.table, before, after))]
        return replace(record, facts={**record.facts, "tables": tables})

    def _started(self, side: Side, stack: contextlib.ExitStack) -> SideProcess | None:
        """Return the process of a side that is ready; else keep why there is none."""
        name = self.table.case_name(side)
        try:
            python = python_for(side.peer)
            process = SideProcess(self.table, side, self.data, name=name, python=python)
        except FastdataError as problem:
            failure = Failure(
                kind=type(problem).__name__, message=problem.message, hint=problem.hint
            )
            self.failures[name] = Measurement(name=name, failure=failure)
            return None
        stack.callback(process.close)
        return process


def _warmth(files: Mapping[str, Sequence[Path]]) -> dict[str, Residency]:
    """Return how much of what each side reads is in the page cache."""
    return {name: residency(paths) for name, paths in files.items() if paths}
