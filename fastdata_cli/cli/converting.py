"""Carrying out a plan from the command line: what is said when somebody interrupts it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import typer

from fastdata_cli.cli.output import say
from fastdata_cli.cli.progress import Talk
from fastdata_cli.errors import EXIT_FOUND, EXIT_INTERRUPTED
from fastdata_cli.operations.convert import ConvertReport, convert
from fastdata_cli.operations.destination import already_published
from fastdata_cli.operations.plan import Plan
from fastdata_cli.operations.preflight import preflight
from fastdata_cli.storage.staging import staging_root


def run_plan(
    plan: Plan, jobs: int | None, overwrite: bool, listener: Talk, *, look_ahead: bool = True
) -> ConvertReport:
    """Carry out a plan; an interruption says how to go on, and exits.

    So does a plan that a run before this one had carried out when it was killed.

    Args:
        look_ahead: refuse what the disk has no room for before anything is written.
    """
    if not overwrite and plan.growth is None:
        _end_if_published(plan, listener)
    try:
        if look_ahead:
            preflight(plan)
        report = convert(plan, jobs=jobs, overwrite=overwrite, listener=listener)
    except KeyboardInterrupt:
        say(_how_it_stands(plan, overwrite=overwrite), style="yellow")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if report.interrupted:
        say(_too_late(plan.path), style="yellow")
        raise typer.Exit(EXIT_INTERRUPTED)
    return report


@contextlib.contextmanager
def complete(path: Path) -> Iterator[None]:
    """Say, where somebody interrupts the block, that the dataset at ``path`` is complete."""
    try:
        yield
    except KeyboardInterrupt:
        say(_too_late(path), style="yellow")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _how_it_stands(plan: Plan, *, overwrite: bool) -> str:
    kept = staging_root(plan.path)
    if kept.exists():
        return (
            f"interrupted: finished parts are kept in {kept}; the same command continues from there"
        )
    if not overwrite and plan.growth is None and plan.format.recognises(plan.path):
        return _too_late(plan.path)  # nothing stood there before
    return "interrupted: nothing was finished yet, nothing is left behind"


def _too_late(path: Path) -> str:
    return f"interrupted, but too late: {path} is complete"


def _end_if_published(plan: Plan, listener: Talk) -> None:
    found = already_published(plan.path, plan.format, plan.fingerprint)
    if found is None:
        return
    listener.notice(
        f"{plan.path} is complete: the run before had published it when it was killed;"
        f" {staging_root(plan.path).name} is cleared away"
    )
    raise typer.Exit(EXIT_FOUND if found.counts.get("too_many_bad") else 0)
