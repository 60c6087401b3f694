"""Folders of ``.npy`` files: one image a file, stacks, labels beside them; odd and damaged ones."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fastdata_cli import registry
from fastdata_cli.contract import Capability, Reader
from fastdata_cli.errors import BadSampleError, DamagedDatasetError, FastdataError, UnsupportedError
from fastdata_cli.formats.npy import FORMAT
from fastdata_cli.formats.npy.shapes import images_in
from fastdata_cli.sample import Payload, Reject, Sample
from fastdata_cli.storage.gather import SWITCH
from fastdata_cli.testing.reader_conformance import digests, in_children

Array = NDArray[Any]


def image(seed: int, shape: tuple[int, ...] = (6, 5, 3), dtype: str = "uint8") -> Array:
    return np.random.default_rng(seed).integers(0, 200, shape).astype(dtype)


def save(root: Path, arrays: dict[str, Array]) -> Path:
    for name, array in arrays.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, array)
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Single images and a stack, in folders of classes."""
    arrays = {f"cat/{index}.npy": image(index) for index in range(3)}
    return save(tmp_path / "set", {**arrays, "dog/stack.npy": image(9, (4, 6, 5, 3))})


def samples_of(reader: Reader) -> list[Sample]:
    found = list(reader.scan())
    samples = [each for each in found if isinstance(each, Sample)]
    assert len(samples) == len(found) == len(reader)
    return samples


@pytest.mark.parametrize("gather", ["on", "off"])
def test_images_and_stacks_in_class_folders(
    folder: Path, gather: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, gather)
    assert registry.recognise(folder).name == "npy"
    reader = registry.open_reader(folder)
    assert reader.schema.payload is Payload.PIXELS
    assert (reader.schema.image_shape, reader.schema.dtype) == ((6, 5, 3), "uint8")
    assert reader.schema.class_names == ("cat", "dog")
    samples = samples_of(reader)
    assert [sample.key for sample in samples] == [
        *(f"cat/{index}.npy" for index in range(3)),
        *(f"dog/stack.npy/0000000{index}" for index in range(4)),
    ]
    assert [sample.label for sample in samples] == [0, 0, 0, 1, 1, 1, 1]
    wanted = [*map(image, range(3)), *image(9, (4, 6, 5, 3))]
    assert all(np.array_equal(a.image, b) for a, b in zip(samples, wanted, strict=True))
    order = [6, 0, 6, 3]
    batch = reader.read_many(order)
    assert np.array_equal(batch.images, [wanted[at] for at in order])
    assert list(reader.verify()) == []


def test_images_are_views_of_the_files(folder: Path) -> None:
    reader = registry.open_reader(folder)
    assert Capability.ZERO_COPY in reader.capabilities
    assert np.shares_memory(reader.read(4).image, reader.read(4).image)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "float32", "float64"])
def test_one_stack_alone(tmp_path: Path, dtype: str) -> None:
    stack = image(1, (7, 6, 5), dtype)
    save(tmp_path, {"x.npy": stack})
    reader = registry.open_reader(tmp_path / "x.npy")
    assert (reader.schema.image_shape, reader.schema.dtype) == ((6, 5, 1), dtype)
    assert list(reader.keys()) == [f"0000000{index}" for index in range(7)]
    assert set(reader.labels().tolist()) == {-1}
    assert np.array_equal(reader.read_many(range(7)).images[..., 0], stack)


def test_one_image_alone(tmp_path: Path) -> None:
    save(tmp_path, {"only.npy": image(1, (6, 5))})
    (sample,) = samples_of(registry.open_reader(tmp_path / "only.npy"))
    assert (sample.key, sample.image.shape) == ("only.npy", (6, 5, 1))


def test_labels_beside_stacks(tmp_path: Path) -> None:
    arrays = {"a.npy": image(1, (3, 6, 5, 3)), "b.npy": image(2, (2, 6, 5, 3))}
    save(tmp_path, {**arrays, "labels.npy": np.array([4, 0, 1, 2, 2], np.uint8)})
    (tmp_path / "README.md").write_text("made by hand")
    reader = registry.open_reader(tmp_path)
    assert reader.labels().tolist() == [4, 0, 1, 2, 2]
    assert [path.name for path in reader.files()] == ["a.npy", "b.npy"]
    np.save(tmp_path / "labels.npy", np.arange(4))
    with pytest.raises(DamagedDatasetError, match=r"labels\.npy: 4 labels for 5 images"):
        registry.open_reader(tmp_path)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes(folder: Path) -> None:
    reader = registry.open_reader(folder)
    before = digests(reader)
    assert digests(pickle.loads(pickle.dumps(reader))) == before  # noqa: S301 - our own bytes
    assert in_children("fork", reader, 2) == [before] * 2
    assert in_children("spawn", reader, 1) == [before]


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((6, 5), (None, "HW", (6, 5, 1))),
        ((6, 5, 3), (None, "HWC", (6, 5, 3))),
        ((9, 6, 5), (9, "HW", (6, 5, 1))),
        ((9, 6, 5, 4), (9, "HWC", (6, 5, 4))),
        ((9, 3, 64, 65), (9, "CHW", (3, 64, 65))),
    ],
)
def test_what_a_shape_is(shape: tuple[int, ...], wanted: object) -> None:
    count, order, stored, remark = images_in(shape)
    assert (count, str(order), stored) == wanted
    assert bool(remark) == (str(order) == "CHW")


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((3, 64, 64), "3×64×64 may be N×H×W or C×H×W: say which with --layout"),
        ((9, 8, 64, 64), "9×8×64×64 is no image"),
        ((5,), "5 is no image"),
        ((), "no axes is no image"),
        ((0, 6, 5, 3), "0×6×5×3 is no image"),
    ],
)
def test_what_no_image_is(shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        images_in(shape)


# -- what is refused, and what is left out


def test_pickled_arrays_are_refused_with_the_reason(tmp_path: Path) -> None:
    objects = np.empty(2, object)
    objects[:] = [image(0), image(1)]
    np.save(tmp_path / "x.npy", objects, allow_pickle=True)
    for path in (tmp_path, tmp_path / "x.npy"):
        with pytest.raises(UnsupportedError, match="are pickled: loading them would run code"):
            registry.open_reader(path)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((6, 5, 3), complex), "an array of <c16"),
        (np.zeros((6, 5), ">u2"), "an array of >u2"),
        (np.zeros((6, 5), [("r", "u1")]), r"an array of \|V1"),
        (np.array(["a", "b"]), "an array of <U1"),
        (np.asfortranarray(image(0)), "an array in Fortran order"),
        (np.zeros((3, 64, 64), np.float32), "3×64×64 may be N×H×W or C×H×W"),
    ],
)
def test_arrays_that_are_not_read(tmp_path: Path, array: Array, words: str) -> None:
    save(tmp_path, {"x.npy": array})
    with pytest.raises(UnsupportedError, match=words):
        registry.open_reader(tmp_path)


