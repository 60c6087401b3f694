"""FastDataset: samples, batches, what is refused, and what travels to workers."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.utils.data import Subset, default_collate

from fastdata_cli import FastDataset, open_reader
from fastdata_cli.errors import BadSampleError, UnsupportedError, UsageError
from fastdata_cli.imaging.decode import decode
from fastdata_cli.loading import EncodedImages
from fastdata_cli.sample import Sample
from fastdata_cli.testing import pixel_samples
from tests.conftest import Run, jpeg, make_tree
from tests.loading.datasets import COUNT, KINDS, write

EVERY = list(range(COUNT))


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("raw"), "raw")


@pytest.fixture(scope="module")
def tar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tar"), "webdataset")


def batch_of(dataset: FastDataset, indices: list[int]) -> Any:
    return dataset.collate(dataset.__getitems__(indices))


def same(left: Any, right: Any) -> bool:
    """Return whether two collated batches hold equal tensors of one dtype."""
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("name", KINDS)
def test_samples_are_what_a_plain_read_gives(tmp_path: Path, name: str) -> None:
    dataset = FastDataset(write(tmp_path, name), size=(6, 5))
    batch = open_reader(dataset.reader.path).read_many(EVERY)
    for index in EVERY:
        stored, (image, label) = batch.image(index), dataset[index]
        assert isinstance(label, int)
        assert label == batch.labels[index]
        assert image.dtype == torch.uint8
        assert image.shape == (6, 5, 3)
        if stored.ndim == 3:
            assert np.array_equal(image, stored)
    with pytest.raises(IndexError):
        dataset[COUNT]
    images, labels = batch_of(dataset, EVERY)
    assert torch.equal(images, torch.stack([dataset[index][0] for index in EVERY]))
    assert labels.tolist() == batch.labels.tolist() == dataset.labels.tolist()
    assert list(dataset.keys) == list(batch.keys)
    assert dataset.classes == ("cat", "dog", "Ä")


def test_encoded_images_are_those_that_convert_makes(tmp_path: Path, run: Run) -> None:
    tree = make_tree(tmp_path / "images", 12, None)
    run("convert", tree, tmp_path / "out.raw", "--size", "16x20")
    stored, _ = batch_of(FastDataset(tmp_path / "out.raw"), list(range(12)))
    decoded, labels = batch_of(FastDataset(tree, size=(16, 20)), list(range(12)))
    assert torch.equal(stored, decoded)
    assert sorted(set(labels.tolist())) == [0, 1, 2]


def test_any_order_repeats_and_kinds_of_indices(raw: Path) -> None:
    dataset = FastDataset(raw)
    indices = [7, 3, 3, 40, 0]
    images, labels = batch_of(dataset, indices)
    assert torch.equal(images, torch.stack([dataset[index][0] for index in indices]))
    assert labels.tolist() == [dataset[index][1] for index in indices]
    assert same(dataset.collate(dataset.__getitems__(np.array(indices))), (images, labels))
    assert torch.equal(dataset[-1][0], dataset[np.int64(40)][0])
    assert len(dataset.__getitems__([])) == 0
    for wrong in (41, -42):
        with pytest.raises(IndexError, match=rf"sample {wrong} of 41 in .*set\.raw"):
            dataset[wrong]
    with pytest.raises(IndexError, match="outside the 41 samples"):
        dataset.__getitems__([41])


@pytest.mark.parametrize("name", KINDS)
def test_the_usual_collate_function_gives_the_same(tmp_path: Path, name: str) -> None:
    dataset = FastDataset(write(tmp_path, name), size=8, with_index=True)
    samples: Any = dataset.__getitems__(EVERY)
    assert same(default_collate(samples), dataset.collate(samples))
    assert len(samples[2:5]) == 3
    with pytest.raises(IndexError):
        samples[COUNT]


def test_a_subset_of_torch_reads_in_batches_too(raw: Path) -> None:
    dataset = FastDataset(raw)
    subset: Subset[Any] = Subset(dataset, [5, 6, 7, 8])
    assert same(dataset.collate(subset.__getitems__([3, 1])), batch_of(dataset, [8, 6]))


def test_index_leads_to_the_key(raw: Path) -> None:
    dataset = FastDataset(raw, with_index=True)
    _, label, index = dataset[9]
    assert (label, index) == (open_reader(raw).read(9).label, 9)
    assert dataset.keys[index] == open_reader(raw).read(9).key
    _, _, indices = batch_of(dataset, [4, 2])
    assert indices.tolist() == [4, 2]


def test_transform_sees_each_image_at_its_own_size(mixed_tree: Path) -> None:
    seen: list[tuple[int, ...]] = []

    def crop(image: NDArray[np.uint8]) -> torch.Tensor:
        seen.append(image.shape)
        return torch.from_numpy(image[:20, :30]).permute(2, 0, 1) / 255

    dataset = FastDataset(mixed_tree, transform=crop)
    images, labels = batch_of(dataset, [0, 1, 2])
    assert images.shape == (3, 3, 20, 30)
    assert images.dtype == torch.float32
    assert labels.dtype == torch.int64
    assert len(set(seen)) == 3
    whole = decode(open_reader(mixed_tree).read(1).image.tobytes()).pixels
    assert torch.equal(images[1], crop(whole))


def test_transform_comes_after_the_resize(mixed_tree: Path) -> None:
    dataset = FastDataset(mixed_tree, size=(8, 9), transform=np.flipud)
    plain = FastDataset(mixed_tree, size=(8, 9))
    assert np.array_equal(np.flipud(dataset[3][0]), plain[3][0])


def test_left_encoded(tar: Path) -> None:
    dataset = FastDataset(tar, decode=False)
    reader = open_reader(tar)
    images, labels = batch_of(dataset, [3, 0, 1])
    assert isinstance(images, EncodedImages)
    assert labels.tolist() == [reader.read(index).label for index in (3, 0, 1)]
    for image, index in zip(images.split(), (3, 0, 1), strict=True):
        assert np.array_equal(image, reader.read(index).image)
        assert torch.equal(image, dataset[index][0])
    lengths = FastDataset(tar, decode=False, transform=len)
    assert batch_of(lengths, [3, 0])[0].tolist() == [len(reader.read(i).image) for i in (3, 0)]


def test_other_labels(raw: Path) -> None:
    targets = np.arange(COUNT * 2, dtype=np.float32).reshape(COUNT, 2)
    dataset = FastDataset(raw, labels=targets)
    assert dataset[3][1].tolist() == [6, 7]
    _, labels = batch_of(dataset, [3, 1])
    assert labels.dtype == torch.float32
    assert labels.tolist() == [[6, 7], [2, 3]]
    samples: Any = dataset.__getitems__([3, 1])
    assert same(default_collate(samples), dataset.collate(samples))
    with pytest.raises(UsageError, match="2 labels for 41 samples"):
        FastDataset(raw, labels=[1, 2])
    with pytest.raises(UnsupportedError, match="torch has no dtype for <U1"):
        FastDataset(raw, labels=["x"] * COUNT)


def test_mixed_sizes_need_a_size(mixed_tree: Path) -> None:
    dataset = FastDataset(mixed_tree)
    assert dataset[0][0].shape != dataset[1][0].shape
    with pytest.raises(UsageError, match=r"33x47 \(.*0003\.jpg\).* of 30x50") as found:
        dataset.__getitems__([0, 1])
    assert "size=(height, width)" in found.value.hint


def test_pixels_are_resized_when_they_must_be(raw: Path) -> None:
    assert torch.equal(FastDataset(raw, size=(6, 5))[0][0], FastDataset(raw)[0][0])
    assert FastDataset(raw, size=3)[0][0].shape == (3, 3, 3)
    of_numpy: Any = np.int64(3)  # as arithmetic gives it
    assert FastDataset(raw, size=of_numpy)[0][0].shape == (3, 3, 3)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"size": (0, 4)}, UsageError, r"size must be \(height, width\)"),
        ({"size": (1, 2, 3)}, UsageError, r"size must be \(height, width\)"),
        ({"size": 2.5}, UsageError, r"size must be \(height, width\)"),
        ({"size": "224"}, UsageError, r"size must be \(height, width\)"),
        ({"fit": "fill"}, UsageError, "'fill' is not known"),
        ({"interpolation": "nearest"}, UsageError, "'nearest' is not known"),
        ({"decode": False}, UsageError, "decode=False, and its images are pixels"),
    ],
)
def test_what_contradicts_itself_is_refused(
    raw: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        FastDataset(raw, **arguments)


def test_left_encoded_there_is_no_size(tar: Path) -> None:
    with pytest.raises(UsageError, match="size has no meaning"):
        FastDataset(tar, decode=False, size=4)


def test_deep_pixels(tmp_path: Path) -> None:
    image = np.arange(18, dtype=np.uint16).reshape(3, 2, 3) * 999
    path = write(tmp_path, "raw", [Sample("a", image, 1)])
    found, _ = batch_of(FastDataset(path), [0])
    assert found.dtype == torch.uint16
    assert np.array_equal(found.numpy()[0], image)
    with pytest.raises(UnsupportedError, match=r"only RGB of 8 bits is resized, not uint16"):
        FastDataset(path, size=9)


def damaged_tree(folder: Path) -> Path:
    """Return a tree whose second image is cut short."""
    for index in range(4):
        data = jpeg(20, 20, index)
        path = folder / "tree" / "a" / f"{index}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data[: len(data) // 2] if index == 1 else data)
    return folder / "tree"


def test_a_bad_sample_is_named(tmp_path: Path) -> None:
    dataset = FastDataset(damaged_tree(tmp_path), size=8)
    assert len(batch_of(dataset, [0, 2, 3])[0]) == 3
    for read in (lambda: dataset[1], lambda: dataset.__getitems__([0, 1])):
        with pytest.raises(BadSampleError, match=r"a/1\.jpg: truncated") as found:
            read()
        assert found.value.key == "a/1.jpg"


def test_a_sample_that_the_reader_refuses_is_named(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "images", 4)
    dataset = FastDataset(tree)
    (tree / "class1" / "0001.jpg").unlink()
    with pytest.raises(BadSampleError, match=r"class1/0001\.jpg: "):
        dataset.__getitems__([0, 1, 2, 3])


def test_checksums_are_compared_on_request(tmp_path: Path) -> None:
    path = write(tmp_path, "raw")
    data = np.memmap(path / "data.raw", np.uint8, "r+")
    data[5 * 90 + 7] ^= 1
    data.flush()
    FastDataset(path).__getitems__([4, 5])
    careful = FastDataset(path, verify=True)
    careful.__getitems__([4, 6])
    key = pixel_samples()[5].key
    with pytest.raises(BadSampleError, match="corrupt") as found:
        careful.__getitems__([4, 5])
    assert found.value.key == key


def test_its_pickle_is_small_and_reads_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, "raw", pixel_samples(3000))
    dataset = FastDataset(path)
    before = batch_of(dataset, EVERY)
    data = pickle.dumps(dataset)
    assert len(data) < 2000
    assert same(batch_of(pickle.loads(data), EVERY), before)  # noqa: S301


def test_workers_keep_opencv_to_one_thread(tar: Path) -> None:
    before = cv2.getNumThreads()
    try:
        cv2.setNumThreads(4)
        FastDataset(tar, size=4).worker_init(0)
        assert cv2.getNumThreads() == 1
    finally:
        cv2.setNumThreads(before)


def test_without_torch_the_error_says_what_to_install(raw: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import fastdata_cli\n"
        "from fastdata_cli.errors import MissingDependencyError\n"
        "try: fastdata_cli.FastDataset\n"
        "except MissingDependencyError as problem: print(problem, problem.hint, sep='|')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "FastDataset needs torch|pip install torch\n"
