"""``fastdata formats``."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from fastdata_cli import registry
from fastdata_cli.cli import tables
from fastdata_cli.cli.output import data, reports_errors
from fastdata_cli.contract import Capability, Format
from fastdata_cli.errors import MissingDependencyError
from fastdata_cli.options import Options, flag


def _formats(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One format, with its options.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the formats, what each can do, and its options."""
    rows = registry.all_formats() if name is None else (registry.get(name),)
    if as_json:
        sys.stdout.write(json.dumps([_record(row) for row in rows], indent=2) + "\n")
    elif name is None:
        data().print(_overview(rows))
    else:
        _show_one(rows[0])


def _overview(rows: tuple[Format, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for head in ("format", "suffixes", "stores (default first)", "good for"):
        table.add_column(head, overflow="fold")
    for row in rows:
        stores = ", ".join(payload.value for payload in row.payloads)
        missing = _missing(row)
        table.add_row(
            Text(row.name, style="bold"),
            " ".join(row.suffixes) or f"--to {row.name}",
            stores if row.open_writer else "read only",
            Text(row.summary + (f" ({missing})" if missing else "")),
        )
    return table


def _show_one(row: Format) -> None:
    console = data()
    facts = [
        ("suffixes", " ".join(row.suffixes) or f"none: use --to {row.name}"),
        ("stores", ", ".join(payload.value for payload in row.payloads)),
        ("can", ", ".join(_words(row.capabilities))),
        ("needs", _missing(row)),
    ]
    console.print(tables.facts_table(f"{row.name}: {row.summary}", facts))
    for title, owner in (("Writing", row.write_options), ("Reading", row.read_options)):
        if owner.specs():
            console.print(_options_table(title, owner))


def _options_table(title: str, owner: type[Options]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(title.lower(), no_wrap=True)
    for head in ("value", "meaning"):
        table.add_column(head, overflow="fold")
    for option in _options(owner):
        value = " | ".join(option["choices"]) or option["type"]
        default = "" if option["default"] in (None, False) else f" (default {option['default']})"
        table.add_row(flag(option["name"]), Text(value), Text(option["help"] + default))
    return table


def _record(row: Format) -> dict[str, Any]:
    return {
        "name": row.name,
        "summary": row.summary,
        "suffixes": row.suffixes,
        "payloads": [payload.value for payload in row.payloads],
        "writes": row.open_writer is not None,
        "capabilities": _words(row.capabilities),
        "write_options": _options(row.write_options),
        "read_options": _options(row.read_options),
        "missing": _missing(row),
    }


def _options(owner: type[Options]) -> list[dict[str, Any]]:
    return [
        {
            "name": spec.name,
            "type": "size" if spec.unit == "bytes" else spec.kind.__name__,
            "default": spec.default,
            "choices": spec.choices,
            "help": spec.text,
        }
        for spec in owner.specs()
    ]


def _words(capabilities: Capability) -> list[str]:
    return [(each.name or "").lower().replace("_", " ") for each in capabilities]


def _missing(row: Format) -> str | None:
    try:
        registry.require(row)
    except MissingDependencyError as problem:
        return f"not installed: {problem.hint}"
    return None


command = reports_errors(_formats)
