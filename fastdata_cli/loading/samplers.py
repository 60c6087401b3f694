"""Orders of visiting samples, as arrays of positions: sequential, random, shuffled by blocks.

Arithmetic on (number of samples, seed, epoch, rank), with NumPy alone. torch's DataLoader takes the
samplers as ``sampler=`` and ``BatchSampler`` as ``batch_sampler=``; the latter hands whole arrays
to the dataset and costs nothing per sample.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import UsageError

Positions = NDArray[np.int64]

# Positions that are made at once where nothing else says how many: half a megabyte.
_PIECE = 1 << 16

_LEAST = {"block": 1, "window": 1, "world_size": 1}


@dataclass(frozen=True, kw_only=True)
class SamplerConfig:
    """What, with an epoch, decides an order. Whole numbers; checked when made.

    Raises:
        UsageError: a number that cannot be meant.
    """

    num_samples: int
    """Samples of the dataset."""
    block: int = 1
    """Samples that are cheap to read together: those of a chunk."""
    window: int = 1
    """Blocks whose samples are mixed with each other."""
    seed: int = 0
    rank: int = 0
    """Which of ``world_size`` training processes this is."""
    world_size: int = 1
    drop_last: bool = False
    """Leave out up to ``world_size - 1`` samples, so that all ranks have equally many."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.name != "drop_last":
                value = whole(each.name, getattr(self, each.name), _LEAST.get(each.name, 0))
                object.__setattr__(self, each.name, value)
        if self.rank >= self.world_size:
            raise UsageError(f"rank {self.rank} of a world size of {self.world_size}: 0 is first")

    @property
    def share(self) -> range:
        """Where in the order of an epoch, counted over all ranks, this rank's samples lie."""
        count, ranks = self.num_samples, self.world_size
        if self.drop_last:
            count -= count % ranks
        return range(count * self.rank // ranks, count * (self.rank + 1) // ranks)


class Sampler(ABC):
    """Every sample of this rank's share once an epoch; each iteration is the next epoch.

    The same config and epoch give the same order, in any process. ``set_epoch`` says which epoch
    the next iteration is: after a resume, say, or where ranks may have iterated unequally often.

    Attributes:
        config: SamplerConfig, fixed.
        epoch: int, what the next iteration will be.
    """

    def __init__(self, config: SamplerConfig, epoch: int = 0) -> None:
        self.config = config
        self.set_epoch(epoch)

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration this epoch, counted from 0."""
        self.epoch = whole("epoch", epoch, 0)

    def __len__(self) -> int:
        return len(self.config.share)

    def __iter__(self) -> Iterator[int]:
        return (position for piece in self.pieces() for position in piece.tolist())

    def pieces(self) -> Iterator[Positions]:
        """Yield the positions of the next epoch, in order, as int64 arrays of some length each."""
        # Begun by the first ``next``: DataLoader makes an iterator too many when workers start.
        epoch = self.epoch
        self.epoch += 1
        yield from self._pieces(epoch)

    @abstractmethod
    def _pieces(self, epoch: int) -> Iterator[Positions]: ...


class SequentialSampler(Sampler):
    """Samples in the order in which they are stored; ranks get one contiguous run each.

    Args:
        num_samples: samples of the dataset.
        rank, world_size, drop_last: as in SamplerConfig.
    """

    def __init__(
        self, num_samples: int, *, rank: int = 0, world_size: int = 1, drop_last: bool = False
    ) -> None:
        super().__init__(
            SamplerConfig(
                num_samples=num_samples, rank=rank, world_size=world_size, drop_last=drop_last
            )
        )

    def _pieces(self, epoch: int) -> Iterator[Positions]:
        share = self.config.share
        for begin in range(share.start, share.stop, _PIECE):
            yield np.arange(begin, min(begin + _PIECE, share.stop))


class BlockShuffleSampler(Sampler):
    """Blocks in random order, and samples at random within a window of a few blocks.

    Where neighbours share a chunk, a random order reads and decodes a whole chunk for every
    sample. This one needs each chunk while its window lasts, and never again in the epoch::

        stored    0 1 2 | 3 4 5 | 6 7 8 | 9 10 11 | 12 13 14 | 15 16 17   block=3
        shuffled  9 10 11 | 3 4 5 | 15 16 17 | 0 1 2 | 12 13 14 | 6 7 8
        shared    rank 0                     rank 1                       world_size=2
        windows   (9 10 11 3 4 5)(15 16 17)  (0 1 2 12 13 14)(6 7 8)      window=2
        visited    4 11 9 5 3 10  16 15 17    1 13 0 14 2 12  8 6 7

    Ranks cut the shuffled row into runs that differ by one sample at most: all samples are visited
    once, and a block that lies across a cut is read by both neighbours. Ranks that differ may do
    different numbers of steps, for which distributed training waits for ever: ``drop_last``
    makes them equal. Memory: 4 bytes a block (8 beyond 4 billion), 60 bytes a sample of a window.

    Args:
        num_samples: samples of the dataset.
        block: samples that are cheap to read together, such as those of a chunk.
        window: blocks whose samples are mixed; the reader should be able to keep them decoded.
        seed: the same seed gives the same epochs.
        epoch: of the first iteration.
        drop_last, rank, world_size: as in SamplerConfig.
    """

    def __init__(
        self,
        num_samples: int,
        block: int,
        *,
        window: int = 4,
        seed: int = 0,
        epoch: int = 0,
        drop_last: bool = False,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        config = SamplerConfig(
            num_samples=num_samples,
            block=block,
            window=window,
            seed=seed,
            rank=rank,
            world_size=world_size,
            drop_last=drop_last,
        )
        super().__init__(config, epoch)

    def _pieces(self, epoch: int) -> Iterator[Positions]:
        config = self.config
        share = config.share
        if not share:
            return
        blocks = _shuffled_blocks(config, epoch)
        # Counted as if the last, shorter block were full: what it lacks is beyond num_samples.
        first, last = (_padded(config, blocks, at) for at in (share.start, share.stop - 1))
        own = np.random.default_rng([config.seed, epoch, 1 + config.rank])
        step = config.block * config.window
        for begin in range(first, last + 1, step):
            rows, inside = np.divmod(np.arange(begin, min(begin + step, last + 1)), config.block)
            positions = blocks[rows] * np.int64(config.block) + inside
            positions = positions[positions < config.num_samples]
            own.shuffle(positions)
            yield positions


class RandomSampler(BlockShuffleSampler):
    """Samples in random order, for datasets where any one is as cheap to read as its neighbour.

    Memory: 4 bytes a sample, while an epoch lasts.

    Args:
        num_samples: samples of the dataset.
        seed, epoch, drop_last, rank, world_size: as in BlockShuffleSampler.
    """

    def __init__(
        self,
        num_samples: int,
        *,
        seed: int = 0,
        epoch: int = 0,
        drop_last: bool = False,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        super().__init__(
            num_samples,
            1,
            window=_PIECE,
            seed=seed,
            epoch=epoch,
            drop_last=drop_last,
            rank=rank,
            world_size=world_size,
        )


class BatchSampler:
    """The order of a sampler, cut into batches: int64 arrays that no loop in Python has touched.

    Args:
        sampler: one of this module's.
        batch_size: samples of a batch.
        drop_last: leave out a last batch that is not full.
        epochs: how many follow one another in one iteration, each cut into batches by itself.
    """

    def __init__(
        self, sampler: Sampler, batch_size: int, *, drop_last: bool = False, epochs: int = 1
    ) -> None:
        self.sampler = sampler
        self.batch_size = whole("batch_size", batch_size, 1)
        self.drop_last = drop_last
        self.epochs = whole("epochs", epochs, 1)

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration this epoch, counted from 0."""
        self.sampler.set_epoch(epoch)

    def __len__(self) -> int:
        count = len(self.sampler)
        batches = count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return batches * self.epochs

    def __iter__(self) -> Iterator[Any]:  # of Positions: DataLoader is annotated to take lists
        for _ in range(self.epochs):
            yield from self._batches(self.sampler.pieces())

    def _batches(self, pieces: Iterator[Positions]) -> Iterator[Positions]:
        rest = np.empty(0, np.int64)
        for piece in pieces:
            joined = np.concatenate([rest, piece]) if len(rest) else piece
            full = len(joined) - len(joined) % self.batch_size
            yield from joined[:full].reshape(-1, self.batch_size)
            rest = joined[full:]
        if len(rest) and not self.drop_last:
            yield rest


def _shuffled_blocks(config: SamplerConfig, epoch: int) -> NDArray[Any]:
    """Return the numbers of all blocks in the order of an epoch, the same on every rank."""
    count = -(-config.num_samples // config.block)
    blocks = np.arange(count, dtype=np.uint32 if count < 1 << 32 else np.int64)
    np.random.default_rng([config.seed, epoch, 0]).shuffle(blocks)
    return blocks


def _padded(config: SamplerConfig, blocks: NDArray[Any], at: int) -> int:
    """Return the place of the ``at``-th sample of an epoch's row of blocks, all counted as full."""
    short = len(blocks) * config.block - config.num_samples
    row = int(np.argmax(blocks)) if short else len(blocks)
    return at if at < (row + 1) * config.block - short else at + short


def whole(name: str, value: Any, least: int) -> int:
    """Return a value as an int.

    Raises:
        UsageError: it is no whole number, or less than ``least``.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"{name} must be a whole number, not {value!r}") from None
    if number < least:
        raise UsageError(f"{name} must be at least {least}, not {number}")
    return number
