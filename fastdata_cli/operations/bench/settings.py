"""The options of bench."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fastdata_cli.errors import UsageError
from fastdata_cli.options import Options, option

QUICK_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class BenchOptions(Options):
    """What is measured, and for how long."""

    workers: str = option("0,2", "worker processes of the DataLoader: one count, or a sweep 0,2,4")
    batch_size: int = option(64, "samples of a batch", minimum=1)
    order: str = option(
        "block", "order in the DataLoader", choices=("sequential", "random", "block")
    )
    size: str | None = option(
        None, "bring images to H or HxW in the batch (default: 224 where sizes differ)"
    )
    threads: str = option("1", "threads of the plain reads: one count, or a sweep 1,2,4")
    cache: str = option(
        "as-is",
        "page cache before each measurement: touched, evicted and proven, or left",
        choices=("as-is", "warm", "cold"),
    )
    seconds: float = option(60.0, "time for everything, about", minimum=0)
    repeats: int = option(3, "rounds in which the cases are interleaved", minimum=1)
    quick: bool = option(
        False, f"a look of about {QUICK_SECONDS:.0f} seconds: fewer cases, and shorter"
    )
    step_ms: float | None = option(
        None, "would the GPU be busy: a consumer that needs this long per batch", minimum=0
    )
    advise: bool = option(
        False, "try FastLoader and settings of the DataLoader; print the best to paste"
    )
    pin_memory: bool = option(False, "copy batches to pinned memory")
    prefetch_factor: int | None = option(None, "batches each worker is ahead", minimum=1)
    persistent_workers: bool = option(False, "keep the workers between epochs")
    start_method: str | None = option(
        None, "how workers are started", choices=("fork", "spawn", "forkserver")
    )
    no_device: bool = option(False, "leave out the device ceiling (fio)")
    no_loader: bool = option(False, "leave out the loaders (torch)")

    @property
    def worker_counts(self) -> tuple[int, ...]:
        """``workers`` as numbers."""
        return counts(self.workers, "--workers", least=0)

    @property
    def thread_counts(self) -> tuple[int, ...]:
        """``threads`` as numbers."""
        return counts(self.threads, "--threads", least=1)

    @property
    def budget_s(self) -> float:
        """Seconds for everything."""
        return min(self.seconds, QUICK_SECONDS) if self.quick else self.seconds


def counts(text: str, flag: str, *, least: int) -> tuple[int, ...]:
    """Return the numbers of ``0,2,4``, each once, in order.

    Raises:
        UsageError: not such a list.
    """
    words = [word.strip() for word in str(text).split(",")]
    if not all(re.fullmatch("[0-9]{1,4}", word) and least <= int(word) <= 1024 for word in words):
        raise UsageError(
            f"{flag} does not know {text!r}", hint=f"a number from {least}, or several: 0,2,4"
        )
    return tuple(dict.fromkeys(int(word) for word in words))
