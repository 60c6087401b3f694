"""Writing trees: names, PNG, interruptions."""

from __future__ import annotations

import contextlib
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from fastdata_cli import registry
from fastdata_cli.contract import Part, Target
from fastdata_cli.errors import (
    DestinationExistsError,
    UnsupportedError,
)
from fastdata_cli.formats.tree import FORMAT
from fastdata_cli.formats.tree.names import default_name, file_names
from fastdata_cli.options import Options
from fastdata_cli.sample import Batch, Payload, Sample
from fastdata_cli.storage import durable
from fastdata_cli.testing import encoded_samples, pixel_samples, write_dataset
from fastdata_cli.testing.conformance import content
from fastdata_cli.testing.synthetic import manifest_for, parts_of
from tests.formats.trees import folder_of, images_of, open_writer, plain_tree


def test_the_tree_is_the_source_byte_for_byte(tmp_path: Path) -> None:
    root = plain_tree(tmp_path)
    (root / "emu").mkdir()
    reader = registry.open_reader(root)
    samples = [sample for sample in reader.scan() if isinstance(sample, Sample)]
    manifest = manifest_for(samples, Payload.ENCODED, "tree")
    manifest = replace(manifest, schema=replace(manifest.schema, class_names=("cat", "dog", "emu")))
    assert FORMAT.open_writer is not None
    writer = FORMAT.open_writer(Target(path=tmp_path / "out", manifest=manifest), Options())
    writer.begin("x")
    for part, batch in parts_of(samples, writer.limits, Payload.ENCODED):
        writer.write_part(part, batch)
    writer.publish(manifest)
    subprocess.run(["diff", "-r", root, tmp_path / "out"], check=True)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "out").rglob("*.png")}
    assert modes == {0o644 & ~_umask()}
    again = registry.open_reader(tmp_path / "out")
    assert again.schema.class_names == ("cat", "dog", "emu")
    assert sorted(map(str, again.files()))[0].startswith(str(tmp_path / "out.fastdata"))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_no_class_folders_where_labels_come_from_elsewhere(tmp_path: Path) -> None:
    path = write_dataset(FORMAT, tmp_path / "out", images_of([("cat/a.png", 1)]), Payload.ENCODED)
    assert [entry.name for entry in path.iterdir()] == ["cat"]


HOSTILE = [
    ("../../escape.png", "%2E%2E/%2E%2E/escape.png"),
    ("/etc/absolute.png", "%2F/etc/absolute.png"),
    ("a//b/./c.png", "a/%2F/b/%2E/c.png"),
    ("nul\0byte.png", "nul%00byte.png"),
    ("folder/", "folder/%2F"),
]


def test_keys_that_would_lead_out_are_stored_inside(tmp_path: Path) -> None:
    samples = images_of([(key, 0) for key, _ in HOSTILE] + [("long/" + "ü" * 200 + ".png", 0)])
    samples += images_of([("", 0), ("d/" * 2000 + "x.png", 0), ("d/" * 300 + "y.png", 0)])
    (tmp_path / "deep").mkdir()
    path = write_dataset(FORMAT, tmp_path / "deep/out", samples, Payload.ENCODED)
    assert {entry.name for entry in (tmp_path / "deep").iterdir()} == {"out", "out.fastdata"}
    assert list(tmp_path.iterdir()) == [tmp_path / "deep"]
    for sample, (_, name) in zip(samples, HOSTILE, strict=False):
        assert (path / name).read_bytes() == sample.image.tobytes()
    reader = registry.open_reader(path)
    assert list(reader.keys()) == [sample.key for sample in samples]
    for index, sample in enumerate(samples):
        assert reader.read(index).image.tobytes() == sample.image.tobytes()
    assert list(reader.verify()) == []


def test_names_stay_within_a_file_system_s_limits() -> None:
    for key in (
        "ü" * 200 + ".png",
        "x" * 300,
        "a." + "y" * 300,
        "d/" * 3000 + "x.png",
        "\udcff" * 300,
    ):
        for kind in (None, "png", "jpeg"):
            name = default_name(key, kind)
            assert max(map(len, name.split(b"/"))) <= 255
            assert len(name) <= 2048
    twins = {default_name("x" * 300 + end, None) for end in ("1.png", "2.png")}
    assert len(twins) == 2
    assert all(name.endswith(b".png") for name in twins)


