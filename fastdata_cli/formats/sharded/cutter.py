"""Owns cutting a stream of samples into shards, each a file that is not ended yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from fastdata_cli.contract import Receipt
from fastdata_cli.storage import durable

_FLUSH_BYTES = 8 << 20


def total_bytes(pieces: Iterable[Any]) -> int:
    """Return the bytes of some bytes-like pieces."""
    return sum(memoryview(piece).nbytes for piece in pieces)


class PieceStream:
    """Appends to an open file, from a position on, in large writes; ``flush`` writes the rest.

    Args:
        descriptor: of a file opened for writing.
        position: where the next piece goes; whatever lies there is dropped.
    """

    def __init__(self, descriptor: int, position: int) -> None:
        self.position = position
        self._descriptor = descriptor
        self._pending: list[Any] = []
        self._pending_bytes = 0
        os.ftruncate(descriptor, position)
        os.lseek(descriptor, position, os.SEEK_SET)

    def append(self, pieces: Sequence[Any]) -> None:
        """Append bytes-like pieces; the caller keeps them as they are until the next flush."""
        self.append_sized(pieces, total_bytes(pieces))

    def append_sized(self, pieces: Sequence[Any], size: int) -> None:
        """Append bytes-like pieces of so many bytes in all."""
        self._pending += pieces
        self._pending_bytes += size
        self.position += size
        if self._pending_bytes >= _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is pending, and have the system pass it on to the device."""
        durable.write_pieces(self._descriptor, self._pending)
        durable.start_writing(
            self._descriptor, self.position - self._pending_bytes, self._pending_bytes
        )
        self._pending.clear()
        self._pending_bytes = 0


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """When a shard is full: before the sample that would exceed either; None for no limit."""

    samples: int | None
    bytes: int | None
    """Of samples, with all that stands beside their images; the shard's index is not counted."""

    def exceeded_by(self, samples: int, size: int) -> bool:
        """Tell whether a shard with so many samples and bytes would be too large."""
        if self.samples is not None and samples > self.samples:
            return True
        return self.bytes is not None and size > self.bytes


@dataclass(frozen=True, slots=True)
class ShardEnd:
    """How far a shard was filled."""

    shard: int = 0
    samples: int = 0
    bytes: int = 0
    last: int = 0
    """Where its last sample begins."""


class ShardCutter:
    """Appends the samples of one part to shards, beginning others as they fill up.

    Args:
        folder: where the shards lie.
        name: returns the file name of a shard by its number.
        limits: when a shard is full.
        start: how far the part before filled the last shard.
    """

    def __init__(
        self, folder: Path, name: Callable[[int], str], limits: ShardLimits, start: ShardEnd
    ) -> None:
        self._folder = folder
        self._name = name
        self._limits = limits
        self._end = start
        self._ends: list[ShardEnd] = []
        self._descriptor: int | None = None
        self._stream: PieceStream | None = None

    def append(self, pieces: Sequence[Any]) -> int:
        """Append one sample; return where it begins in its shard."""
        end, size = self._end, total_bytes(pieces)
        full = self._limits.exceeded_by(end.samples + 1, end.bytes + size)
        if full and end.samples:
            self._next_shard()
        stream = self._stream or self._open()
        begin = stream.position
        stream.append_sized(pieces, size)
        self._end = ShardEnd(self._end.shard, self._end.samples + 1, stream.position, begin)
        return begin

    def finish(self) -> list[ShardEnd]:
        """Make everything durable; return how far each shard that grew was filled."""
        if self._stream is not None:
            self._sync()
        return self._ends

    def close(self) -> None:
        """Close the file that is open, if any."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = self._stream = None

    def _open(self) -> PieceStream:
        path = self._folder / self._name(self._end.shard)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        if self._end.bytes == 0:
            durable.sync_directory(self._folder)
        self._stream = PieceStream(self._descriptor, self._end.bytes)
        return self._stream

    def _sync(self) -> None:
        assert self._stream is not None
        assert self._descriptor is not None
        self._stream.flush()
        durable.sync_file(self._descriptor)
        self._ends.append(self._end)

    def _next_shard(self) -> None:
        if self._stream is not None:  # else the part before filled it, and made it durable
            self._sync()
            self.close()
        self._end = ShardEnd(self._end.shard + 1)


def shard_facts(ends: Sequence[ShardEnd]) -> dict[str, Any]:
    """Return what a receipt keeps of the shards that its part made grow."""
    return {"shards": [list(astuple(end)) for end in ends]}


def shard_ends(receipts: Sequence[Receipt]) -> list[ShardEnd]:
    """Return how far each shard was filled after all of these parts, by number."""
    ends = {}
    for receipt in receipts:
        for columns in receipt.facts["shards"]:
            end = ShardEnd(*columns)
            ends[end.shard] = end
    return [ends[shard] for shard in sorted(ends) if ends[shard].samples]
