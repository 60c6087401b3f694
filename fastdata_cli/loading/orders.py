"""Which sampler an order stands for, and orders that somebody else's sampler gives."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator
from typing import Any, Literal, Protocol

import numpy as np

from fastdata_cli.contract import Reader
from fastdata_cli.errors import UsageError
from fastdata_cli.loading.loader import natural_block
from fastdata_cli.loading.samplers import (
    BlockShuffleSampler,
    Positions,
    RandomSampler,
    Sampler,
    SamplerConfig,
    SequentialSampler,
)

Order = Literal["sequential", "random", "block"]

# Positions that are taken at once from a sampler that gives them one by one.
_PIECE = 1 << 12


def sampler_for(
    reader: Reader,
    order: Order,
    *,
    seed: int = 0,
    rank: int = 0,
    world_size: int = 1,
    drop_last: bool = False,
) -> Sampler:
    """Return the sampler that visits a dataset in an order.

    Args:
        reader: of the dataset; blocks are its chunks.
        order: ``sequential``, ``random`` or ``block``.
        seed: of the order.
        rank, world_size, drop_last: as in SamplerConfig.

    Raises:
        UsageError: another word, or numbers that cannot be meant.
    """
    count = len(reader)
    if order == "sequential":
        return SequentialSampler(count, rank=rank, world_size=world_size, drop_last=drop_last)
    if order == "random":
        return RandomSampler(
            count, seed=seed, rank=rank, world_size=world_size, drop_last=drop_last
        )
    if order == "block":
        return BlockShuffleSampler(
            count,
            natural_block(reader),
            seed=seed,
            rank=rank,
            world_size=world_size,
            drop_last=drop_last,
        )
    raise UsageError(f"{order!r} is no order", hint="one of: sequential, random, block")


class SizedPositions(Protocol):
    """Positions that can be iterated over again and again, and counted."""

    def __iter__(self) -> Iterator[int]: ...

    def __len__(self) -> int: ...


class GivenOrder(Sampler):
    """The order of a sampler that is none of ours, such as torch's WeightedRandomSampler.

    Each iteration over it is an epoch; what it knows of epochs, seeds and ranks is its own matter.

    Args:
        positions: an iterable of positions with a length.
    """

    def __init__(self, positions: SizedPositions) -> None:
        try:
            count = len(positions)
        except TypeError as problem:
            raise UsageError(f"{type(positions).__name__} has no length") from problem
        self._positions = positions
        super().__init__(SamplerConfig(num_samples=count))

    def _pieces(self, epoch: int) -> Iterator[Positions]:
        positions = iter(self._positions)
        while piece := list(itertools.islice(positions, _PIECE)):
            yield _whole_numbers(piece)


def _whole_numbers(piece: list[Any]) -> Positions:
    """Return positions as int64.

    Raises:
        UsageError: they are no whole numbers: a mask, say, or fractions.
    """
    try:
        if any(isinstance(each, bool | np.bool_) for each in piece):
            raise TypeError("a mask")
        return np.array([operator.index(each) for each in piece], np.int64)
    except (TypeError, OverflowError) as problem:
        raise UsageError(
            f"a sampler gives positions, whole numbers; this one gave {piece[0]!r} …",
            hint="of a mask, give numpy.flatnonzero(mask)",
        ) from problem
