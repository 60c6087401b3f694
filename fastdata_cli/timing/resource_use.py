"""What a piece of work took of the machine, worked out from looks at the kernel's counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fastdata_cli.timing.disks import DiskCounters
from fastdata_cli.timing.gpus import GpuReading
from fastdata_cli.timing.machine import MachineCounters
from fastdata_cli.timing.process_tree import TreeCounters, TreeMemory

# The kernel counts processor time in hundredths of a second: shorter windows have no peaks.
_SHORTEST_WINDOW_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory of this process and all below it, in bytes."""

    kind: str
    """``pss``: a page shared by n processes counts 1/n for each. ``rss`` where the kernel does not
    tell that: shared pages count fully for each, so the sum is too high."""
    peak: int
    mean: int
    workers_peak: int
    """Of the processes below this one alone."""
    mapped_at_peak: int
    """Of the peak, pages of mapped files: the kernel may drop them when memory is short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUse:
    """What one disk did, for anyone."""

    device: str
    utilisation_mean: float
    """Share of the time with a request under way, 0 to 1; an SSD at 1 may still take more."""
    utilisation_peak: float
    queue_mean: float
    """Requests under way at a time."""
    queue_peak: float
    reads: int
    read_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """What one GPU did, for anyone; None where it does not tell."""

    name: str
    utilisation_mean: float | None
    utilisation_peak: float | None
    memory_peak_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What was taken while the watch lasted; None for what the system does not tell."""

    seconds: float
    looks: int
    processes_peak: int
    cpu_mean: float
    """Of this process and all below it, as a share of the usable cores: 1 is all of them."""
    cpu_peak: float
    machine_busy_mean: float | None
    """Of all processes, as a share of all cores of the machine."""
    iowait_mean: float | None
    """Share of all cores that were idle while a process waited for storage."""
    iowait_peak: float | None
    steal_mean: float | None
    """Share of all cores that went to other virtual machines."""
    memory: Memory
    swapped_in_bytes: int | None
    """By the whole machine."""
    swapped_out_bytes: int | None
    voluntary_switches: int
    """A thread waited, for storage or for another thread."""
    involuntary_switches: int
    """A thread would have gone on, and another got its core."""
    device_read_bytes: int | None
    """Fetched from storage for these processes, mapped files included."""
    read_bytes: int | None
    """Returned by their read calls, from the page cache or not."""
    disks: tuple[DiskUse, ...]
    gpus: tuple[GpuUse, ...]
    watch_cpu: float
    """What the watch itself took, as a share of one core."""
    unavailable: tuple[str, ...]
    """What could not be watched, in sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The cheap counters at one moment."""

    when: float
    """Seconds of a clock that never goes back."""
    tree: TreeCounters
    machine: MachineCounters | None
    disks: Mapping[str, DiskCounters]
    gpus: Sequence[GpuReading]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepLook:
    """What is dear to read, at one moment."""

    memory: TreeMemory
    switches: tuple[int, int]
    """Voluntary and involuntary."""


def resources_of(
    looks: Sequence[Look],
    deep_looks: Sequence[DeepLook],
    *,
    cores: int,
    gpu_names: Sequence[str],
    watch_s: float,
    unavailable: Sequence[str],
) -> Resources:
    """Return what was taken between the first and the last look.

    Args:
        looks: at least two, in order.
        deep_looks: at least one, in order.
        cores: how many this process may use.
        gpu_names: of each GPU of the looks.
        watch_s: processor seconds that looking took.
        unavailable: what could not be watched, in sentences.
    """
    windows = _windows(looks)
    seconds = [after.when - before.when for before, after in windows]
    cpu = _rate([after.tree.cpu_s - before.tree.cpu_s for before, after in windows], seconds)
    machine = [(a.machine, b.machine) for a, b in windows if a.machine and b.machine]
    processor_s = [after.total_s - before.total_s for before, after in machine]
    iowait = _rate([after.iowait_s - before.iowait_s for before, after in machine], processor_s)
    machines = [look.machine for look in looks if look.machine]
    return Resources(
        seconds=seconds[0],
        looks=len(looks),
        processes_peak=max(look.tree.processes for look in looks),
        cpu_mean=(cpu.mean or 0.0) / cores,
        cpu_peak=(cpu.peak or 0.0) / cores,
        machine_busy_mean=_rate([b.busy_s - a.busy_s for a, b in machine], processor_s).mean,
        iowait_mean=iowait.mean,
        iowait_peak=iowait.peak,
        steal_mean=_rate([b.steal_s - a.steal_s for a, b in machine], processor_s).mean,
        memory=_memory([look.memory for look in deep_looks]),
        swapped_in_bytes=_growth([each.swapped_in_bytes for each in machines]),
        swapped_out_bytes=_growth([each.swapped_out_bytes for each in machines]),
        voluntary_switches=_growth([look.switches[0] for look in deep_looks]) or 0,
        involuntary_switches=_growth([look.switches[1] for look in deep_looks]) or 0,
        device_read_bytes=_growth([look.tree.device_read_bytes for look in looks]),
        read_bytes=_growth([look.tree.read_bytes for look in looks]),
        disks=_disks(windows, seconds),
        gpus=tuple(
            _gpu(name, [look.gpus[at] for look in looks]) for at, name in enumerate(gpu_names)
        ),
        watch_cpu=watch_s / max(seconds[0], 1e-9),
        unavailable=tuple(unavailable),
    )


