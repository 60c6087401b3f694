"""Watches what a block of work takes of the machine: processors, memory, disks, swap, GPUs.

Means come from the kernel's counters before and after, and so miss nothing. Peaks come from a
thread that looks about ten times a second; less often where looking is dear (thousands of
processes, hundreds of gigabytes mapped), so that it stays below one percent of one core, and in
long runs, whose looks must not pile up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from fastdata_cli.timing.disks import disk_counters, disk_of
from fastdata_cli.timing.environment import usable_cores
from fastdata_cli.timing.gpus import Gpus
from fastdata_cli.timing.machine import machine_counters
from fastdata_cli.timing.mounts import mount_of
from fastdata_cli.timing.process_tree import ProcessTree
from fastdata_cli.timing.resource_use import DeepLook, Look, Resources, resources_of

_INTERVAL_S = 0.1
_DEEP_INTERVAL_S = 0.5
_FIRST_DEEP_S = 0.3  # workers are up by then, and a short run has one reading of their memory
# Of one core: apart, so that one dear deep look does not cost a run all its others.
_SHARE = 0.004
_DEEP_SHARE = 0.003
_LOOKS_A_RUN = 5000


class ResourceWatch:
    """A block that is watched: ``with ResourceWatch(paths) as watch: …``, then ``watch.resources``.

    Args:
        paths: the disks behind these are watched.
        interval_s: seconds between two looks, at least.
    """

    def __init__(self, paths: Sequence[Path] = (), *, interval_s: float = _INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._disks, self._unavailable = _disks_below(paths)
        self._tree = ProcessTree()
        self._gpus = Gpus()
        self._looks: list[Look] = []
        self._deep_looks: list[DeepLook] = []
        self._watch_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="fastdata-watch", daemon=True)
        self._resources: Resources | None = None

    @property
    def resources(self) -> Resources:
        """What the block took; there once it has ended, by an exception too."""
        if self._resources is None:
            raise RuntimeError("the watch has not ended yet")
        return self._resources

    def __enter__(self) -> Self:
        self._deep_looks.append(self._deep_look())
        self._looks.append(self._look())
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._looks.append(self._look())
        self._deep_looks.append(self._deep_look())
        names = self._gpus.names()
        self._gpus.close()
        self._resources = resources_of(
            self._looks,
            self._deep_looks,
            cores=usable_cores(),
            gpu_names=names,
            watch_s=self._watch_s,
            unavailable=self._missing(bool(names)),
        )

    def _watch(self) -> None:
        begin = time.monotonic()
        deep_s, pause, next_deep = 0.0, self._interval_s, _FIRST_DEEP_S
        while not self._ended.wait(pause):
            self._looks.append(self._look())
            elapsed = time.monotonic() - begin
            if elapsed >= next_deep:
                before = time.thread_time()
                self._deep_looks.append(self._deep_look())
                deep_s += time.thread_time() - before
                next_deep = max(elapsed + _DEEP_INTERVAL_S, deep_s / _DEEP_SHARE)
            affordable = (time.thread_time() - deep_s) / _SHARE - elapsed
            pause = max(self._interval_s, affordable, elapsed / _LOOKS_A_RUN)
        self._watch_s = time.thread_time()

    def _look(self) -> Look:
        return Look(
            when=time.monotonic(),
            tree=self._tree.counters(),
            machine=machine_counters(),
            disks=disk_counters(self._disks),
            gpus=self._gpus.read(),
        )

    def _deep_look(self) -> DeepLook:
        return DeepLook(memory=self._tree.memory(), switches=self._tree.switches())

    def _missing(self, gpus: bool) -> list[str]:
        missing = list(self._unavailable)
        if self._looks[0].machine is None:
            missing.append("the machine's processor time and swap cannot be read here")
        if self._looks[0].tree.device_read_bytes is None:
            missing.append("what these processes read cannot be seen here")
        missing += [
            f"the work of disk {name} is not counted here"
            for name in sorted(self._disks - set(self._looks[0].disks))
        ]
        if any(look.memory.kind == "rss" for look in self._deep_looks):
            missing.append("shared memory cannot be told apart here: it counts for each process")
        if not gpus:
            missing.append("no GPU is watched: none, or no NVML library (pip install nvidia-ml-py)")
        return missing


def _disks_below(paths: Sequence[Path]) -> tuple[set[str], list[str]]:
    """Return the disks that paths lie on, and in sentences where there is none."""
    names, missing = set(), []
    for mount in dict.fromkeys(mount_of(path) for path in paths):
        disk = disk_of(mount)
        if disk is None:
            missing.append(f"{mount.point} ({mount.kind}) lies on no disk that could be watched")
        else:
            names.add(disk.name)
    return names, missing
