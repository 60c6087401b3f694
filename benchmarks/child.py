"""Owns the process of one side: makes it ready, then runs it once for each line it is sent.

A side has a process of its own so that no side inherits memory, threads or settings of another,
and so that a peer may live in another virtual environment. Asked in JSON, a line each:

    in    {"table", "side", "data"}     first; then "before" or "run"; the end of input ends it
    out   {"files"}                     once ready
          {}                            after "before"
          {"samples", "bytes", "facts"} after "run"
          {"failure": {kind, message, hint}} in place of any of them
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

from benchmarks.data import Data
from benchmarks.row import Ready, Side
from benchmarks.suite import table_named
from fastdata_cli.errors import FastdataError
from fastdata_cli.timing.record import plain


def main() -> None:
    """Serve one side until the input ends."""
    answers = _private_stdout()
    question = json.loads(sys.stdin.readline())
    side = _side(question["table"], question["side"])
    ready: list[Ready] = []

    def start() -> dict[str, Any]:
        ready.append(side.ready(Data(**question["data"])))
        return {"files": [str(path) for path in ready[0].files]}

    if not _answer(answers, start):
        return
    for line in sys.stdin:
        wish = line.strip()
        if not _answer(answers, lambda wish=wish: _serve(ready[0], wish)):  # type: ignore[misc]
            return


def _serve(ready: Ready, wish: str) -> dict[str, Any]:
    if wish == "before":
        if ready.before:
            ready.before()
        return {}
    work = ready.run()
    return {"samples": work.samples, "bytes": work.bytes, "facts": plain(work.facts)}


def _answer(answers: TextIO, make: Callable[[], dict[str, Any]]) -> bool:
    """Send what ``make`` returns, or its failure; return whether it went well."""
    try:
        answer = make()
    except FastdataError as problem:
        found = (type(problem).__name__, problem.message, problem.hint)
        answer = {"failure": dict(zip(("kind", "message", "hint"), found, strict=True))}
    except Exception as problem:
        text = str(problem).strip().splitlines() or [""]
        kind = type(problem).__name__
        answer = {"failure": {"kind": kind, "message": f"{kind}: {text[0]}", "hint": ""}}
        if os.environ.get("BENCH_TRACEBACK"):
            raise
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
    return "failure" not in answer


def _private_stdout() -> TextIO:
    """Return what stdout was, and let everything that prints there print to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _side(table: str, name: str) -> Side:
    return next(side for side in table_named(table).sides if side.name == name)


if __name__ == "__main__":
    main()
