"""``--append`` and ``--retry-bad``: what may be asked for, of which datasets and sources."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from fastdata_cli import open_reader
from fastdata_cli.storage.staging import staging_root
from tests.cli.growing import (
    GROWING,
    append,
    content,
    generations,
    grow,
    is_sound,
    make,
    rejected,
)
from tests.conftest import Run, jpeg


@GROWING
def test_retry_bad_after_a_repair(run: Run, tree: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    broken = [tree / "class0" / f"bad{number}.jpg" for number in range(3)]
    for path in broken:
        path.write_bytes(jpeg(40, 48, 1)[:100])
    make(run, tree, out)
    assert [key for key, _, _ in rejected(out)] == [f"class0/bad{n}.jpg" for n in range(3)]
    (new,) = grow(tree, count=1)
    broken[1].write_bytes(jpeg(40, 48, 77))
    text = run("convert", tree, out, "--retry-bad").output
    assert "3 samples are tried again" in text
    keys = list(open_reader(out).keys())
    assert keys[-1] == "class0/bad1.jpg"
    assert new not in keys
    assert [key for key, _, _ in rejected(out)] == ["class0/bad0.jpg", "class0/bad2.jpg"]
    assert [index for _, _, index in rejected(out)] == [7, 9]
    assert [each["samples"] for each in generations(run, out)] == [20, 1]
    assert json.loads(run("inspect", out, "--json").stdout)["counts"]["rejects"] == {"truncated": 2}
    assert "1 sample is new" in append(run, tree, out), "bad ones are not tried again unasked"
    assert "but for 2 bad samples listed" in append(run, tree, out)
    broken[0].write_bytes(jpeg(40, 48, 78))
    broken[2].write_bytes(jpeg(40, 48, 79))
    grow(tree, "more", count=1)
    text = append(run, tree, out, "--retry-bad")
    assert "3 samples are new or tried again" in text
    assert rejected(out) == []
    make(run, tree, tmp_path / "fresh.raw", "--payload", "encoded", "--classes", out)
    is_sound(run, out, fresh=tmp_path / "fresh.raw")
    assert "lists no sample" in run("convert", tree, out, "--retry-bad").output


def test_options_come_from_the_dataset(run: Run, tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tar"
    make(run, tree, out, "--payload", "pixels", "--size", 24, "--fit", "pad")
    grow(tree)
    for flags, words in (
        (("--size", 32), "--size 32 contradicts the dataset, which was made with 24x24"),
        (("--payload", "encoded"), "--payload encoded contradicts the dataset"),
        (("--fit", "crop"), "--fit crop contradicts the dataset, which was made with pad"),
        (("--quality", 80), "--quality 80 contradicts the dataset, which was made with none"),
        (("--clean", "grayscale"), "--clean grayscale contradicts the dataset"),
        (("--chunk", 3), "--chunk is not an option of format webdataset"),
        (("--overwrite",), "--overwrite replaces a dataset"),
        (("--to", "lmdb"), "is webdataset, not lmdb"),
    ):
        assert words in append(run, tree, out, *flags, code=2)
    assert len(open_reader(out)) == 20
    append(run, tree, out, "--size", "24x24", "--fit", "pad", "--limit", 2, "--on-bad", "fail")
    assert len(open_reader(out)) == 22
    append(run, tree, out)
    make(run, tree, tmp_path / "fresh.raw", "--size", 24, "--fit", "pad")
    is_sound(run, out, fresh=tmp_path / "fresh.raw")


def test_new_images_of_other_sizes_are_resized_like_none_before(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.lmdb"
    make(run, tree, out, "--payload", "pixels")
    (tree / "class0" / "large.jpg").write_bytes(jpeg(80, 99, 3))
    assert "new images have other sizes: they are stored as 40x48" in append(run, tree, out)
    make(run, tree, tmp_path / "fresh.raw", "--size", "40x48")
    is_sound(run, out, fresh=tmp_path / "fresh.raw")


def test_a_size_that_was_asked_for_is_no_news(run: Run, tree: Path, tmp_path: Path) -> None:
    make(run, tree, tmp_path / "out.lmdb", "--payload", "pixels", "--size", 24)
    grow(tree)
    assert "other sizes" not in append(run, tree, tmp_path / "out.lmdb")


def test_checks_go_on_and_those_for_duplicates_cannot(run: Run, tree: Path, tmp_path: Path) -> None:
    make(run, tree, tmp_path / "a.lmdb", "--clean", "min-side=30")
    make(run, tree, tmp_path / "b.lmdb", "--clean", "duplicates=exact")
    grow(tree)
    (tree / "class0" / "small.jpg").write_bytes(jpeg(20, 20, 3))
    append(run, tree, tmp_path / "a.lmdb")
    assert [key for key, _, _ in rejected(tmp_path / "a.lmdb")] == ["class0/small.jpg"]
    assert "fingerprints" in append(run, tree, tmp_path / "b.lmdb", code=2)


@pytest.mark.parametrize("name", ["out.zarr", "out.raw", "out.h5", "out.tfrecord"])
def test_other_formats_say_what_to_do(run: Run, tree: Path, tmp_path: Path, name: str) -> None:
    make(run, tree, tmp_path / name)
    text = append(run, tree, tmp_path / name, code=2)
    assert "nothing can be added to a dataset in format" in text
    assert "--overwrite; formats that grow: lmdb, webdataset" in text


def test_what_is_not_there_or_not_ours(run: Run, tree: Path, tmp_path: Path) -> None:
    assert "there is no dataset yet to add to" in append(run, tree, tmp_path / "a.lmdb", code=2)
    subprocess.run(["tar", "-cf", tmp_path / "a.tar", "-C", tree, "."], check=True)
    text = append(run, tree, tmp_path / "a.tar", code=2)
    assert "was not made by fastdata: no manifest" in text
    assert "convert it first" in text


def test_a_folder_of_shards_is_added_to_by_its_pattern(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "sets"
    folder.mkdir()
    make(run, tree, folder / "part-%06d.tar")
    grow(tree)
    text = append(run, tree, folder, code=2)
    assert "is a folder of shards, and they are added to by their pattern" in text
    assert not staging_root(folder).exists()
    assert len(open_reader(folder)) == 20


def test_keys_of_another_root_are_pointed_out(run: Run, tree: Path, tmp_path: Path) -> None:
    out, paths = tmp_path / "out.lmdb", tmp_path / "paths"
    make(run, tree, out)
    (new,) = grow(tree, count=1)
    paths.write_text(f"{tree / new}\n")
    flags = ("--files-from", paths, out, "--append", "--dry-run")
    text = run("convert", *flags).output.replace("\n", " ")
    assert "not one key of the source is in the dataset: 0500.jpg here, class0/0000.jpg" in text
    run("convert", *flags[:-1], "--root", tree)
    found = open_reader(out)
    assert found.keys()[20] == new
    assert found.labels()[20] == 1


def test_grey_images_that_stand_for_bad_ones_stay(run: Run, tree: Path, tmp_path: Path) -> None:
    out, bad = tmp_path / "out.lmdb", tree / "class0" / "bad.jpg"
    bad.write_bytes(b"")
    make(run, tree, out, "--payload", "pixels", "--on-bad", "fill")
    listed = rejected(out)
    bad.write_bytes(jpeg(40, 48, 8))
    assert "nothing to try again" in run("convert", tree, out, "--retry-bad").output
    text = append(run, tree, out)
    assert "1 sample has changed in the source, and not in the dataset: class0/bad.jpg" in text
    grow(tree)
    append(run, tree, out)
    assert rejected(out) == listed
    assert len(open_reader(out)) == 26


def test_a_dry_run_adds_nothing(run: Run, tree: Path, tmp_path: Path) -> None:
    make(run, tree, tmp_path / "out.lmdb")
    grow(tree)
    before = content(tmp_path / "out.lmdb")
    assert "about 5" in append(run, tree, tmp_path / "out.lmdb", "--dry-run")
    assert content(tmp_path / "out.lmdb") == before


def test_unlabelled_sets_and_numbers(run: Run, tmp_path: Path) -> None:
    flat = tmp_path / "flat"
    flat.mkdir()
    (flat / "1.jpg").write_bytes(jpeg(40, 48, 1))
    make(run, flat, tmp_path / "out.lmdb")
    (flat / "2.jpg").write_bytes(jpeg(40, 48, 2))
    append(run, flat, tmp_path / "out.lmdb")
    assert open_reader(tmp_path / "out.lmdb").labels().tolist() == [-1, -1]
    (tmp_path / "labels.csv").write_text("1.jpg,4\n2.jpg,7\n3.jpg,5\n")
    make(run, flat, tmp_path / "n.lmdb", "--labels", tmp_path / "labels.csv")
    (flat / "3.jpg").write_bytes(jpeg(40, 48, 3))
    append(run, flat, tmp_path / "n.lmdb", "--labels", tmp_path / "labels.csv")
    assert open_reader(tmp_path / "n.lmdb").labels().tolist() == [4, 7, 5]


def test_a_dataset_as_the_source(run: Run, tree: Path, tmp_path: Path) -> None:
    make(run, tree, tmp_path / "out.lmdb")
    grow(tree, "class01")
    make(run, tree, tmp_path / "all.tar")
    append(run, tmp_path / "all.tar", tmp_path / "out.lmdb")
    run("inspect", "--diff", tmp_path / "out.lmdb", tmp_path / "all.tar", code=3)  # the numbering
    make(
        run,
        tree,
        tmp_path / "fresh.raw",
        "--payload",
        "encoded",
        "--classes",
        tmp_path / "out.lmdb",
    )
    is_sound(run, tmp_path / "out.lmdb", fresh=tmp_path / "fresh.raw")
