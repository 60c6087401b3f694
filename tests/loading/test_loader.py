"""The real DataLoader: every sample once, the bytes of a plain read, batches that stay."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xxhash
from torch.utils.data import DataLoader

import fastdata_cli.loading
from fastdata_cli import FastDataset, open_reader
from fastdata_cli.errors import BadSampleError, UsageError
from fastdata_cli.loading import (
    BatchSampler,
    BlockShuffleSampler,
    LoaderOptions,
    loader_line,
    make_loader,
)
from fastdata_cli.loading.loader import resolved
from fastdata_cli.loading.orders import natural_block
from tests.loading.datasets import CHUNK, COUNT, KINDS, write
from tests.loading.test_dataset import damaged_tree

pytestmark = [
    # torch advises against more workers than cores; a machine with one core is no reason to fail.
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    # Python 3.12 warns of any fork beside threads; that our readers bear it is what is tested.
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def digest(array: Any) -> int:
    return xxhash.xxh3_64_intdigest(np.ascontiguousarray(array).data)


def rows(batch: Any) -> Counter[tuple[int, int, int]]:
    """Return index, label and checksum of each sample of a batch."""
    images, labels, indices = batch
    digests = (digest(image) for image in images.numpy())
    return Counter(zip(indices.tolist(), labels.tolist(), digests, strict=True))


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sets")
    return {name: write(folder, name) for name in KINDS}


class Together:
    """Several datasets read at the same positions: starting workers once does for all of them."""

    def __init__(self, datasets: list[FastDataset]) -> None:
        self.datasets = datasets

    def __len__(self) -> int:
        return COUNT

    def __getitems__(self, indices: Any) -> list[Any]:
        return [each.collate(each.__getitems__(indices)) for each in self.datasets]


@pytest.mark.parametrize(
    ("workers", "start_method"), [(0, None), (1, "fork"), (2, "fork"), (2, "spawn")]
)
def test_every_sample_once_and_as_stored(
    paths: dict[str, Path], workers: int, start_method: str | None
) -> None:
    datasets = [FastDataset(path, size=(6, 5), with_index=True) for path in paths.values()]
    plain = [rows(each.collate(each.__getitems__(range(COUNT)))) for each in datasets]
    # Handles are open here, in the process that forks.
    loader: DataLoader[Any] = DataLoader(
        Together(datasets),  # type: ignore[arg-type]
        batch_sampler=BatchSampler(BlockShuffleSampler(COUNT, CHUNK, window=2), 6),
        num_workers=workers,
        multiprocessing_context=start_method,
        persistent_workers=workers > 0,
        collate_fn=list,
    )
    orders = []
    for _ in range(2):
        held = list(zip(*loader, strict=True))
        for batches, expected in zip(held, plain, strict=True):
            arrived = [rows(batch) for batch in batches]
            assert len(arrived) == len(loader) == 7
            assert sum(arrived, Counter()) == expected
            assert [rows(batch) for batch in batches] == arrived
        orders.append([index for batch in held[0] for index in batch[2].tolist()])
    assert orders[0] != orders[1]


@pytest.mark.parametrize("order", ["sequential", "random", "block"])
def test_the_order_does_not_depend_on_workers(paths: dict[str, Path], order: str) -> None:
    dataset = FastDataset(paths["zarr"], with_index=True)

    def visited(workers: int, seed: int = 3) -> list[int]:
        options = LoaderOptions(batch_size=5, order=order, workers=workers, seed=seed)
        return [index for batch in make_loader(dataset, options) for index in batch[2].tolist()]

    assert visited(0) == visited(1) == visited(2)
    assert (visited(0) == visited(0, seed=4)) == (order == "sequential")


def test_batches_held_stay_while_others_come(paths: dict[str, Path]) -> None:
    dataset = FastDataset(paths["zarr"])
    loader = make_loader(dataset, LoaderOptions(batch_size=3, workers=2, prefetch_factor=1))
    held = []
    for images, _ in loader:
        held.append((images, digest(images)))
        assert all(digest(image) == before for image, before in held)


@pytest.mark.parametrize("collate", [None, FastDataset.collate])
def test_a_loader_of_ones_own(paths: dict[str, Path], collate: Any) -> None:
    dataset = FastDataset(paths["lmdb"], size=4)
    loader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2, collate_fn=collate)
    labels = [label for _, batch in loader for label in batch.tolist()]
    assert sorted(labels) == sorted(open_reader(paths["lmdb"]).labels().tolist())


def test_the_epoch_can_be_chosen(paths: dict[str, Path]) -> None:
    dataset = FastDataset(paths["raw"], with_index=True)
    loader = make_loader(dataset, LoaderOptions(order="random"))
    epochs = [next(iter(loader))[2].tolist() for _ in range(3)]
    loader.batch_sampler.set_epoch(1)  # type: ignore[union-attr]
    assert next(iter(loader))[2].tolist() == epochs[1]


def only_error(loader: DataLoader[Any], kind: type[Exception]) -> str:
    """Return the message of the error that the only batch raises."""
    batches = iter(loader)
    with pytest.raises(kind) as found:
        next(batches)
    # An iterator that is given up early waits five seconds for its workers.
    assert list(batches) == []
    return str(found.value)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bad_sample_is_named(tmp_path: Path, workers: int) -> None:
    dataset = FastDataset(damaged_tree(tmp_path), size=8)
    loader = make_loader(dataset, LoaderOptions(workers=workers))
    assert "a/1.jpg: truncated" in only_error(loader, BadSampleError)


def test_mixed_sizes_in_a_worker_are_named(mixed_tree: Path) -> None:
    loader = make_loader(FastDataset(mixed_tree), LoaderOptions(workers=1))
    assert "does not fit into a batch of" in only_error(loader, UsageError)


def test_encoded_batches_cross_processes(paths: dict[str, Path]) -> None:
    dataset = FastDataset(paths["webdataset"], decode=False)
    reader = open_reader(paths["webdataset"])
    loader = make_loader(dataset, LoaderOptions(order="sequential", batch_size=9, workers=1))
    found = [image for images, _ in loader for image in images.split()]
    assert len(found) == COUNT
    assert all(np.array_equal(image, reader.read(i).image) for i, image in enumerate(found))


def test_what_does_not_fit_together_is_dropped(paths: dict[str, Path]) -> None:
    reader = open_reader(paths["zarr"])
    wish = LoaderOptions(
        prefetch_factor=4, persistent_workers=True, start_method="spawn", pin_memory=True
    )
    alone = resolved(reader, wish)
    assert (alone.prefetch_factor, alone.persistent_workers, alone.start_method) == (
        None,
        False,
        None,
    )
    assert alone.pin_memory == torch.accelerator.is_available()
    assert alone.block == CHUNK
    assert resolved(reader, alone) == alone
    assert resolved(reader, LoaderOptions(block=99)).block == 99
    assert resolved(reader, LoaderOptions(order="random", block=99)).block is None
    assert len(list(make_loader(FastDataset(paths["zarr"]), wish))) == 1


def test_pinned_memory_is_asked_for_where_it_helps(
    paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    reader = open_reader(paths["raw"])
    assert resolved(reader, LoaderOptions(pin_memory=True)).pin_memory
    assert "pin_memory=True" in loader_line(reader, LoaderOptions(pin_memory=True))


def test_blocks_without_chunks(paths: dict[str, Path]) -> None:
    assert natural_block(open_reader(paths["zarr"])) == CHUNK
    assert natural_block(open_reader(paths["raw"])) == 256


@pytest.mark.parametrize(
    "options",
    [
        LoaderOptions(),
        LoaderOptions(order="sequential", batch_size=10, drop_last=True),
        LoaderOptions(order="random", seed=9, workers=1, start_method="fork"),
        LoaderOptions(block=5, window=3, workers=2, prefetch_factor=3, persistent_workers=True),
    ],
)
def test_the_line_to_paste_runs(paths: dict[str, Path], options: LoaderOptions) -> None:
    dataset = FastDataset(paths["zarr"], with_index=True)
    line = loader_line(dataset.reader, options)
    names = {name: getattr(fastdata_cli.loading, name) for name in fastdata_cli.loading.__all__}
    scope = {**names, "DataLoader": DataLoader, "dataset": dataset}
    exec(f"loader = {line}", scope)
    pasted: Any = scope["loader"]
    made = make_loader(dataset, options)
    settings = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers")
    assert [getattr(pasted, name) for name in settings] == [
        getattr(made, name) for name in settings
    ]
    assert [b[2].tolist() for b in pasted] == [b[2].tolist() for b in made]


def test_a_path_is_loaded_as_it_is(paths: dict[str, Path]) -> None:
    options = LoaderOptions(batch_size=3, order="sequential")
    of_path, of_dataset = (
        make_loader(source, options) for source in (paths["raw"], FastDataset(paths["raw"]))
    )
    for ours, theirs in zip(of_path, of_dataset, strict=True):
        assert all(map(torch.equal, ours, theirs))


def test_the_line_is_short(paths: dict[str, Path]) -> None:
    reader = open_reader(paths["zarr"])
    assert loader_line(reader, LoaderOptions(workers=8, order="random")) == (
        "DataLoader(dataset, batch_sampler=BatchSampler(RandomSampler(len(dataset), seed=0), 64), "
        "collate_fn=dataset.collate, worker_init_fn=dataset.worker_init, num_workers=8)"
    )


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_batches_kept_for_epochs_never_change(paths: dict[str, Path], start_method: str) -> None:
    """More batches are kept than a worker has slots, while others are let go."""
    dataset = FastDataset(paths["raw"], with_index=True)
    plain, _, _ = dataset.collate(dataset.__getitems__(range(COUNT)))
    options = LoaderOptions(
        batch_size=2, order="random", workers=2, persistent_workers=True, start_method=start_method
    )
    loader = make_loader(dataset, options, epochs=3)
    kept, places = [], []
    for number, (images, _, indices) in enumerate(loader):
        assert torch.equal(images, plain[indices])
        places.append(images.data_ptr())
        if number % 2:
            kept.append((images[1:], indices[1:]))  # a view keeps the whole
    assert len(kept) == 31
    assert all(torch.equal(images, plain[indices]) for images, indices in kept)


def test_a_worker_fills_the_same_memory_again(paths: dict[str, Path]) -> None:
    dataset = FastDataset(paths["raw"])
    inodes = []
    loader = make_loader(dataset, LoaderOptions(batch_size=1, workers=1), epochs=2)
    for images, _ in loader:
        inodes.append(mapped_file(images.data_ptr()))
    slots = [inode for inode in inodes if inode.startswith("/memfd:fastdata")]
    # The first batches tell the trainer where the worker is; after that they travel in slots.
    assert len(slots) > COUNT
    assert len(set(slots)) <= 8


def mapped_file(place: int) -> str:
    """Return name and inode of the file that is mapped at an address of this process."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, _, _, _, inode, *name = line.split(maxsplit=5)
        begin, end = (int(part, 16) for part in bounds.split("-"))
        if begin <= place < end:
            return f"{name[0] if name else ''} {inode}"
    raise AssertionError("nothing is mapped there")


