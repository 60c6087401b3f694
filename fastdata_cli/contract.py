"""The contract between formats and everything else: a descriptor, two protocols, declared flags.

A format is one ``Format`` row: what it is called, what it can do, how to open it. Readers and
writers are total protocols: every method works, or the flag that announces it is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.extents import Extents
from fastdata_cli.manifest import Manifest
from fastdata_cli.options import Options
from fastdata_cli.sample import Batch, Payload, Reject, Sample, Schema


class Capability(Flag):
    """What a format can do beyond what all must (pickling, threads, bulk reads, resuming)."""

    RANDOM_ACCESS = auto()
    """``read`` and ``read_many`` cost the same in any order."""
    ZERO_COPY = auto()
    """``read`` returns a view of mapped memory."""
    LOCATE = auto()
    """``locate`` says where samples are stored."""
    PARALLEL_WRITE = auto()
    """``write_part`` may run in several threads at once, parts in any order."""
    APPEND = auto()
    """A writer adds to what stands at its destination: see ``Target.standing``."""


@dataclass(frozen=True, slots=True)
class PartLimits:
    """When the engine closes a part: before the sample that would exceed either."""

    samples: int
    bytes: int | None = None
    """Payload bytes; a single larger sample makes a part of its own."""


@dataclass(frozen=True, slots=True)
class Part:
    """A run of good samples, in source order, that is written and committed as one."""

    index: int
    start: int
    """Position of its first sample in the destination."""
    samples: int
    source_stop: int
    """Source positions below this one are settled once the part is: a resumed run starts here."""
    rejects: tuple[Reject, ...] = ()
    """Source samples before ``source_stop``, after the previous part, that gave no sample."""
    bytes: int = 0
    """Payload bytes of its images."""
    notes: Mapping[str, int] = field(default_factory=dict)
    """Notes about its good samples, counted by kind."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a part is on disk. ``facts`` is JSON-able and belongs to the writer."""

    part: Part
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a stored sample, or with the dataset when ``index`` is -1."""

    index: int
    key: str
    kind: str
    """``corrupt``, ``missing``, ``surplus`` or ``unreadable``."""
    detail: str = ""


class Reader(Protocol):
    """Reads one dataset. Pickles as (path, options); handles are opened per process.

    Safe under threads, fork, spawn and forkserver.
    """

    path: Path
    schema: Schema
    capabilities: Capability
    """An instance may lack flags that its format has."""
    manifest: Manifest | None
    """None for datasets that others made."""
    rejects: tuple[Reject, ...]
    """What opening already found to be unusable and is not counted in ``len``."""
    notes: Mapping[str, int]
    """What opening found worth saying (ignored files, empty classes …), with counts."""

    def __len__(self) -> int: ...

    def read(self, index: int) -> Sample:
        """Return one sample.

        Raises:
            IndexError: no such position (negative ones count from the end).
            BadSampleError: the stored sample cannot be read.
        """
        ...

    def read_many(
        self, indices: Sequence[int] | NDArray[np.int64], out: NDArray[Any] | None = None
    ) -> Batch:
        """Return the samples at ``indices``, order and repeats kept.

        Args:
            indices: positions, each 0 <= i < len.
            out: filled with the images when given, and then is ``images`` of the batch: pixels
                N×H×W×C of the schema's dtype, or a 1-D uint8 arena of at least the total size.
        """
        ...

    def read_each(self, indices: Sequence[int] | NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        """Return the images at ``indices`` one by one, with as little copying as can be.

        They may be read-only views of where they are stored, which the system has been asked to
        fetch: whoever decodes images needs no batch of their bytes.

        Raises:
            BadSampleError: a stored sample cannot be read.
        """
        ...

    def locate(self, indices: Sequence[int] | NDArray[np.int64]) -> Extents:
        """Return where the samples at ``indices`` are stored, in their order.

        Raises:
            BadSampleError: one is missing, or what leads to it is damaged.
            UnsupportedError: LOCATE is not among the capabilities.
        """
        ...

    def head(self, index: int, size: int) -> NDArray[np.uint8]:
        """Return the first ``size`` bytes of one encoded image, or all if it is shorter.

        Raises:
            BadSampleError: the stored sample cannot be read.
        """
        ...

    def scan(self, span: range | None = None) -> Iterator[Sample | Reject]:
        """Yield the samples of a contiguous span in order, by the fastest sequential path.

        What cannot be read, or does not have its checksum, comes as a ``Reject`` with its
        position: failures are values here.
        """
        ...

    def spans(self, at_most: int) -> Sequence[range]:
        """Cut the dataset into at most ``at_most`` contiguous spans where reading is cheap."""
        ...

    def keys(self) -> Sequence[str]:
        """Return all keys, in order, as a compact sequence."""
        ...

    def labels(self) -> NDArray[np.int64]:
        """Return all labels, int64[N]; -1 where there is none."""
        ...

    def files(self) -> Iterator[Path]:
        """Yield every file that the dataset's bytes lie in, also one that is not there."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Return the layout for a person: chunk, shard, codec, level …; JSON-able, cheap.

        What is odd about the dataset stands there in words, as a list under ``notes``.
        """
        ...

    def check_table(self) -> Finding | None:
        """Compare keys, labels and metadata with what was written; None where all is well.

        Datasets that others made have nothing to compare with.
        """
        ...

    def compare(
        self, indices: Sequence[int] | NDArray[np.int64], images: Sequence[NDArray[Any]]
    ) -> Iterator[Finding]:
        """Yield which of the images that were read from ``indices`` are not what was written.

        By their checksums; encoded images of a dataset without any are judged by structure.
        Nothing is read again.
        """
        ...

    def verify(self, span: range | None = None) -> Iterator[Finding]:
        """Read the span and yield what does not match its checksums or structure.

        Without a span, all samples; and first what ``verify_whole`` says.
        """
        ...

    def verify_whole(self) -> Iterator[Finding]:
        """Yield what concerns no sample that is there: the table, lost or surplus pieces."""
        ...

    def close(self) -> None:
        """Release the handles of this process; reading again opens them anew."""
        ...


class Writer(Protocol):
    """Writes one dataset. Nothing is visible at the destination before ``publish``."""

    limits: PartLimits

    @property
    def started(self) -> float:
        """When the run began, or the one that ``begin`` continues: seconds since the epoch."""
        ...

    def begin(self, fingerprint: str) -> Sequence[Receipt]:
        """Take the staging place and return the finished parts of an interrupted equal run.

        Raises:
            StaleStagingError: the place holds an unfinished run with another fingerprint.
            BusyError: a live process is writing the same destination.
        """
        ...

    def write_part(self, part: Part, batch: Batch) -> Receipt:
        """Store a part durably; repeating it changes nothing.

        The batch is the caller's again when this returns: nothing of it may be kept.
        Without PARALLEL_WRITE it is called in order from one thread.
        """
        ...

    def publish(self, manifest: Manifest) -> None:
        """Give the dataset its final shape and make it visible at once."""
        ...

    def abort(self, *, keep: bool) -> None:
        """Release everything; ``keep`` leaves the staging place for the next run to continue."""
        ...


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where and how a writer writes."""

    path: Path
    manifest: Manifest
    """With the schema while writing; ``publish`` gets the final one."""
    overwrite: bool = False
    """The caller has checked that what stands at ``path`` may be replaced."""
    standing: Manifest | None = None
    """Of the dataset at ``path``, which is to be added to, where the format has APPEND. ``begin``
    then returns a part 0 that holds all its samples, and whose ``source_stop`` is 0. It stays as
    it is, and readable, until ``publish`` puts the larger one in its place at once."""
    settled: Mapping[str, Any] = field(default_factory=dict)
    """What the run depends on, by name, JSON-able: kept to say what another run has otherwise."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """One row of the registry."""

    name: str
    summary: str
    """One line: what it is good for."""
    suffixes: tuple[str, ...]
    capabilities: Capability
    payloads: tuple[Payload, ...]
    """What it can store; the first is its default."""
    recognises: Callable[[Path], bool]
    """True when the content at the path is of this format, by magic bytes; never raises."""
    open_reader: Callable[[Path, Options], Reader]
    open_writer: Callable[[Target, Options], Writer] | None = None
    read_options: type[Options] = Options
    write_options: type[Options] = Options
    requires: tuple[str, ...] = ()
    """Import names that must be there."""
    install_extra: str | None = None
    """The extra of this distribution that brings them."""
    check: Callable[[Target, Options, Sequence[str]], None] | None = None
    """Raises UsageError for keys, or so many, that cannot be held; before anything is written."""