@dataclass(frozen=True, slots=True)
class _Rate:
    """How fast a counter grew: over all, and in the busiest window."""

    mean: float | None
    peak: float | None


def _windows(looks: Sequence[Look]) -> list[tuple[Look, Look]]:
    """Return pairs of looks: the first and the last, then one after another, not too close."""
    apart = [looks[0]]
    for look in looks[1:]:
        if look.when - apart[-1].when >= _SHORTEST_WINDOW_S:
            apart.append(look)
    return [(looks[0], looks[-1]), *pairwise(apart)]


def _rate(parts: Sequence[float], wholes: Sequence[float]) -> _Rate:
    """Return how much of each whole its part is; the first pair is over all."""
    # A counter goes back where a process ended that nobody waited for.
    shares = [max(0.0, part) / max(whole, 1e-9) for part, whole in zip(parts, wholes, strict=True)]
    return _Rate(shares[0], max(shares)) if shares else _Rate(None, None)


def _growth(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return max(known) - known[0] if known else None


def _memory(readings: Sequence[TreeMemory]) -> Memory:
    peak = max(readings, key=lambda reading: reading.total)
    return Memory(
        kind="pss" if all(reading.kind == "pss" for reading in readings) else "rss",
        peak=peak.total,
        mean=sum(reading.total for reading in readings) // len(readings),
        workers_peak=max(reading.workers for reading in readings),
        mapped_at_peak=peak.mapped,
    )


def _disks(windows: Sequence[tuple[Look, Look]], seconds: Sequence[float]) -> tuple[DiskUse, ...]:
    every = {name for name in windows[0][0].disks if all(name in b.disks for _, b in windows)}
    return tuple(
        _disk(name, [(a.disks[name], b.disks[name]) for a, b in windows], seconds)
        for name in sorted(every)
    )


def _disk(
    name: str, counters: Sequence[tuple[DiskCounters, DiskCounters]], seconds: Sequence[float]
) -> DiskUse:
    busy = _rate([after.busy_s - before.busy_s for before, after in counters], seconds)
    queue = _rate([after.queued_s - before.queued_s for before, after in counters], seconds)
    first, last = counters[0]
    return DiskUse(
        device=name,
        # The kernel books a request when it ends: a window may get more time than it lasted.
        utilisation_mean=min(1.0, busy.mean or 0.0),
        utilisation_peak=min(1.0, busy.peak or 0.0),
        queue_mean=queue.mean or 0.0,
        queue_peak=queue.peak or 0.0,
        reads=last.reads - first.reads,
        read_bytes=last.read_bytes - first.read_bytes,
    )


def _gpu(name: str, readings: Sequence[GpuReading]) -> GpuUse:
    loads = [each.utilisation for each in readings if each.utilisation is not None]
    memory = [each.memory_bytes for each in readings if each.memory_bytes is not None]
    return GpuUse(
        name=name,
        utilisation_mean=sum(loads) / len(loads) if loads else None,
        utilisation_peak=max(loads, default=None),
        memory_peak_bytes=max(memory, default=None),
    )
