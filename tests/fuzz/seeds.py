"""Makes the small sound datasets and pictures that the fuzzer damages."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fastdata_cli import registry
from fastdata_cli.formats.tree.sidecar import sidecar_path
from fastdata_cli.sample import Payload
from fastdata_cli.testing.synthetic import png, samples_for, write_dataset

Maker = Callable[[Path], Path]
"""Makes a dataset in an empty folder, and returns its path."""

_SAMPLES = 4


def own(name: str, payload: Payload, **options: Any) -> Maker:
    """Return what has fastdata write a dataset in two parts."""

    def make(folder: Path) -> Path:
        row = registry.get(name)
        numbered = "-%06d" if "shard_samples" in options and name != "zarr" else ""
        path = folder / f"set{numbered}{row.suffixes[0] if row.suffixes else ''}"
        samples, chosen = samples_for(payload, _SAMPLES), row.write_options(**options)
        write_dataset(row, path, samples, payload, chosen, part_samples=2)
        return folder if numbered else path

    return make


def files(contents: Mapping[str, bytes]) -> Maker:
    """Return what writes these files into a folder."""

    def make(folder: Path) -> Path:
        root = folder / "set"
        for name, data in contents.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        return root

    return make


def foreign_lmdb(folder: Path) -> Path:
    """LMDB as scripts write it: numbered keys, a count, files as values; one spans pages."""
    import lmdb

    path = folder / "set.lmdb"
    large = _picture("PNG", size=(60, 50))
    with (
        lmdb.open(str(path), subdir=False, map_size=1 << 20, lock=False) as environment,
        environment.begin(write=True) as transaction,
    ):
        for number, value in enumerate((png(3, 4, 0), png(3, 4, 1), large)):
            transaction.put(str(number).encode(), value)
        transaction.put(b"__len__", b"3")
    return path


def foreign_hdf5(folder: Path, *, encoded: bool, **dataset: Any) -> Path:
    """HDF5 as scripts write it: an array of any name, labels and texts beside it."""
    import h5py

    path = folder / "set.h5"
    with h5py.File(path, "w", libver="latest" if "chunks" in dataset else "earliest") as file:
        group = file.create_group("train")
        if encoded:
            images = group.create_dataset("jpegs", (3,), h5py.vlen_dtype(np.uint8))
            for number in range(3):
                images[number] = np.frombuffer(png(3, 4, number), np.uint8)
        else:
            pixels = np.arange(3 * 6 * 5 * 3, dtype=np.uint8).reshape(3, 6, 5, 3)
            images = group.create_dataset("images", data=pixels, **dataset)
        images.attrs["classes"] = ["cat", "dog"]
        group["labels"] = np.array([0, 1, 0])
        group["filenames"] = ["a.png", "b.png", "c.png"]
    return path


def foreign_zarr(folder: Path, **array: Any) -> Path:
    """Zarr as its library writes it."""
    import zarr

    path = folder / "set.zarr"
    root = zarr.open_group(path, mode="w", zarr_format=array.pop("zarr_format", 3))
    pixels = np.arange(3 * 6 * 5 * 3, dtype=np.uint8).reshape(3, 6, 5, 3)
    root.create_array("images", data=pixels, **array)
    root.create_array("labels", data=np.array([0, 1, 0]))
    return path


def zipped_zarr(folder: Path, compression: int) -> Path:
    """A Zarr store as one zip."""
    with tempfile.TemporaryDirectory() as apart:
        store = foreign_zarr(Path(apart), chunks=(1, 6, 5, 3))
        path = folder / "set.zarr.zip"
        with zipfile.ZipFile(path, "w", compression) as archive:
            for file in sorted(entry for entry in store.rglob("*") if entry.is_file()):
                archive.write(file, file.relative_to(store))
    return path


def parquet(folder: Path, **writer: Any) -> Path:
    """Parquet as Hugging Face writes it: an image struct, class names in the metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"bytes": png(3, 4, number), "path": f"{number}.png"} for number in range(_SAMPLES)]
    table = pa.table({"image": rows, "label": [0, 1, 0, 1], "caption": ["a", None, "b", "c"]})
    features = {
        "image": {"_type": "Image"},
        "label": {"names": ["cat", "dog"], "_type": "ClassLabel"},
    }
    facts = json.dumps({"info": {"features": features}})
    path = folder / "set.parquet"
    pq.write_table(
        table.replace_schema_metadata({"huggingface": facts}), path, row_group_size=2, **writer
    )
    return path


def foreign_tar(folder: Path, **archive: Any) -> Path:
    """A tar as others write it: long names, classes as text, JSON beside the images."""
    import tarfile

    path = folder / "set.tar"
    with tarfile.open(path, "w", **archive) as tar:
        for name, data in {
            "long/" * 30 + "é.v1.png": png(3, 4, 0),
            "long/" * 30 + "é.v1.cls": b"1",
            "b.jpg": _picture("JPEG"),
            "b.json": b'{"caption": "b"}',
            "c.npy": _npy(np.zeros((3, 4, 3), np.uint8)),
        }.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def foreign_tfrecord(folder: Path) -> Path:
    """Records as TensorFlow's scripts write them."""
    fixtures = Path(__file__).parent.parent / "formats" / "fixtures"
    path = folder / "set.tfrecord"
    path.write_bytes((fixtures / "imagenet-style.tfrecord").read_bytes()[:1500])
    return path


def tree_with_sidecar(folder: Path) -> Path:
    """A tree that fastdata wrote, whose sidecar lies beside it."""
    path = own("tree", Payload.ENCODED)(folder)
    assert sidecar_path(path).is_dir()
    return path


