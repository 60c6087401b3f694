"""Command-line flags made from option dataclasses, and read back into them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fastdata_cli.contract import Format
from fastdata_cli.errors import UsageError, words_of
from fastdata_cli.keys import printable
from fastdata_cli.operations.settings import parse_bytes
from fastdata_cli.options import Options, OptionSpec, flag

# Letters of a value that help shows on one line.
_SHORT = 18


def parameters(
    owner: type[Options], *, panel: str, besides: type[Options] = Options
) -> list[inspect.Parameter]:
    """Return one keyword parameter per option of ``owner``, for a command's signature.

    Args:
        panel: heading in ``--help``.
        besides: options that it inherits, and that stand in a panel of their own.
    """
    others = {spec.name for spec in besides.specs()}
    return [_parameter(spec, panel) for spec in owner.specs() if spec.name not in others]


def format_parameters(
    formats: Iterable[Format], attribute: str, *, panel: str, taken: Iterable[str] = ()
) -> list[inspect.Parameter]:
    """Return one parameter per option name of any format; its help says whose it is.

    None stands for "not given": each format has its own default.

    Args:
        formats: whose options.
        attribute: ``read_options`` or ``write_options``.
        panel: heading in ``--help``.
        taken: names that the command has already.
    """
    owners: dict[str, list[tuple[str, OptionSpec]]] = {}
    for row in formats:
        owner: type[Options] = getattr(row, attribute)
        for spec in owner.specs():
            owners.setdefault(spec.name, []).append((row.name, spec))
    return [
        _parameter(_shared(owned), panel)
        for name, owned in owners.items()
        if name not in set(taken)
    ]


def with_signature(function: Any, extra: Iterable[inspect.Parameter]) -> Any:
    """Give ``function``, which takes ``**values``, the parameters in ``extra`` as well."""
    own = [
        parameter
        for parameter in inspect.signature(function, eval_str=True).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    signature = inspect.Signature([*own, *extra])
    function.__signature__ = signature
    function.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
    return function


def pick(owner: type[Options], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of ``values`` that are options of ``owner``."""
    names = {spec.name for spec in dataclasses.fields(owner)}
    return {name: value for name, value in values.items() if name in names}


def given(values: Mapping[str, Any], parameters: Iterable[inspect.Parameter]) -> dict[str, Any]:
    """Return the values of these parameters that somebody set."""
    names = {parameter.name for parameter in parameters}
    return {
        name: value
        for name, value in values.items()
        if name in names and value is not None and value is not False
    }


def load_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make the flags in a YAML file the defaults of this command; real flags win.

    Raises:
        UsageError: not a mapping of flags this command has.
    """
    if path is None:
        return None
    import yaml

    where = printable(str(path))
    try:
        text = path.read_text()
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise yaml.YAMLError("aliases, which can stand for any number of values")
        loaded = yaml.safe_load(text) or {}
    except OSError as problem:
        raise UsageError(f"--config {where}: {problem.strerror}") from problem
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as problem:
        raise UsageError(f"--config {where}: not YAML ({words_of(problem)})") from problem
    if not isinstance(loaded, dict):
        raise UsageError(f"--config {where}: no flags in it", hint="write lines such as size: 224")
    values = {str(name).removeprefix("--").replace("-", "_"): v for name, v in loaded.items()}
    known = {parameter.name for parameter in context.command.params}
    unknown = sorted(set(values) - known)
    if unknown:
        raise UsageError(
            f"--config {where}: {printable(flag(unknown[0]))} is no flag of this command"
        )
    context.default_map = {**(context.default_map or {}), **values}
    return path


def _shared(owned: list[tuple[str, OptionSpec]]) -> OptionSpec:
    """Return one option for the several formats that have it."""
    choices = dict.fromkeys(word for _, spec in owned for word in spec.choices)
    whose = ", ".join(name for name, _ in owned)
    first = owned[0][1]
    text = f"{first.text.split(';')[0]} ({whose})"
    return dataclasses.replace(first, default=None, text=text, choices=tuple(choices))


def _parameter(spec: OptionSpec, panel: str) -> inspect.Parameter:
    in_bytes = spec.unit == "bytes"
    kind = str if in_bytes else spec.kind
    option = typer.Option(
        *[flag(spec.name), *([spec.short] if spec.short else [])],
        help=f"{spec.text[0].upper()}{spec.text[1:]}.",
        metavar="SIZE" if in_bytes else _one_of(spec.choices) or spec.value,
        rich_help_panel=panel,
        show_default=spec.default not in (None, False),
        callback=_bytes if in_bytes else None,
    )
    annotation: Any = Annotated[kind if spec.default is not None else kind | None, option]
    return inspect.Parameter(
        spec.name, inspect.Parameter.KEYWORD_ONLY, default=spec.default, annotation=annotation
    )


def _one_of(choices: Sequence[str]) -> str:
    """Return the words that a value may be; many of them may be broken into lines between words."""
    short = "|".join(choices)
    return short if len(short) <= _SHORT else " | ".join(choices)


def _bytes(parameter: typer.CallbackParam, value: str | None) -> int | None:
    try:
        return None if value is None else parse_bytes(str(value))
    except UsageError as problem:
        raise UsageError(f"{parameter.opts[0]}: {problem}", hint=problem.hint) from problem
