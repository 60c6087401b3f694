"""The webdataset format: what we write, read by us, by tarfile and by the webdataset library."""

import gc
import io
import json
import tarfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdata_cli import registry
from fastdata_cli.errors import UsageError
from fastdata_cli.formats.sharded.writer import ShardWriteOptions
from fastdata_cli.formats.webdataset import FORMAT
from fastdata_cli.keys import from_text
from fastdata_cli.sample import Payload, Sample
from fastdata_cli.testing import (
    FormatConformance,
    encoded_samples,
    pixel_samples,
    synthetic,
    write_dataset,
)


class TestOneTar(FormatConformance):
    format = FORMAT


class TestShards(FormatConformance):
    format = FORMAT
    write_options = ShardWriteOptions(shard_samples=9)

    def destination(self, folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        return folder / "set-%03d.tar"


def library_samples(path: Path) -> list[dict[str, Any]]:
    """Read a tar with the webdataset library alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it leaves its file to the garbage collector
        import webdataset

        found = list(webdataset.WebDataset(str(path), shardshuffle=False, empty_check=False))
        gc.collect()
    return found


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def test_webdataset_library_reads_encoded_samples(tmp_path: Path) -> None:
    samples = encoded_samples()
    found = library_samples(write_dataset(FORMAT, tmp_path / "set.tar", samples, Payload.ENCODED))
    assert len({entry["__key__"] for entry in found}) == len(samples)
    for entry, sample in zip(found, samples, strict=True):
        fields = {name for name in entry if not name.startswith("__")}
        assert fields == {"png", "json"} | ({"cls"} if sample.label >= 0 else set())
        assert entry["png"] == sample.image.tobytes()
        assert int(entry.get("cls", b"-1")) == sample.label
        record = json.loads(entry["json"])
        assert from_text(record.pop("key")) == sample.key
        names = {"class_name": synthetic.CLASS_NAMES[sample.label]} if sample.label >= 0 else {}
        assert record == {**(sample.metadata or {}), **names}


def test_webdataset_library_reads_pixels(tmp_path: Path) -> None:
    samples = pixel_samples()
    found = library_samples(write_dataset(FORMAT, tmp_path / "set.tar", samples, Payload.PIXELS))
    arrays = [np.load(io.BytesIO(entry["npy"])) for entry in found]
    assert np.array_equal(arrays, [sample.image for sample in samples])


def test_the_index_is_readable_with_numpy_alone(tmp_path: Path) -> None:
    samples = pixel_samples()
    path = write_dataset(FORMAT, tmp_path / "set.tar", samples, Payload.PIXELS)
    footer = json.loads(path.read_bytes()[-1536:-1024])
    assert footer["file_bytes"] == path.stat().st_size
    columns = {
        name.removeprefix("__fastdata__/").removesuffix(".npy"): np.load(io.BytesIO(content))
        for name, content in members(path).items()
        if name.startswith("__fastdata__/") and name.endswith(".npy")
    }
    assert columns["labels"].tolist() == [sample.label for sample in samples]
    image = np.memmap(path, np.uint8, "r", int(columns["begins"][5]), (6, 5, 3))
    assert np.array_equal(image, samples[5].image)
    assert not columns["begins"][0] % 64


def test_headers_are_constant(tmp_path: Path) -> None:
    path = write_dataset(FORMAT, tmp_path / "set.tar", encoded_samples(), Payload.ENCODED)
    with tarfile.open(path) as tar:
        for info in tar:
            assert (info.mtime, info.uid, info.gid, info.mode) == (0, 0, 0, 0o644)
            assert (info.uname, info.gname) == ("", "")
    assert path.read_bytes().endswith(bytes(1024))


def test_extension_follows_the_content(tmp_path: Path) -> None:
    heads = {
        "jpg": b"\xff\xd8\xff\xe0",
        "png": b"\x89PNG\r\n\x1a\n",
        "webp": b"RIFF\0\0\0\0WEBP",
        "gif": b"GIF89a",
        "bmp": b"BM\0\0\0\0",
        "tiff": b"II*\0",
        "bin": b"no picture",
    }
    samples = [
        Sample(f"{index}.jpg", np.frombuffer(head, np.uint8))
        for index, head in enumerate(heads.values())
    ]
    path = write_dataset(FORMAT, tmp_path / "set.tar", samples, Payload.ENCODED)
    fields = [name.partition(".")[2] for name in members(path) if name[0] != "_"]
    assert [field for field in fields if field != "json"] == list(heads)


def test_metadata_names_that_are_ours_come_back(tmp_path: Path) -> None:
    metadata = {"key": 1, "_key": {"key": 2}, "class_name": None, "__class_name": [], "_keys": 3}
    image = np.frombuffer(synthetic.png(3, 3, 0), np.uint8)
    path = tmp_path / "set.tar"
    write_dataset(FORMAT, path, [Sample("a.png", image, 0, metadata)], Payload.ENCODED)
    assert registry.open_reader(path).read(0).metadata == metadata
    record = json.loads(members(path)["a.json"])
    assert (record.pop("key"), record.pop("class_name")) == ("a.png", "cat")
    restored = {
        name.removeprefix("_") if name != "_keys" else name: record[name] for name in record
    }
    assert restored == metadata


def test_parts_do_not_show(tmp_path: Path) -> None:
    samples = encoded_samples()
    options = ShardWriteOptions(shard_samples=9)
    texts = []
    for part_samples in (2, 7, 1000):
        folder = tmp_path / str(part_samples)
        folder.mkdir()
        write_dataset(
            FORMAT,
            folder / "set-%02d.tar",
            samples,
            Payload.ENCODED,
            options,
            part_samples=part_samples,
        )
        texts.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert texts[0] == texts[1] == texts[2]
    assert sorted(texts[0]) == [
        "set-%02d.tar.fastdata.json",
        *(f"set-0{shard}.tar" for shard in range(5)),
    ]


@pytest.mark.parametrize("name", ["plain.tar", "set-%6d.tar", "set-%d-%d.tar"])
def test_shard_options_need_a_pattern(tmp_path: Path, name: str) -> None:
    options = ShardWriteOptions(shard_samples=9)
    with pytest.raises(UsageError, match=r"no shards|no pattern") as caught:
        write_dataset(FORMAT, tmp_path / name, encoded_samples(), Payload.ENCODED, options)
    assert "%06d" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_no_samples_make_a_valid_tar(tmp_path: Path) -> None:
    manifest = synthetic.manifest_for(encoded_samples(1), Payload.ENCODED, FORMAT.name)
    writer = synthetic.open_writer(FORMAT, tmp_path / "none.tar", manifest)
    writer.begin("x")
    writer.publish(manifest)
    reader = registry.open_reader(tmp_path / "none.tar")
    assert (len(reader), list(reader.scan()), list(reader.verify())) == (0, [], [])
    assert library_samples(tmp_path / "none.tar") == []
