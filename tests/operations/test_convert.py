"""The engine behind convert: memory of interruptions, order, decisions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from fastdata_cli import registry
from fastdata_cli.contract import Part, Receipt, Writer
from fastdata_cli.errors import (
    BadSampleError,
    DamagedDatasetError,
    StaleStagingError,
    StorageError,
    UnsupportedError,
    UsageError,
)
from fastdata_cli.operations.convert import convert
from fastdata_cli.operations.estimate import estimate
from fastdata_cli.operations.events import Silent
from fastdata_cli.operations.plan import Plan, make_plan
from fastdata_cli.operations.settings import ConvertOptions, SourceOptions
from fastdata_cli.operations.source import open_source
from fastdata_cli.sample import Batch, Payload, Sample
from fastdata_cli.storage.staging import staging_root
from fastdata_cli.testing import write_dataset
from tests.conftest import jpeg, make_tree


class Notices(Silent):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def notice(self, text: str) -> None:
        self.lines.append(text)


def plan_for(source: Path, path: Path, said: Silent | None = None, **options: Any) -> Plan:
    row = registry.for_destination(path, options.pop("to", None))
    names = {spec.name for spec in row.write_options.specs()}
    write = {name: options.pop(name) for name in list(options) if name in names}
    return make_plan(
        open_source(str(source), SourceOptions()),
        path,
        row,
        ConvertOptions(**options),
        row.write_options(**write),
        said or Silent(),
    )


def test_one_size_is_kept_and_mixed_sizes_are_announced(
    tree: Path, mixed_tree: Path, tmp_path: Path
) -> None:
    said = Notices()
    assert plan_for(tree, tmp_path / "o.raw", said).schema.image_shape == (40, 48, 3)
    assert said.lines == []
    assert plan_for(mixed_tree, tmp_path / "o.raw", said).schema.image_shape == (224, 224, 3)
    assert len(said.lines) == 1
    assert "--size" in said.lines[0]
    assert "--payload encoded" in said.lines[0]


def test_unreadable_headers_do_not_vote(tree: Path, tmp_path: Path) -> None:
    (tree / "class0" / "0000.jpg").write_bytes(b"")
    (tree / "class0" / "zeros.jpg").write_bytes(bytes(100))
    assert plan_for(tree, tmp_path / "o.raw").schema.image_shape == (40, 48, 3)


def test_pixels_match_an_independent_decode(tree: Path, tmp_path: Path) -> None:
    convert(plan_for(tree, tmp_path / "o.raw"))
    reader = registry.open_reader(tmp_path / "o.raw")
    for index in range(len(reader)):
        sample = reader.read(index)
        truth: Any = cv2.imread(str(tree / sample.key), cv2.IMREAD_COLOR_RGB)
        assert np.array_equal(sample.image, truth)


def test_a_pixel_source_stays_pixels_and_can_become_files(tree: Path, tmp_path: Path) -> None:
    convert(plan_for(tree, tmp_path / "a.raw"))
    convert(plan_for(tmp_path / "a.raw", tmp_path / "b.tar"))
    packed = registry.open_reader(tmp_path / "b.tar")
    assert packed.schema.payload is Payload.PIXELS
    convert(plan_for(tmp_path / "a.raw", tmp_path / "c.lmdb", payload="encoded"))
    files = registry.open_reader(tmp_path / "c.lmdb")
    raw = registry.open_reader(tmp_path / "a.raw")
    for index in range(len(raw)):
        decoded: Any = cv2.imdecode(files.read(index).image, cv2.IMREAD_COLOR_RGB)
        assert np.array_equal(decoded, raw.read(index).image)
        assert np.array_equal(packed.read(index).image, raw.read(index).image)
    convert(plan_for(tmp_path / "a.raw", tmp_path / "pngs", to="tree"))
    assert (tmp_path / "pngs" / "class0" / "0000.png").exists()


def test_what_cannot_be_encoded_is_refused_before_work(tmp_path: Path) -> None:
    images = [np.zeros((4, 5, 1), np.float32)] * 3
    samples = [Sample(f"{i}.png", image) for i, image in enumerate(images)]
    raw = registry.get("raw")
    write_dataset(raw, tmp_path / "floats.raw", samples, Payload.PIXELS)
    refused: list[dict[str, Any]] = [{"payload": "encoded"}, {"size": "3"}]
    for options in refused:
        with pytest.raises(UnsupportedError, match="float32"):
            plan_for(tmp_path / "floats.raw", tmp_path / "o.zarr", **options)
    convert(plan_for(tmp_path / "floats.raw", tmp_path / "o.zarr"))
    assert registry.open_reader(tmp_path / "o.zarr").schema.dtype == "float32"


class FailsAt:
    """A writer that breaks at one part, as a full disk does; all else is the real one's."""

    def __init__(self, writer: Writer, part: int) -> None:
        self.writer, self.part, self.limits = writer, part, writer.limits
        self.begin, self.publish, self.abort = writer.begin, writer.publish, writer.abort

    @property
    def started(self) -> float:
        return self.writer.started

    def write_part(self, part: Part, batch: Batch) -> Receipt:
        if part.index == self.part:
            raise StorageError("no space left on the device")
        return self.writer.write_part(part, batch)


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_broken_run_continues_to_the_same_bytes(tmp_path: Path, jobs: int) -> None:
    source = make_tree(tmp_path / "images", 40)
    (source / "class0" / "0003.jpg").write_bytes(b"")
    (source / "class2" / "0038.jpg").write_bytes(b"")
    whole, broken = tmp_path / "whole.zarr", tmp_path / "broken.zarr"
    convert(plan_for(source, whole, chunk=5))
    plan = plan_for(source, broken, chunk=5)
    real = plan.format.open_writer
    assert real is not None
    limited = replace(
        plan.format, open_writer=lambda target, options: FailsAt(_small(real(target, options)), 3)
    )
    with pytest.raises(StorageError):
        convert(replace(plan, format=limited), jobs=jobs)
    assert staging_root(broken).exists()
    assert not broken.exists()
    said = Notices()
    continued = replace(
        plan.format, open_writer=lambda target, options: _small(real(target, options))
    )
    report = convert(replace(plan, format=continued), jobs=jobs, listener=said)
    assert report.samples == 38
    assert report.rejects == {"empty": 2}
    assert report.resumed_samples >= 5
    assert "continuing" in said.lines[0]
    assert not staging_root(broken).exists()
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    assert files == sorted(p.relative_to(broken) for p in broken.rglob("*") if p.is_file())
    for name in files:
        if name.name != "zarr.json" or name.parent.name:
            assert (whole / name).read_bytes() == (broken / name).read_bytes(), name


