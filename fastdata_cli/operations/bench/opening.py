"""Opens the datasets under test; one that cannot be measured does not end the others."""

from __future__ import annotations

from collections.abc import Sequence

from fastdata_cli.contract import Reader
from fastdata_cli.errors import FastdataError, UsageError
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.subject import Subject, open_subject
from fastdata_cli.operations.events import Listener


def open_subjects(
    readers: Sequence[tuple[str, Reader, str]], options: BenchOptions, listener: Listener
) -> tuple[list[Subject], dict[str, None]]:
    """Look at the datasets; return those that can be measured, and why others cannot.

    Raises:
        FastdataError: not one can; the error of the first.
    """
    subjects: list[Subject] = []
    notes: dict[str, None] = {}
    problems: list[FastdataError] = []
    for name, reader, format_name in readers:
        try:
            subjects.append(open_subject(name, reader, format_name, options, listener))
        except UsageError:
            raise
        except FastdataError as problem:
            problems.append(problem)
            notes[f"{name} was not measured: {problem.message.removeprefix(f'{name}: ')}"] = None
    if not subjects:
        raise problems[0]
    return subjects, notes
