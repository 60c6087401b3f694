"""The phase of the stages: the steps from container to batch, and decoding on all cores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fastdata_cli.operations.bench.report import Ceiling, StageRow
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.stages import decode_ceiling, measure_stages, stage_batches
from fastdata_cli.operations.bench.subject import BatchShape, Subject

_DECODE_SHARE = 0.3
_HANDOVER_SHARE, _LONGEST_HANDOVER_S = 0.3, 1.0

Try = Callable[[Subject, Callable[[], Any]], Any]
"""Calls an action; where the dataset fails it, says so and returns None."""


@dataclass
class StagePhase:
    """Measures one dataset after the other.

    Args:
        options: of the run.
        loader: whether there is a DataLoader, so that handing over can be measured.
        attempt: see ``Try``.

    Attributes:
        rows: of all datasets so far.
        ceilings: what all cores could decode, of those that are decoded.
    """

    options: BenchOptions
    loader: bool
    attempt: Try
    rows: list[StageRow] = field(default_factory=list)
    ceilings: list[Ceiling] = field(default_factory=list)
    _handovers: dict[BatchShape, float] = field(default_factory=dict)

    def measure(self, subject: Subject, seconds: float) -> None:
        """Measure one more dataset, within about ``seconds``."""
        size = self.options.batch_size
        batches = self.attempt(subject, partial(stage_batches, subject, size, seconds))
        if not batches:
            return
        part = seconds * (1 - _DECODE_SHARE) if subject.encoded else seconds
        transfer_s = self.attempt(subject, partial(self._handover_s, subject, part))
        rows = self.attempt(subject, partial(measure_stages, subject, batches, part, transfer_s))
        if rows is None:
            return
        ceiling = self.attempt(subject, partial(decode_ceiling, subject, batches, seconds - part))
        self.rows += rows
        self.ceilings += [ceiling] if ceiling else []

    def _handover_s(self, subject: Subject, seconds: float) -> float | None:
        """Return what handing over takes, a sample; the same for images of one shape."""
        if not self.loader:
            return None
        from fastdata_cli.operations.bench.handover import handover_seconds

        image = subject.in_batch
        if image not in self._handovers:
            self._handovers[image] = handover_seconds(
                image,
                self.options.batch_size,
                self.options.start_method,
                min(_HANDOVER_SHARE * seconds, _LONGEST_HANDOVER_S),
            )
        return self._handovers[image]