def test_odd_ones_among_many_are_rejects(folder: Path) -> None:
    other = {"cat/big.npy": image(1, (7, 5, 3)), "cat/f.npy": image(1, dtype="float32")}
    save(folder, {**other, "dog/list.npy": np.arange(3)})
    (folder / "dog/text.npy").write_text("no array")
    reader = registry.open_reader(folder)
    assert len(reader) == len(samples_of(reader)) == 7
    assert [(each.key, each.reason) for each in reader.rejects] == [
        ("cat/big.npy", "size-mismatch"),
        ("cat/f.npy", "size-mismatch"),
        ("dog/list.npy", "unsupported-format"),
        ("dog/text.npy", "unsupported-format"),
    ]
    assert reader.rejects[0].detail == "images of uint8[7, 5, 3] among uint8[6, 5, 3]"


def test_folders_that_are_something_else(folder: Path, tmp_path: Path) -> None:
    (folder / "cat/picture.jpg").write_bytes(b"\xff\xd8\xff")
    assert not FORMAT.recognises(folder)
    save(tmp_path / "tree.fastdata", {"keys.npy": np.arange(3)})
    assert not FORMAT.recognises(tmp_path / "tree.fastdata")
    (tmp_path / "none").mkdir()
    assert not FORMAT.recognises(tmp_path / "none")
    with pytest.raises(UnsupportedError, match="can be read but not written"):
        registry.for_destination(tmp_path / "new.npy")


# -- damage


def test_cut_files_are_rejects(folder: Path) -> None:
    for name, size in (("cat/1.npy", 150), ("cat/2.npy", 20)):
        os.truncate(folder / name, size)
    reader = registry.open_reader(folder)
    assert [(each.key, each.reason) for each in reader.rejects] == [
        ("cat/1.npy", "truncated"),
        ("cat/2.npy", "unsupported-format"),
    ]
    assert "150 bytes, and 218 are expected" in reader.rejects[0].detail
    assert len(samples_of(reader)) == 5


def test_any_cut_of_one_file_is_one_error(tmp_path: Path) -> None:
    save(tmp_path, {"x.npy": image(1, (4, 6, 5, 3))})
    path = tmp_path / "x.npy"
    for size in range(path.stat().st_size - 1, -1, -7):
        os.truncate(path, size)
        with pytest.raises(FastdataError):
            registry.open_reader(path)


def test_any_flipped_byte_of_a_header_is_said_or_harmless(tmp_path: Path) -> None:
    path, stack = tmp_path / "x.npy", image(1, (4, 6, 5, 3))
    buffer = io.BytesIO()
    np.save(buffer, stack)
    whole = buffer.getvalue()
    said = 0
    for at in range(128):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x11]) + whole[at + 1 :])
        try:
            found = registry.open_reader(path).read_many(range(4)).images
        except FastdataError:
            said += 1
        else:
            assert np.array_equal(found, stack)
    assert said > 60


def test_a_shape_that_no_memory_holds(tmp_path: Path) -> None:
    save(tmp_path, {"x.npy": image(1, (4, 6, 5, 3))})
    path = tmp_path / "x.npy"
    path.write_bytes(path.read_bytes().replace(b"(4, 6, 5, 3), }  ", b"(4, 6e9, 5, 3), }"))
    with pytest.raises(FastdataError):
        registry.open_reader(path)
    huge = b"(4000000000, 600000000, 5, 3), }"
    path.write_bytes(path.read_bytes().replace(b"(4, 6e9, 5, 3), }".ljust(len(huge)), huge))
    with pytest.raises(DamagedDatasetError, match="bytes, and"):
        registry.open_reader(path)


def test_bytes_behind_an_array(tmp_path: Path) -> None:
    save(tmp_path, {"x.npy": image(1)})
    with open(tmp_path / "x.npy", "ab") as file:
        file.write(bytes(10))
    with pytest.raises(DamagedDatasetError, match="bytes, and"):
        registry.open_reader(tmp_path)


def test_cut_or_gone_after_it_was_opened(folder: Path) -> None:
    reader = registry.open_reader(folder)
    os.truncate(folder / "cat/1.npy", 150)
    (folder / "cat/2.npy").unlink()
    bad = [found for found in reader.scan() if isinstance(found, Reject)]
    assert [(each.index, each.key, each.reason) for each in bad] == [
        (1, "cat/1.npy", "corrupt"),
        (2, "cat/2.npy", "missing"),
    ]
    with pytest.raises(BadSampleError, match="cut short"):
        reader.read(1)