def test_names_that_are_taken(tmp_path: Path) -> None:
    keys = ["a.png", "a.png", "b", "b/c.png", "d/e.png", "d", "a.png", "a~6.png"]
    samples = images_of([(key, -1) for key in keys])
    written = [write_dataset(FORMAT, tmp_path / name, samples, Payload.ENCODED, part_samples=size)
               for name, size in (("one", 2), ("two", 100))]  # fmt: skip
    assert content(written[0]) == content(written[1])
    names = {"a.png", "a~1.png", "b", "b%2Fc~3.png", "d/e.png", "d~5", "a~6.png", "a~6~7.png"}
    assert set(content(written[0])) == names
    reader = registry.open_reader(written[0])
    assert list(reader.keys()) == keys
    assert [sample.tobytes() for sample in (reader.read(at).image for at in range(8))] == [
        sample.image.tobytes() for sample in samples
    ]


def png_pixels(data: NDArray[np.uint8], mode: int) -> NDArray[Any]:
    pixels = cv2.imdecode(data, mode)
    assert pixels is not None
    return pixels


def test_pixels_become_png(tmp_path: Path) -> None:
    samples = pixel_samples()
    path = write_dataset(FORMAT, tmp_path / "out", samples, Payload.PIXELS, part_samples=7)
    reader = registry.open_reader(path)
    assert reader.schema.payload is Payload.ENCODED
    assert list(reader.keys()) == [sample.key for sample in samples]
    for index, sample in enumerate(samples):
        got = reader.read(index)
        assert np.array_equal(png_pixels(got.image, cv2.IMREAD_COLOR_RGB), sample.image)
        assert (got.label, got.metadata) == (sample.label, sample.metadata)
    assert list(reader.verify()) == []
    assert (path / "dog/a.png").is_file()
    # a.jpg came first, so a.png has to give way.
    assert reader.read(3).image.tobytes() == (path / "cat/a.png.png").read_bytes()
    assert {each.suffix for each in path.rglob("*") if each.is_file()} == {".png"}


def test_what_png_does_not_hold_is_refused(tmp_path: Path) -> None:
    for pixels in (np.zeros((3, 4, 4), np.uint8), np.zeros((3, 4, 3), np.float32)):
        manifest = manifest_for([Sample("a", pixels)], Payload.PIXELS, "tree")
        schema = replace(manifest.schema, dtype=pixels.dtype.name)
        with pytest.raises(UnsupportedError, match="PNG"):
            open_writer(tmp_path / "out", replace(manifest, schema=schema))
    grey = Sample("a.png", np.full((3, 4, 1), 40_000, np.uint16))
    manifest = manifest_for([grey], Payload.PIXELS, "tree")
    manifest = replace(manifest, schema=replace(manifest.schema, dtype="uint16"))
    writer = open_writer(tmp_path / "out", manifest)
    writer.begin("x")
    writer.write_part(Part(0, 0, 1, 1), Batch.from_samples([grey], Payload.PIXELS))
    writer.publish(manifest)
    stored = np.fromfile(tmp_path / "out/a.png", np.uint8)
    assert np.array_equal(png_pixels(stored, cv2.IMREAD_UNCHANGED), grey.image[..., 0])


