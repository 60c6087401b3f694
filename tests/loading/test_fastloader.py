"""FastLoader: every sample once, batches that stay, one order for any number of threads."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torch.utils.data import WeightedRandomSampler

from fastdata_cli import FastDataset, open_reader
from fastdata_cli.errors import (
    BadSampleError,
    DamagedDatasetError,
    UnsupportedError,
    UsageError,
)
from fastdata_cli.loading import (
    BlockShuffleSampler,
    EncodedImages,
    FastLoader,
    RandomSampler,
    SequentialSampler,
)
from fastdata_cli.sample import Sample
from fastdata_cli.testing import pixel_samples
from tests.conftest import make_tree
from tests.loading.datasets import COUNT, KINDS, write
from tests.loading.test_dataset import damaged_tree

BATCH = 6


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sets")
    return {name: write(folder, name) for name in KINDS}


def plain(path: Path, **settings: Any) -> tuple[Any, Any]:
    """Return images and labels of all samples, as FastDataset gives them."""
    dataset = FastDataset(path, **settings)
    images, labels = dataset.collate(dataset.__getitems__(range(len(dataset))))
    return images.numpy(), labels.numpy()


@pytest.mark.parametrize("arrays", ["torch", "numpy"])
@pytest.mark.parametrize("name", KINDS)
def test_every_sample_once_and_as_stored(paths: dict[str, Path], name: str, arrays: Any) -> None:
    images, labels = plain(paths[name], size=(6, 5))
    loader = FastLoader(paths[name], BATCH, size=(6, 5), with_index=True, arrays=arrays)
    orders = []
    for _ in range(2):
        held = list(loader)  # all batches of the epoch, while others come
        assert len(held) == len(loader) == 7
        assert {type(column) for column in held[0]} == {
            torch.Tensor if arrays == "torch" else np.ndarray
        }
        for batch, stored, index in held:
            assert np.array_equal(batch, images[np.asarray(index)])
            assert np.array_equal(stored, labels[np.asarray(index)])
        orders.append(np.concatenate([index for _, _, index in held]).tolist())
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(COUNT))
    assert orders[0] != orders[1]


@pytest.mark.parametrize("name", ["raw", "lmdb"])
def test_nothing_depends_on_the_number_of_threads(paths: dict[str, Path], name: str) -> None:
    def epochs(threads: int, prefetch: int | None) -> list[Any]:
        loader = FastLoader(
            paths[name], 5, size=7, epochs=2, threads=threads, prefetch=prefetch, with_index=True
        )
        return list(loader)

    first = epochs(1, 1)
    assert len(first) == 18
    for threads, prefetch in ((1, None), (2, 1), (3, 2), (7, None)):
        for one, other in zip(first, epochs(threads, prefetch), strict=True):
            assert all(torch.equal(left, right) for left, right in zip(one, other, strict=True))


def test_memory_is_used_again_where_batches_are_let_go(paths: dict[str, Path]) -> None:
    loader = FastLoader(paths["raw"], 4, epochs=20, prefetch=2)
    places = {images.data_ptr() for images, _ in loader}
    assert len(places) <= 6 < len(loader)


def test_the_orders(paths: dict[str, Path]) -> None:
    def visited(**settings: Any) -> list[int]:
        loader = FastLoader(paths["zarr"], 8, with_index=True, **settings)
        return [index for _, _, indices in loader for index in indices.tolist()]

    assert visited(order="sequential") == list(range(COUNT))
    assert visited(order="random", seed=1) == visited(seed=1) != visited(seed=2)
    block = BlockShuffleSampler(COUNT, 7, seed=3)
    assert visited(order="block", seed=3) == visited(sampler=block) == list(block)
    shares = [visited(rank=rank, world_size=3) for rank in range(3)]
    assert sorted(itertools.chain(*shares)) == list(range(COUNT))
    equal = [visited(rank=rank, world_size=3, drop_last=True) for rank in range(3)]
    assert {len(share) for share in equal} == {8}
    with pytest.raises(UsageError, match="'shuffled' is no order"):
        visited(order="shuffled")


def test_a_sampler_of_somebody_else(paths: dict[str, Path]) -> None:
    weights = [0.0] * COUNT
    weights[3] = weights[9] = 1.0
    loader = FastLoader(
        paths["raw"], 4, sampler=WeightedRandomSampler(weights, 10), with_index=True
    )
    indices = [index for _, _, batch in loader for index in batch.tolist()]
    assert len(indices) == 10
    assert set(indices) == {3, 9}
    with pytest.raises(UsageError, match="generator has no length"):
        FastLoader(paths["raw"], sampler=(i for i in range(3)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "positions", [np.arange(COUNT) > 2, [True, False], [1.5, 2.5], ["a"], np.zeros((2, 2), int)]
)
def test_what_a_sampler_gives_must_be_positions(paths: dict[str, Path], positions: Any) -> None:
    with pytest.raises(UsageError, match="whole numbers"):
        list(FastLoader(paths["raw"], 4, sampler=positions))


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("wrong", [-1, COUNT])
def test_positions_that_are_none_never_become_a_batch(
    paths: dict[str, Path], wrong: int, in_memory: bool
) -> None:
    batches = iter(FastLoader(paths["raw"], 2, sampler=[0, 1, wrong, 2], in_memory=in_memory))
    assert len(next(batches)[0]) == 2
    with pytest.raises(UsageError, match=f"gives position {wrong}, of {COUNT} samples"):
        next(batches)


@pytest.mark.parametrize("kind", [FastLoader, FastDataset])
def test_a_transform_cannot_end_the_epoch(paths: dict[str, Path], kind: Any) -> None:
    def exhausted(_: Any) -> Any:
        return next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(kind(paths["raw"], transform=exhausted))


def test_drop_last_and_length(paths: dict[str, Path]) -> None:
    loader = FastLoader(paths["raw"], 4, drop_last=True, epochs=2)
    assert [len(images) for images, _ in loader] == [4] * 20
    assert len(loader) == 20


def test_training_goes_on_where_it_stood(paths: dict[str, Path]) -> None:
    def loader() -> FastLoader:
        return FastLoader(paths["raw"], 4, seed=5, with_index=True)

    one = loader()
    wanted = [[batch[2].tolist() for batch in one] for _ in range(3)]
    other = loader()
    list(other)
    batches = iter(other)
    for _ in range(3):
        next(batches)
    state = json.loads(json.dumps(other.state_dict()))
    batches.close()
    assert (state["epoch"], state["batch"]) == (1, 3)
    resumed = loader()
    resumed.load_state_dict(state)
    assert [batch[2].tolist() for batch in resumed] == wanted[1][3:]
    assert resumed.state_dict()["epoch"] == 2
    assert [batch[2].tolist() for batch in resumed] == wanted[2]
    resumed.set_epoch(0)
    assert [batch[2].tolist() for batch in resumed] == wanted[0]


def test_several_epochs_end_where_they_would_have_ended(paths: dict[str, Path]) -> None:
    def loader() -> FastLoader:
        return FastLoader(paths["raw"], 4, seed=1, epochs=3, with_index=True)

    wanted = [batch[2].tolist() for batch in loader()]
    for taken in (0, 1, 13, len(wanted) - 1):
        first = loader()
        batches = iter(first)
        for _ in range(taken):
            next(batches)
        state = json.loads(json.dumps(first.state_dict()))
        batches.close()
        resumed = loader()
        resumed.load_state_dict(state)
        assert [batch[2].tolist() for batch in resumed] == wanted[taken:]
        assert (resumed.state_dict()["epoch"], resumed.state_dict()["until"]) == (3, 6)


def test_a_sampler_brings_its_epoch(paths: dict[str, Path]) -> None:
    ours = RandomSampler(COUNT, seed=3, epoch=5)
    wanted = [position for epoch in (5, 6) for position in _epoch(RandomSampler, epoch)]
    loader = FastLoader(paths["raw"], COUNT, sampler=ours, with_index=True)
    assert loader.state_dict()["epoch"] == 5
    assert [index for _ in range(2) for batch in loader for index in batch[2].tolist()] == wanted


def _epoch(kind: Any, epoch: int) -> list[int]:
    return list(kind(COUNT, seed=3, epoch=epoch))


def test_the_state_is_that_of_the_iteration_that_was_begun(paths: dict[str, Path]) -> None:
    loader = FastLoader(paths["raw"], 4)
    for _ in loader:
        break
    assert (loader.state_dict()["epoch"], loader.state_dict()["batch"]) == (0, 1)
    iter(loader).close()
    assert (loader.state_dict()["epoch"], loader.state_dict()["batch"]) == (1, 0)


def test_a_state_of_another_loader_is_refused(paths: dict[str, Path]) -> None:
    state = FastLoader(paths["raw"], 4, seed=5).state_dict()
    FastLoader(paths["raw"], 4, seed=5).load_state_dict(state)
    with pytest.raises(UsageError, match="batch_size was 4, is 5; seed was 5, is 0"):
        FastLoader(paths["raw"], 5).load_state_dict(state)
    ranks = [FastLoader(paths["raw"], rank=rank, world_size=2) for rank in (0, 1)]
    ranks[1].load_state_dict(ranks[0].state_dict())


@pytest.mark.parametrize(
    "state",
    [{}, {"epoch": 1, "batch": 2}, {"epoch": -1, "batch": 0, "settings": {}}, {"epoch": "1"}, []],
)
def test_what_is_no_state_is_refused(paths: dict[str, Path], state: Any) -> None:
    loader = FastLoader(paths["raw"], 4)
    with pytest.raises(UsageError, match="not a state of a FastLoader"):
        loader.load_state_dict(state)
    assert loader.state_dict()["epoch"] == 0


def test_a_bad_sample_is_named_when_its_batch_is_due(tmp_path: Path) -> None:
    tree = damaged_tree(tmp_path)
    loader = FastLoader(tree, 1, order="sequential", size=8, threads=3)
    batches = iter(loader)
    assert next(batches)[0].shape == (1, 8, 8, 3)
    with pytest.raises(BadSampleError, match=r"a/1\.jpg: truncated") as found:
        next(batches)
    assert found.value.key == "a/1.jpg"
    assert loader.state_dict()["batch"] == 1
    with pytest.raises(StopIteration):
        next(batches)


@pytest.mark.parametrize("size", [8, None])
def test_bad_samples_are_skipped_on_request(tmp_path: Path, size: int | None) -> None:
    tree = damaged_tree(tmp_path)
    (tree / "a" / "3.jpg").unlink()
    reader = open_reader(tree)
    (tree / "a" / "2.jpg").unlink()
    loader = FastLoader(reader, 3, order="sequential", size=size, on_bad="skip", with_index=True)
    for _ in range(2):
        assert [index.tolist() for _, _, index in loader] == [[0]]
    assert [(each.index, each.key, each.reason) for each in loader.rejects] == [
        (1, "a/1.jpg", "truncated"),
        (2, "a/2.jpg", "missing"),
    ]
    whole = FastLoader(tree, 1, order="sequential", size=8, on_bad="skip", with_index=True)
    assert [index.tolist() for _, _, index in whole] == [[0]]  # no empty batch for the bad one


def test_checksums_are_compared_on_request(tmp_path: Path) -> None:
    path = write(tmp_path, "raw")
    data = np.memmap(path / "data.raw", np.uint8, "r+")
    data[5 * 90 + 7] ^= 1
    data.flush()
    assert len(list(FastLoader(path, 8))) == 6
    key = pixel_samples()[5].key
    with pytest.raises(BadSampleError) as found:
        list(FastLoader(path, 8, verify=True))
    assert found.value.key == key
    kept = FastLoader(path, 8, verify=True, on_bad="skip", with_index=True)
    indices = [index for _, _, batch in kept for index in batch.tolist()]
    assert sorted(indices) == [index for index in range(COUNT) if index != 5]
    assert [each.key for each in kept.rejects] == [key]


def test_labels_are_compared_on_request(tmp_path: Path) -> None:
    path = write(tmp_path, "raw")
    data = bytearray((path / "labels.npy").read_bytes())
    data[-8] ^= 2
    (path / "labels.npy").write_bytes(data)
    assert len(list(FastLoader(path, 8))) == 6
    with pytest.raises(DamagedDatasetError, match="labels or metadata are not what was written"):
        FastLoader(path, 8, verify=True)


def test_images_of_one_size_need_none(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "images", 12)
    images, _ = plain(tree)
    for batch, _, index in FastLoader(tree, 5, with_index=True):
        assert np.array_equal(batch, images[np.asarray(index)])


def test_mixed_sizes_need_a_size(mixed_tree: Path) -> None:
    for threads in (1, 4):
        with pytest.raises(UsageError, match=r"33x47 \(.*0003\.jpg\).* of 30x50"):
            list(FastLoader(mixed_tree, 20, order="sequential", threads=threads))


def test_pixels_are_resized_when_they_must_be(paths: dict[str, Path]) -> None:
    images, _ = plain(paths["raw"], size=3)
    for batch, _, index in FastLoader(paths["raw"], BATCH, size=3, with_index=True):
        assert np.array_equal(batch, images[np.asarray(index)])


def test_a_transform_sees_each_image(mixed_tree: Path, paths: dict[str, Path]) -> None:
    def crop(image: Any) -> Any:
        return torch.from_numpy(image[:20, :30].copy()).permute(2, 0, 1) / 255

    dataset = FastDataset(mixed_tree, transform=crop, with_index=True)
    for images, labels, index in FastLoader(dataset, 7):
        samples = [dataset[at] for at in index.tolist()]
        assert torch.equal(images, torch.stack([image for image, _, _ in samples]))
        assert labels.tolist() == [label for _, label, _ in samples]
    flipped = FastLoader(paths["raw"], 4, transform=np.flipud, arrays="numpy", with_index=True)
    stored, _ = plain(paths["raw"])
    for images, _, index in flipped:
        assert np.array_equal(images, stored[np.asarray(index)][:, ::-1])


def test_an_error_in_a_transform_names_the_sample(paths: dict[str, Path]) -> None:
    def fail(image: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as found:
        list(FastLoader(paths["raw"], 4, order="sequential", transform=fail))
    assert found.value.__notes__ == [f"in the transform of sample 0, {pixel_samples()[0].key}"]


@pytest.mark.parametrize("arrays", ["torch", "numpy"])
def test_left_encoded(paths: dict[str, Path], arrays: Any) -> None:
    reader = open_reader(paths["webdataset"])
    loader = FastLoader(reader, 9, decode=False, with_index=True, arrays=arrays)
    for images, _, indices in loader:
        assert isinstance(images, EncodedImages)
        for image, index in zip(images.split(), indices.tolist(), strict=True):
            assert np.array_equal(image, reader.read(index).image)


@pytest.mark.parametrize("name", ["raw", "lmdb"])
def test_held_in_memory(paths: dict[str, Path], name: str) -> None:
    images, labels = plain(paths[name], size=(6, 5))
    loader = FastLoader(paths[name], BATCH, size=(6, 5), in_memory=True, with_index=True)
    usual = FastLoader(paths[name], BATCH, size=(6, 5), with_index=True)
    for _ in range(2):
        for (batch, stored, index), (_, _, same) in zip(loader, usual, strict=True):
            assert torch.equal(index, same)
            assert np.array_equal(batch, images[np.asarray(index)])
            assert np.array_equal(stored, labels[np.asarray(index)])


def test_held_in_memory_there_are_bad_samples_too(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"size": 8, "order": "sequential", "in_memory": True}
    tree = damaged_tree(tmp_path)
    kept = FastLoader(tree, 4, on_bad="skip", with_index=True, **settings)
    assert [index.tolist() for _, _, index in kept] == [[0, 2, 3]]
    with pytest.raises(BadSampleError, match=r"a/1\.jpg: truncated"):
        list(FastLoader(tree, 4, **settings))


def test_what_no_memory_holds_is_refused(
    paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Little:
        available = 100

    monkeypatch.setattr("psutil.virtual_memory", Little)
    with pytest.raises(UsageError, match="all images in memory would take"):
        iter(FastLoader(paths["raw"], in_memory=True))


def test_other_labels_and_deep_pixels(tmp_path: Path, paths: dict[str, Path]) -> None:
    targets = np.arange(COUNT * 2, dtype=np.float32).reshape(COUNT, 2)
    for _, labels, index in FastLoader(paths["raw"], 4, labels=targets, with_index=True):
        assert np.array_equal(labels, targets[np.asarray(index)])
    image = np.arange(18, dtype=np.uint16).reshape(3, 2, 3) * 999
    ((found, _),) = FastLoader(write(tmp_path, "raw", [Sample("a", image, 1)]))
    assert np.array_equal(found[0], image)
    texts = FastLoader(paths["raw"], 4, labels=["x"] * COUNT, arrays="numpy")
    assert next(iter(texts))[1].tolist() == ["x"] * 4
    with pytest.raises(UnsupportedError, match="torch has no dtype for <U1"):
        FastLoader(paths["raw"], labels=["x"] * COUNT)


def test_pinned_memory_is_ordinary_without_an_accelerator(paths: dict[str, Path]) -> None:
    images, _ = plain(paths["raw"])
    for batch, _, index in FastLoader(paths["raw"], 4, pin_memory=True, with_index=True):
        assert np.array_equal(batch, images[np.asarray(index)])


def test_pinned_memory_is_torchs_own(
    paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    allocated = []
    empty = torch.empty

    def pinned(*shape: Any, pin_memory: bool = False, **settings: Any) -> torch.Tensor:
        tensor = empty(*shape, **settings)
        if pin_memory:
            allocated.append(tensor)
        return tensor

    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch, "empty", pinned)
    images, _ = plain(paths["raw"])
    for batch, _, index in FastLoader(paths["raw"], 4, pin_memory=True, with_index=True):
        # The allocation itself, not another tensor over its memory: torch knows who still reads it.
        storages = {tensor.untyped_storage()._cdata for tensor in allocated}
        assert batch.untyped_storage()._cdata in storages
        assert np.array_equal(batch, images[np.asarray(index)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"on_bad": "fill"}, "on_bad='fill' is not known"),
        ({"arrays": "jax"}, "arrays='jax' is not known"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"threads": 1.5}, "threads must be a whole number"),
        ({"prefetch": 0}, "prefetch must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"in_memory": True, "transform": np.flipud}, "not with a transform"),
        ({"decode": False}, "its images are pixels"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    paths: dict[str, Path], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        FastLoader(paths["raw"], **settings)


def test_a_dataset_brings_its_own_settings(paths: dict[str, Path]) -> None:
    dataset = FastDataset(paths["lmdb"], size=4, with_index=True)
    images, _, _ = next(iter(FastLoader(dataset, 3)))
    assert images.shape == (3, 4, 4, 3)
    with pytest.raises(UsageError, match="size, fit cannot be given here"):
        FastLoader(dataset, size=5, fit="pad")


def test_opencv_has_its_threads_again_afterwards(paths: dict[str, Path]) -> None:
    before = cv2.getNumThreads()
    try:
        with iter(FastLoader(paths["lmdb"], size=4)) as first:
            next(first)  # resize.opencv settles for the process
        cv2.setNumThreads(3)
        loaders = [FastLoader(paths["lmdb"], 4, size=4) for _ in range(2)]
        with iter(loaders[0]) as one, iter(loaders[1]) as two:
            next(one), next(two)
            assert cv2.getNumThreads() == 1
            one.close()
            assert cv2.getNumThreads() == 1
        assert cv2.getNumThreads() == 3
    finally:
        cv2.setNumThreads(before)


def test_opencv_has_its_threads_again_however_it_was_loaded(paths: dict[str, Path]) -> None:
    code = (
        "import cv2\n"
        "from fastdata_cli import FastDataset, FastLoader\n"
        "cv2.setNumThreads(3)\n"
        f"FastLoader({str(paths['lmdb'])!r}, 9, size=4)  # looks at an image, and so loads OpenCV\n"
        f"for _ in FastLoader({str(paths['lmdb'])!r}, 9, size=4): pass\n"
        "print(cv2.getNumThreads())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"


def test_arrays_need_no_torch(paths: dict[str, Path]) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from fastdata_cli import FastLoader\n"
        f"loader = FastLoader({str(paths['lmdb'])!r}, 9, size=4, arrays='numpy')\n"
        "print(sum(len(images) for images, _ in loader))\n"
        "from fastdata_cli.errors import MissingDependencyError\n"
        "try: FastLoader(loader.samples)\n"
        "except MissingDependencyError as problem: print(problem, problem.hint, sep='|')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    said = 'tensors need torch|pip install torch, or arrays="numpy"'
    assert done.stdout.splitlines() == [str(COUNT), said]


def test_an_empty_share(paths: dict[str, Path]) -> None:
    loader = FastLoader(paths["raw"], 4, sampler=SequentialSampler(0))
    assert (len(loader), list(loader)) == (0, [])
