"""Batches in memory that a worker process shares with the one that trains, used again and again.

A worker fills *slots*, anonymous files of the kernel, which the trainer maps through the worker's
entry in ``/proc``: no names, nothing to clean up, no limit but memory. One more such file has the
words by which they agree, 8 bytes each: the first is set once the trainer could open that file;
then one for each slot, the number of its last use that the trainer has let go of.

    worker                               trainer
    empty: a slot nobody sees
    fills it, sends where it is  ──────► received: maps it, views it
    its own view ends                    the last view ends: writes the number of the use
    the slot is free again       ◄──────

Linux only; elsewhere, or where ``/proc`` is closed, the words stay zero and torch's way is left.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import weakref
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import StorageError
from fastdata_cli.loading.slots import leased
from fastdata_cli.storage.process_local import ProcessLocal

# More batches of one worker that somebody holds at once travel in fresh memory.
_MOST_SLOTS = 8
_CONFIRMED = 0
_KEPT = -1
_WORDS = mmap.PAGESIZE // 8


@dataclass(frozen=True, slots=True)
class Address:
    """Where another process finds a file of this one that has no name."""

    pid: int
    descriptor: int
    inode: int
    """Guards against another process that got the number of one that ended."""


class _File:
    """A file of the kernel without a name, mapped."""

    def __init__(self, size: int) -> None:
        self.descriptor = os.memfd_create("fastdata")
        os.ftruncate(self.descriptor, size)
        self.memory = np.frombuffer(mmap.mmap(self.descriptor, size), np.uint8)

    @property
    def address(self) -> Address:
        return Address(os.getpid(), self.descriptor, os.fstat(self.descriptor).st_ino)

    def close(self) -> None:
        os.close(self.descriptor)  # the mapping goes with its last view


def _opened(address: Address) -> NDArray[np.uint8]:
    """Map the file of another process.

    Raises:
        OSError: the process is gone, or not ours to look into.
    """
    descriptor = os.open(f"/proc/{address.pid}/fd/{address.descriptor}", os.O_RDWR | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_ino != address.inode:
            raise ProcessLookupError(f"process {address.pid} is another one")
        return np.frombuffer(mmap.mmap(descriptor, status.st_size), np.uint8)
    finally:
        os.close(descriptor)


@dataclass(eq=False)
class _Slot:
    """Memory for one batch, as the worker sees it."""

    word: int
    file: _File
    seen: bool = False
    """Something in this process views it."""
    uses: int = 0
    """How often it was sent."""


@dataclass(eq=False)
class Loan:
    """One use of a slot.

    It keeps the slot until it is sent, whatever becomes of the views: torch takes a tensor that is
    sent beside the batch, a slice of it say, into other memory, and with it all that shares its
    storage. Nobody would see the slot any more, and it would be filled again before it is sent.
    """

    slot: _Slot
    words: Address
    shape: tuple[int, ...]
    dtype: str
    array: NDArray[Any] | None
    sent: bool = False

    def send(self) -> Sent:
        """Return what the trainer needs; from here on the slot is in its hands. Once only."""
        self.sent = True
        self.slot.uses += 1
        self.array = None  # only now: a use that was counted is free when the trainer says so
        return Sent(
            self.slot.file.address,
            self.words,
            self.slot.word,
            self.slot.uses,
            self.shape,
            self.dtype,
        )


class SharedSlots:
    """The slots of one worker process. For one thread at a time."""

    def __init__(self) -> None:
        self._file = _File(_WORDS * 8)
        self._words: NDArray[np.int64] = self._file.memory.view(np.int64)
        self._slots: list[_Slot] = []

    @property
    def address(self) -> Address:
        """Where the trainer finds the words."""
        return self._file.address

    def empty(
        self, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> tuple[NDArray[Any], Loan] | None:
        """Return an array of any content in a free slot, and the loan by which it is sent.

        None while the trainer has not found the words, or where it holds all slots.
        """
        size = max(1, math.prod(shape) * dtype.itemsize)
        slot = self._free(size) if self._words[_CONFIRMED] else None
        if slot is None:
            return None
        slot.seen = True
        array = leased(slot.file.memory, shape, dtype, partial(setattr, slot, "seen", False))
        return array, Loan(slot, self.address, shape, dtype.str, array)

    def close(self) -> None:
        """Give the files back; views of the memory stay good."""
        for slot in self._slots:
            slot.file.close()
        self._slots.clear()
        self._file.close()

    def _free(self, size: int) -> _Slot | None:
        for at, slot in enumerate(self._slots):
            if slot.seen or self._words[slot.word] not in (slot.uses, _KEPT):
                continue
            if self._words[slot.word] == slot.uses and len(slot.file.memory) >= size:
                return slot
            slot.file.close()  # kept for ever by the trainer, or too small
            self._slots[at] = self._new(slot.word, size)
            return self._slots[at]
        if len(self._slots) == _MOST_SLOTS:
            return None
        self._slots.append(self._new(1 + len(self._slots), size))
        return self._slots[-1]

    def _new(self, word: int, size: int) -> _Slot:
        self._words[word] = 0
        return _Slot(word, _File(size))


of_this_process: ProcessLocal[SharedSlots] = ProcessLocal(SharedSlots, SharedSlots.close)
"""The slots that a worker fills."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What the trainer is told of a slot; small, and pickles."""

    slot: Address
    words: Address
    word: int
    use: int
    shape: tuple[int, ...]
    dtype: str

    def array(self) -> NDArray[Any]:
        """Return the slot's content, mapped; when its last view is gone, the worker may have it.

        Raises:
            StorageError: the worker has ended.
        """
        try:
            memory, words = _opened(self.slot), _words_at(self.words)
        except OSError as problem:
            raise StorageError("a worker process ended before its batch was taken") from problem
        use = _Use(words, self.word, self.use)
        _uses.add(use)
        return leased(memory, self.shape, np.dtype(self.dtype), use.end)


def confirm(words: Address) -> None:
    """Tell a worker that this process can open its files; where it cannot, do nothing."""
    with contextlib.suppress(OSError):
        _words_at(words)[_CONFIRMED] = 1


@dataclass(eq=False)
class _Use:
    """A batch that this process holds in a slot of a worker."""

    words: NDArray[np.int64]
    word: int
    number: int
    pid: int = field(default_factory=os.getpid)
    kept: bool = False

    def end(self) -> None:
        """Let the worker have its slot, unless another process may look at it still."""
        if not self.kept and self.pid == os.getpid():
            self.words[self.word] = self.number

    def keep(self) -> None:
        """Take the slot from the worker for ever."""
        if self.pid == os.getpid():
            self.kept = True
            self.words[self.word] = _KEPT


_uses: weakref.WeakSet[_Use] = weakref.WeakSet()
_known_words: weakref.WeakValueDictionary[Address, NDArray[np.int64]] = (
    weakref.WeakValueDictionary()
)


def _words_at(address: Address) -> NDArray[np.int64]:
    words = _known_words.get(address)
    if words is None:
        words = _opened(address).view(np.int64)
        _known_words[address] = words
    return words


def _keep_all() -> None:
    # A child sees the same memory, not a copy of it, and may look at a batch for as long as it
    # lives: a slot that it has inherited is filled no more.
    for use in list(_uses):
        use.keep()


os.register_at_fork(before=_keep_all)
