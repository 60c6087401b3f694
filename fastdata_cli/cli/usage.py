"""The verbs as the parser has them: their help, and one line and a hint for what it refuses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from fastdata_cli.cli.output import EXIT_NO_READER, fail
from fastdata_cli.errors import FastdataError, UsageError

# Typer exports only this one of the parser's errors.
_Misread = cast("type[typer.BadParameter]", typer.BadParameter.__base__)


class Verb(TyperCommand):
    """One verb."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, those of --help included."""
        return _without_types(super().get_params(ctx))


class Verbs(TyperGroup):
    """Says what the parser of the command line refuses in the form that all errors have."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, those of --help included."""
        return _without_types(super().get_params(ctx))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line; in standalone mode end the process with its exit code."""
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
            sys.stdout.flush()  # what never arrived was not done
        except _Misread as problem:
            code = _explained(problem)
        except FastdataError as problem:
            code = fail(problem)
        except BrokenPipeError:
            code = EXIT_NO_READER
        if standalone_mode:
            sys.exit(code)
        return code


def _without_types(parameters: list[Any]) -> list[Any]:
    """Have the help show no type for flags, which take no value."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return parameters


def _explained(problem: typer.BadParameter) -> int:
    """Say what was wrong with the command line; return the exit code."""
    text, _, meant = problem.format_message().partition(". Did you mean ")
    possible = getattr(problem, "possibilities", None)
    if possible:
        text, meant = problem.message, f"{' or '.join(possible)}?"
    if not text:  # no verb at all: the help was shown
        return problem.exit_code
    text = text.replace("Input should", "it should").partition(", unable to parse")[0]
    command = "fastdata" if problem.ctx is None else problem.ctx.command_path
    hint = f"did you mean {meant}" if meant else f"{command} --help lists what there is"
    return fail(UsageError(text[0].lower() + text[1:].rstrip("."), hint=hint))
