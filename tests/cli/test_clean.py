"""``fastdata clean`` as its users type it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest

from fastdata_cli import open_reader
from fastdata_cli.quality.checks import CHECKS
from tests.conftest import Run, jpeg, make_tree


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Good images, a black one, a cut one, a twin; the working directory is where they lie."""
    monkeypatch.chdir(tmp_path)
    images = make_tree(tmp_path / "images", 9)
    black = bytes(cv2.imencode(".png", np.zeros((16, 16, 3), np.uint8))[1])
    (images / "class1/black.png").write_bytes(black)
    (images / "class2/cut.jpg").write_bytes(jpeg(40, 48, 5)[:500])
    (images / "class2/twin.jpg").write_bytes((images / "class0/0000.jpg").read_bytes())
    return images


def lines(text: str) -> list[str]:
    return text.splitlines()


def names(paths: Sequence[str]) -> set[str]:
    return {os.path.basename(path) for path in paths}


BAD = {"black.png", "cut.jpg", "twin.jpg"}
CHECKED = ("--variance-min", "10", "--duplicates", "exact")


# -- a filter --------------------------------------------------------------------------------------


def test_good_paths_pass_and_the_rest_is_told(run: Run, folder: Path) -> None:
    result = run("clean", "images", *CHECKED)
    kept = lines(result.stdout)
    assert kept == sorted(kept)
    assert all(Path(path).is_file() for path in kept), "usable from here"
    assert len(kept) == 9
    assert names(kept).isdisjoint(BAD)
    for word in ("low-variance", "truncated", "duplicate", "held back"):
        assert word in result.stderr
    assert run("clean", "images", *CHECKED, "-q").stderr == ""


def test_few_that_are_held_back_are_named_and_many_are_counted(run: Run, folder: Path) -> None:
    shown = run("clean", "images", *CHECKED).stderr
    for key, reason, detail in (
        ("images/class1/black.png", "low-variance", "variance 0, asked for 10"),
        ("images/class2/cut.jpg", "truncated", ""),
        ("images/class2/twin.jpg", "duplicate", "of images/"),
    ):
        [row] = [line for line in lines(shown) if key in line]
        assert reason in row
        assert detail in row
    assert "Held back: 3" in shown
    assert "--report FILE" not in shown
    many = run("clean", "images", "--min-side", 1000).stderr
    assert "too-small" in many
    assert "class0/0000.jpg" not in many
    assert "--report FILE.jsonl or FILE.csv" in many
    told = run("clean", "images", "--min-side", 1000, "--report", "why.csv").stderr
    assert "why.csv" in told
    assert "--report FILE" not in told
    stored = run("clean", "images", "-o", "out.raw", *CHECKED).stderr
    assert "class1/black.png" in stored


def test_invert_passes_the_others(run: Run, folder: Path) -> None:
    held_back = lines(run("clean", "images", *CHECKED, "--invert").stdout)
    assert names(held_back) == BAD
    everything = set(lines(run("clean", "images", *CHECKED).stdout)) | set(held_back)
    assert len(everything) == 12


def test_what_is_found_changes_the_exit_code_only_when_asked(run: Run, folder: Path) -> None:
    run("clean", "images", *CHECKED, code=0)
    run("clean", "images", *CHECKED, "--fail-on-found", code=3)
    run("clean", "images/class0", "--fail-on-found", code=0)


# -- what is judged --------------------------------------------------------------------------------


def test_what_is_missing_in_a_list_is_a_reject(run: Run, folder: Path) -> None:
    Path("list").write_text("images/class0/0000.jpg\nimages/none.jpg\nimages\n")
    result = run("clean", "--files-from", "list", "--jsonl")
    found = {record["key"]: record["reasons"] for record in map(json.loads, lines(result.stdout))}
    assert found["images/class0/0000.jpg"] == []
    assert [reason["name"] for reason in found["images/none.jpg"]] == ["missing"]
    assert [reason["name"] for reason in found["images"]] == ["unreadable"]


