"""The tfrecord format: what we write, read by us and by protobuf; interrupted publishing."""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest

from fastdata_cli import registry
from fastdata_cli.contract import Capability, Writer
from fastdata_cli.errors import MissingDependencyError, UsageError
from fastdata_cli.formats.sharded.writer import ShardWriteOptions
from fastdata_cli.formats.tfrecord import FORMAT
from fastdata_cli.formats.tfrecord.example import messages
from fastdata_cli.keys import from_text
from fastdata_cli.sample import Payload, Sample
from fastdata_cli.testing import (
    FormatConformance,
    encoded_samples,
    pixel_samples,
    synthetic,
    write_dataset,
)

OPTIONS = ShardWriteOptions(shard_samples=9)
PATTERN = "set-%05d.tfrecord"


class TestOneFile(FormatConformance):
    format = FORMAT


class TestShards(FormatConformance):
    format = FORMAT
    write_options = OPTIONS

    def destination(self, folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        return folder / PATTERN


def masked(data: bytes) -> int:
    crc = int(google_crc32c.value(data))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path: Path) -> list[bytes]:
    """Read a file of records by its definition, with another library's CRC."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        assert crc == masked(data[at : at + 8])
        found.append(data[at + 12 : at + 12 + length])
        assert struct.unpack_from("<I", data, at + 12 + length) == (masked(found[-1]),)
        at += 16 + length
    return found


def examples(path: Path) -> list[dict[str, Any]]:
    """Parse all records with protobuf; the index of the file is left out."""
    rows = []
    for record in records(path):
        features = messages().example.FromString(record).features.feature
        rows.append(
            {
                name: getattr(feature, feature.WhichOneof("kind")).value[0]
                for name, feature in features.items()
                if not name.endswith((".npy", ".json"))
            }
        )
    return rows


def test_protobuf_reads_encoded_samples(tmp_path: Path) -> None:
    samples = encoded_samples()
    path = write_dataset(FORMAT, tmp_path / "set.tfrecord", samples, Payload.ENCODED)
    found = examples(path)
    for number, (row, sample) in enumerate(zip(found, samples, strict=True)):
        assert row["image/encoded"] == sample.image.tobytes()
        assert (row["image/format"], row["fastdata/index"]) == (b"png", number)
        assert from_text(row["image/filename"].decode()) == sample.key
        assert row.get("image/class/label", -1) == sample.label
        name = synthetic.CLASS_NAMES[sample.label].encode() if sample.label >= 0 else b""
        assert row.get("image/class/text", b"") == name
        assert json.loads(row.get("fastdata/metadata", b"{}")) == (sample.metadata or {})


def test_protobuf_reads_pixels(tmp_path: Path) -> None:
    samples = pixel_samples()
    path = write_dataset(FORMAT, tmp_path / "set.tfrecord", samples, Payload.PIXELS)
    for row, sample in zip(examples(path), samples, strict=True):
        shape = [row[f"image/{side}"] for side in ("height", "width", "channels")]
        image = np.frombuffer(row["image/encoded"], row["image/dtype"].decode()).reshape(shape)
        assert np.array_equal(image, sample.image)
        assert row["image/format"] == b"raw"


def test_the_index_is_readable_with_numpy_alone(tmp_path: Path) -> None:
    samples = encoded_samples()
    path = write_dataset(FORMAT, tmp_path / "set.tfrecord", samples, Payload.ENCODED)
    data = path.read_bytes()
    footer = json.loads(data[-516:-4])
    assert footer["file_bytes"] == len(data)
    begin, length, _ = footer["manifest"]
    places = json.loads(data[begin : begin + length])["layout"]["columns"]
    begin, length, _ = places["begins"]
    (tmp_path / "begins.npy").write_bytes(data[begin : begin + length])
    first = int(np.load(tmp_path / "begins.npy")[5])
    assert data[first:].startswith(samples[5].image.tobytes())


def test_images_are_views_of_the_file(tmp_path: Path) -> None:
    path = write_dataset(FORMAT, tmp_path / "set.tfrecord", encoded_samples(), Payload.ENCODED)
    reader = registry.open_reader(path)
    assert Capability.ZERO_COPY in reader.capabilities
    assert np.shares_memory(reader.read(3).image, reader.read(3).image)


def test_parts_do_not_show(tmp_path: Path) -> None:
    texts = []
    for part_samples in (2, 7, 1000):
        folder = tmp_path / str(part_samples)
        folder.mkdir()
        write_dataset(
            FORMAT,
            folder / PATTERN,
            encoded_samples(),
            Payload.ENCODED,
            OPTIONS,
            part_samples=part_samples,
        )
        texts.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert texts[0] == texts[1] == texts[2]
    shards = [f"set-0000{shard}.tfrecord" for shard in range(5)]
    assert sorted(texts[0]) == [f"{PATTERN}.fastdata.json", *shards]


def test_every_way_to_name_a_set(tmp_path: Path) -> None:
    samples = encoded_samples()
    folder = tmp_path / "set"
    folder.mkdir()
    pattern = write_dataset(FORMAT, folder / PATTERN, samples, Payload.ENCODED, OPTIONS)
    for path in (pattern, folder, folder / "set-{00000..00004}.tfrecord"):
        assert registry.recognise(path).name == "tfrecord"
        assert list(registry.open_reader(path).keys()) == [sample.key for sample in samples]
    one = registry.open_reader(folder / "set-00002.tfrecord")
    assert list(one.keys()) == [sample.key for sample in samples[18:27]]
    assert list(one.verify()) == []


def test_a_pattern_is_needed_for_shards(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no shards") as caught:
        write_dataset(FORMAT, tmp_path / "x.tfrecord", encoded_samples(), Payload.ENCODED, OPTIONS)
    assert caught.value.hint == "give a pattern: x-%06d.tfrecord"
    assert list(tmp_path.iterdir()) == []


def test_no_samples_make_a_file_without_images(tmp_path: Path) -> None:
    manifest = synthetic.manifest_for(encoded_samples(1), Payload.ENCODED, FORMAT.name)
    writer = synthetic.open_writer(FORMAT, tmp_path / "none.tfrecord", manifest)
    writer.begin("x")
    writer.publish(manifest)
    reader = registry.open_reader(tmp_path / "none.tfrecord")
    assert (len(reader), list(reader.scan()), list(reader.verify())) == (0, [], [])


# -- interrupted while the index goes into the last record


def written(path: Path, samples: list[Sample]) -> Writer:
    """Return a writer that has only to publish."""
    manifest = synthetic.manifest_for(samples, Payload.ENCODED, FORMAT.name)
    writer = synthetic.open_writer(FORMAT, path, manifest, OPTIONS)
    done = {receipt.part.index for receipt in writer.begin("synthetic")}
    for part, batch in synthetic.parts_of(samples, synthetic.limits(writer, 7), Payload.ENCODED):
        if part.index not in done:
            writer.write_part(part, batch)
    return writer


@pytest.mark.parametrize(("step", "shards_done"), [("pwrite", 0), ("pwrite", 4), ("ftruncate", 2)])
def test_killed_while_the_index_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, shards_done: int
) -> None:
    samples = encoded_samples()
    manifest = synthetic.manifest_for(samples, Payload.ENCODED, FORMAT.name)
    (tmp_path / "wanted").mkdir()
    written(tmp_path / "wanted" / PATTERN, samples).publish(manifest)
    (tmp_path / "again").mkdir()
    writer, calls = written(tmp_path / "again" / PATTERN, samples), 0
    plain = getattr(os, step)

    def failing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > shards_done:
            raise KeyboardInterrupt
        return plain(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, step, failing)
        with pytest.raises(KeyboardInterrupt):
            writer.publish(manifest)
    writer.abort(keep=True)
    written(tmp_path / "again" / PATTERN, samples).publish(manifest)
    wanted, again = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("wanted", "again")
    )
    assert wanted == again


# -- the library that is optional


def test_without_protobuf_there_are_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_dataset(FORMAT, tmp_path / "set.tfrecord", encoded_samples(3), Payload.ENCODED)
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(MissingDependencyError, match=r"needs the library google\.protobuf") as e:
        registry.open_reader(path)
    assert e.value.hint == "pip install 'fastdata-cli[tfrecord]'"
    with pytest.raises(MissingDependencyError):
        registry.for_destination(tmp_path / "new.tfrecord")
