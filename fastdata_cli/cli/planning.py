"""From the flags of convert to what plans it: a new dataset, or an addition to one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import typer

from fastdata_cli import registry
from fastdata_cli.cli import flags
from fastdata_cli.cli.progress import Talk
from fastdata_cli.errors import UsageError
from fastdata_cli.operations.append import open_standing, plan_append
from fastdata_cli.operations.choice import AppendRequest
from fastdata_cli.operations.destination import check_destination
from fastdata_cli.operations.plan import Plan, make_plan
from fastdata_cli.operations.settings import ConvertOptions
from fastdata_cli.operations.source import Source

Planner = Callable[[Source, Talk], Plan | None]
"""Plans what becomes of a source; None where there is nothing to do, and that was said."""


def new_planner(
    path: Path,
    to: str | None,
    values: Mapping[str, Any],
    write: Mapping[str, Any],
    *,
    overwrite: bool,
    dry_run: bool,
) -> Planner:
    """Return what plans a new dataset; refuses flags that cannot be before a source is opened.

    Args:
        values: of all flags.
        write: of those of the format that were given.
        overwrite: a dataset may stand there.
        dry_run: nothing is written; what would refuse a real run is only said.
    """
    row = registry.for_destination(path, to)
    options = ConvertOptions(**flags.pick(ConvertOptions, values))
    write_options = row.write_options.from_mapping(write, owner=f"format {row.name}")

    def plan(source: Source, listener: Talk) -> Plan:
        try:
            check_destination(path, row, overwrite=overwrite, source=source)
        except UsageError as problem:
            if not dry_run:
                raise
            listener.notice(f"a real run would be refused: {problem.message} ({problem.hint})")
        return make_plan(source, path, row, options, write_options, listener)

    return plan


def append_planner(
    context: typer.Context,
    path: Path,
    to: str | None,
    values: Mapping[str, Any],
    write_names: Collection[str],
    *,
    new: bool,
    again: bool,
    overwrite: bool,
) -> Planner:
    """Return what plans an addition to the dataset at ``path``, which is opened here.

    Args:
        write_names: of the flags of all formats.
        new, again: whether --append and --retry-bad are given.
    """
    if overwrite:
        raise UsageError(
            "--overwrite replaces a dataset, and --append and --retry-bad add to one",
            hint="give one of them",
        )
    given = {name: value for name, value in values.items() if _is_given(context, name)}
    request = AppendRequest(
        new=new,
        again=again,
        options=flags.pick(ConvertOptions, given),
        write_options={name: value for name, value in given.items() if name in write_names},
    )
    standing = open_standing(path, to)

    def plan(source: Source, listener: Talk) -> Plan | None:
        return plan_append(source, standing, request, listener)

    return plan


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"
