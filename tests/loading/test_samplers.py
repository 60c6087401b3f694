"""Orders: every sample once, the same from the same seed, local, in little memory."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastdata_cli.errors import UsageError
from fastdata_cli.loading.samplers import (
    BatchSampler,
    BlockShuffleSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
)

Make = Callable[..., Sampler]


def block_shuffled(num_samples: int, **share: Any) -> Sampler:
    return BlockShuffleSampler(num_samples, 7, window=3, **share)


ALL = pytest.mark.parametrize("make", [SequentialSampler, RandomSampler, block_shuffled])
SHUFFLED = pytest.mark.parametrize("make", [RandomSampler, block_shuffled])


@given(
    num_samples=st.integers(0, 400),
    block=st.integers(1, 90),
    window=st.integers(1, 6),
    world_size=st.integers(1, 6),
    epoch=st.integers(0, 3),
)
def test_ranks_visit_every_sample_once(
    num_samples: int, block: int, window: int, world_size: int, epoch: int
) -> None:
    samplers = [
        BlockShuffleSampler(
            num_samples, block, window=window, epoch=epoch, rank=rank, world_size=world_size
        )
        for rank in range(world_size)
    ]
    shares = [list(sampler) for sampler in samplers]
    assert sorted(chain(*shares)) == list(range(num_samples))
    assert [len(share) for share in shares] == [len(sampler) for sampler in samplers]
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@ALL
@pytest.mark.parametrize("num_samples", [0, 1, 3, 100, 103])
def test_ranks_are_equal_where_the_rest_is_dropped(make: Make, num_samples: int) -> None:
    shares = [list(make(num_samples, rank=rank, world_size=4, drop_last=True)) for rank in range(4)]
    assert {len(share) for share in shares} == {num_samples // 4}
    assert len(set(chain(*shares))) == num_samples // 4 * 4


@ALL
def test_each_sample_once(make: Make) -> None:
    sampler = make(1000)
    for _ in range(3):
        assert sorted(sampler) == list(range(1000))


def test_sequential_is_as_stored() -> None:
    assert list(SequentialSampler(200_000)) == list(range(200_000))
    assert list(SequentialSampler(10, rank=1, world_size=3)) == [3, 4, 5]


@SHUFFLED
def test_seed_and_epoch_decide(make: Make) -> None:
    first, second = make(500, seed=3), make(500, seed=3)
    epochs = [list(first) for _ in range(3)]
    assert [list(second) for _ in range(3)] == epochs
    assert all(a != b for a, b in pairwise(epochs))
    assert list(make(500, seed=4)) != epochs[0]
    second.set_epoch(1)
    assert list(second) == epochs[1]
    assert list(make(500, seed=3, epoch=2)) == epochs[2]
    assert list(pickle.loads(pickle.dumps(second))) == epochs[2]  # noqa: S301


def test_the_order_is_what_it_always_was() -> None:
    """A run that is resumed under a later version goes on in the same order."""
    found = list(BlockShuffleSampler(18, 3, window=2, seed=1, epoch=2))
    assert found == [13, 12, 14, 17, 15, 16, 3, 0, 5, 4, 2, 1, 11, 6, 8, 10, 9, 7]


def test_iterating_starts_an_epoch_even_when_left_early() -> None:
    sampler = RandomSampler(100)
    next(iter(sampler))
    assert sampler.epoch == 1


def test_a_window_holds_few_blocks() -> None:
    order = np.array(list(BlockShuffleSampler(1000, 10, window=4, seed=5)))
    blocks = order.reshape(-1, 40) // 10
    assert [len(set(window)) for window in blocks.tolist()] == [4] * 25
    assert len({tuple(sorted(set(window))) for window in blocks.tolist()}) == 25


def test_samples_of_a_window_are_mixed() -> None:
    order = np.array(list(BlockShuffleSampler(10_000, 100, window=4)))
    neighbours = np.mean(order[1:] // 100 == order[:-1] // 100)
    assert 0.2 < neighbours < 0.3  # a quarter by chance, for four blocks


def test_random_is_uniform() -> None:
    sampler = RandomSampler(10)
    counts = np.zeros((10, 10))
    for _ in range(2000):
        counts[np.arange(10), list(sampler)] += 1
    assert np.abs(counts - 200).max() < 5 * np.sqrt(200)


@ALL
@pytest.mark.parametrize("batch_size", [1, 10, 64, 5000])
def test_batches_cut_the_same_order(make: Make, batch_size: int) -> None:
    order = np.array(list(make(1003)))
    sampler = BatchSampler(make(1003), batch_size)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    assert all(isinstance(b, np.ndarray) and b.dtype == np.int64 for b in batches)
    assert {len(batch) for batch in batches[:-1]} <= {batch_size}
    assert np.array_equal(np.concatenate(batches), order)
    dropping = BatchSampler(make(1003), batch_size, drop_last=True)
    full = list(dropping)
    assert len(full) == len(dropping) == 1003 // batch_size
    assert all(np.array_equal(a, b) for a, b in zip(full, batches, strict=False))


def test_batches_pass_epochs_on() -> None:
    sampler = BatchSampler(RandomSampler(50, seed=1), 8)
    first, second = (np.concatenate(list(sampler)).tolist() for _ in range(2))
    assert first != second
    sampler.set_epoch(0)
    assert np.concatenate(list(sampler)).tolist() == first


@pytest.mark.parametrize(
    ("sampler", "megabytes"),
    [
        (SequentialSampler(10_000_000), 2),
        (RandomSampler(10_000_000), 45),
        (BlockShuffleSampler(10_000_000, 1000), 2),
    ],
)
def test_memory_for_ten_million_samples(sampler: Sampler, megabytes: int) -> None:
    tracemalloc.start()
    try:
        count = sum(len(batch) for batch in BatchSampler(sampler, 256))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 10_000_000
    assert peak < megabytes * 1e6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BlockShuffleSampler(-1, 3), "num_samples must be at least 0, not -1"),
        (lambda: BlockShuffleSampler(9, 0), "block must be at least 1, not 0"),
        (lambda: BlockShuffleSampler(9, 3, window=0), "window must be at least 1"),
        (lambda: BlockShuffleSampler(9, 3, seed=-1), "seed must be at least 0"),
        (lambda: BlockShuffleSampler(9, 3, epoch=-1), "epoch must be at least 0"),
        (lambda: BlockShuffleSampler(9, 2.5), "block must be a whole number, not 2.5"),  # type: ignore[arg-type]
        (lambda: RandomSampler(9, world_size=0), "world_size must be at least 1"),
        (lambda: RandomSampler(9, rank=2, world_size=2), "rank 2 of a world size of 2"),
        (lambda: BatchSampler(RandomSampler(9), 0), "batch_size must be at least 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_torch_takes_one_as_a_plain_sampler() -> None:
    from torch.utils.data import DataLoader

    loader: DataLoader[Any] = DataLoader(
        list(range(100)),  # type: ignore[arg-type]
        batch_size=10,
        sampler=BlockShuffleSampler(100, 10),
    )
    assert len(loader) == 10
    assert sorted(int(value) for batch in loader for value in batch) == list(range(100))


def test_nothing_here_loads_torch() -> None:
    code = (
        "import sys, fastdata_cli, fastdata_cli.loading.samplers, fastdata_cli.loading.images;"
        "from fastdata_cli import BlockShuffleSampler;"
        "from fastdata_cli.loading import LoaderOptions, loader_line, make_loader;"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
