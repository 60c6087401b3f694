"""One dataset under test: what it is, which of its samples can be read, whether it stays."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from fastdata_cli.contract import Capability, Reader
from fastdata_cli.errors import (
    BadSampleError,
    DamagedDatasetError,
    FastdataError,
    NothingUsableError,
    StorageError,
    UnsupportedError,
    UsageError,
)
from fastdata_cli.imaging.resize import max_side_for
from fastdata_cli.keys import printable
from fastdata_cli.loading.images import ImageSource
from fastdata_cli.loading.samplers import Positions
from fastdata_cli.operations.bench.report import DatasetFacts
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.events import Listener
from fastdata_cli.operations.sampling import spread
from fastdata_cli.operations.settings import DEFAULT_SIZE, ConvertOptions, parse_size
from fastdata_cli.operations.shown_sizes import common_size, shown_sizes
from fastdata_cli.operations.sizes import stored_bytes
from fastdata_cli.operations.subset import Subset
from fastdata_cli.sample import Payload

# Looked at before anything is measured: enough to meet a second size, quick even when cold.
_LOOKED_AT = 128
_MOST_FILES = 100_000
_MOST_STAMPS = 256
# More unreadable samples than this, and it is the dataset that is broken.
_BAD_SHARE = 0.5
_BAD_LEAST = 10

Stamp = tuple[int, int, int]

BatchShape = tuple[tuple[int, ...], str]
"""(H, W, C) and NumPy dtype of an image in a batch."""


@dataclass(eq=False)
class Subject:
    """One dataset under test."""

    name: str
    reader: Reader
    format: str
    facts: DatasetFacts
    size: tuple[int, int] | None
    """(height, width) of images in a batch; None leaves pixels as they are."""
    source: ImageSource
    max_side: int | None = None
    """See ``max_side_for``; None for pixels."""
    bad: dict[int, str] = field(default_factory=dict)
    """Position of each sample found to be unreadable, and why."""
    failure: FastdataError | None = None
    """What ended its measurements."""
    stamps: dict[Path, Stamp] = field(default_factory=dict)

    @property
    def encoded(self) -> bool:
        """Whether images are decoded on the way to a batch."""
        return self.source.encoded

    @property
    def compressed(self) -> bool:
        """Whether the container compresses what it stores."""
        return self.facts.layout.get("codec") not in (None, "none")

    @property
    def zero_copy(self) -> bool:
        """Whether a single read maps its image and moves no byte."""
        return Capability.ZERO_COPY in self.reader.capabilities

    @property
    def chunk(self) -> int:
        """Samples that are compressed or stored as one; 1 where each stands alone."""
        chunk = self.facts.layout.get("chunk")
        return chunk if isinstance(chunk, int) and chunk > 1 else 1

    @property
    def stored_sample_bytes(self) -> float:
        """Bytes that one sample takes in storage, on average."""
        return self.facts.stored_bytes / self.facts.samples

    @property
    def in_batch(self) -> BatchShape:
        """Shape and dtype of an image in a batch."""
        schema = self.reader.schema
        if self.size is not None:
            return (*self.size, 3), "uint8"
        return tuple(schema.image_shape or ()), schema.dtype

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """The dataset's files, at most 100,000 of them."""
        return tuple(itertools.islice(self.reader.files(), _MOST_FILES))

    def order(self, wanted: str) -> str:
        """Return the order to read in: stored order where any other would begin from the front."""
        return wanted if self.facts.random_access else "sequential"

    def readable(self, positions: Positions) -> Positions:
        """Return the positions without those that are known to be bad."""
        if not self.bad:
            return positions
        return positions[~np.isin(positions, list(self.bad))]

    def learn(self, positions: Positions) -> Positions:
        """Find out which of some samples the reader fails on; return the others.

        Raises:
            FastdataError: so many that nothing can be measured.
        """
        for position in self.readable(positions).tolist():
            try:
                self.reader.read(position)
            except BadSampleError as problem:
                self.note_bad(position, problem)
        return self.readable(positions)

    def note_bad(self, position: int, problem: BadSampleError) -> None:
        """Remember a sample that cannot be used.

        Raises:
            FastdataError: so many that nothing can be measured.
        """
        key = problem.key or self.reader.keys()[position]
        self.bad[position] = f"{printable(key)}: {problem.reason}"
        samples = self.facts.samples
        if len(self.bad) == samples or len(self.bad) > max(_BAD_LEAST, _BAD_SHARE * samples):
            self.check_unchanged()
            raise NothingUsableError(
                f"{self.name}: {len(self.bad):,} of {samples:,} samples cannot be read,"
                f" such as {self.bad[position]}",
                hint=f"see which and why: fastdata inspect {self.name} --verify",
            )

    def check_unchanged(self) -> None:
        """Raise DamagedDatasetError if a file is not the one that was there at the beginning.

        A mapped file that was cut short would end this process, not raise an error: so this is
        asked before every run.
        """
        for path, stamp in self.stamps.items():
            found = _stamp(path)
            if found != stamp:
                happened = "vanished" if found is None else "changed"
                raise DamagedDatasetError(
                    f"{self.name}: {printable(str(path))} {happened} while it was measured",
                    hint="measure again when nothing writes to the dataset",
                )

    @contextmanager
    def in_words(self) -> Iterator[None]:
        """Turn what the operating system says while it is read into a FastdataError."""
        try:
            yield
        except FastdataError:
            raise
        except OSError as problem:
            self.check_unchanged()
            raise StorageError(
                f"{self.name} cannot be read: {problem.strerror or problem}"
            ) from problem


