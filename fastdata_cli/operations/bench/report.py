"""What bench found: frozen, JSON-able rows; every table, page and record is made from these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastdata_cli.operations.words import count_text
from fastdata_cli.timing.device import DeviceResult
from fastdata_cli.timing.environment import Environment
from fastdata_cli.timing.measurement import Measurement

_OF_DATASET = " · "


def workers_words(count: int) -> str:
    """Return ``4 workers``."""
    return count_text(count, "worker")


def read_words(order: str, by: str, threads: int) -> str:
    """Return ``random, by batch, 4 threads``."""
    return f"{order}, by {by}" + (f", {count_text(threads, 'thread')}" if threads > 1 else "")


def case_name(dataset: str, *words: str) -> str:
    """Return the name of a case: that of its dataset, and what is done with it."""
    return f"{dataset}{_OF_DATASET}{', '.join(words)}"


def split_case_name(name: str) -> tuple[str, str]:
    """Return the dataset of a case, and what is done with it."""
    dataset, _, words = name.rpartition(_OF_DATASET)
    return dataset, words


@dataclass(frozen=True, kw_only=True)
class DatasetFacts:
    """One dataset under test."""

    path: str
    format: str
    samples: int
    payload: str
    image_shape: tuple[int, ...] | None
    sample_bytes: float
    """Mean bytes of an image as handed over by the reader."""
    stored_bytes: int
    layout: Mapping[str, Any] = field(default_factory=dict)
    random_access: bool = True


@dataclass(frozen=True, kw_only=True)
class CacheFacts:
    """How much of the dataset's files was in the page cache around a measurement."""

    before: str
    """``cold``, ``warm``, ``mixed`` or ``unknown``."""
    after: str
    resident_before: float | None
    """Share, 0 to 1; None where it cannot be told."""
    resident_after: float | None
    method: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ReadRow:
    """Plain reads of one dataset in one order."""

    dataset: str
    order: str
    """``sequential``, ``random`` or ``block``."""
    by: str
    """``sample`` or ``batch``: what one request asks for."""
    threads: int
    measurement: Measurement
    samples_per_s: float | None
    megabytes_per_s: float | None
    requests_per_s: float | None
    latency_ms: Mapping[str, float]
    """Percentiles of one request."""
    cache: CacheFacts
    device_bytes: int | None
    """Fetched from storage meanwhile; None where that is not told."""
    used_bytes: int
    amplification: float | None
    """Device bytes over used bytes; None when nothing came from the device or it is not told."""

    @property
    def words(self) -> str:
        """What is read, in words."""
        return read_words(self.order, self.by, self.threads)


STAGES = ("read", "decompress", "decode", "resize", "collate", "transfer")
"""The steps between container and batch, in their order; operations/bench/stages.py has each."""


@dataclass(frozen=True, kw_only=True)
class StageRow:
    """One step between the container and a batch, on the same samples as the others."""

    dataset: str
    stage: str
    """``read``, ``decompress``, ``decode``, ``resize``, ``collate`` or ``transfer``."""
    seconds_per_sample: float
    share: float
    """Of the sum of all stages."""


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """The most that one part could deliver if nothing else took time."""

    dataset: str
    name: str
    """``device``, ``decode on all cores`` or ``free input``."""
    samples_per_s: float
    how: str
    """How it was found, in a few words."""


@dataclass(frozen=True, kw_only=True)
class LoaderRow:
    """A loader over one dataset: the DataLoader with one number of workers, or FastLoader."""

    dataset: str
    workers: int
    order: str
    batch_size: int
    measurement: Measurement
    samples_per_s: float | None
    first_batch_s: float | None
    wait_ms_per_sample: float | None
    memory_bytes: int | None
    """Of all workers and this process, proportional (PSS) where the system tells it."""
    cpu_share: float | None
    """Of the usable cores."""
    each_once: bool | None
    """Every sample arrived exactly once per epoch; None where no whole epoch was loaded."""
    same_bytes: bool | None
    """The batches' checksum equals that of a plain read."""
    cache: CacheFacts
    line: str
    """The ``DataLoader(...)`` or ``FastLoader(...)`` line that does the same."""
    loader: str = "DataLoader"
    """``DataLoader``, or ``FastLoader``, which has threads and no workers."""

    @property
    def words(self) -> str:
        """Which loader it is."""
        if self.loader == "DataLoader":
            return f"DataLoader, {workers_words(self.workers)}"
        return self.loader


@dataclass(frozen=True, kw_only=True)
class ConsumerRow:
    """A consumer that computes for a fixed time per batch, as a GPU does."""

    dataset: str
    workers: int
    step_ms: float
    utilisation: float
    """Compute time over wall time, the first step excluded (MLPerf Storage's accelerator use)."""
    goal: float = 0.9
    steps: int = 0


@dataclass(frozen=True, kw_only=True)
class Step:
    """One setting that ``--advise`` tried against the best so far."""

    setting: str
    """``FastLoader``, or source text: ``num_workers=2``."""
    ratio: float | None
    """How many times as fast as the best so far; None where it was not measured."""
    low: float | None = None
    high: float | None = None
    samples_per_s: float | None = None
    kept: bool = False
    why: str = ""
    """A few words: faster, within noise, what failed."""
    dataset: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What limits one dataset, and what to do."""

    dataset: str
    bottleneck: str
    """``device``, ``decode``, ``decompress``, ``workers``, ``consumer``, ``memory``, … ."""
    sentence: str
    action: str
    """The command or loader setting to use next."""


@dataclass(frozen=True, kw_only=True)
class BenchReport:
    """Everything that one run of bench found."""

    environment: Environment
    options: Mapping[str, Any]
    datasets: tuple[DatasetFacts, ...]
    started: str
    """UTC, ISO 8601."""
    device: Mapping[str, tuple[DeviceResult, ...]] = field(default_factory=dict)
    """By dataset."""
    reads: tuple[ReadRow, ...] = ()
    stages: tuple[StageRow, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    loaders: tuple[LoaderRow, ...] = ()
    fast_loaders: tuple[LoaderRow, ...] = ()
    """FastLoader, one row for each dataset: threads, and no workers."""
    consumers: tuple[ConsumerRow, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    host_to_device: str = ""
    """Copying to a GPU, or why it was not measured."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers has to know: doubts, blind spots, what was left out."""
    steps: tuple[Step, ...] = ()
    """With ``--advise``: the settings that were tried, in order."""
    to_paste: str = ""
    """Python source, imports included, of the best loader: with ``--advise``, or where FastLoader
    is faster than the DataLoader."""
    seconds: float = 0.0
