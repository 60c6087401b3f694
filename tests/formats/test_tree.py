"""The tree format."""

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
from fastdata_cli.contract import Part, Reader, Target, Writer
from fastdata_cli.errors import (
    BadSampleError,
    DamagedDatasetError,
    DestinationExistsError,
    UnsupportedError,
    UsageError,
)
from fastdata_cli.formats import tree_files
from fastdata_cli.formats.tree import FORMAT, TreeReader, TreeReadOptions
from fastdata_cli.formats.tree_names import default_name, file_names
from fastdata_cli.manifest import Manifest
from fastdata_cli.options import Options
from fastdata_cli.sample import Batch, Payload, Reject, Sample
from fastdata_cli.storage import durable
from fastdata_cli.storage.listing import list_paths
from fastdata_cli.testing import FormatConformance, encoded_samples, pixel_samples, write_dataset
from fastdata_cli.testing.conformance import content, digests
from fastdata_cli.testing.synthetic import CLASS_NAMES, manifest_for, parts_of, png


class TestTree(FormatConformance):
    format = FORMAT

    @pytest.fixture
    def payload(self) -> Payload:
        """A tree is read as files, so only these come back as what they were."""
        return Payload.ENCODED


def folder_of(root: Path, **files: bytes) -> Path:
    """Create files; in the names given here, two underscores stand for a slash, one for a dot."""
    for name, data in files.items():
        path = root / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def plain_tree(tmp_path: Path) -> Path:
    return folder_of(
        tmp_path / "set", cat__a_png=png(3, 4, 0), cat__b_png=png(3, 4, 1), dog__a_png=png(3, 4, 2)
    )


def images_of(samples: list[tuple[str, int]]) -> list[Sample]:
    """Return encoded samples with these keys and labels."""
    return [
        Sample(key, np.frombuffer(png(3, 4, seed), np.uint8), label)
        for seed, (key, label) in enumerate(samples)
    ]


def scanned(reader: Reader) -> dict[str, Sample | Reject]:
    return {each.key: each for each in reader.scan()}


# -- trees that others made


def test_a_plain_folder_is_read_as_it_is(tmp_path: Path) -> None:
    root = plain_tree(tmp_path)
    reader = registry.open_reader(root)
    assert reader.manifest is None
    assert reader.schema.class_names == ("cat", "dog")
    assert reader.schema.payload is Payload.ENCODED
    assert list(reader.keys()) == ["cat/a.png", "cat/b.png", "dog/a.png"]
    for sample in reader.scan():
        assert isinstance(sample, Sample)
        assert sample.image.tobytes() == (root / sample.key).read_bytes()
        assert CLASS_NAMES[sample.label] == sample.key.partition("/")[0]
    assert reader.head(2, 8).tobytes() == b"\x89PNG\r\n\x1a\n"
    assert sorted(map(str, reader.files())) == sorted(
        str(root / key) for key in list(reader.keys())
    )
    assert list(reader.verify()) == []


def test_one_image_is_a_set_of_one(tmp_path: Path) -> None:
    image = folder_of(tmp_path, one_txt=png(3, 4, 0)) / "one.txt"
    reader = registry.open_reader(image)
    assert list(reader.keys()) == ["one.txt"]
    assert reader.read(0).image.tobytes() == image.read_bytes()


def test_what_is_no_tree(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "page.jpg").write_bytes(b"<html>" * 100)
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    for name in ("pipe.jpg", "page.jpg", "loop.jpg", "nothing.jpg"):
        assert not FORMAT.recognises(tmp_path / name)


def test_an_empty_folder_opens(tmp_path: Path) -> None:
    reader = registry.open_reader(folder_of(tmp_path / "set", notes_txt=b"x"))
    assert len(reader) == 0
    assert list(reader.scan()) == []
    assert len(reader.read_many([])) == 0
    assert reader.notes == {"other-name": 1}


def test_a_folder_named_like_another_format(tmp_path: Path) -> None:
    ruin = folder_of(tmp_path / "set.raw", labels_npy=b"x")
    with pytest.raises(DamagedDatasetError, match="named like raw"):
        registry.open_reader(ruin)
    photos = folder_of(tmp_path / "photos.raw", a_png=png(3, 4, 0))
    assert len(registry.open_reader(photos)) == 1


