"""The tree format: conformance, and reading folders that others made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fastdata_cli import registry
from fastdata_cli.contract import Reader
from fastdata_cli.errors import (
    BadSampleError,
    DamagedDatasetError,
)
from fastdata_cli.formats.tree import FORMAT
from fastdata_cli.formats.tree import files as tree_files
from fastdata_cli.formats.tree.reader import TreeReader, TreeReadOptions
from fastdata_cli.sample import Payload, Reject, Sample
from fastdata_cli.storage.listing import list_paths
from fastdata_cli.testing import FormatConformance
from fastdata_cli.testing.synthetic import CLASS_NAMES, png
from tests.formats.trees import folder_of, plain_tree


class TestTree(FormatConformance):
    format = FORMAT

    @pytest.fixture
    def payload(self) -> Payload:
        """A tree is read as files, so only these come back as what they were."""
        return Payload.ENCODED


def scanned(reader: Reader) -> dict[str, Sample | Reject]:
    return {each.key: each for each in reader.scan()}


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
    image = folder_of(tmp_path, {"one.txt": png(3, 4, 0)}) / "one.txt"
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
    reader = registry.open_reader(folder_of(tmp_path / "set", {"notes.txt": b"x"}))
    assert len(reader) == 0
    assert list(reader.scan()) == []
    assert len(reader.read_many([])) == 0
    assert reader.notes == {"other-name": 1}


def test_a_folder_named_like_another_format(tmp_path: Path) -> None:
    ruin = folder_of(tmp_path / "set.raw", {"labels.npy": b"x"})
    with pytest.raises(DamagedDatasetError, match="named like raw"):
        registry.open_reader(ruin)
    photos = folder_of(tmp_path / "photos.raw", {"a.png": png(3, 4, 0)})
    assert len(registry.open_reader(photos)) == 1


def test_labels_and_classes_from_files(tmp_path: Path) -> None:
    root = plain_tree(tmp_path)
    table = folder_of(tmp_path, {"labels.csv": b"cat/a.png,x\ncat/b.png,y\n"}) / "labels.csv"
    reader = FORMAT.open_reader(root, TreeReadOptions(labels=str(table)))
    assert reader.labels().tolist() == [0, 1, -1]
    assert reader.schema.class_names == ("x", "y")
    assert reader.notes == {"image-without-label": 1}
    classes = folder_of(tmp_path, {"classes.txt": b"dog\nemu\ncat\n"}) / "classes.txt"
    reader = FORMAT.open_reader(root, TreeReadOptions(classes=str(classes)))
    assert reader.labels().tolist() == [2, 2, 0]
    single = FORMAT.open_reader(root / "cat/a.png", TreeReadOptions(classes=str(classes)))
    assert single.schema.class_names == ("dog", "emu", "cat")


def test_unreadable_files_are_rejects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = plain_tree(tmp_path)
    folder_of(root, {"cat/c.png": b"", "cat/d.png": b"x", "cat/e.png": b"x", "cat/f.png": b"x"})
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
    # Without checksums the content is judged: nothing here is an image.
    assert [finding.key[4] for finding in reader.verify()] == [*"abcdef"]
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
    root = folder_of(plain_tree(tmp_path), {"cat/Thumbs.db": b"x"})
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