def test_a_source_that_is_not_there_is_an_error(run: Run, folder: Path) -> None:
    result = run("clean", "nowhere", code=2)
    assert "nowhere" in result.stderr
    assert "nowhere.zarr" in run("clean", "nowhere.zarr", code=2).stderr
    assert "missing" in run("clean", "none.jpg", code=0).stderr
    assert "list.txt" in run("clean", "--files-from", "list.txt", code=2).stderr


def test_nothing_to_look_at_is_said(run: Run, folder: Path) -> None:
    Path("empty").mkdir()
    Path("empty/notes.txt").touch()
    result = run("clean", "empty", code=0)
    assert result.stdout == ""
    assert "empty: no images here (1 ignored)" in result.stderr


def test_files_and_folders_mix(run: Run, folder: Path) -> None:
    result = run("clean", "images/class1/0001.jpg", "images/class0", "images/class2/cut.jpg")
    kept = lines(result.stdout)
    assert kept[0] == "images/class1/0001.jpg"
    assert kept[1:] == [
        "images/class0/0000.jpg",
        "images/class0/0003.jpg",
        "images/class0/0006.jpg",
    ]


def test_a_packed_dataset_prints_keys(run: Run, folder: Path) -> None:
    for name in ("out.lmdb", "out.tar", "out.h5", "out.raw"):
        run("convert", "images", name, "--payload", "encoded", "-q")
        result = run("clean", name, *CHECKED, "-0")
        keys = result.stdout.split("\0")[:-1]
        assert keys == [key.removeprefix("images/") for key in keys]
        assert len(keys) == 9
        assert names(keys).isdisjoint(BAD)


# -- what is written -------------------------------------------------------------------------------


def test_json_lines_tell_all(run: Run, folder: Path) -> None:
    result = run("clean", "images", *CHECKED, "--jsonl")
    records = {os.path.basename(r["key"]): r for r in map(json.loads, lines(result.stdout))}
    assert len(records) == 12
    black = records["black.png"]
    assert black["fastdata_clean"] == 1
    assert black["kept"] is False
    assert black["scores"] == {"variance": 0.0}
    assert black["reasons"] == [
        {
            "name": "low-variance",
            "score": "variance",
            "value": 0.0,
            "threshold": 10.0,
            "detail": "",
        }
    ]
    assert records["twin.jpg"]["duplicate_of"] == "images/class0/0000.jpg"
    assert records["0000.jpg"]["kept"] is True


def test_one_object_for_the_whole_run(run: Run, folder: Path) -> None:
    report = json.loads(run("clean", "images", *CHECKED, "--json").stdout)
    assert (report["looked_at"], report["kept"], report["bad"]) == (12, 9, 3)
    assert report["reasons"] == {"low-variance": 1, "truncated": 1, "duplicate": 1}
    assert report["groups"][0]["first"] == "images/class0/0000.jpg"


@pytest.mark.parametrize("name", ["report.jsonl", "report.csv"])
def test_a_report_keeps_the_details(run: Run, folder: Path, name: str) -> None:
    for _ in range(2):  # an earlier report is replaced
        result = run("clean", "images", *CHECKED, "--report", name)
        assert len(lines(result.stdout)) == 9
    with open(name, newline="") as file:
        rows = (
            [dict(row) for row in csv.DictReader(file)]
            if name.endswith(".csv")
            else [json.loads(line) for line in file]
        )
    assert len(rows) == 12
    [cut] = [row for row in rows if row["key"].endswith("cut.jpg")]
    [black] = [row for row in rows if row["key"].endswith("black.png")]
    if name.endswith(".csv"):
        assert (cut["kept"], cut["reasons"]) == ("false", "truncated")
        assert black["variance"] == "0.0"
    else:
        assert cut["reasons"][0]["name"] == "truncated"
        assert black["scores"]["variance"] == 0.0
    assert {path.name for path in folder.parent.iterdir()} == {"images", name}


def test_a_report_replaces_reports_only(run: Run, folder: Path) -> None:
    Path("labels.csv").write_text("key,label\na.jpg,1\n")
    assert "not touched" in run("clean", "images", "--report", "labels.csv", code=2).stderr
    assert Path("labels.csv").read_text().startswith("key,label")
    assert ".jsonl or .csv" in run("clean", "images", "--report", "out.txt", code=2).stderr


