"""What bench saw of one dataset, in plain numbers: all that a verdict is judged from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One dataset, as far as it was measured; what was not is None or empty.

    Rates are samples per second, shares are 0 to 1.
    """

    dataset: str = "DATASET"
    """Its path, for commands."""
    format: str = ""
    payload: str = ""
    """``pixels`` or ``encoded``."""
    codec: str | None = None
    chunk: int | None = None
    """Samples."""
    shard_samples: int | None = None
    sample_bytes: float | None = None
    """Mean bytes of a stored image."""
    random_access: bool = True
    size: str | None = None
    """What images are brought to in a batch, as ``--size`` takes it."""
    max_side: int | None = None
    """The ``--max-side`` that keeps encoded images a little larger than that."""

    loader: Mapping[int, float] = field(default_factory=dict)
    """Rate of the DataLoader by number of workers."""
    fast_loader: float | None = None
    """Rate of FastLoader, where it is faster than any DataLoader, beyond noise."""
    fast_loader_line: str = ""
    """The expression that makes it."""
    order: str = "block"
    """In which the DataLoader loads."""
    batch_size: int | None = None
    reads: Mapping[str, float] = field(default_factory=dict)
    """Rate of plain reads by order."""
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds per sample, one thread: ``read``, ``decompress``, ``decode``, ``resize``,
    ``collate``, ``transfer`` (from a worker to the training process)."""

    device_ceiling: float | None = None
    """Rate at which the device could deliver the stored bytes."""
    decode_ceiling: float | None = None
    """Rate of decoding alone, on all cores."""
    free_ceiling: float | None = None
    """Rate of the DataLoader where reading and decoding cost nothing."""

    cores: int | None = None
    """Usable ones."""
    cache: str = "unknown"
    """``cold``, ``warm``, ``mixed`` or ``unknown``, before the DataLoader ran."""
    amplification: float | None = None
    """Bytes from the device for each byte used, in the order of the DataLoader."""

    cpu_share: float | None = None
    """Of the usable cores, taken by the loading processes."""
    others_share: float | None = None
    """Of the processors, taken by other processes or other virtual machines."""
    iowait: float | None = None
    disk_utilisation: float | None = None
    disk_queue: float | None = None
    """Requests under way at a time."""
    swapped_bytes: int | None = None
    """In and out, by the whole machine."""
    memory_share: float | None = None
    """Of the memory that was available, at the peak of the loading processes."""

    step_s: float | None = None
    """What the consumer computes for on each batch."""
    utilisation: float | None = None
    """Compute time over wall time, as measured with that consumer."""
    consumer_workers: int | None = None
    """Workers that it was measured with."""

    @property
    def workers(self) -> int | None:
        """The number of workers that delivered most; of equals, the smallest."""
        if not self.loader:
            return None
        return min(self.loader, key=lambda count: (-self.loader[count], count))

    @property
    def delivered(self) -> float | None:
        """The rate at which samples arrive: of the best DataLoader, else of plain reads."""
        if self.workers is not None:
            return self.loader[self.workers]
        return self.reads.get(self.order) or max(self.reads.values(), default=None)

    @property
    def needed(self) -> float | None:
        """The rate that keeps the consumer busy."""
        if not self.step_s or not self.batch_size:
            return None
        return self.batch_size / self.step_s

    @property
    def busy(self) -> float | None:
        """Share of the time that the consumer computes: measured, else as the rates allow."""
        if self.utilisation is not None:
            return self.utilisation
        if self.needed is None or not self.loader:
            return None
        return min(1.0, (self.delivered or 0.0) / self.needed)

    @property
    def stage_sum(self) -> float:
        """Seconds per sample of all stages."""
        return sum(self.stages.values())

    def shares(self, *names: str) -> float:
        """Return which share of all stages these take."""
        total = self.stage_sum
        return sum(self.stages.get(name, 0.0) for name in names) / total if total else 0.0
