"""An unfinished run and another command: what differs is named, and how to start over."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fastdata_cli import open_reader
from fastdata_cli.contract import Part, PartLimits, Receipt
from fastdata_cli.errors import StorageError
from fastdata_cli.formats.lmdb.writer import LmdbWriter
from fastdata_cli.formats.staged import StagedWriter
from fastdata_cli.sample import Batch
from fastdata_cli.storage.staging import staging_root
from tests.conftest import Run, jpeg


def interrupt(run: Run, source: Path, out: Path, *flags: object) -> None:
    """Leave what a run leaves that is interrupted when all its parts are written."""

    def press(writer: StagedWriter, manifest: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StagedWriter, "publish", press)
        run("convert", source, out, *flags, code=130)
    assert staging_root(out).is_dir()


def refused(run: Run, source: Path, out: Path, *flags: object) -> str:
    text = run("convert", source, out, *flags, code=1).output.replace("\n", " ")
    assert "delete" in text
    assert "to start over" in text
    return text


def test_files_that_came_went_or_changed_are_named(run: Run, tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.lmdb"
    interrupt(run, tree, out)
    for number in range(5):
        (tree / "class1" / f"new{number}.jpg").write_bytes(jpeg(40, 48, number))
    (tree / "class0" / "0003.jpg").unlink()
    (tree / "class2" / "0005.jpg").write_bytes(jpeg(40, 48, 900))
    text = refused(run, tree, out)
    assert "1 changed (class2/0005.jpg)" in text
    assert "unfinished run of another command or source: the source changed: 5 added" in text
    assert "(class1/new0.jpg, class1/new1.jpg, class1/new2.jpg and 2 more)" in text
    assert "1 removed (class0/0003.jpg)" in text
    assert "label" not in text
    assert "order" not in text


def test_a_file_with_other_content_is_named(run: Run, tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tar"
    interrupt(run, tree, out)
    for number in (0, 3, 6, 9):
        (tree / "class0" / f"{number:04d}.jpg").write_bytes(jpeg(40, 48, 900 + number))
    text = refused(run, tree, out)
    assert "4 files of the source changed after the interrupted run had begun" in text
    assert "class0/0000.jpg" in text
    assert "and 1 more" in text


def test_another_class_order_and_another_order_are_told(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    out, paths, table = tmp_path / "out.lmdb", tmp_path / "paths", tmp_path / "labels.csv"
    files = sorted(tree.rglob("*.jpg"))
    paths.write_text("".join(f"{file}\n" for file in files))
    table.write_text("".join(f"{file.relative_to(tree)},cat\n" for file in files))
    flags = ("--root", tree, "--labels", table, "--files-from", paths)
    place = tmp_path / "out.lmdb"

    def command(*more: object) -> tuple[object, ...]:
        return ("convert", *flags, place, *more)

    def press(writer: StagedWriter, manifest: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StagedWriter, "publish", press)
        run(*command(), code=130)
    paths.write_text("".join(f"{file}\n" for file in reversed(files)))
    first = files[0].relative_to(tree)
    table.write_text(table.read_text().replace(f"{first},cat", f"{first},dog"))
    text = run(*command(), code=1).output.replace("\n", " ")
    assert f"1 with another label ({first})" in text
    assert "in another order" in text
    assert staging_root(out).is_dir()


def test_options_that_differ_are_named_with_both_values(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.zarr"
    interrupt(run, tree, out, "--size", 24, "--chunk", 5)
    text = refused(run, tree, out, "--size", 32, "--codec", "zstd", "--chunk", 5)
    assert "--size 24 then, 32 now" in text
    assert "--codec not given then, zstd now" in text
    assert "--chunk" not in text
    assert "source" not in text.partition("another command or source")[2]
    run("convert", tree, out, "--size", 24, "--chunk", 5)
    assert len(open_reader(out)) == 20


def test_checks_formats_and_appends_differ_too(run: Run, tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.lmdb"
    interrupt(run, tree, out, "--clean", "min-side=10")
    assert "--min-side 10 then, 12 now" in refused(run, tree, out, "--clean", "min-side=12")
    assert "format lmdb then, raw now" in refused(run, tree, out, "--to", "raw")
    other = tmp_path / "other.lmdb"
    run("convert", tree, other)
    (tree / "class0" / "new.jpg").write_bytes(jpeg(40, 48, 5))
    interrupt(run, tree, other, "--append")
    text = refused(run, tree, other, "--overwrite")
    assert "an append then, none now" in text
    (tree / "class0" / "newer.jpg").write_bytes(jpeg(40, 48, 6))
    text = refused(run, tree, other, "--append")
    assert "1 added (class0/newer.jpg)" in text
    assert len(open_reader(other)) == 20
    (tree / "class0" / "newer.jpg").unlink()
    (tree / "class2" / "0002.jpg").write_bytes(b"")  # held already: no matter
    interrupt(run, tree, other, "--append")
    content = (tree / "class0" / "new.jpg").read_bytes()
    (tree / "class0" / "new.jpg").write_bytes(content + b"more")
    text = refused(run, tree, other, "--append")
    assert "1 file of the source changed" in text
    assert "class0/new.jpg" in text
    shutil.rmtree(staging_root(other))
    run("convert", tree, other, "--append")
    assert len(open_reader(other)) == 21


def test_the_place_of_an_earlier_version_is_refused_in_plain_words(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.raw"
    interrupt(run, tree, out)
    path = staging_root(out) / "journal.jsonl"
    head, *lines = path.read_text().splitlines(keepends=True)
    old = json.loads(head)
    del old["settled"]
    path.write_text(json.dumps(old) + "\n" + "".join(lines))
    assert "unfinished run of another command or source hint:" in refused(
        run, tree, out, "--size", 8
    )
    run("convert", tree, out)
    assert len(open_reader(out)) == 20


def test_a_lost_listing_leaves_fewer_words(run: Run, tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.raw"
    interrupt(run, tree, out)
    (staging_root(out) / "source.npz").write_bytes(b"cut")
    (tree / "class0" / "new.jpg").write_bytes(jpeg(40, 48, 5))
    assert "the source has other keys, labels or classes now" in refused(run, tree, out)


@pytest.mark.parametrize("name", ["out.raw", "out.tar", "out.lmdb", "part-%06d.tar"])
def test_a_part_that_fails_takes_none_before_it_along(
    run: Run, tree: Path, tmp_path: Path, name: str
) -> None:
    out, store = tmp_path / name, StagedWriter.write_part

    def full(writer: StagedWriter, part: Part, batch: Batch) -> Receipt:
        if part.index == 3:
            raise StorageError("no space left on the device")
        return store(writer, part, batch)

    with pytest.MonkeyPatch.context() as patch:
        for owner in (StagedWriter, LmdbWriter):
            patch.setattr(owner, "limits", PartLimits(samples=4))
        patch.setattr(StagedWriter, "write_part", full)
        run("convert", tree, out, "--payload", "pixels", code=1)
        patch.setattr(StagedWriter, "write_part", store)
        text = run("convert", tree, out, "--payload", "pixels").output
    assert "12 samples are there" in text
    run("inspect", out, "--verify")
    run("convert", tree, tmp_path / "fresh.zarr")
    run("inspect", "--diff", out, tmp_path / "fresh.zarr")