def test_labels_and_classes_from_files(tmp_path: Path) -> None:
    root = plain_tree(tmp_path)
    table = folder_of(tmp_path, labels_csv=b"cat/a.png,x\ncat/b.png,y\n") / "labels.csv"
    reader = FORMAT.open_reader(root, TreeReadOptions(labels=str(table)))
    assert reader.labels().tolist() == [0, 1, -1]
    assert reader.schema.class_names == ("x", "y")
    assert reader.notes == {"image-without-label": 1}
    classes = folder_of(tmp_path, classes_txt=b"dog\nemu\ncat\n") / "classes.txt"
    reader = FORMAT.open_reader(root, TreeReadOptions(classes=str(classes)))
    assert reader.labels().tolist() == [2, 2, 0]
    single = FORMAT.open_reader(root / "cat/a.png", TreeReadOptions(classes=str(classes)))
    assert single.schema.class_names == ("dog", "emu", "cat")


def test_unreadable_files_are_rejects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = plain_tree(tmp_path)
    folder_of(root, cat__c_png=b"", cat__d_png=b"x", cat__e_png=b"x", cat__f_png=b"x")
    reader = registry.open_reader(root)
    (root / "cat/a.png").unlink()
    (root / "cat/b.png").unlink()
    (root / "cat/b.png").mkdir()
    (root / "cat/d.png").unlink()
    os.mkfifo(root / "cat/d.png")
    plain = os.open

    def refuse(path: bytes, flags: int) -> int:
        if path.endswith(b"e.png"):
            raise PermissionError(13, "Permission denied")
        return plain(path, flags)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(tree_files, "_FILES_AHEAD", 2)
    found = scanned(reader)
    bad = [each for each in found.values() if isinstance(each, Reject)]
    assert [(each.index, each.key, each.reason, each.detail) for each in bad] == [
        (0, "cat/a.png", "missing", "No such file or directory"),
        (1, "cat/b.png", "unreadable", "a folder"),
        (3, "cat/d.png", "unreadable", "not a regular file"),
        (4, "cat/e.png", "unreadable", "Permission denied"),
    ]
    empty = found["cat/c.png"]
    assert isinstance(empty, Sample)
    assert empty.image.size == 0
    assert [finding.key for finding in reader.verify()] == [each.key for each in bad]
    with pytest.raises(BadSampleError) as caught:
        reader.read_many([2, 0])
    assert (caught.value.key, caught.value.reason) == ("cat/a.png", "missing")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_locked_file(tmp_path: Path) -> None:
    root = plain_tree(tmp_path)
    (root / "cat/a.png").chmod(0)
    assert isinstance(scanned(registry.open_reader(root))["cat/a.png"], Reject)


def test_no_more_descriptors_is_not_the_sample_s_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = registry.open_reader(plain_tree(tmp_path))

    def refuse(path: bytes, flags: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="Too many open files") as caught:
        list(reader.scan())
    assert "ulimit" in getattr(caught.value, "hint", "")


def test_an_abandoned_scan_closes_its_files(tmp_path: Path) -> None:
    reader = registry.open_reader(plain_tree(tmp_path))
    before = os.listdir("/proc/self/fd")
    samples = reader.scan()
    next(iter(samples))
    del samples
    assert os.listdir("/proc/self/fd") == before


def test_files_that_claim_to_be_huge(tmp_path: Path) -> None:
    root = plain_tree(tmp_path)
    os.truncate(root / "cat/a.png", 1 << 40)
    found = scanned(registry.open_reader(root))["cat/a.png"]
    assert isinstance(found, Reject)
    assert found.reason == "too-large"


def test_rejects_and_notes_of_the_listing(tmp_path: Path) -> None:
    root = folder_of(plain_tree(tmp_path), cat__Thumbs_db=b"x")
    (root / "cat/gone.png").symlink_to("nowhere")
    reader = registry.open_reader(root)
    assert [(each.key, each.reason) for each in reader.rejects] == [("cat/gone.png", "missing")]
    assert reader.notes == {"junk": 1}
    assert [(each.index, each.key) for each in reader.verify()] == [(-1, "cat/gone.png")]


def test_reader_of_a_list(tmp_path: Path) -> None:
    root = plain_tree(tmp_path)
    names = ("dog/a.png", "dog/gone.png", "cat/a.png")
    listing = list_paths(str(root / name) for name in names)
    reader = TreeReader.from_listing(listing)
    found = scanned(reader)
    assert list(found) == ["dog/a.png", "dog/gone.png", "cat/a.png"]
    assert isinstance(found["dog/gone.png"], Reject)
    assert reader.labels().tolist() == [1, 1, 0]
    nowhere = TreeReader.from_listing(list_paths(["/no/such/folder/a.png"]))
    assert isinstance(next(iter(nowhere.scan())), Reject)


