"""The ``fastdata`` command: finds the verb, loads only that one, runs it.

Nothing slow is imported here before ``main`` stands ready for an interruption.
"""

import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from fastdata_cli._version import __version__
from fastdata_cli.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    import typer

VERBS = {
    "convert": "Store images in a training-friendly layout: any source to any format.",
    "inspect": "Show what a dataset holds: counts, shapes, codec, ratio, labels, health.",
    "bench": "Measure datasets: device, reads, stages, DataLoader; say what to change.",
    "clean": "Keep or drop images by measured quality; a Unix filter on lists of paths.",
    "formats": "List the formats, what each can do, and its options.",
}


def build_app(verb: str | None = None) -> "typer.Typer":
    """Return the application.

    Args:
        verb: the only command to load; the others keep their name and summary, so that
            ``fastdata --help`` need not import what they use. None loads all.
    """
    import typer

    from fastdata_cli.cli.usage import Verb, Verbs

    app = typer.Typer(
        cls=Verbs,
        name="fastdata",
        help="Image training sets, stored so that reading them does not hold up the GPU.",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root())
    for name, summary in VERBS.items():
        command: Callable[..., None] = _not_loaded
        if verb in (None, name):
            command = importlib.import_module(f"fastdata_cli.cli.commands.{name}").command
        app.command(name, cls=Verb, short_help=summary, help=command.__doc__)(command)
    return app


def main() -> None:
    """Entry point of the console script."""
    # Scripts start background jobs with this signal ignored, and Python would leave it so: then
    # nothing but a kill stopped a run, and nothing said how to go on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        from fastdata_cli.cli.streams import prepare_streams

        prepare_streams()
        build_app(_verb(sys.argv[1:]))()
    except KeyboardInterrupt:  # while the command was still being loaded
        sys.stderr.write("interrupted\n")
        sys.exit(EXIT_INTERRUPTED)
    finally:
        # All is done and said: Python, which is ending, need not show where it was interrupted.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _root() -> Callable[..., None]:
    """Return the function that carries the options that stand before any verb."""
    import typer

    def show_version(asked: bool) -> None:
        if asked:
            typer.echo(f"fastdata-cli {__version__}")
            raise typer.Exit

    def root(
        version: Annotated[
            bool,
            typer.Option(
                "--version", help="Show the version and exit.", is_eager=True, callback=show_version
            ),
        ] = False,
    ) -> None: ...

    return root


def _not_loaded() -> None:
    """Stand in for a command while another one is run."""


def _verb(arguments: Sequence[str]) -> str | None:
    """Return the verb that is asked for; "" when only the list of verbs is; None to load all."""
    first = next((word for word in arguments if not word.startswith("-")), "")
    if "_FASTDATA_COMPLETE" in os.environ:
        return None
    return first if first in VERBS else ""