def lists(folder: Path) -> Path:
    """Files of people that name the images of a tree, too large to be damaged itself."""
    unread = bytes(1 << 17)
    files({"cat/a.png": png(3, 4, 0) + unread, "dog/b.png": png(3, 4, 1) + unread})(folder)
    for name, text in {
        "labels.csv": 'path,label\ncat/a.png,cat\n"dog/b.png",dog\n',
        "labels.jsonl": '{"key": "cat/a.png", "label": "cat"}\n{"key": "dog/b.png", "label": 1}\n',
        "paths.txt": "cat/a.png\ndog/b.png\n",
        "nul.txt": "cat/a.png\0dog/b.png\0",
        "classes.txt": "cat\ndog\n",
        "classes.json": '["cat", "dog"]',
    }.items():
        (folder / name).write_text(text)
    return folder / "set"


def pictures(folder: Path) -> Path:
    """A folder with a picture of every kind that is decoded."""
    grey = Image.fromarray(np.arange(400, dtype=np.uint8).reshape(20, 20))
    deep = Image.fromarray(np.arange(400, dtype=np.uint16).reshape(20, 20) * 100)
    exif = Image.Exif()
    exif[0x112] = 6
    made = {
        "baseline.jpg": _picture("JPEG", exif=exif),
        "progressive.jpg": _picture("JPEG", progressive=True),
        "grey.jpg": _picture("JPEG", grey),
        "cmyk.jpg": _picture("JPEG", grey.convert("CMYK")),
        "rgb.png": _picture("PNG", exif=exif),
        "palette.png": _picture("PNG", grey.convert("P"), transparency=3),
        "deep.png": _picture("PNG", deep),
        "two.gif": _picture("GIF", grey, save_all=True, append_images=[grey.rotate(90)]),
        "rgb.bmp": _picture("BMP"),
        "plain.tif": _picture("TIFF", exif=exif),
        "lzw.tif": _picture("TIFF", compression="tiff_lzw"),
        "jpeg.tif": _picture("TIFF", compression="jpeg"),
        "lossy.webp": _picture("WEBP", exif=exif),
        "lossless.webp": _picture("WEBP", lossless=True),
        "rgb.avif": _picture("AVIF", exif=exif),
        "binary.ppm": _picture("PPM"),
        "text.pgm": b"P2\n# made by hand\n3 2\n255\n0 1 2\n3 4 255\n",
    }
    return files(made)(folder)


def _picture(
    kind: str, image: Image.Image | None = None, size: tuple[int, int] = (20, 16), **options: Any
) -> bytes:
    if image is None:
        noise = np.random.default_rng(5).integers(0, 256, (*size[::-1], 3), np.uint8)
        image = Image.fromarray(noise)
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def _npy(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


_PIXELS, _ENCODED = Payload.PIXELS, Payload.ENCODED
_STACK = np.arange(3 * 6 * 5 * 3, dtype=np.uint8).reshape(3, 6, 5, 3)

MAKERS: Mapping[str, tuple[Maker, ...]] = {
    "raw": (own("raw", _PIXELS), own("raw", _ENCODED)),
    "zarr": (
        own("zarr", _PIXELS, codec="lz4", chunk=2),
        own("zarr", _ENCODED, codec="lz4"),
        own("zarr", _PIXELS, zarr_format="2", codec="zstd", chunk=2),
        partial(foreign_zarr, chunks=(1, 6, 5, 3)),
        partial(foreign_zarr, zarr_format=2),
    ),
    "zarr-zip": (
        partial(zipped_zarr, compression=zipfile.ZIP_STORED),
        partial(zipped_zarr, compression=zipfile.ZIP_DEFLATED),
    ),
    "zarr-shards": (
        own("zarr", _PIXELS, chunk=1, shard_samples=2, codec="lz4"),
        own("zarr", _PIXELS, chunk=1, shard_samples=2, codec="zstd", shuffle="byte"),
        partial(foreign_zarr, chunks=(1, 6, 5, 3), shards=(2, 6, 5, 3)),
    ),
    "hdf5": (
        own("hdf5", _PIXELS),
        own("hdf5", _ENCODED, codec="gzip"),
        partial(foreign_hdf5, encoded=True),
        partial(foreign_hdf5, encoded=False, chunks=(1, 6, 5, 3), compression="gzip", shuffle=True),
        partial(foreign_hdf5, encoded=False),
    ),
    "lmdb": (own("lmdb", _ENCODED), own("lmdb", _PIXELS), foreign_lmdb),
    "webdataset": (
        own("webdataset", _ENCODED),
        own("webdataset", _PIXELS, shard_samples=2),
        foreign_tar,
        partial(foreign_tar, format=0),
    ),
    "tfrecord": (
        own("tfrecord", _ENCODED),
        own("tfrecord", _PIXELS, shard_samples=2),
        foreign_tfrecord,
    ),
    "parquet": (parquet, partial(parquet, compression="zstd", use_dictionary=False)),
    "npy": (
        files({"cat/a.npy": _npy(_STACK[0]), "dog/b.npy": _npy(_STACK[1].astype(np.float32))}),
        files({"images.npy": _npy(_STACK), "labels.npy": _npy(np.array([0, 1, 0]))}),
    ),
    "tree": (tree_with_sidecar, own("tree", _PIXELS)),
    "lists": (lists,),
    "pictures": (pictures,),
}
"""Every target of the fuzzer with the datasets that it damages."""