def test_reading_leaves_the_source_alone(tmp_path: Path) -> None:
    root = plain_tree(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in [root, *root.rglob("*")]}
    reader = registry.open_reader(root)
    list(reader.scan())
    list(reader.verify())
    assert {path: path.stat().st_mtime_ns for path in [root, *root.rglob("*")]} == before


# -- trees that we write


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
        for payload in Payload:
            name = default_name(key, payload)
            assert max(map(len, name.split(b"/"))) <= 255
            assert len(name) <= 2048
    twins = {default_name("x" * 300 + end, Payload.ENCODED) for end in ("1.png", "2.png")}
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
            _writer(tmp_path / "out", replace(manifest, schema=schema))
    grey = Sample("a.png", np.full((3, 4, 1), 40_000, np.uint16))
    manifest = manifest_for([grey], Payload.PIXELS, "tree")
    manifest = replace(manifest, schema=replace(manifest.schema, dtype="uint16"))
    writer = _writer(tmp_path / "out", manifest)
    writer.begin("x")
    writer.write_part(Part(0, 0, 1, 1), Batch.from_samples([grey], Payload.PIXELS))
    writer.publish(manifest)
    stored = np.fromfile(tmp_path / "out/a.png", np.uint8)
    assert np.array_equal(png_pixels(stored, cv2.IMREAD_UNCHANGED), grey.image[..., 0])


def _writer(path: Path, manifest: Manifest) -> Writer:
    assert FORMAT.open_writer is not None
    return FORMAT.open_writer(Target(path=path, manifest=manifest), Options())


@pytest.mark.parametrize("payload", list(Payload))
def test_files_of_unfinished_parts_go(tmp_path: Path, payload: Payload) -> None:
    samples = encoded_samples() if payload is Payload.ENCODED else pixel_samples()
    manifest = manifest_for(samples, payload, "tree")
    first = _writer(tmp_path / "out", manifest)
    first.begin("synthetic")
    parts = list(parts_of(samples, replace(first.limits, samples=7), payload))
    for part, batch in parts[:3]:
        first.write_part(part, batch)
    first.abort(keep=True)
    data = tmp_path / ".out.fastdata-partial/data"
    folder_of(data / "out", cat__stray_png=b"x", stray__deep__y_png=b"x", dog__00030_jpg=b"half")
    (data / "out.fastdata").mkdir()
    write_dataset(FORMAT, tmp_path / "out", samples, payload, part_samples=7)
    whole = write_dataset(FORMAT, tmp_path / "whole", samples, payload, part_samples=7)
    assert content(tmp_path / "out") == content(whole)
    assert content(tmp_path / "out.fastdata") == content(tmp_path / "whole.fastdata")


def test_a_part_that_failed_can_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = encoded_samples(12)
    manifest = manifest_for(samples, Payload.ENCODED, "tree")
    writer = _writer(tmp_path / "out", manifest)
    writer.begin("synthetic")
    part, batch = next(iter(parts_of(samples, writer.limits, Payload.ENCODED)))
    with monkeypatch.context() as patch:
        patch.setattr(durable, "sync_filesystem", _no_space)
        with contextlib.suppress(OSError):
            writer.write_part(part, batch)
    writer.write_part(part, batch)
    writer.publish(manifest)
    reader = registry.open_reader(tmp_path / "out")
    assert sorted(content(tmp_path / "out")) == sorted(sample.key for sample in samples)
    assert list(reader.verify()) == []


def _no_space(path: Path) -> None:
    raise OSError(28, "No space left on device")


def test_killed_between_the_two_renames(tmp_path: Path) -> None:
    samples = encoded_samples(12)
    path = write_dataset(FORMAT, tmp_path / "out", samples, Payload.ENCODED)
    wanted = content(path)
    manifest = manifest_for(samples, Payload.ENCODED, "tree")
    durable.remove(path)  # the sidecar stands alone, as after such a kill
    writer = _writer(path, manifest)
    writer.begin("synthetic")
    for part, batch in parts_of(samples, writer.limits, Payload.ENCODED):
        writer.write_part(part, batch)
    writer.publish(manifest)
    assert content(path) == wanted


def test_a_sidecar_s_place_that_is_not_free(tmp_path: Path) -> None:
    folder_of(tmp_path / "out.fastdata", mine_txt=b"x")
    with pytest.raises(DestinationExistsError, match=r"out\.fastdata is in the way"):
        write_dataset(FORMAT, tmp_path / "out", encoded_samples(3), Payload.ENCODED)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.fastdata"]


