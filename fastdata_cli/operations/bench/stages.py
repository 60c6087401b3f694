"""Where the time between container and batch goes: each step on the same samples, one thread, warm.

    read        bytes out of the container, into the batch where they are pixels
    decompress  of a container with a codec, what ``read`` takes longer than copying its bytes
                does; ``read`` is then that copy
    decode      of encoded images, at the reduced scale that the loader uses
    resize      to the size of the batch, into the batch
    collate     into the batch what has that size and was not decoded there; pixels are read into
                it, and have no such row
    transfer    handing a batch from a worker to the training process (handover.py); where there
                is a DataLoader

Chunks are read whole, and decompressed anew in each pass.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging.borrowed import borrowed_pixels
from fastdata_cli.imaging.decode import decode
from fastdata_cli.imaging.policy import ImagePolicy
from fastdata_cli.imaging.resize import resize
from fastdata_cli.loading.samplers import Positions
from fastdata_cli.operations.bench.report import STAGES, Ceiling, StageRow
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.operations.bench.workloads import whole_blocks
from fastdata_cli.operations.words import count_text
from fastdata_cli.sample import Batch
from fastdata_cli.timing.environment import usable_cores
from fastdata_cli.timing.stages import StageClock

_SAMPLES = 256
_FEW_SAMPLES = 64
_SHORT_S = 1.0  # in less, the few are all that can be decoded
_PASSES = 5
_POLICY = ImagePolicy()


def stage_batches(subject: Subject, batch_size: int, seconds: float) -> list[Positions]:
    """Return the samples that all steps are measured on; those that do not decode are left out.

    Raises:
        FastdataError: its samples cannot be read.
    """
    least = _SAMPLES if seconds >= _SHORT_S else _FEW_SAMPLES
    with subject.in_words():
        positions = whole_blocks(subject, least)
        if subject.encoded:
            positions = _decodable(subject, positions)
    return list(_cut(positions, batch_size))


def measure_stages(
    subject: Subject,
    batches: Sequence[Positions],
    seconds: float,
    transfer_s: float | None = None,
) -> tuple[StageRow, ...]:
    """Measure the steps of one dataset, within about ``seconds``.

    Args:
        subject: the dataset.
        batches: of ``stage_batches``.
        seconds: for all passes.
        transfer_s: what handing over takes, a sample; None where that was not measured.

    Raises:
        FastdataError: its samples cannot be read.
    """
    walk = _Walk(subject, max(map(len, batches)))
    with subject.in_words():
        for indices in batches:  # what is read next is in the page cache then
            walk.read(indices)
        walk.clear()
        deadline = time.perf_counter() + seconds
        for _ in range(_PASSES):
            if subject.chunk > 1:
                subject.reader.close()  # and with it the chunks that it keeps decompressed
            for indices in batches:
                walk.batch(indices)
                if time.perf_counter() >= deadline and subject.chunk == 1:
                    return walk.rows(transfer_s)
            if time.perf_counter() >= deadline:
                break
    return walk.rows(transfer_s)


def decode_ceiling(
    subject: Subject, batches: Sequence[Positions], seconds: float
) -> Ceiling | None:
    """Return how many images all cores can decode from memory; None where nothing is decoded."""
    if not subject.encoded:
        return None
    cores = usable_cores()
    with subject.in_words():
        images = [
            bytes(batch.image(at))
            for indices in batches
            for batch in [subject.reader.read_many(indices)]
            for at in range(len(batch))
        ]
    begin = time.perf_counter()

    def decode_from(first: int) -> int:
        done = 0
        for image in itertools.cycle(images[first:] + images[:first]):
            done += _decoded(image, subject.size) is not None
            if time.perf_counter() >= begin + seconds:
                break
        return done

    with ThreadPoolExecutor(cores) as pool:
        done = sum(pool.map(decode_from, (at * len(images) // cores for at in range(cores))))
    rate = done / (time.perf_counter() - begin)
    how = f"images from memory, {count_text(cores, 'thread')}, {done:,} decoded"
    return Ceiling(dataset=subject.name, name="decode on all cores", samples_per_s=rate, how=how)


@dataclass
class _Walk:
    """Takes batches through all steps and keeps the clock."""

    subject: Subject
    batch_size: int
    clock: StageClock = field(default_factory=StageClock)
    samples: int = 0
    _read_into: NDArray[Any] | None = None
    _out: NDArray[Any] | None = None
    _scratch: NDArray[Any] | None = None

    def clear(self) -> None:
        """Forget what was timed."""
        self.clock, self.samples = StageClock(), 0

    def read(self, indices: Positions) -> Batch:
        """Read a batch: pixels into the batch's own memory."""
        reader, shape = self.subject.reader, self.subject.reader.schema.image_shape
        if shape is None:
            begin = time.perf_counter()
            batch = reader.read_many(indices)
        else:
            if self._read_into is None:
                self._read_into = _touched((self.batch_size, *shape), reader.schema.dtype)
            begin = time.perf_counter()
            batch = reader.read_many(indices, self._read_into[: len(indices)])
        self._count_read(time.perf_counter() - begin, batch.images)
        return batch

    def batch(self, indices: Positions) -> None:
        """Take a batch through all steps."""
        batch = self.read(indices)
        if self.subject.encoded or self._resizes(batch):
            self._gather(batch)
        self.samples += len(indices)

    def rows(self, transfer_s: float | None) -> tuple[StageRow, ...]:
        """Return the steps that this dataset has."""
        found = {stage.name: stage.seconds / self.samples for stage in self.clock.stages()}
        if transfer_s is not None:
            found["transfer"] = transfer_s
        total = sum(found.values()) or 1.0
        return tuple(
            StageRow(
                dataset=self.subject.name,
                stage=name,
                seconds_per_sample=found[name],
                share=found[name] / total,
            )
            for name in STAGES
            if name in found
        )

    def _count_read(self, seconds: float, images: NDArray[Any]) -> None:
        if not self.subject.compressed:
            self.clock.add("read", seconds)
            return
        if self._scratch is None or self._scratch.size < images.size:
            self._scratch = np.zeros(images.size, images.dtype)
        begin = time.perf_counter()
        np.copyto(self._scratch[: images.size], images.reshape(-1))
        copy = min(seconds, time.perf_counter() - begin)
        self.clock.add("read", copy)
        self.clock.add("decompress", seconds - copy)

    def _resizes(self, batch: Batch) -> bool:
        size = self.subject.size
        return size is not None and batch.images.shape[1:3] != size

    def _gather(self, batch: Batch) -> None:
        """Bring one image after the other into its place in the batch, as the loader does."""
        size = self.subject.size
        assert size is not None, "settled when the dataset was opened"
        if self._out is None:
            self._out = _touched((self.batch_size, *size, 3), "uint8")
        for position in range(len(batch)):
            image, out = batch.image(position), self._out[position]
            if self.subject.encoded:
                with self.clock.stage("decode"):
                    image = borrowed_pixels(image.data, _POLICY, size, out)
            if image.shape[:2] != size:
                with self.clock.stage("resize"):
                    resize(image, size, out=out)
            elif not np.may_share_memory(image, out):
                with self.clock.stage("collate"):
                    np.copyto(out, image)


def _touched(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    # Zeros that were written: else the first pass would pay for the pages of the buffer.
    memory = np.empty(shape, dtype)
    memory.fill(0)
    return memory


def _decodable(subject: Subject, positions: Positions) -> Positions:
    for part in _cut(positions, _SAMPLES):
        try:
            batch = subject.reader.read_many(part)
        except BadSampleError:
            subject.learn(part)
            continue
        for position, image in zip(part.tolist(), batch, strict=True):
            try:
                decode(image.image.data, at_least=subject.size)
            except BadSampleError as problem:
                named = BadSampleError(key=image.key, reason=problem.reason)
                subject.note_bad(position, named)
    return subject.readable(positions)


def _decoded(image: bytes, size: tuple[int, int] | None) -> NDArray[Any] | None:
    try:
        return borrowed_pixels(image, _POLICY, size)
    except BadSampleError:
        return None


def _cut(positions: Positions, size: int) -> Iterator[Positions]:
    return (positions[at : at + size] for at in range(0, len(positions), size))


def stage_seconds(rows: Sequence[StageRow], dataset: str) -> dict[str, float]:
    """Return seconds per sample by step, of one dataset."""
    return {row.stage: row.seconds_per_sample for row in rows if row.dataset == dataset}
