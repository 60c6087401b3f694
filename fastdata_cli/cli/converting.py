"""Carrying out a plan from the command line: what is said when somebody interrupts it."""

from __future__ import annotations

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
        kept = staging_root(plan.path)
        text = "interrupted: nothing was finished yet, nothing is left behind"
        if kept.exists():
            text = (
                f"interrupted: finished parts are kept in {kept}; "
                "the same command continues from there"
            )
        say(text, style="yellow")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if report.interrupted:
        say(f"interrupted, but too late: {plan.path} is complete", style="yellow")
        raise typer.Exit(EXIT_INTERRUPTED)
    return report


def _end_if_published(plan: Plan, listener: Talk) -> None:
    found = already_published(plan.path, plan.format, plan.fingerprint)
    if found is None:
        return
    listener.notice(
        f"{plan.path} is complete: the run before had published it when it was killed;"
        f" {staging_root(plan.path).name} is cleared away"
    )
    raise typer.Exit(EXIT_FOUND if found.counts.get("too_many_bad") else 0)