def open_subject(
    name: str, reader: Reader, format_name: str, options: BenchOptions, listener: Listener
) -> Subject:
    """Look at a dataset and say what will be measured of it.

    Raises:
        NothingUsableError: it has no samples, or none that can be read.
        UsageError: --size is none, or images of this dataset cannot be brought to it.
    """
    samples = len(reader)
    if not samples:
        raise NothingUsableError(
            f"{name}: no samples here, so there is nothing to measure",
            hint="see what is in it: fastdata inspect " + name,
        )
    schema = reader.schema
    subject = Subject(
        name=name,
        reader=reader,
        format=format_name,
        facts=DatasetFacts(
            path=name,
            format=format_name,
            samples=samples,
            payload=str(schema.payload),
            image_shape=schema.image_shape,
            sample_bytes=float(schema.pixel_bytes),
            stored_bytes=_stored_bytes(name, reader),
            layout=dict(reader.describe()),
            random_access=Capability.RANDOM_ACCESS in reader.capabilities,
        ),
        size=None,
        source=ImageSource(reader),
    )
    subject.stamps = _stamps(subject.files)
    with subject.in_words():
        _settle(subject, options, listener)
    return subject


def _settle(subject: Subject, options: BenchOptions, listener: Listener) -> None:
    """Find the size of images in a batch, the mean size of a stored one, and bad samples."""
    reader = subject.reader
    looked_at = np.array(spread(len(reader), _LOOKED_AT), np.int64)
    good = subject.learn(looked_at)
    subject.size = _size(subject, good, options, listener)
    try:
        subject.source = ImageSource(reader, size=subject.size)
    except UnsupportedError as problem:
        raise UsageError(problem.message, hint="leave --size out") from problem
    if subject.encoded:
        assert subject.size is not None, "encoded images are brought to one"
        sizes = [*shown_sizes(Subset(reader, good.tolist()), ConvertOptions())]
        subject.max_side = max_side_for(subject.size, sizes) if sizes else None
        batch = reader.read_many(good)
        mean = batch.images.nbytes if batch.offsets is None else int(batch.offsets[-1])
        facts = {**vars(subject.facts), "sample_bytes": mean / len(good)}
        subject.facts = DatasetFacts(**facts)


def _size(
    subject: Subject, good: Positions, options: BenchOptions, listener: Listener
) -> tuple[int, int] | None:
    if options.size is not None:
        return parse_size(options.size)
    if subject.reader.schema.payload is Payload.PIXELS:
        return None
    size = common_size(Subset(subject.reader, good.tolist()), ConvertOptions())
    if size is None:
        size = DEFAULT_SIZE
        listener.notice(
            f"{subject.name}: images of different sizes are brought to {size[0]}x{size[1]}"
            " in the batch; --size changes that"
        )
    return size


def _stored_bytes(name: str, reader: Reader) -> int:
    found = stored_bytes(reader)
    if found.absent:
        raise DamagedDatasetError(
            f"{name}: {printable(str(found.absent[0]))} belongs to it and cannot be looked at"
        )
    return found.bytes


def _stamps(files: Sequence[Path]) -> dict[Path, Stamp]:
    chosen = [files[at] for at in spread(len(files), _MOST_STAMPS)] if files else []
    stamps = {path: _stamp(path) for path in chosen}
    return {path: stamp for path, stamp in stamps.items() if stamp}


def _stamp(path: Path) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def constant_subject(name: str, reader: Reader) -> Subject:
    """Return a dataset that lies in no file, for a loader without input."""
    schema = reader.schema
    facts = DatasetFacts(
        path=name,
        format="memory",
        samples=len(reader),
        payload=str(schema.payload),
        image_shape=schema.image_shape,
        sample_bytes=float(schema.pixel_bytes),
        stored_bytes=0,
    )
    return Subject(name, reader, "memory", facts, None, ImageSource(reader))
