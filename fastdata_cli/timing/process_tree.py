"""What the kernel counts of one process and all below it; processes may vanish at any moment.

The kernel adds the processor time and the I/O of a finished child to its parent once the parent
has waited for it. So the sum over the living, each with what it inherited, loses nothing; and
because a parent is always read before its children, nothing is counted twice either.
"""

from __future__ import annotations

import os
import resource
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeCounters:
    """Of all processes of the tree together, since each began."""

    processes: int
    cpu_s: float
    device_read_bytes: int | None
    """Fetched from storage on their behalf, by page faults too; None where it may not be seen."""
    read_bytes: int | None
    """Returned by read calls, from the page cache or not; mapped files are not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeMemory:
    """Memory of the tree at one moment, in bytes."""

    kind: str
    """``pss``: a page shared by n processes counts 1/n for each; ``rss``: fully for each."""
    total: int
    workers: int
    """Of all but the root."""
    mapped: int
    """Of the total, pages of files: they can be dropped and read again."""


class ProcessTree:
    """A process and its descendants.

    Args:
        root: the process; default is this one.
    """

    def __init__(self, root: int | None = None, *, proc: Path = _PROC) -> None:
        self.root = os.getpid() if root is None else root
        self._proc = proc
        self._parents: dict[int, int] = {}

    def pids(self) -> list[int]:
        """Return the processes that are there now, each after its parent."""
        children = defaultdict(list)
        for pid, parent in self._all_parents().items():
            children[parent].append(pid)
        found = [self.root]
        for pid in found:  # grows meanwhile
            found += children.get(pid, [])
        return found

    def counters(self) -> TreeCounters:
        """Return the counters of the tree now."""
        processes, ticks = 0, 0
        device, read = 0, 0
        seen = False
        for pid in self.pids():
            fields = self._stat(pid)
            if not fields:
                continue
            processes += 1
            ticks += sum(int(field) for field in fields[11:15])
            io = self._named(pid, "io")
            seen |= "read_bytes" in io
            device += io.get("read_bytes", 0)
            read += io.get("rchar", 0)
        return TreeCounters(
            processes=processes,
            cpu_s=ticks / _TICKS,
            device_read_bytes=device if seen else None,
            read_bytes=read if seen else None,
        )

    def memory(self) -> TreeMemory:
        """Return the memory of the tree now; dear, for the kernel walks all pages of each."""
        kind = "pss"
        total = workers = mapped = 0
        for pid in self.pids():
            pages = self._named(pid, "smaps_rollup")
            if "Pss" in pages:
                size, files = pages["Pss"] << 10, pages.get("Pss_File", 0) << 10
            else:
                words = self._text(f"{pid}/statm").split()
                if len(words) < 3 or words[1] == b"0":  # gone, or a zombie
                    continue
                kind, size, files = "rss", int(words[1]) * _PAGE, int(words[2]) * _PAGE
            total += size
            mapped += files
            workers += size if pid != self.root else 0
        return TreeMemory(kind=kind, total=total, workers=workers, mapped=mapped)

    def switches(self) -> tuple[int, int]:
        """Return the voluntary and involuntary context switches of all threads.

        A thread that ended is only remembered for this process and for children waited for.
        """
        voluntary = involuntary = 0
        pids = self.pids()
        if self.root == os.getpid():
            pids = pids[1:]
            for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
                usage = resource.getrusage(whose)
                voluntary += usage.ru_nvcsw
                involuntary += usage.ru_nivcsw
        for status in self._threads(pids):
            counts = self._named(status, "status")
            voluntary += counts.get("voluntary_ctxt_switches", 0)
            involuntary += counts.get("nonvoluntary_ctxt_switches", 0)
        return voluntary, involuntary

    def _threads(self, pids: list[int]) -> Iterator[str]:
        for pid in pids:
            try:
                threads = os.listdir(self._proc / f"{pid}/task")
            except OSError:
                continue
            yield from (f"{pid}/task/{thread}" for thread in threads)

    def _all_parents(self) -> dict[int, int]:
        """Return the parent of every process; only of those not seen before is it read."""
        before, now = self._parents, {}
        for name in os.listdir(self._proc):
            if name.isdigit():
                pid = int(name)
                parent = before[pid] if pid in before else self._parent(pid)
                if parent is not None:
                    now[pid] = parent
        self._parents = now
        return now

    def _parent(self, pid: int) -> int | None:
        fields = self._stat(pid)
        return int(fields[1]) if fields else None

    def _stat(self, pid: int) -> list[bytes]:
        """Return the fields behind the name of the command, which may hold anything."""
        return self._text(f"{pid}/stat").rpartition(b")")[2].split()

    def _named(self, pid: int | str, file: str) -> dict[str, int]:
        """Return the numbers of ``name: number`` lines."""
        found = {}
        for line in self._text(f"{pid}/{file}").splitlines():
            name, _, rest = line.partition(b":")
            words = rest.split()
            if words and words[0].isdigit():
                found[name.decode(errors="replace")] = int(words[0])
        return found

    def _text(self, path: str) -> bytes:
        try:
            with open(f"{self._proc}/{path}", "rb", buffering=0) as file:
                return file.readall()
        except OSError:  # it ended, or is not ours to see
            return b""
