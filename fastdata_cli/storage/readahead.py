"""Has the system fetch what a batch needs from disk at once, as long as files are not in memory."""

from __future__ import annotations

import mmap
import resource
from collections.abc import Sequence

import numpy as np

from fastdata_cli.extents import Column
from fastdata_cli.storage.mapping import MappedFile

# Ranges with less between them are asked for as one: a disk reads that in the time of a request.
_NEAR_BYTES = 128 << 10
# Batches that are asked for ahead before one is moved unasked, to see whether that was needed.
_BATCHES = 32


class ReadAhead:
    """Decides by major page faults, which are reads from disk, whether a batch is asked for ahead.

    Faulting in one page after the other, a cold disk gave 400 images of 100 KB a second where
    advised reads gave 12,000; for files in memory the advice is wasted, some microseconds a
    sample. Threads may share it: what they do to its count at once does no harm.
    """

    def __init__(self) -> None:
        self._left = _BATCHES

    @property
    def is_cold(self) -> bool:
        """Whether files are taken to be on disk."""
        return self._left > 0

    def begin(self, files: Sequence[MappedFile], offsets: Column, lengths: Column) -> int:
        """Ask for ranges if files are cold; return what ``end`` wants to know."""
        if self.is_cold:
            self._left -= 1
            ask(files, offsets, lengths)
            return -1
        return _major_faults()

    def end(self, begun: int) -> None:
        """Note whether a batch that was not asked for ahead came from disk."""
        if begun >= 0 and _major_faults() > begun:
            self._left = _BATCHES


def ask(files: Sequence[MappedFile], offsets: Column, lengths: Column) -> None:
    """Have the system read ranges of files, in the order of the files, near ones as one.

    Args:
        files: the file of each range, or the one of all.
        offsets: where each begins.
        lengths: its bytes.
    """
    numbers = np.zeros(len(offsets), np.int64)
    if len(files) > 1:
        distinct = {id(file): number for number, file in enumerate(files)}
        numbers = np.array([distinct[id(file)] for file in files])
    order = np.lexsort((offsets, numbers))
    numbers, begins, ends = numbers[order], offsets[order], (offsets + lengths)[order]
    apart = np.ones(len(order), np.bool_)
    apart[1:] = (numbers[1:] != numbers[:-1]) | (begins[1:] > ends[:-1] + _NEAR_BYTES)
    firsts = np.flatnonzero(apart)
    if not len(firsts):
        return
    stops = np.maximum.reduceat(ends, firsts)
    for number, begin, stop in zip(
        numbers[firsts].tolist(), begins[firsts].tolist(), stops.tolist(), strict=True
    ):
        files[number].advise(mmap.MADV_WILLNEED, begin, stop - begin)


def _major_faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_majflt
