"""Cuts the stream of transformed samples into parts, within a writer's limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Part, PartLimits
from fastdata_cli.sample import Batch, Payload, Reject, Sample, Schema, metadata_text


@dataclass(frozen=True, slots=True)
class Good:
    """A sample ready to be stored, with notes about how it came to be."""

    sample: Sample
    notes: tuple[str, ...] = ()


Outcome = Good | Reject


class Packer:
    """Collects outcomes into parts.

    Args:
        schema: of the destination; pixels are copied into one buffer per part as they come.
        limits: when a part is full.
        index, start, position: the part to begin with, its place in the destination, and the
            source position of the first outcome; not 0 when a run is continued.
    """

    def __init__(
        self, schema: Schema, limits: PartLimits, *, index: int, start: int, position: int
    ) -> None:
        self._schema = schema
        self._limits = limits
        self._index = index
        self._start = start
        self._position = position
        self.trailing: list[Reject] = []
        """Rejects after the last part: no receipt carries them."""
        self._open()

    def pack(self, outcomes: Iterable[Outcome]) -> Iterator[tuple[Part, Batch]]:
        """Yield each part as soon as it is full, the last one at the end."""
        for outcome in outcomes:
            if isinstance(outcome, Good):
                if self._samples and not self._fits(outcome.sample):
                    yield self._close()
                self._add(outcome)
            else:
                self.trailing.append(outcome)
            self._position += 1
            if self._is_full():
                yield self._close()
        if self._samples:
            yield self._close()

    def _open(self) -> None:
        self._samples: list[Sample] = []
        self._bytes = 0
        self._notes: Counter[str] = Counter()
        self._pixels: NDArray[Any] | None = None

    def _fits(self, sample: Sample) -> bool:
        heavy = self._limits.bytes is not None and (
            self._bytes + sample.image.nbytes > self._limits.bytes
        )
        return len(self._samples) < self._limits.samples and not heavy

    def _is_full(self) -> bool:
        heavy = self._limits.bytes is not None and self._bytes >= self._limits.bytes
        return len(self._samples) >= self._limits.samples or (heavy and bool(self._samples))

    def _add(self, good: Good) -> None:
        sample = good.sample
        self._bytes += sample.image.nbytes
        self._notes.update(good.notes)
        if self._schema.payload is Payload.PIXELS:
            sample = self._placed(sample)
        self._samples.append(sample)

    def _placed(self, sample: Sample) -> Sample:
        """Copy the pixels into the part's buffer, whose pages are taken only as it fills."""
        if self._pixels is None:
            assert self._schema.image_shape is not None
            capacity = self._limits.samples
            if self._limits.bytes is not None:
                capacity = min(capacity, max(1, self._limits.bytes // sample.image.nbytes))
            self._pixels = np.empty((capacity, *self._schema.image_shape), self._schema.dtype)
        slot = self._pixels[len(self._samples)]
        slot[...] = sample.image
        return Sample(sample.key, slot, sample.label, sample.metadata)

    def _close(self) -> tuple[Part, Batch]:
        part = Part(
            index=self._index,
            start=self._start,
            samples=len(self._samples),
            source_stop=self._position,
            rejects=tuple(self.trailing),
            notes=dict(self._notes),
            bytes=self._bytes,
        )
        batch = self._batch()
        self._index += 1
        self._start += part.samples
        self.trailing = []
        self._open()
        return part, batch

    def _batch(self) -> Batch:
        if self._pixels is None:
            return Batch.from_samples(self._samples, self._schema.payload)
        return Batch(
            [sample.key for sample in self._samples],
            np.array([sample.label for sample in self._samples], np.int64),
            self._pixels[: len(self._samples)],
            None,
            [metadata_text(sample.metadata) for sample in self._samples],
        )
