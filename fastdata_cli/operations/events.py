"""How a running operation talks to whoever started it: notices and progress, never prints."""

from __future__ import annotations

from typing import Protocol


class Listener(Protocol):
    """Receives what an operation has to say while it runs."""

    def notice(self, text: str) -> None:
        """A line that the user should read before the result: a decision, a warning."""
        ...

    def progress(self, done: int, total: int | None) -> None:
        """``done`` of ``total`` samples are settled; None where nobody knows how many there are."""
        ...


class Silent:
    """A listener that ignores everything."""

    def notice(self, text: str) -> None:
        """Ignore it."""

    def progress(self, done: int, total: int | None) -> None:
        """Ignore it."""
