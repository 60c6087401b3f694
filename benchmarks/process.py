"""Owns a side's process as the harness sees it: start, before, run, close."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from benchmarks.data import Data
from benchmarks.row import Side, Table
from fastdata_cli.errors import FastdataError
from fastdata_cli.timing.measure import Case, Work

_ROOT = Path(__file__).resolve().parents[1]

# Longer than any run or preparation takes, so that one that hangs does not hold up the others.
_PATIENCE_S = 600.0


class SideFailedError(FastdataError):
    """A side cannot be made ready, or failed while it ran."""


class SideProcess:
    """The process of one side; ready once constructed.

    Args:
        table: the table that the side belongs to.
        side: what to time.
        data: what it reads.
        name: of the measurement.
        python: the interpreter to run it with.

    Raises:
        SideFailedError: it cannot be made ready here; says why.
    """

    def __init__(
        self, table: Table, side: Side, data: Data, *, name: str, python: Path | None = None
    ) -> None:
        self.name = name
        self._data = data
        self._process = subprocess.Popen(
            [python or sys.executable, "-m", "benchmarks.child"],
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("BENCH_TRACEBACK") else subprocess.DEVNULL,
            text=True,
        )
        question = {"table": table.name, "side": side.name, "data": asdict(data)}
        try:
            answer = self._ask(json.dumps(question))
        except BaseException:
            self.close()
            raise
        self.files = [Path(text) for text in answer["files"]]

    def case(self) -> Case:
        """Return the side as something to measure."""
        return Case(name=self.name, run=self._run, prepare=lambda: self._ask("before"))

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            _stream(self._process.stdin).close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _stream(self._process.stdout).close()

    def _run(self) -> Work:
        answer = self._ask("run")
        return Work(samples=answer["samples"], bytes=answer["bytes"], facts=answer["facts"])

    def _ask(self, line: str) -> Any:
        try:
            _stream(self._process.stdin).write(line + "\n")
            _stream(self._process.stdin).flush()
        except OSError as problem:
            raise self._ended() from problem
        stdout = _stream(self._process.stdout)
        if not select.select([stdout], [], [], _PATIENCE_S)[0]:
            self._process.kill()
            raise SideFailedError(f"{self.name}: no answer for {_PATIENCE_S:g} s")
        text = stdout.readline()
        if not text:
            raise self._ended()
        answer = json.loads(text)
        if "failure" in answer:
            raise self._failed(**answer["failure"])
        return answer

    def _failed(self, *, kind: str, message: str, hint: str) -> SideFailedError:
        # A record may be published, and names no folder of this machine.
        for folder, word in ((self._data.work, "data"), (str(_ROOT), ".")):
            message, hint = message.replace(folder, word), hint.replace(folder, word)
        return SideFailedError(message, hint=hint, kind=kind)

    def _ended(self) -> SideFailedError:
        return SideFailedError(
            f"{self.name}: its process ended",
            hint="BENCH_TRACEBACK=1 shows what it said",
        )


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None, "all streams are pipes"
    return stream