def _small(writer: Writer) -> Writer:
    writer.limits = replace(writer.limits, samples=5)
    return writer


def test_another_command_does_not_mix_in(tmp_path: Path) -> None:
    source = make_tree(tmp_path / "images", 40)
    path = tmp_path / "o.zarr"
    plan = plan_for(source, path, chunk=5)
    real = plan.format.open_writer
    assert real is not None
    limited = replace(
        plan.format, open_writer=lambda target, options: FailsAt(_small(real(target, options)), 2)
    )
    with pytest.raises(StorageError):
        convert(replace(plan, format=limited))
    with pytest.raises(StaleStagingError):
        convert(plan_for(source, path, chunk=4))
    (source / "class0" / "new.jpg").write_bytes(jpeg(40, 48, 1))
    with pytest.raises(StaleStagingError):
        convert(plan_for(source, path, chunk=5))


def test_limit_and_order(tree: Path, tmp_path: Path) -> None:
    report = convert(plan_for(tree, tmp_path / "o.lmdb", limit=7))
    assert report.samples == 7
    keys = list(registry.open_reader(tmp_path / "o.lmdb").keys())
    assert keys == list(registry.open_reader(tree).keys())[:7]


def test_size_mismatch_is_a_reject(tree: Path, tmp_path: Path) -> None:
    plan = plan_for(tree, tmp_path / "o.raw")
    (tree / "class0" / "0000.jpg").write_bytes(jpeg(41, 48, 0))
    report = convert(plan)
    assert report.rejects == {"size-mismatch": 1}


