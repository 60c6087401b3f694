"""Owns the sides that convert: ours, within its process, and clearing what a run has written."""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.data import Data, files_below
from benchmarks.row import MakeReady, Ready
from fastdata_cli.timing.measure import Work


def conversion(name: str, suffix: str, **options: Any) -> MakeReady:
    """Return a side that converts the photographs, without the time that Python takes to start.

    Args:
        name: the format to convert to.
        suffix: of the destination.
        options: of convert, and of the format.
    """

    def ready(data: Data) -> Ready:
        target = data.scratch(f"ours{suffix}")
        return writing(data, target, partial(_convert, Path(data.photos), target, name, options))

    return ready


def writing(data: Data, target: Path, run: Callable[[], dict[str, Any] | None]) -> Ready:
    """Return a side that reads all photographs and writes ``target`` anew in each run.

    Args:
        data: has the photographs.
        target: what is written; cleared before each run.
        run: writes it; what it returns are facts of the run.
    """
    files = files_below(data.photos)
    size = sum(file.stat().st_size for file in files)

    def once() -> Work:
        return Work(samples=len(files), bytes=size, facts=run() or {})

    atexit.register(remove, target)
    return Ready(run=once, before=partial(clear, target), files=files)


def clear(target: Path) -> None:
    """Delete what a run has written, and wait until the disk has done all writing.

    Else a run would be slowed by what the run before it left to be written.
    """
    remove(target)
    target.parent.mkdir(parents=True)
    os.sync()


def remove(target: Path) -> None:
    """Delete the folder of ``Data.scratch``: what was written, and what lies beside it."""
    shutil.rmtree(target.parent, ignore_errors=True)


def _convert(source: Path, target: Path, name: str, options: dict[str, Any]) -> dict[str, Any]:
    from fastdata_cli import registry
    from fastdata_cli.operations.convert import convert
    from fastdata_cli.operations.events import Silent
    from fastdata_cli.operations.plan import make_plan
    from fastdata_cli.operations.settings import ConvertOptions, SourceOptions
    from fastdata_cli.operations.source import open_source

    row = registry.for_destination(target, name)
    known = {field.name for field in fields(ConvertOptions)}
    ours = {key: value for key, value in options.items() if key in known}
    rest = {key: value for key, value in options.items() if key not in known}
    plan = make_plan(
        open_source(str(source), SourceOptions(), {}),
        target,
        row,
        ConvertOptions(**ours),
        row.write_options.from_mapping(rest, owner=name),
        Silent(),
    )
    return {f"{stage.name}_s": stage.seconds for stage in convert(plan).stages}
