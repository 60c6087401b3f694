"""The Zarr format: what every format owes, in each layout, and what zarr-python reads of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdata_cli import registry
from fastdata_cli.errors import UsageError
from fastdata_cli.formats.zarr import FORMAT
from fastdata_cli.formats.zarr.options import ZarrWriteOptions, plan
from fastdata_cli.sample import Payload, Sample, Schema
from fastdata_cli.testing import FormatConformance, synthetic, write_dataset


class TestChunks(FormatConformance):
    format = FORMAT
    part_samples = 8
    write_options = ZarrWriteOptions(chunk=4)


class TestVersion2(FormatConformance):
    format = FORMAT
    part_samples = 8
    write_options = ZarrWriteOptions(chunk=4, zarr_format="2", codec="zstd", shuffle="bit")


class TestShards(FormatConformance):
    format = FORMAT
    part_samples = 16
    write_options = ZarrWriteOptions(chunk=2, shard_samples=8, codec="none")

    @pytest.fixture
    def payload(self) -> Payload:
        """Encoded images have no shards."""
        return Payload.PIXELS


LAYOUTS: dict[str, dict[str, Any]] = {
    "default": {},
    "shards": {"shard_samples": 8},
    "shards of chunks": {"shard_samples": 12, "chunk": 3, "codec": "lz4hc"},
    "shards not compressed": {"shard_samples": 8, "codec": "none"},
    "chunk 1": {"chunk": 1, "codec": "zlib"},
    "chunk 7": {"chunk": 7, "shuffle": "byte"},
    "chunk 1000": {"chunk": 1000, "codec": "blosclz", "level": 9},
    "chunk 7 not compressed": {"chunk": 7, "codec": "none"},
    "version 2": {"zarr_format": "2"},
    "version 2 not compressed": {"zarr_format": "2", "codec": "none", "chunk": 5},
}


@pytest.mark.parametrize("options", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_zarr_python_alone_reads_pixels(
    tmp_path: Path, options: dict[str, Any], dtype: str
) -> None:
    samples = varied_samples(dtype)
    path = write(tmp_path, samples, ZarrWriteOptions(**options), dtype)
    group = opened(path)
    images = np.stack([sample.image for sample in samples])
    assert np.array_equal(group["images"][:], images)
    assert group["images"].dtype == dtype
    assert group["labels"][:].tolist() == [sample.label for sample in samples]
    assert group["keys"][:].tolist()[2:4] == ["cat/a.jpg", "cat/a.png"]
    assert group.attrs["class_names"] == list(synthetic.CLASS_NAMES)
    assert json.loads(group["metadata"][:][1])["index"] == 1
    if "chunk" in options:
        assert group["images"].chunks[0] == options["chunk"]
    if "shard_samples" in options:
        assert group["images"].shards[0] == options["shard_samples"]
    reader = registry.open_reader(path)
    wanted = [40, 3, 3, 4, 5, 0, 39]
    assert np.array_equal(reader.read_many(wanted).images, images[wanted])
    assert list(reader.verify()) == []


@pytest.mark.parametrize("zarr_format", ["2", "3"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_zarr_python_alone_reads_encoded(tmp_path: Path, zarr_format: str, codec: str) -> None:
    samples = synthetic.encoded_samples()
    options = ZarrWriteOptions(zarr_format=zarr_format, codec=codec)
    path = write_dataset(
        FORMAT, tmp_path / "set.zarr", samples, Payload.ENCODED, options, part_samples=10
    )
    group = opened(path)
    data, chunk = group["data"], group["data"].chunks[0]
    assert chunk == (4 << 20 if codec == "none" else 1 << 20)
    begins, lengths = group["begin"][:], group["length"][:]
    for sample, begin, length in zip(samples, begins, lengths, strict=True):
        assert data[begin : begin + length].tobytes() == sample.image.tobytes()
    assert begins[::10].tolist() == [part * chunk for part in range(5)]
    assert not data[begins[9] + lengths[9] : chunk].any()
    if codec == "none":
        blocks = sum(entry.stat().st_blocks for entry in path.rglob("*") if entry.is_file())
        assert blocks * 512 < 1 << 20, "padding should take no space"


def test_an_image_may_span_chunks_and_parts_may_be_empty_of_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    sizes = [3 << 20, 0, 5 << 20, 1, 9 << 20]
    samples = [
        Sample(f"{index}.jpg", rng.integers(0, 256, size, np.uint8))
        for index, size in enumerate(sizes)
    ]
    for codec in ("none", "lz4"):
        options = ZarrWriteOptions(codec=codec, chunk=2)
        path = write_dataset(FORMAT, tmp_path / f"{codec}.zarr", samples, Payload.ENCODED, options)
        reader = registry.open_reader(path)
        for index, sample in enumerate(samples):
            assert np.array_equal(reader.read(index).image, sample.image)
        assert reader.head(2, 100).tolist() == samples[2].image[:100].tolist()
        assert reader.head(3, 100).tolist() == samples[3].image.tolist()


def test_black_images_are_stored(tmp_path: Path) -> None:
    samples = [Sample(f"{i}.jpg", np.zeros((6, 5, 3), np.uint8), 0) for i in range(9)]
    path = write(tmp_path, samples, ZarrWriteOptions(chunk=4))
    assert len(list((path / "images" / "c").iterdir())) == 3
    reader = registry.open_reader(path)
    assert list(reader.verify()) == []
    assert reader.labels().tolist() == [0] * 9


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 30),
    chunk=st.integers(1, 9),
    per_shard=st.integers(0, 4),
    codec=st.sampled_from(["none", "lz4", "zstd"]),
    indices=st.lists(st.integers(0, 29), max_size=20),
)
def test_any_layout_gives_any_samples(
    tmp_path_factory: pytest.TempPathFactory,
    count: int,
    chunk: int,
    per_shard: int,
    codec: str,
    indices: list[int],
) -> None:
    samples = synthetic.pixel_samples(count, (3, 7, 1))
    options = ZarrWriteOptions(chunk=chunk, shard_samples=chunk * per_shard or None, codec=codec)
    path = write(tmp_path_factory.mktemp("any"), samples, options)
    reader = registry.open_reader(path)
    wanted = [index % count for index in indices]
    images = np.stack([sample.image for sample in samples])
    assert np.array_equal(reader.read_many(wanted).images, images[wanted])
    assert np.array_equal(opened(path)["images"][:], images)
    spans = reader.spans(3)
    assert [index for span in spans for index in span] == list(range(count))


def test_a_run_killed_while_it_finished_goes_on(tmp_path: Path) -> None:
    for payload in Payload:
        samples = synthetic.samples_for(payload)
        options = ZarrWriteOptions(chunk=4)
        whole = write_dataset(
            FORMAT, tmp_path / f"{payload}.zarr", samples, payload, options, part_samples=8
        )
        path = tmp_path / f"{payload}-again.zarr"
        manifest = synthetic.manifest_for(samples, payload, "zarr")
        first: Any = synthetic.open_writer(FORMAT, path, manifest, options)
        first.begin("synthetic")
        for part, batch in synthetic.parts_of(samples, synthetic.limits(first, 8), payload):
            first.write_part(part, batch)
        # Everything but the rename: what a kill just before it leaves.
        first._finish(manifest.finished(41), first.staging.side.table(first.in_order()))
        first.abort(keep=True)
        write_dataset(FORMAT, path, samples, payload, options, part_samples=8)
        assert content(path) == content(whole)


def test_resuming_drops_what_was_not_finished(tmp_path: Path) -> None:
    for zarr_format in ("2", "3"):
        path = tmp_path / f"v{zarr_format}.zarr"
        samples = synthetic.pixel_samples()
        options = ZarrWriteOptions(chunk=4, zarr_format=zarr_format)
        manifest = synthetic.manifest_for(samples, Payload.PIXELS, "zarr")
        writer: Any = synthetic.open_writer(FORMAT, path, manifest, options)
        writer.begin("synthetic")
        parts = list(synthetic.parts_of(samples, synthetic.limits(writer, 8), Payload.PIXELS))
        for part, batch in (parts[0], parts[4]):  # the receipt of part 4 does not count
            writer.write_part(part, batch)
        writer.abort(keep=True)
        again: Any = synthetic.open_writer(FORMAT, path, manifest, options)
        assert [receipt.part.index for receipt in again.begin("synthetic")] == [0]
        assert sorted(entry.name[0] for entry in again._images.rglob("*") if entry.is_file()) == (
            ["0", "1"] if zarr_format == "2" else ["0", "0"]
        )
        again.abort(keep=False)


def test_reading_needs_neither_zarr_python_nor_its_threads(tmp_path: Path) -> None:
    path = write(tmp_path, synthetic.pixel_samples(), ZarrWriteOptions(chunk=4))
    program = (
        "import sys, threading; from fastdata_cli import registry;"
        f"reader = registry.open_reader({str(path)!r}); reader.read(7); list(reader.verify());"
        "assert 'zarr' not in sys.modules and threading.active_count() == 1"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_no_file_stays_open_and_maps_go_with_the_reader(tmp_path: Path) -> None:
    path = write(tmp_path, synthetic.pixel_samples(), ZarrWriteOptions(chunk=1))
    before = len(os.listdir("/proc/self/fd"))
    reader = registry.open_reader(path)
    reader.read_many(range(41))
    assert len(os.listdir("/proc/self/fd")) == before
    assert Path("/proc/self/maps").read_text().count(str(path)) == 41
    reader.close()
    assert str(path) not in Path("/proc/self/maps").read_text()


# -- options


def test_chunks_chosen_without_options() -> None:
    small, photo = pixels((32, 32, 3)), pixels((224, 224, 3))
    assert (plan(ZarrWriteOptions(), photo).chunk, plan(ZarrWriteOptions(), photo).shard) == (
        1,
        256,
    )
    assert plan(ZarrWriteOptions(), small).shard == 1024
    assert plan(ZarrWriteOptions(), pixels((8000, 8000, 3))).shard == 1
    two = ZarrWriteOptions(zarr_format="2")
    assert [plan(two, each).chunk for each in (small, photo, pixels((2000, 2000, 3)))] == [16, 4, 1]
    assert plan(two, photo).shard is None


def test_parts_are_whole_files() -> None:
    photo = pixels((224, 224, 3))
    assert plan(ZarrWriteOptions(chunk=1000), photo).limits.samples == 1000
    assert plan(ZarrWriteOptions(chunk=10), photo).limits.samples == 220
    assert plan(ZarrWriteOptions(), photo).limits.samples == 256


@pytest.mark.parametrize(
    ("options", "payload", "message", "hint"),
    [
        ({"chunk": 3, "shard_samples": 8}, "pixels", "not a multiple of --chunk 3", "6 and 9"),
        ({"shard_samples": 8, "zarr_format": "2"}, "pixels", "needs Zarr 3", "--zarr-format"),
        ({"shard_samples": 8}, "encoded", "is for pixels", "--chunk"),
        ({"level": 10}, "pixels", "at most 9", ""),
        ({"codec": "none", "level": 3}, "pixels", "the codec is none", "--codec"),
        ({"shuffle": "bit"}, "encoded", "the codec is none", "--codec"),
        ({"chunk": 20_000}, "pixels", "Blosc takes 2,147,483,631", "--chunk 14266 or less"),
    ],
)
def test_options_that_cannot_be(
    tmp_path: Path, options: dict[str, Any], payload: str, message: str, hint: str
) -> None:
    schema = pixels((224, 224, 3)) if payload == "pixels" else Schema(payload=Payload.ENCODED)
    with pytest.raises(UsageError, match=message) as caught:
        plan(ZarrWriteOptions(**options), schema)
    assert hint in caught.value.hint
    assert not os.listdir(tmp_path)


def test_describe(tmp_path: Path) -> None:
    options = ZarrWriteOptions(chunk=2, shard_samples=8, codec="zstd", level=1, shuffle="bit")
    path = write(tmp_path, synthetic.pixel_samples(), options)
    assert registry.open_reader(path).describe() == {
        "zarr_format": 3,
        "array": "images",
        "chunk": 2,
        "shard_samples": 8,
        "codec": "zstd",
        "level": 1,
        "shuffle": "bit",
    }


def pixels(shape: tuple[int, int, int]) -> Schema:
    return Schema(payload=Payload.PIXELS, image_shape=shape)


def varied_samples(dtype: str) -> list[Sample]:
    """Samples of which some compress and some do not, in a dtype."""
    found = []
    for index, sample in enumerate(synthetic.pixel_samples(shape=(16, 9, 3))):
        image = sample.image if index % 2 else np.full_like(sample.image, index)
        if dtype != "uint8":
            image = (image.astype(np.float64) * 251 + index).astype(dtype)
        found.append(Sample(sample.key, image, sample.label, sample.metadata))
    return found


def write(
    folder: Path, samples: list[Sample], options: ZarrWriteOptions, dtype: str = "uint8"
) -> Path:
    """Write pixels of any dtype."""
    path = folder / "set.zarr"
    shape = samples[0].image.shape
    schema = Schema(
        payload=Payload.PIXELS, image_shape=shape, dtype=dtype, class_names=synthetic.CLASS_NAMES
    )
    manifest = synthetic.manifest_for(samples, Payload.PIXELS, "zarr")
    manifest = type(manifest)(format="zarr", schema=schema, tool="synthetic")
    writer = synthetic.open_writer(FORMAT, path, manifest, options)
    writer.begin("x")
    for part, batch in synthetic.parts_of(samples, writer.limits, Payload.PIXELS):
        writer.write_part(part, batch)
    writer.publish(manifest)
    return path


def content(path: Path) -> dict[str, bytes]:
    files = sorted(entry for entry in path.rglob("*") if entry.is_file())
    return {str(entry.relative_to(path)): entry.read_bytes() for entry in files}


def opened(path: Path) -> Any:
    """Open with the plain library."""
    return zarr.open_group(path, mode="r")