def test_kept_jpegs_are_decoded_where_their_structure_leaves_doubt(tmp_path: Path) -> None:
    whole = jpeg(160, 160, 1)
    half = len(whole) // 2
    source = tmp_path / "images"
    source.mkdir()
    (source / "early-end.jpg").write_bytes(whole[:half] + b"\xff\xd9" + whole[half + 2 :])
    (source / "stray.jpg").write_bytes(whole[:-2] + b"\x00\x11\x22" * 33 + whole[-2:])
    (source / "trailer.jpg").write_bytes(whole + bytes(3000))
    (source / "whole.jpg").write_bytes(whole)
    done = convert(plan_for(source, tmp_path / "default.lmdb"))
    assert [(bad.key, bad.reason) for bad in done.reject_examples] == [("early-end.jpg", "corrupt")]
    assert done.notes == {"trailing-bytes": 1}
    (source / "header-only.jpg").write_bytes(whole[:200])
    (source / "without-end.jpg").write_bytes(whole[:-2])
    cut = convert(plan_for(source, tmp_path / "cut.lmdb", allow_truncated=True))
    assert [bad.key for bad in cut.reject_examples] == ["header-only.jpg"]
    (source / "header-only.jpg").unlink()
    (source / "without-end.jpg").unlink()
    strict = convert(plan_for(source, tmp_path / "strict.lmdb", strict=True))
    assert [bad.key for bad in strict.reject_examples] == [
        "early-end.jpg",
        "stray.jpg",
        "trailer.jpg",
    ]


def test_files_that_are_made_anew_get_a_name_that_fits(tree: Path, tmp_path: Path) -> None:
    (tree / "class0" / "0000.jpg").rename(tree / "class0" / "0000.png")
    convert(plan_for(tree, tmp_path / "same", to="tree"))
    assert (tmp_path / "same" / "class0" / "0000.png").exists()
    convert(plan_for(tree, tmp_path / "small", to="tree", max_side=20))
    assert (tmp_path / "small" / "class0" / "0000.jpg").exists()
    assert registry.open_reader(tmp_path / "small").keys()[0] == "class0/0000.png"


def test_filled_samples_are_listed_and_count(tree: Path, tmp_path: Path) -> None:
    (tree / "class0" / "0003.jpg").write_bytes(b"")
    report = convert(plan_for(tree, tmp_path / "o.raw", on_bad="fill", max_bad="0"))
    assert report.samples == 20
    assert report.rejects == {"empty": 1}
    assert report.too_many_bad
    assert (tmp_path / "o.raw.rejects.jsonl").exists()


def write_pixels(path: Path, dtype: Any) -> None:
    """Write three images with the label 1 to a raw dataset."""
    samples = [Sample(f"{i}.png", np.full((4, 5, 3), i, dtype), 1) for i in range(3)]
    write_dataset(registry.get("raw"), path, samples, Payload.PIXELS)


def test_what_the_reader_cannot_read_is_filled_with_its_label(tmp_path: Path) -> None:
    write_pixels(tmp_path / "in.raw", np.uint16)
    data = bytearray((tmp_path / "in.raw" / "data.raw").read_bytes())
    data[-1] ^= 1
    (tmp_path / "in.raw" / "data.raw").write_bytes(data)
    report = convert(plan_for(tmp_path / "in.raw", tmp_path / "o.zarr", on_bad="fill"))
    assert report.rejects == {"corrupt": 1}
    filled = registry.open_reader(tmp_path / "o.zarr").read(2)
    assert (filled.label, filled.metadata) == (1, {"filled": "corrupt"})
    assert filled.image.dtype == np.uint16
    assert (filled.image == 32768).all()


