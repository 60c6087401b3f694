"""Compresses chunks with Blosc, as the options of a store ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.formats.zarr.options import SHUFFLES, Plan


@dataclass(frozen=True, slots=True)
class Blosc:
    """How chunks are compressed: single-threaded, so that equal data gives equal bytes."""

    codec: str
    level: int
    shuffle: str
    block_bytes: int
    """0: Blosc decides."""
    item_bytes: int

    @classmethod
    def of(cls, plan: Plan, block_bytes: int, item_bytes: int) -> Blosc:
        """Return the compression that a plan asks for."""
        return cls(plan.codec, plan.level, plan.shuffle, block_bytes, item_bytes)

    def encode(self, data: NDArray[Any]) -> bytes:
        """Return a C-contiguous array as one Blosc buffer."""
        from numcodecs import blosc

        # Its own threads share one state per process: not fork-safe, and the bytes would vary.
        blosc.use_threads = False
        compressed: bytes = blosc.compress(
            data.reshape(-1).view(np.uint8),
            self.codec.encode(),
            self.level,
            SHUFFLES.index(self.shuffle),
            self.block_bytes,
            self.item_bytes,
        )
        return compressed
