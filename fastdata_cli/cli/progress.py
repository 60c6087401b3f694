"""A listener that shows notices and a progress bar on stderr; the bar only on a terminal."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from fastdata_cli.cli.output import say, talk
from fastdata_cli.keys import printable


class Talk:
    """Prints what an operation says while it runs.

    Args:
        verb: shown before the bar.
        quiet: say nothing.
        rate: show how many are done a second.
        bar: show a bar, if this is a terminal.
    """

    def __init__(
        self, verb: str, *, quiet: bool = False, rate: bool = True, bar: bool = True
    ) -> None:
        self._quiet = quiet
        console = talk()
        self._bar: Progress | None = None
        if console.is_terminal and bar and not quiet:
            self._bar = Progress(
                TextColumn(verb),
                BarColumn(),
                MofNCompleteColumn(),
                *([_Rate()] if rate else []),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task(verb, total=None)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def notice(self, text: str) -> None:
        """Print a line above the bar."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.console.print(Text(printable(text), style="cyan"), soft_wrap=True)
        else:
            say(text)

    def progress(self, done: int, total: int | None) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)


class _Rate(ProgressColumn):
    """Samples per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", style="progress.data.speed")
