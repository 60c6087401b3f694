"""Which sampler an order stands for, and orders that somebody else's sampler gives."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Protocol

import numpy as np

from fastdata_cli.contract import Reader
from fastdata_cli.errors import UsageError
from fastdata_cli.loading.samplers import (
    BlockShuffleSampler,
    Positions,
    RandomSampler,
    Sampler,
    SamplerConfig,
    SequentialSampler,
)

Order = Literal["sequential", "random", "block"]
SAMPLERS: Mapping[str, Callable[..., Sampler]] = {
    "sequential": SequentialSampler,
    "random": RandomSampler,
    "block": BlockShuffleSampler,
}
WINDOW = 4
"""Blocks that are mixed with each other."""

# Where the container says nothing: some megabytes that lie together, for a disk to read ahead.
_BLOCK = 256

# Positions that are taken at once from a sampler that gives them one by one.
_PIECE = 1 << 12


def natural_block(reader: Reader) -> int:
    """Return how many samples of a dataset are best read together: a chunk, if it has chunks."""
    chunk = reader.describe().get("chunk")
    return chunk if isinstance(chunk, int) and chunk > 1 else _BLOCK


def order_arguments(order: str, *, block: int, window: int, seed: int) -> dict[str, Any]:
    """Return those of these arguments that the sampler of an order takes."""
    given = {"block": block, "window": window, "seed": seed}
    names = {"sequential": (), "random": ("seed",), "block": ("block", "window", "seed")}
    return {name: given[name] for name in names[order]}


def sampler_for(
    reader: Reader,
    order: str,
    *,
    block: int | None = None,
    window: int = WINDOW,
    seed: int = 0,
    **share: Any,
) -> Sampler:
    """Return the sampler that visits a dataset in an order.

    Args:
        reader: of the dataset.
        order: ``sequential``, ``random`` or ``block``.
        block, window: of ``block``: samples that are cheap to read together (the dataset's chunk
            where None), and how many blocks are mixed.
        seed: of the order.
        share: ``rank``, ``world_size``, ``drop_last``, as in SamplerConfig.

    Raises:
        UsageError: another word, or numbers that cannot be meant.
    """
    if order not in SAMPLERS:
        raise UsageError(f"{order!r} is no order", hint=f"one of: {', '.join(SAMPLERS)}")
    natural = natural_block(reader) if block is None else block
    arguments = order_arguments(order, block=natural, window=window, seed=seed)
    return SAMPLERS[order](len(reader), **arguments, **share)


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
