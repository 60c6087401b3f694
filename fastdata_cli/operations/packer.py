"""Cuts the stream of transformed samples into parts, within a writer's limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Part, PartLimits
from fastdata_cli.quality.fingerprints import Fingerprint
from fastdata_cli.quality.judge import Examined
from fastdata_cli.sample import Batch, Payload, Reject, Sample, Schema, metadata_text

# Where a writer names no limit in bytes, an arena begins with this much.
_ARENA_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Good:
    """A sample ready to be stored, with notes about how it came to be."""

    sample: Sample
    notes: tuple[str, ...] = ()
    stands_for: Reject | None = None
    """The bad sample in whose place this one is stored."""
    index: int = -1
    """Position in the source."""
    finding: Examined | None = None
    """What was measured on it, where checks were asked for."""


Outcome = Good | Reject
Bytes = NDArray[np.uint8]


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
        self.position = position
        """Source positions below this one are packed."""
        self.trailing: list[Reject] = []
        """Rejects after the last part: no receipt carries them."""
        self.prints: dict[int, tuple[Fingerprint, ...]] = {}
        """Fingerprints of the samples of each part that is packed, until somebody takes them."""
        self._spare: list[NDArray[np.uint8]] = []
        self._open()

    def pack(self, outcomes: Iterable[Outcome]) -> Iterator[tuple[Part, Batch]]:
        """Yield each part as soon as it is full, the last one at the end."""
        for outcome in outcomes:
            if isinstance(outcome, Good):
                if self._keys and not self._fits(outcome.sample):
                    yield self._close()
                if outcome.stands_for is not None:
                    self.trailing.append(outcome.stands_for)
                self._add(outcome)
            else:
                self.trailing.append(outcome)
            self.position += 1
            if self._is_full():
                yield self._close()
        if self._keys:
            yield self._close()

    def recycle(self, batch: Batch) -> None:
        """Take back the buffer of a batch that nobody will look at again.

        Parts then share a few buffers: fresh memory costs a page fault every 4 KiB, and memory
        that the allocator holds back makes a long run look larger than it is.
        """
        buffer: Any = batch.images
        while isinstance(buffer.base, np.ndarray):
            buffer = buffer.base
        self._spare.append(buffer)

    def _buffer(self, size: int) -> NDArray[np.uint8]:
        while self._spare:
            spare = self._spare.pop()
            if spare.size >= size:
                return spare
        return np.empty(size, np.uint8)

    def _open(self) -> None:
        self._keys: list[str] = []
        self._labels: list[int] = []
        self._metadata: list[str | None] = []
        self._notes: Counter[str] = Counter()
        self._prints: list[Fingerprint] = []
        self._size = 0
        # Taken with the first image: by then the part before this one may have given its own back.
        self._images: _Pixels | _Arena | None = None

    def _take_buffer(self) -> _Pixels | _Arena:
        if self._schema.payload is Payload.PIXELS:
            return _Pixels(self._schema, self._capacity(), self._buffer)
        return _Arena(self._buffer(self._limits.bytes or _ARENA_BYTES))

    def _capacity(self) -> int:
        if self._limits.bytes is None:
            return self._limits.samples
        return min(self._limits.samples, max(1, self._limits.bytes // self._schema.pixel_bytes))

    def _fits(self, sample: Sample) -> bool:
        size = self._size + sample.image.nbytes
        heavy = self._limits.bytes is not None and size > self._limits.bytes
        return len(self._keys) < self._limits.samples and not heavy

    def _is_full(self) -> bool:
        heavy = self._limits.bytes is not None and self._size >= self._limits.bytes
        return len(self._keys) >= self._limits.samples or (heavy and bool(self._keys))

    def _add(self, good: Good) -> None:
        sample = good.sample
        self._notes.update(good.notes)
        if good.finding is not None:
            self._prints.extend(good.finding.prints)
        if self._images is None:
            self._images = self._take_buffer()
        self._images.add(sample.image)
        self._size += sample.image.nbytes
        self._keys.append(sample.key)
        self._labels.append(sample.label)
        self._metadata.append(metadata_text(sample.metadata))

    def _close(self) -> tuple[Part, Batch]:
        part = Part(
            index=self._index,
            start=self._start,
            samples=len(self._keys),
            source_stop=self.position,
            rejects=tuple(self.trailing),
            notes=dict(self._notes),
            bytes=self._size,
        )
        labels = np.array(self._labels, np.int64)
        assert self._images is not None, "a part has at least one sample"
        images, offsets = self._images.filled()
        batch = Batch(self._keys, labels, images, offsets, self._metadata)
        if self._prints:
            self.prints[part.index] = tuple(self._prints)
        self._index += 1
        self._start += part.samples
        self.trailing = []
        self._open()
        return part, batch


class _Pixels:
    """The pixels of a part, in one array whose pages are taken only as it fills."""

    def __init__(self, schema: Schema, capacity: int, buffer: Callable[[int], Bytes]) -> None:
        assert schema.image_shape is not None
        size = capacity * schema.pixel_bytes
        pixels = buffer(size)[:size].view(schema.dtype)
        self._array = pixels.reshape(capacity, *schema.image_shape)
        self._count = 0

    def add(self, image: NDArray[Any]) -> None:
        """Copy one image in."""
        self._array[self._count] = image
        self._count += 1

    def filled(self) -> tuple[NDArray[Any], None]:
        """Return the images so far, N×H×W×C, and no offsets."""
        return self._array[: self._count], None


class _Arena:
    """The encoded images of a part, end to end; grows only for an image beyond its capacity."""

    def __init__(self, buffer: Bytes) -> None:
        self._bytes = buffer
        self._offsets = [0]

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._offsets[-1]

    def add(self, image: NDArray[np.uint8]) -> None:
        """Copy one image in."""
        begin, end = self.size, self.size + image.size
        if end > self._bytes.size:
            grown = np.empty(max(end, 2 * begin), np.uint8)
            grown[:begin] = self._bytes[:begin]
            self._bytes = grown
        self._bytes[begin:end] = image
        self._offsets.append(end)

    def filled(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the arena so far and int64[N + 1] offsets into it."""
        return self._bytes[: self.size], np.array(self._offsets, np.int64)