def test_a_collate_function_around_ours(paths: dict[str, Path]) -> None:
    """It sees a tuple, and what it returns travels in torch's own way."""
    dataset = FastDataset(paths["raw"], with_index=True)
    plain, labels, _ = dataset.collate(dataset.__getitems__(range(COUNT)))

    def collate(samples: Any) -> dict[str, Any]:
        images, _, indices = dataset.collate(samples)
        return {"half": images[::2], "whole": dataset.collate(samples), "indices": indices}

    loader: DataLoader[Any] = DataLoader(dataset, 4, num_workers=1, collate_fn=collate)
    kept = list(loader)
    for batch in kept:
        assert torch.equal(batch["half"], plain[batch["indices"][::2]])
        assert torch.equal(batch["whole"][0], plain[batch["indices"]])
        assert torch.equal(batch["whole"][1], labels[batch["indices"]])
        assert type(batch["whole"]) is tuple


def test_large_labels_cross_processes(paths: dict[str, Path]) -> None:
    masks = np.arange(COUNT * 5000, dtype=np.int32).reshape(COUNT, 5000)
    dataset = FastDataset(paths["raw"], labels=masks, with_index=True)
    kept = list(make_loader(dataset, LoaderOptions(batch_size=4, workers=1)))
    for _, labels, indices in kept:
        assert np.array_equal(labels.numpy(), masks[indices.numpy()])


def test_where_the_trainer_cannot_look_into_a_worker(
    paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(address: Any) -> Any:
        raise PermissionError(address)

    monkeypatch.setattr("fastdata_cli.loading.shared._opened", refuse)
    dataset = FastDataset(paths["raw"], with_index=True)
    plain, _, _ = dataset.collate(dataset.__getitems__(range(COUNT)))
    for images, _, indices in make_loader(dataset, LoaderOptions(batch_size=4, workers=1)):
        assert torch.equal(images, plain[indices])
