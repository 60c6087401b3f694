"""Datasets as other tools lay them out, each written by that tool's own library: the whole way.

Each is inspected, converted, and compared with the same pictures as a folder of files.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import tarfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import h5py
import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import webdataset
import zarr

from tests.conftest import Run, jpeg

PICTURES = [jpeg(24, 20, seed) for seed in range(6)]
FIXTURES = Path(__file__).parents[1] / "formats" / "fixtures"
Files = Mapping[str, bytes]


def decoded(data: bytes) -> Any:
    """Return the pixels of a picture, RGB."""
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    return image[..., ::-1]


WEBP = [cv2.imencode(".webp", decoded(each))[1].tobytes() for each in PICTURES]


def same(run: Run, source: Path, root: Path, files: Files, *options: object) -> None:
    """Inspect and convert ``source``: to exactly these files, and to an equal dataset."""
    report = json.loads(run("inspect", source, "--json", *options).stdout)
    assert report["samples"] == len(files)
    run("convert", source, root, "--to", "tree", *options)
    paths = (path for path in root.rglob("*") if path.is_file())
    assert {str(path.relative_to(root)): path.read_bytes() for path in paths} == files
    copy = root.with_name(f"{root.name}-copy.lmdb")
    run("convert", source, copy, *options)
    run("inspect", "--diff", source, copy, *options)


def metadata_of(run: Run, source: Path, folder: Path, *options: object) -> list[dict[str, Any]]:
    """Return the metadata of all samples, by way of a WebDataset."""
    run("convert", source, folder / "meta.tar", *options)
    with tarfile.open(folder / "meta.tar") as tar:
        names = [name for name in tar.getnames() if name.endswith(".json") and name[0] != "_"]
        return [json.load(tar.extractfile(name)) for name in names]  # type: ignore[arg-type]


# -- WebDataset


def img2dataset(folder: Path) -> Path:
    """Write what img2dataset writes: shards, their tables and statistics, failures among them."""
    folder.mkdir()
    for shard in range(2):
        keys = [f"{shard:05d}{number:04d}" for number in range(4)]
        writer = webdataset.TarWriter(str(folder / f"{shard:05d}.tar"))
        for number in range(3):  # the fourth could not be downloaded
            key = keys[number]
            about: dict[str, Any] = {
                "caption": f"no. {number}",
                "url": f"http://x/{key}",
                "key": key,
            }
            about |= {"status": "success", "error_message": None, "width": 20, "exif": "{}"}
            sample = {"__key__": key, "jpg": PICTURES[3 * shard + number]}
            writer.write({**sample, "txt": f"no. {number}", "json": json.dumps(about, indent=4)})
        writer.close()
        status = ["success"] * 3 + ["failed_to_download"]
        table = {"key": keys, "status": status, "error_message": [None] * 3 + ["HTTP Error 404"]}
        pq.write_table(pa.table(table), folder / f"{shard:05d}.parquet")
        (folder / f"{shard:05d}_stats.json").write_text(
            json.dumps({"count": 4, "successes": 3, "status_dict": {"HTTP Error 404": 1}})
        )
    return folder


def test_img2dataset(run: Run, tmp_path: Path) -> None:
    source = img2dataset(tmp_path / "laion")
    names = [f"0000{shard}000{number}.jpg" for shard in range(2) for number in range(3)]
    same(run, source, tmp_path / "tree", dict(zip(names, PICTURES, strict=True)))
    same(
        run,
        source / "{00000..00001}.tar",
        tmp_path / "again",
        dict(zip(names, PICTURES, strict=True)),
    )
    found = metadata_of(run, source, tmp_path)
    assert [each["txt"] for each in found] == ["no. 0", "no. 1", "no. 2"] * 2
    assert found[4]["url"] == "http://x/000010001"
    assert found[0]["status"] == "success"
    assert found[0]["_key"] == "000000000"  # of img2dataset: ours has the whole name


def pairs(path: Path) -> Path:
    """Write two pictures a sample, with the webdataset library."""
    writer = webdataset.TarWriter(str(path))
    for number in range(3):
        left, right = PICTURES[number], PICTURES[number + 3]
        label = {"cls": str(number)}
        writer.write({"__key__": f"{number:03d}", "left.jpg": left, "right.jpg": right, **label})
    writer.close()
    return path


def test_one_of_several_images_is_chosen(run: Run, tmp_path: Path) -> None:
    source = pairs(tmp_path / "pairs.tar")
    (tmp_path / "labels.csv").write_text(
        "path,label\n" + "".join(f"{n:03d}.{side}.jpg,{n}\n" for n in range(3) for side in SIDES)
    )
    table = ("--labels", tmp_path / "labels.csv")
    both = {f"{n:03d}.{side}.jpg": PICTURES[n + 3 * at] for n in range(3) for at, side in SIDED}
    with pytest.raises(AssertionError, match="--labels is not an option of reading webdataset"):
        run("inspect", source, *table)
    said = run("convert", source, tmp_path / "both.lmdb").stderr
    assert "several images a sample (left.jpg, right.jpg)" in said
    assert "choose one with --field" in said
    for name, data in both.items():
        (tmp_path / "tree").mkdir(exist_ok=True)
        (tmp_path / "tree" / name).write_bytes(data)
    run("inspect", "--diff", tmp_path / "both.lmdb", tmp_path / "tree", *table)
    run("convert", source, tmp_path / "left.lmdb", "--field", "left.jpg")
    for file in (tmp_path / "tree").glob("*right*"):
        file.unlink()
    run("inspect", "--diff", tmp_path / "left.lmdb", tmp_path / "tree", *table)


SIDES = ("left", "right")
SIDED = tuple(enumerate(SIDES))


@pytest.mark.parametrize("field", ["jpg", "middle.jpg"])
def test_a_field_that_there_is_not(run: Run, tmp_path: Path, field: str) -> None:
    source = pairs(tmp_path / "pairs.tar")
    for command in (["inspect", source], ["convert", source, tmp_path / "out.lmdb"]):
        refused = run(*command, "--field", field, code=2).stderr
        assert f"--field {field}: no sample has it" in refused
        assert "its fields: cls, left.jpg, right.jpg" in refused


def test_classes_as_text_are_kept(run: Run, tmp_path: Path) -> None:
    writer = webdataset.TarWriter(str(tmp_path / "a.tar"))
    for number, text in enumerate(["cat", "dog", "7"]):
        writer.write({"__key__": f"{number}", "jpg": PICTURES[number], "cls": text})
    writer.close()
    said = run("convert", tmp_path / "a.tar", tmp_path / "out.zarr").stderr
    assert "2 with a .cls that is no whole number" in said
    found = metadata_of(run, tmp_path / "a.tar", tmp_path)
    assert [each.get("cls") for each in found] == ["cat", "dog", None]


def test_plain_tar_of_folders(run: Run, tmp_path: Path) -> None:
    files = {f"set.v1/{number % 2}/{number}.jpg": PICTURES[number] for number in range(6)}
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    run("convert", tmp_path / "a.tar", tmp_path / "out", "--to", "tree")
    stored = {name: (tmp_path / "out" / name).read_bytes() for name in files}
    assert stored == files


# -- LMDB


def environment(path: Path, records: Mapping[bytes, bytes], **options: Any) -> Path:
    """Write records with the lmdb library."""
    with lmdb.open(str(path), map_size=1 << 24, **options) as env, env.begin(write=True) as txn:
        for key, value in records.items():
            assert txn.put(key, value)
    return path


def numbered(pattern: bytes, first: int = 0) -> dict[bytes, bytes]:
    return {pattern % (first + number): data for number, data in enumerate(PICTURES)}


@pytest.mark.parametrize("subdir", [True, False])
def test_lmdb_of_index_keys(run: Run, tmp_path: Path, subdir: bool) -> None:
    keys = pickle.dumps([b"%d" % number for number in range(6)])
    others = {b"__len__": pickle.dumps(6), b"__keys__": keys, b"num-samples": b"6"}
    source = environment(tmp_path / "a", {**numbered(b"%d"), **others}, subdir=subdir)
    same(run, source, tmp_path / "tree", {f"{n}": data for n, data in enumerate(PICTURES)})


def test_lmdb_of_lsun(run: Run, tmp_path: Path) -> None:
    keys = [hashlib.sha1(data).hexdigest() for data in WEBP]
    records = {key.encode(): data for key, data in zip(keys, WEBP, strict=True)}
    source = environment(tmp_path / "bedroom_val_lmdb", records)
    same(run, source, tmp_path / "tree", dict(zip(keys, WEBP, strict=True)))


def test_lmdb_of_texts_to_read(run: Run, tmp_path: Path) -> None:
    texts = {b"label-%09d" % number: f"wörd {number}".encode() for number in (1, 2, 3, 5, 6)}
    records = {**numbered(b"image-%09d", 1), **texts, b"num-samples": b"6"}
    source = environment(tmp_path / "ocr", records)
    names = [f"image-{number:09d}" for number in range(1, 7)]
    same(run, source, tmp_path / "tree", dict(zip(names, PICTURES, strict=True)))
    found = metadata_of(run, source, tmp_path)
    wanted = ["wörd 1", "wörd 2", "wörd 3", None, "wörd 5", "wörd 6"]
    assert [each.get("label") for each in found] == wanted
    assert "ignored-record=1" in run("inspect", source).stdout


def test_lmdb_of_masks_beside_images(run: Run, tmp_path: Path) -> None:
    masks = {b"label-%d" % number: PICTURES[5 - number] for number in range(6)}
    source = environment(tmp_path / "seg", {**numbered(b"image-%d"), **masks})
    assert json.loads(run("inspect", source, "--json").stdout)["samples"] == 12


@pytest.mark.parametrize("protocol", [2, 5])
def test_lmdb_of_pickles_is_refused(run: Run, tmp_path: Path, protocol: int) -> None:
    pickled = {key: pickle.dumps((data, 1), protocol) for key, data in numbered(b"%d").items()}
    source = environment(tmp_path / "a.lmdb", pickled)
    for command in (["inspect", source], ["convert", source, tmp_path / "out.zarr"]):
        refused = run(*command, code=2).stderr
        assert "its values are pickled: loading them would run code" in refused


# -- HDF5 and Zarr


def test_hdf5_of_variable_length_bytes(run: Run, tmp_path: Path) -> None:
    names = [f"{'ab'[number % 2]}/{number}.jpg" for number in range(6)]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        images = file.create_dataset("deep/er/JPEGs", (6,), h5py.vlen_dtype(np.uint8))
        for number, data in enumerate(PICTURES):
            images[number] = np.frombuffer(data, np.uint8)
        file["deep/er/filenames"] = np.array([name.encode() for name in names])  # of fixed length
        file["deep/er/label"] = np.arange(6) % 2
        references = file.create_dataset("deep/er/references", (6,), h5py.ref_dtype)
        references[0] = images.ref
    same(run, tmp_path / "a.h5", tmp_path / "tree", dict(zip(names, PICTURES, strict=True)))


@pytest.mark.parametrize("kind", ["opaque", "bytes", "compressed bytes"])
def test_hdf5_of_a_file_a_dataset(run: Run, tmp_path: Path, kind: str) -> None:
    names = [f"{'ab'[number % 2]}/{number}.jpg" for number in range(6)]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, data in zip(names, PICTURES, strict=True):
            flat = np.frombuffer(data, np.uint8)
            if kind == "opaque":
                file[name] = np.void(data)
            else:
                further = {"compression": "gzip"} if kind == "compressed bytes" else {}
                file.create_dataset(name, data=flat, **further)
        file["about"], file["count"] = "made by hand", 6
        file["first"] = h5py.SoftLink(f"/{names[0]}")
        file["numbers"] = np.arange(100, dtype=np.uint8)
    source = tmp_path / "a.h5"
    same(run, source, tmp_path / "tree", dict(zip(names, PICTURES, strict=True)))
    run("inspect", "--diff", source, tmp_path / "tree")
    assert "ignored-dataset=3" in run("inspect", source).stdout


@pytest.mark.parametrize("further", [{}, {"chunks": True, "compression": "gzip"}])
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_hdf5_of_a_dataset_an_image(
    run: Run, tmp_path: Path, further: dict[str, Any], layout: str
) -> None:
    pixels = np.stack([decoded(data) for data in PICTURES])
    stored = pixels if layout == "HWC" else pixels.transpose(0, 3, 1, 2)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number, image in enumerate(stored):
            file.create_dataset(f"deep/{'ba'[number % 2]}{number}", data=image, **further)
        file.create_dataset("deep/other", data=stored[0, :2, :2, :3] if layout == "HWC" else [[1]])
    options = () if layout == "HWC" else ("--layout", layout)
    run("convert", tmp_path / "a.h5", tmp_path / "out.raw", "--max-bad", 1, *options)
    run("inspect", "--diff", tmp_path / "a.h5", tmp_path / "out.raw", *options)
    copy = np.fromfile(tmp_path / "out.raw" / "data.raw", np.uint8).reshape(pixels.shape)
    assert np.array_equal(copy, pixels[[1, 3, 5, 0, 2, 4]])  # in the order of their names
    keys = (tmp_path / "out.raw" / "keys.txt").read_text().split()
    assert keys == ["deep/a1", "deep/a3", "deep/a5", "deep/b0", "deep/b2", "deep/b4"]


def test_hdf5_images_that_were_never_written_are_missing(run: Run, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x/1"] = decoded(PICTURES[0])
        file.create_dataset("x/2", (24, 20, 3), np.uint8)
        file.create_dataset("x/3", (24, 20, 3), np.uint8, chunks=(12, 20, 3))[:5] = 7
    run("convert", tmp_path / "a.h5", tmp_path / "out.raw")
    rejects = (tmp_path / "out.raw.rejects.jsonl").read_text().splitlines()
    found = [(each["key"], each["reason"]) for each in map(json.loads, rejects)]
    assert found == [("x/2", "missing"), ("x/3", "missing")]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("consolidated", [True, False])
def test_zarr_of_any_depth(run: Run, tmp_path: Path, zarr_format: Any, consolidated: bool) -> None:
    pixels = np.stack([decoded(data) for data in PICTURES])
    group = zarr.open_group(tmp_path / "a", mode="w", zarr_format=zarr_format)
    shards: dict[str, Any] = {"shards": (4, 24, 20, 3)} if zarr_format == 3 else {}
    group.create_array("x/train/img", data=pixels, chunks=(2, 24, 20, 3), **shards)
    group.create_array("x/train/y", data=np.arange(6) % 2)
    if consolidated:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that Zarr 3 has no specification of it
            zarr.consolidate_metadata(tmp_path / "a", zarr_format=zarr_format)
    run("convert", tmp_path / "a", tmp_path / "out.raw")
    run("inspect", "--diff", tmp_path / "a", tmp_path / "out.raw")
    stored = np.fromfile(tmp_path / "out.raw" / "data.raw", np.uint8)
    assert np.array_equal(stored, pixels.reshape(-1))


# -- a folder of .npy


def test_npy_with_labels_and_classes(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    stack = np.random.default_rng(1).integers(0, 256, (4, 6, 7, 3), np.uint8)
    np.save(folder / "many.npy", stack[:3])
    np.save(folder / "one.npy", stack[3])
    (tmp_path / "classes.txt").write_text("dog\ncat\n")
    tables = {
        "files.csv": "path,label\nmany.npy,cat\none.npy,dog\n",
        "samples.csv": "path,label\nmany.npy/00000000,cat\nmany.npy/00000002,cat\none.npy,dog\n",
    }
    wanted = {"files.csv": [1, 1, 1, 0], "samples.csv": [1, -1, 1, 0]}
    for name, text in tables.items():
        (tmp_path / name).write_text(text)
        out = tmp_path / f"{name}.raw"
        classes = ("--classes", tmp_path / "classes.txt")
        run("convert", folder, out, "--labels", tmp_path / name, *classes)
        assert np.load(out / "labels.npy").tolist() == wanted[name]
        assert json.loads((out / "meta.json").read_text())["class_names"] == ["dog", "cat"]
    (tmp_path / "none.csv").write_text("path,label\nother.npy,cat\n")
    refused = run("inspect", folder, "--labels", tmp_path / "none.csv", code=2).stderr
    assert "none of its 1 paths is an image of the source" in refused


@pytest.mark.parametrize("beside", [True, False])
def test_npy_with_classes_alone(run: Run, tmp_path: Path, beside: bool) -> None:
    stack = np.zeros((3, 6, 7, 3), np.uint8)
    if beside:
        (tmp_path / "set").mkdir()
        np.save(tmp_path / "set" / "x.npy", stack)
        np.save(tmp_path / "set" / "labels.npy", np.array([1, 0, 1]))
    else:
        for number, name in enumerate(["cat", "dog", "cat"]):
            (tmp_path / "set" / name).mkdir(parents=True, exist_ok=True)
            np.save(tmp_path / "set" / name / f"{number}.npy", stack[number])
    (tmp_path / "classes.txt").write_text("dog\ncat\n")
    run("convert", tmp_path / "set", tmp_path / "a.raw", "--classes", tmp_path / "classes.txt")
    meta = json.loads((tmp_path / "a.raw" / "meta.json").read_text())
    assert meta["class_names"] == ["dog", "cat"]
    assert sorted(np.load(tmp_path / "a.raw" / "labels.npy").tolist()) == [0, 1, 1]


# -- Parquet


def test_parquet_of_hugging_face(run: Run, tmp_path: Path) -> None:
    features = {
        "img": {"_type": "Image"},
        "fine_label": {"names": ["ant", "bee"], "_type": "ClassLabel"},
        "coarse_label": {"names": ["insect"], "_type": "ClassLabel"},
    }
    noted = {"huggingface": json.dumps({"info": {"features": features}})}
    (tmp_path / "hub" / "data" / "deep").mkdir(parents=True)
    names = [f"{'ab'[number % 2]}/{number}.jpg" for number in range(6)]
    for part in range(2):
        rows = range(3 * part, 3 * part + 3)
        images = [{"bytes": PICTURES[row], "path": names[row]} for row in rows]
        labels = {"fine_label": [row % 2 for row in rows], "coarse_label": [0] * 3}
        table = pa.table({"img": images, **labels}).replace_schema_metadata(noted)
        pq.write_table(table, tmp_path / f"hub/data/deep/train-0000{part}-of-00002.parquet")
    (tmp_path / "hub" / "README.md").write_text("---\nlicense: mit\n---")
    (tmp_path / "hub" / ".gitattributes").write_text("*.parquet filter=lfs")
    with pytest.raises(AssertionError, match="coarse_label"):
        # Two columns of classes: which one was taken is said.
        assert not run("convert", tmp_path / "hub", tmp_path / "x.zarr").stderr
    source = tmp_path / "hub"
    same(run, source, tmp_path / "tree", dict(zip(names, PICTURES, strict=True)))
    assert json.loads(run("inspect", source, "--json").stdout)["class_names"] == ["ant", "bee"]


# -- TFRecord


@pytest.mark.parametrize("name", ["imagenet-style", "datasets-style", "package"])
def test_tfrecords_of_other_libraries(run: Run, tmp_path: Path, name: str) -> None:
    """Files that TensorFlow, its datasets and the package tfrecord wrote."""
    source = FIXTURES / f"{name}.tfrecord"
    options = ("--field", "image") if name == "package" else ()  # it has masks as well
    run("convert", source, tmp_path / "out.lmdb", *options)
    run("inspect", "--diff", source, tmp_path / "out.lmdb", *options)
    run("convert", tmp_path / "out.lmdb", tmp_path / "out.tfrecord")
    run("inspect", "--diff", source, tmp_path / "out.tfrecord", *options)