def test_a_tree_that_appears_meanwhile_gets_no_sidecar(tmp_path: Path) -> None:
    samples = encoded_samples(3)
    manifest = manifest_for(samples, Payload.ENCODED, "tree")
    writer = _writer(tmp_path / "out", manifest)
    writer.begin("synthetic")
    for part, batch in parts_of(samples, writer.limits, Payload.ENCODED):
        writer.write_part(part, batch)
    folder_of(tmp_path / "out", mine_png=b"x")
    with pytest.raises(DestinationExistsError, match=r"out is in the way"):
        writer.publish(manifest)
    assert not (tmp_path / "out.fastdata").exists()


# -- what happens to them later


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    samples = images_of([("cat/a.png", 0), ("cat/b.png", 0), ("dog/a.png", 1), ("Ä/a.png", 2)])
    return write_dataset(FORMAT, tmp_path / "out", samples, Payload.ENCODED)


def test_damage_is_found(ours: Path) -> None:
    (ours / "cat/a.png").unlink()
    flipped = bytearray((ours / "dog/a.png").read_bytes())
    flipped[40] ^= 1
    (ours / "dog/a.png").write_bytes(flipped)
    (ours / "cat/b.png").write_bytes((ours / "cat/b.png").read_bytes()[:-5])
    folder_of(ours, cat__new_png=png(3, 4, 9))
    reader = registry.open_reader(ours)
    assert len(reader) == 4
    assert reader.notes == {"surplus-file": 1}
    assert [(each.index, each.key, each.kind) for each in reader.verify()] == [
        (0, "cat/a.png", "missing"),
        (1, "cat/b.png", "corrupt"),
        (2, "dog/a.png", "corrupt"),
        (-1, "cat/new.png", "surplus"),
    ]
    assert [each.index for each in reader.verify(range(2, 4))] == [2]


def test_labels_and_classes_override_the_sidecar(ours: Path, tmp_path: Path) -> None:
    classes = folder_of(tmp_path, classes_txt="Ä\ndog\ncat\n".encode()) / "classes.txt"
    reader = FORMAT.open_reader(ours, TreeReadOptions(classes=str(classes)))
    assert reader.labels().tolist() == [2, 2, 1, 0]
    assert [reader.read(index).label for index in range(4)] == [2, 2, 1, 0]
    table = folder_of(tmp_path, labels_csv=b"cat/a.png,5\n") / "labels.csv"
    reader = FORMAT.open_reader(ours, TreeReadOptions(labels=str(table)))
    assert reader.labels().tolist() == [5, -1, -1, -1]
    short = folder_of(tmp_path, short_txt=b"cat\n") / "short.txt"
    with pytest.raises(UsageError, match="not among"):
        FORMAT.open_reader(ours, TreeReadOptions(classes=str(short)))


@pytest.mark.parametrize("name", ["manifest.json", "keys.npy", "labels.npy", "checksums.npy"])
@pytest.mark.parametrize("damage", ["cut", "gone", "empty"])
def test_a_damaged_sidecar_is_named(ours: Path, name: str, damage: str) -> None:
    part = ours.with_name("out.fastdata") / name
    if damage == "gone":
        part.unlink()
    else:
        os.truncate(part, part.stat().st_size // 2 if damage == "cut" else 0)
    if (name, damage) == ("manifest.json", "gone"):
        assert registry.open_reader(ours).manifest is None  # a tree like any other
        return
    with pytest.raises(DamagedDatasetError, match=r"out\.fastdata"):
        registry.open_reader(ours)


def test_a_sidecar_that_leads_out_is_refused(ours: Path) -> None:
    sidecar = ours.with_name("out.fastdata")
    (sidecar / "keys.npy").write_bytes(
        (sidecar / "keys.npy").read_bytes().replace(b"cat/a.png", b"../../a.p")
    )
    with pytest.raises(DamagedDatasetError, match="outside the tree"):
        registry.open_reader(ours)


def test_a_moved_tree_takes_its_sidecar_along_or_is_a_plain_one(ours: Path) -> None:
    before = digests(registry.open_reader(ours))
    moved = ours.rename(ours.with_name("moved"))
    assert registry.open_reader(moved).manifest is None
    ours.with_name("out.fastdata").rename(ours.with_name("moved.fastdata"))
    reader = registry.open_reader(moved)
    assert reader.manifest is not None
    assert digests(reader) == before


def test_first_names_are_few() -> None:
    names = file_names("cat/a.jpg", Payload.PIXELS, 7)
    assert [next(names) for _ in range(5)] == [
        b"cat/a.png",
        b"cat/a.jpg.png",
        b"cat/a.jpg~7.png",
        b"cat%2Fa.jpg~7.png",
        b"cat/a.jpg~7~.png",
    ]
