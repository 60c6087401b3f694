"""Consoles and errors of the command line: stdout is data, stderr is talk."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from fastdata_cli.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    FastdataError,
    StorageError,
    UsageError,
)
from fastdata_cli.keys import printable

EXIT_NO_READER = 141
"""As of a process that SIGPIPE ended: who reads the results went away."""

_DEBUG = "FASTDATA_DEBUG"


def talk() -> Console:
    """Return the console on stderr."""
    return Console(stderr=True, highlight=False)


def data() -> Console:
    """Return the console on stdout; wide when nobody's terminal limits it."""
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 100
    return _Data(highlight=False, width=width)


class _Data(Console):
    """Lets the command say how it ends when its reader went away."""

    def on_broken_pipe(self) -> None:
        """Pass it on."""
        raise BrokenPipeError


_PAGE_BYTES = 64


def say(text: str, *, style: str = "") -> None:
    """Print one line to stderr, without markup."""
    talk().print(Text(printable(text), style=style), soft_wrap=True)


def reports_errors(function: Callable[..., None]) -> Callable[..., None]:
    """Turn what a command raises into one line on stderr and an exit code."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except FastdataError as problem:
            raise typer.Exit(fail(problem)) from None
        except KeyboardInterrupt:
            say("interrupted", style="yellow")
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except BrokenPipeError:  # the reader went away
            raise typer.Exit(EXIT_NO_READER) from None
        except OSError as problem:
            raise typer.Exit(fail(StorageError(_os_error_text(problem)))) from None
        except MemoryError as problem:
            text = f"not enough memory: {problem}".rstrip(": ")
            raise typer.Exit(fail(FastdataError(text))) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as problem:
            if os.environ.get(_DEBUG):
                raise
            say(f"internal error: {type(problem).__name__}: {problem}", style="bold red")
            say(f"hint: this is a fault of fastdata; {_DEBUG}=1 shows where", style="yellow")
            raise typer.Exit(EXIT_FAILED) from None

    return run


def require_place(path: Path | None) -> None:
    """Raise before the work is done, not after it, if its file cannot be written.

    Raises:
        UsageError: a folder has the name, or the system would refuse.
    """
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{printable(str(path))} is a folder: a file is needed")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(
            f"{printable(str(path))} cannot be written",
            hint="give a file in a folder that exists and can be written",
        )


def require_page_place(path: Path | None) -> None:
    """As ``require_place``, for a page: nothing but an earlier page is replaced by it.

    Raises:
        UsageError: it cannot be written, or something else is there.
    """
    require_place(path)
    if path is not None and path.is_file() and path.stat().st_size:
        with open(path, "rb") as file:
            start = file.read(_PAGE_BYTES).lstrip().lower()
        if not start.startswith(b"<!doctype html"):
            raise UsageError(
                f"{printable(str(path))} is there, and is no page: it is not overwritten",
                hint="choose another name, such as page.html",
            )


def _os_error_text(problem: OSError) -> str:
    place = problem.filename2 or problem.filename
    reason = problem.strerror or str(problem)
    return reason if place is None else f"{os.fsdecode(place)}: {reason}"


def fail(problem: FastdataError) -> int:
    """Print an error with its hint; return its exit code."""
    say(f"error: {problem.message}", style="bold red")
    if problem.hint:
        say(f"hint: {problem.hint}", style="yellow")
    return problem.exit_code