def test_a_report_is_written_to_a_pipe_and_to_a_device(run: Run, folder: Path) -> None:
    os.mkfifo("why.jsonl")
    reading = subprocess.Popen(["cat", "why.jsonl"], stdout=subprocess.PIPE)
    run("clean", "images", "--report", "why.jsonl", "-q")
    told, _ = reading.communicate(timeout=20)
    assert len(told.splitlines()) == 12
    assert Path("why.jsonl").is_fifo()
    Path("null.csv").symlink_to(os.devnull)
    run("clean", "images", "--report", "null.csv", "-q")
    assert Path(os.devnull).is_char_device()
    assert {path.name for path in Path().iterdir()} == {"images", "why.jsonl", "null.csv"}


def test_the_checks_are_listed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("clean", "--list-checks").stdout
    assert len(lines(shown)) < 100, "what is measured has most of the width"
    records = json.loads(run("clean", "--list-checks", "--json").stdout)
    assert [record["name"] for record in records] == [check.name for check in CHECKS]
    for record in records:
        assert f"--{record['name']}" in shown
        assert record["reason"] in shown
        assert record["formula"]
        assert record["source"]


def test_statistics_measure_everything(run: Run, folder: Path) -> None:
    result = run("clean", "images", "--stats")
    assert len(lines(result.stdout)) == 11
    for score in ("variance", "sharpness", "entropy"):
        assert score in result.stderr


def test_a_page_to_look_at(run: Run, folder: Path) -> None:
    result = run("clean", "images", *CHECKED, "--gallery", "page.html")
    assert "page.html" in result.stderr
    page = Path("page.html").read_text()
    assert "low-variance" in page
    assert "data:image/" in page
    assert "folder" in run("clean", "images", "--gallery", "images", code=2).stderr


def test_the_second_run_is_from_the_cache(run: Run, folder: Path) -> None:
    for path in folder.rglob("*.*"):
        os.utime(path, ns=(0, 10**18))
    run("clean", "images", *CHECKED, "--cache", "scores")
    report = json.loads(run("clean", "images", *CHECKED, "--cache", "scores", "--json").stdout)
    assert report["cached"] == 12
    foreign = run("clean", "images", "--cache", "images/class0/0000.jpg", code=2)
    assert "not touched" in foreign.stderr


# -- quarantine ------------------------------------------------------------------------------------