def test_what_the_listing_finds_ends_a_run_too(tree: Path, tmp_path: Path) -> None:
    (tree / "class1" / "gone.jpg").symlink_to("nowhere.jpg")
    with pytest.raises(BadSampleError, match="gone"):
        convert(plan_for(tree, tmp_path / "o.lmdb", on_bad="fail"))
    assert not list(tmp_path.glob("*o.lmdb*"))


def test_a_limit_is_not_judged_by_all_of_the_listing(tree: Path, tmp_path: Path) -> None:
    for number in range(12):
        (tree / "class1" / f"gone{number}.jpg").symlink_to("nowhere.jpg")
    report = convert(plan_for(tree, tmp_path / "o.lmdb", limit=5))
    assert (report.samples, report.too_many_bad) == (5, False)
    assert report.rejects == {"missing": 12}
    assert convert(plan_for(tree, tmp_path / "all.lmdb")).too_many_bad


def test_a_trial_writes_no_index(tree: Path, tmp_path: Path) -> None:
    index = tmp_path / "k.index"
    plan = plan_for(tree, tmp_path / "o.lmdb", clean=f"duplicates=exact,save-index={index}")
    estimate(plan)
    assert not index.exists()


def test_there_is_no_grey_of_floating_point(tmp_path: Path) -> None:
    write_pixels(tmp_path / "in.raw", np.float32)
    with pytest.raises(UsageError, match="float32 pixels have no mid-grey"):
        plan_for(tmp_path / "in.raw", tmp_path / "o.zarr", on_bad="fill")


def test_missing_labels_are_said(tree: Path, tmp_path: Path) -> None:
    said = Notices()
    plan_for(tree / "class0", tmp_path / "o.lmdb", said)
    assert "no labels" in said.lines[0]


def test_a_source_that_changed_meanwhile_is_not_mixed_in(tmp_path: Path) -> None:
    source = make_tree(tmp_path / "images", 40)
    path = tmp_path / "o.zarr"
    plan = plan_for(source, path, chunk=5)
    real = plan.format.open_writer
    assert real is not None
    limited = replace(
        plan.format, open_writer=lambda target, options: FailsAt(_small(real(target, options)), 2)
    )
    with pytest.raises(StorageError):
        convert(replace(plan, format=limited))
    changed = source / "class0" / "0000.jpg"
    data = bytearray(changed.read_bytes())
    data[-10] ^= 1
    changed.write_bytes(data)
    with pytest.raises(StaleStagingError, match=r"0000\.jpg"):
        convert(plan_for(source, path, chunk=5))
    assert staging_root(path).exists()


@pytest.mark.parametrize("name", ["o.raw", "o.zarr", "o.h5"])
def test_changed_labels_are_found(tree: Path, tmp_path: Path, name: str) -> None:
    import h5py
    import zarr

    path = tmp_path / name
    convert(plan_for(tree, path))
    if name == "o.raw":
        labels = np.load(path / "labels.npy")
        labels[3] = 2
        np.save(path / "labels.npy", labels)
    elif name == "o.zarr":
        array: Any = zarr.open_group(str(path), mode="r+")["labels"]
        array[3] = 2
    else:
        with h5py.File(path, "r+") as file:
            file["labels"][3] = 2
    assert registry.open_reader(path).check_table() is not None
    assert [found.index for found in registry.open_reader(path).verify()] == [-1]
    with pytest.raises(DamagedDatasetError, match="labels"):
        open_source(str(path), SourceOptions())


def test_a_picture_that_is_too_long_for_a_jpeg_is_a_reject(tree: Path, tmp_path: Path) -> None:
    wide = tree / "class0" / "wide.png"
    cv2.imwrite(str(wide), np.zeros((3, 65_501, 3), np.uint8))
    out = tmp_path / "out.tar"
    report = convert(plan_for(tree, out, quality=90))
    assert (report.samples, report.rejects) == (20, {"too-large": 1})
    with pytest.raises(UsageError, match=r"--size 70000x4.*65,500"):
        plan_for(tree, tmp_path / "wide.tar", size="70000x4")
    assert plan_for(tree, tmp_path / "wide.raw", size="70000x4").schema.image_shape == (
        70_000,
        4,
        3,
    )