@pytest.mark.parametrize("payload", list(Payload))
def test_files_of_unfinished_parts_go(tmp_path: Path, payload: Payload) -> None:
    samples = encoded_samples() if payload is Payload.ENCODED else pixel_samples()
    manifest = manifest_for(samples, payload, "tree")
    first = open_writer(tmp_path / "out", manifest)
    first.begin("synthetic")
    parts = list(parts_of(samples, replace(first.limits, samples=7), payload))
    for part, batch in parts[:3]:
        first.write_part(part, batch)
    first.abort(keep=True)
    data = tmp_path / ".out.fastdata-partial/data"
    folder_of(
        data / "out", {"cat/stray.png": b"x", "stray/deep/y.png": b"x", "dog/00030.jpg": b"half"}
    )
    (data / "out.fastdata").mkdir()
    write_dataset(FORMAT, tmp_path / "out", samples, payload, part_samples=7)
    whole = write_dataset(FORMAT, tmp_path / "whole", samples, payload, part_samples=7)
    assert content(tmp_path / "out") == content(whole)
    assert content(tmp_path / "out.fastdata") == content(tmp_path / "whole.fastdata")


@pytest.mark.parametrize("step", ["write_all", "sync_filesystem"])
def test_a_part_that_failed_can_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    samples = encoded_samples(12)
    manifest = manifest_for(samples, Payload.ENCODED, "tree")
    writer = open_writer(tmp_path / "out", manifest)
    writer.begin("synthetic")
    part, batch = next(iter(parts_of(samples, writer.limits, Payload.ENCODED)))
    with monkeypatch.context() as patch:
        patch.setattr(durable, step, _no_space)
        with contextlib.suppress(OSError):
            writer.write_part(part, batch)
    writer.write_part(part, batch)
    writer.publish(manifest)
    reader = registry.open_reader(tmp_path / "out")
    assert sorted(content(tmp_path / "out")) == sorted(sample.key for sample in samples)
    assert list(reader.verify()) == []


def _no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_killed_between_the_two_renames(tmp_path: Path) -> None:
    samples = encoded_samples(12)
    path = write_dataset(FORMAT, tmp_path / "out", samples, Payload.ENCODED)
    wanted = content(path)
    manifest = manifest_for(samples, Payload.ENCODED, "tree")
    durable.remove(path)  # the sidecar stands alone, as after such a kill
    writer = open_writer(path, manifest)
    writer.begin("synthetic")
    for part, batch in parts_of(samples, writer.limits, Payload.ENCODED):
        writer.write_part(part, batch)
    writer.publish(manifest)
    assert content(path) == wanted


def test_a_staged_tree_that_is_gone_is_begun_afresh(tmp_path: Path) -> None:
    samples = encoded_samples(12)
    manifest = manifest_for(samples, Payload.ENCODED, "tree")
    writer = open_writer(tmp_path / "out", manifest)
    writer.begin("synthetic")
    for part, batch in parts_of(samples, writer.limits, Payload.ENCODED):
        writer.write_part(part, batch)
    writer.abort(keep=True)
    durable.remove(tmp_path / ".out.fastdata-partial/data/out")
    assert open_writer(tmp_path / "out", manifest).begin("synthetic") == []


def test_a_sidecar_s_place_that_is_not_free(tmp_path: Path) -> None:
    folder_of(tmp_path / "out.fastdata", {"mine.txt": b"x"})
    with pytest.raises(DestinationExistsError, match=r"out\.fastdata is in the way"):
        write_dataset(FORMAT, tmp_path / "out", encoded_samples(3), Payload.ENCODED)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.fastdata"]


def test_a_tree_that_appears_meanwhile_gets_no_sidecar(tmp_path: Path) -> None:
    samples = encoded_samples(3)
    manifest = manifest_for(samples, Payload.ENCODED, "tree")
    writer = open_writer(tmp_path / "out", manifest)
    writer.begin("synthetic")
    for part, batch in parts_of(samples, writer.limits, Payload.ENCODED):
        writer.write_part(part, batch)
    folder_of(tmp_path / "out", {"mine.png": b"x"})
    with pytest.raises(DestinationExistsError, match=r"out is in the way"):
        writer.publish(manifest)
    assert not (tmp_path / "out.fastdata").exists()


def test_first_names_are_few() -> None:
    names = file_names("cat/a.jpg", "png", 7)
    assert [next(names) for _ in range(5)] == [
        b"cat/a.png",
        b"cat/a.jpg.png",
        b"cat/a.jpg~7.png",
        b"cat%2Fa.jpg~7.png",
        b"cat/a.jpg~7~.png",
    ]