def tree_of(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_quarantine_and_restore(run: Run, folder: Path) -> None:
    before = tree_of(folder)
    run("clean", "images", *CHECKED)
    assert tree_of(folder) == before, "nothing changes unless that is asked for"
    result = run("clean", "images", *CHECKED, "--quarantine", "bad", "--jsonl")
    moved = {record["moved_to"] for record in map(json.loads, lines(result.stdout))} - {None}
    assert names(sorted(moved)) == BAD
    assert "3, to bad" in result.stderr
    assert "fastdata clean --restore bad" in result.stderr
    assert set(tree_of(folder)) == {key for key in before if os.path.basename(key) not in BAD}
    again = run("clean", "images", *CHECKED, "--quarantine", "bad", "--fail-on-found")
    assert len(lines(again.stdout)) == 9
    result = run("clean", "--restore", "bad")
    assert names(lines(result.stdout)) == BAD
    assert tree_of(folder) == before
    assert not Path("bad").exists()


def test_only_what_was_asked_for_is_moved(run: Run, folder: Path) -> None:
    Path("precious").mkdir()
    Path("precious/keep.jpg").write_bytes(jpeg(20, 20, 9)[:200])
    Path("images/linked.jpg").symlink_to("../precious/keep.jpg")
    run("clean", "images", "--duplicates", "exact", "--quarantine", "bad")
    assert not os.path.lexists("images/linked.jpg"), "it goes as a link"
    assert Path("precious/keep.jpg").exists()
    assert Path("images/class0/0000.jpg").exists(), "the first of a group stays"
    assert Path("images/class1/black.png").exists(), "nobody asked about variance"


def test_a_restore_that_would_overwrite_fails(run: Run, folder: Path) -> None:
    run("clean", "images", "--quarantine", "bad")
    Path("images/class2/cut.jpg").write_bytes(b"something new")
    result = run("clean", "--restore", "bad", code=1)
    assert "cut.jpg" in result.stderr
    assert Path("images/class2/cut.jpg").read_bytes() == b"something new"


# -- a new dataset ---------------------------------------------------------------------------------


def test_a_dataset_of_the_good_samples(run: Run, folder: Path) -> None:
    run("convert", "images", "in.lmdb", "-q")
    result = run("clean", "in.lmdb", "-o", "out.zarr", *CHECKED)
    assert "held back" in result.stderr
    source, found = open_reader("in.lmdb"), open_reader("out.zarr")
    assert len(found) == 9
    assert found.schema.class_names == source.schema.class_names
    where = {key: index for index, key in enumerate(source.keys())}
    for sample in found.scan():
        original = source.read(where[sample.key])
        assert np.array_equal(sample.image, original.image)  # type: ignore[union-attr]
        assert sample.label == original.label  # type: ignore[union-attr]
    rejects = [json.loads(line) for line in lines(Path("out.zarr.rejects.jsonl").read_text())]
    assert {record["reason"] for record in rejects} == {"low-variance", "duplicate"}
    assert "exists" in run("clean", "in.lmdb", "-o", "out.zarr", code=2).stderr
    run("clean", "in.lmdb", "-o", "out.zarr", "--overwrite", "--fail-on-found", *CHECKED, code=3)


def test_much_that_is_held_back_is_no_failure(run: Run, folder: Path) -> None:
    for index in range(40):
        (folder / f"class0/cut{index}.jpg").write_bytes(jpeg(40, 48, index)[:500])
    run("clean", "images", "-o", "out.raw", code=0)
    assert len(open_reader("out.raw")) == 11


def test_convert_cleans_on_its_way(run: Run, folder: Path) -> None:
    result = run("convert", "images", "out.zarr", "--clean", "variance-min=10,near-duplicates=4")
    assert "low-variance=1" in result.stderr
    assert "near-duplicate=1" in result.stderr
    assert len(open_reader("out.zarr")) == 9
    assert "variance" in run("convert", "images", "b.zarr", "--clean", "variance=1", code=2).stderr


# -- usage -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["images", "--jsonl", "--json"], "exclude each other"),
        (["images", "--jsonl", "--invert"], "--invert"),
        (["images", "--overwrite"], "--overwrite needs -o"),
        (["images", "--labels", "x.csv"], "--labels needs -o"),
        (["images", "--chunk", "10"], "--chunk needs -o"),
        (["images", "-o", "out.zarr", "--jsonl"], "--jsonl does not go with -o"),
        (["images", "images", "-o", "out.zarr"], "one source"),
        (["images", "--files-from", "list"], "--files-from replaces"),
        (["-", "images"], "stands alone"),
        (["--restore", "bad", "images"], "alone"),
        (["images", "--array", "x"], "--array does not apply"),
        (["images", "--distance", "4"], "--duplicates near"),
        ([""], "empty"),
    ],
)
def test_what_cannot_be_meant_is_said(run: Run, folder: Path, words: list[str], said: str) -> None:
    before = sorted(path.name for path in folder.parent.iterdir())
    assert said in " ".join(run("clean", *words, code=2).stderr.split())
    assert sorted(path.name for path in folder.parent.iterdir()) == before


def test_errors_leave_no_file_behind(run: Run, folder: Path) -> None:
    extra = ("--cache", "c", "--quarantine", "q", "--report", "r.jsonl")
    run("clean", "nowhere", *extra, code=2)
    run("convert", "images", "in.lmdb", "-q")
    for flag in ("--cache", "--quarantine"):
        assert "is for files" in run("clean", "in.lmdb", flag, "x", code=2).stderr
    left = {path.name for path in folder.parent.iterdir()}
    assert left == {"images", "in.lmdb", "in.lmdb.rejects.jsonl"}


def test_a_link_is_not_made_a_cache(run: Run, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    result = run("clean", tree, "--cache", tmp_path / "link", code=2)
    assert "no file of its own" in result.output.replace("\n", " ")
    assert (tmp_path / "link").is_symlink()
