"""Decoded chunks that several batches share: each decoded once, a bounded number of bytes kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from fastdata_cli.extents import Window

_USUAL_BYTES = 128 << 20
_MOST_BYTES = 1 << 30


@dataclass(slots=True, eq=False)
class _Chunk:
    data: Window
    users: int = 1
    ready: bool = False


class DecodedChunks:
    """Chunks by key; threads share them, and none decodes what another is decoding.

    Memory of chunks that went is used again: fresh memory costs a page fault every 4 KiB.

    Args:
        usual: bytes that are kept.
        most: bytes that ``reserve`` may raise that to.
    """

    def __init__(self, usual: int = _USUAL_BYTES, most: int = _MOST_BYTES) -> None:
        self._limit = usual
        self._most = most
        self._chunks: OrderedDict[Hashable, _Chunk] = OrderedDict()
        self._spare: list[Window] = []
        self._bytes = 0
        self._changed = threading.Condition()

    def reserve(self, size: int) -> None:
        """Keep at least ``size`` bytes from now on: what one batch needs, the next one needs."""
        self._limit = max(self._limit, min(size, self._most))

    @contextmanager
    def hold(
        self, key: Hashable, size: int, decode: Callable[[Window], None], *, wait: bool
    ) -> Iterator[Window | None]:
        """Give a chunk, which stays as it is while it is held.

        Args:
            key: of the chunk.
            size: bytes of it.
            decode: fills memory of that size; what it raises is raised here.
            wait: False gives None where another thread is decoding this chunk just now.
        """
        chunk = self._acquire(key, size, wait)
        if chunk is None:
            yield None
            return
        try:
            if not chunk.ready:
                decode(chunk.data)
                self._publish(chunk)
            yield chunk.data
        finally:
            self._release(key, chunk)

    def _acquire(self, key: Hashable, size: int, wait: bool) -> _Chunk | None:
        with self._changed:
            while True:
                chunk = self._chunks.get(key)
                if chunk is None:
                    chunk = self._chunks[key] = _Chunk(self._memory(size))
                    self._bytes += size
                    return chunk
                if chunk.ready:
                    chunk.users += 1
                    self._chunks.move_to_end(key)
                    return chunk
                if not wait:
                    return None
                self._changed.wait()

    def _publish(self, chunk: _Chunk) -> None:
        with self._changed:
            chunk.ready = True
            self._changed.notify_all()

    def _release(self, key: Hashable, chunk: _Chunk) -> None:
        with self._changed:
            chunk.users -= 1
            if not chunk.ready:  # it could not be decoded: who waits for it tries again
                self._drop(key, chunk)
                self._changed.notify_all()
            while self._bytes > self._limit and self._drop_oldest():
                pass

    def _drop_oldest(self) -> bool:
        """Drop what was used longest ago and is not in use; False if everything is."""
        idle = ((key, chunk) for key, chunk in self._chunks.items() if not chunk.users)
        found = next(idle, None)
        if found is not None:
            self._drop(*found)
        return found is not None

    def _drop(self, key: Hashable, chunk: _Chunk) -> None:
        del self._chunks[key]
        self._bytes -= chunk.data.size
        self._spare = [chunk.data]

    def _memory(self, size: int) -> Window:
        if self._spare and self._spare[-1].size == size:
            return self._spare.pop()
        self._spare.clear()
        return Window.over(np.empty(size, np.uint8))
