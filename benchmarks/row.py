"""Owns what a row of a table is: a side of ours, a reference measured beside it, a target.

Light to import: whatever a side needs is imported inside the function that makes it ready.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.data import Data
from fastdata_cli.timing.measure import Work


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A side that has opened what it reads, and waits to be timed."""

    run: Callable[[], Work]
    """One pass over its data."""
    before: Callable[[], None] | None = None
    """Called before every run, untimed."""
    files: Sequence[Path] = ()
    """What a run reads: warmed before the measurement, and shown to be warm."""


MakeReady = Callable[[Data], Ready]


@dataclass(frozen=True, kw_only=True)
class Side:
    """Something that is timed, in a process of its own."""

    name: str
    """Unique among the sides of a table."""
    what: str
    """What it does, in a few words, for the table."""
    ready: MakeReady
    peer: str | None = None
    """Name of the peer whose virtual environment it runs in; None for our own environment."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A target that is no ratio: a figure that must not be exceeded."""

    most: float
    unit: str
    fact: str | None = None
    """The fact of a run that is judged, the largest of all runs; None: its median seconds."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: what fastdata reaches, as a multiple of what its reference reaches."""

    name: str
    """``table/what``; also the name of our side."""
    what: str
    ready: MakeReady
    reference: Side | None = None
    """Has a peer's name where the best of the field is the reference."""
    target: float | None = None
    """Our rate as a multiple of the reference's, at least; None where none was set."""
    aim: float | None = None
    """What would be better still."""
    stand_in: tuple[Side, float] | None = None
    """Reference and target where the first reference cannot be measured here."""
    limits: tuple[Limit, ...] = ()
    """In place of a reference and a target."""
    why: str = ""
    """Where the time goes, from a measurement, if the target is not met."""

    @property
    def side(self) -> Side:
        """What is timed of ours."""
        return Side(name=self.name, what=self.what, ready=self.ready)

    @property
    def references(self) -> tuple[Side, ...]:
        """All that our side may be compared with."""
        second = self.stand_in[0] if self.stand_in else None
        return tuple(side for side in (self.reference, second) if side)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows that are measured together, round after round, and printed as one table."""

    name: str
    title: str
    text: str
    """What is compared, for the document."""
    rows: tuple[Row, ...]
    peers: tuple[Side, ...] = ()
    """Measured in the same rounds, for comparison; without a target."""
    rounds: int | None = None
    """Where the number is not the caller's to choose."""
    warmup: int = 1
    min_repeat_s: float | None = None
    """The same for the least seconds of a repeat."""
    fact: str | None = None
    """A fact of the runs that is shown beside the rates, its median …"""
    column: str = ""
    """… under this heading."""
    by_default: bool = True
    """False: only when it is asked for."""

    @property
    def references(self) -> tuple[Side, ...]:
        """All references, each once."""
        found = (side for row in self.rows for side in row.references)
        return tuple({side.name: side for side in found}.values())

    @property
    def sides(self) -> tuple[Side, ...]:
        """All that is timed: references, ours, peers."""
        return (*self.references, *(row.side for row in self.rows), *self.peers)

    def case_name(self, side: Side) -> str:
        """Return the name of a side's measurement: references serve several tables."""
        own = side.name.startswith(f"{self.name}/")
        return side.name if own else f"{self.name}/{side.name}"

    def only(self, names: Collection[str]) -> Table:
        """Return the table with those of its rows and peers whose measurements have these names."""
        rows = tuple(row for row in self.rows if row.name in names)
        peers = tuple(side for side in self.peers if self.case_name(side) in names)
        return replace(self, rows=rows, peers=peers)
