"""Memory of batches that is used again once nobody can see it any more. NumPy alone."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray


class _Lease:
    """Stands between memory and all arrays that view it: it lives as long as the last of them.

    An array made through ``__array_interface__`` keeps the object that offers it. Slices, tensors
    and memory views of that array keep the array. NumPy shortens chains of views only as far as
    they are arrays, and this is none: no view gets past it.
    """

    __slots__ = ("__array_interface__", "_at_end", "_memory")

    def __init__(
        self,
        memory: NDArray[np.uint8],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        at_end: Callable[[], object],
    ) -> None:
        self._memory = memory
        self._at_end = at_end
        self.__array_interface__ = {
            "data": (memory.ctypes.data, False),
            "shape": shape,
            "typestr": dtype.str,
            "version": 3,
        }

    def __del__(self) -> None:
        self._at_end()


def leased(
    memory: NDArray[np.uint8],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    at_end: Callable[[], object],
) -> NDArray[Any]:
    """Return an array over the first bytes of ``memory``.

    Args:
        memory: 1-D; must not be handed to anybody else before ``at_end`` is called.
        shape: of the array.
        dtype: of the array; a plain one, without fields.
        at_end: called once, when the array and everything that views it are gone, in whatever
            thread let go of the last one: it must not block or wait for a lock.
    """
    return np.asarray(_Lease(memory, shape, dtype, at_end))


class Slots:
    """Hands out arrays whose memory comes back by itself.

    Fresh memory costs a page fault every 4 KB, for a batch of 10 MB as much as filling it. So
    memory is used again, but never while anything sees it: an array from ``empty``, a slice of it,
    a tensor made of it. Whoever keeps a batch keeps its memory, and another batch gets other
    memory. Any number of threads may ask at once.

    Args:
        keep: how many arrays' memory is kept for the next; what comes back beyond that is freed.
    """

    def __init__(self, keep: int) -> None:
        self._free: deque[NDArray[np.uint8]] = deque(maxlen=keep)
        self._largest = 0

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return an array of any content: C-contiguous, writable, the caller's for as long."""
        size = math.prod(shape) * dtype.itemsize
        memory = self._memory(size)
        return leased(memory, shape, dtype, partial(self._free.append, memory))

    def _memory(self, size: int) -> NDArray[np.uint8]:
        self._largest = max(self._largest, size)
        while True:
            try:
                memory = self._free.pop()
            except IndexError:
                # As large as any so far: a short last batch must not leave memory for none else.
                return np.empty(self._largest, np.uint8)
            if len(memory) >= size:
                return memory
