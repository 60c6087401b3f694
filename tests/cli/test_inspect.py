"""``fastdata inspect`` and ``fastdata formats`` as their users type them."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from fastdata_cli import open_reader
from tests.conftest import Run, jpeg


@pytest.fixture
def packed(run: Run, tree: Path, tmp_path: Path) -> Path:
    run("convert", tree, tmp_path / "out.tar")
    return tmp_path / "out.tar"


def test_tables(run: Run, packed: Path) -> None:
    text = run("inspect", packed).stdout
    for word in ("webdataset", "class0", "40x48", "jpeg", "class0/0000.jpg"):
        assert word in text


def test_json(run: Run, packed: Path) -> None:
    report = json.loads(run("inspect", packed, "--json").stdout)
    assert report["fastdata_inspect"] == 1
    assert report["samples"] == 20
    assert report["labels"] == {"0": 7, "1": 7, "2": 6}
    assert report["stored_bytes"] == packed.stat().st_size
    assert report["images"]["sizes"] == {"40x48": 20}
    assert not report["images"]["estimate"]
    assert report["source"]["format"] == "tree"


def test_every_documented_field_is_there_and_no_other(run: Run, packed: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "inspect-json.md").read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    documented = {name.strip(" `") for row in rows for name in row.split(",")}
    assert set(json.loads(run("inspect", packed, "--json").stdout)) == documented


def test_a_tree_is_inspected_as_it_is(run: Run, tree: Path) -> None:
    report = json.loads(run("inspect", tree, "--json").stdout)
    assert report["format"] == "tree"
    assert report["made_by"] is None
    assert report["class_names"] == ["class0", "class1", "class2"]


def test_the_first_unreadable_files_are_named(run: Run, tree: Path) -> None:
    for number in range(12):
        (tree / f"class{number % 3}" / f"{number:04d}.jpg").write_bytes(b"<html>")
    (tree / "class0" / "50% off.jpg").write_bytes(b"")
    text = run("inspect", tree).stdout
    for word in ("Unreadable: 13", "class0/0000.jpg", "not-an-image", "class0/50% off.jpg"):
        assert word in text
    assert "… 3 more" in text
    images = json.loads(run("inspect", tree, "--json").stdout)["images"]
    assert images["unreadable"] == {"not-an-image": 12, "empty": 1}
    first = images["unreadable_first"]
    assert len(first) == 10
    assert (first[0]["key"], first[0]["reason"]) == ("class0/0000.jpg", "not-an-image")


@pytest.mark.parametrize(
    ("name", "lost"),
    [("out", "class0/0003.jpg"), ("out.zarr", "images/c/1/0/0/0"), ("v2.zarr", "images/2.0.0.0")],
)
def test_lost_files_are_told_without_reading(
    run: Run, tree: Path, tmp_path: Path, name: str, lost: str
) -> None:
    options: dict[str, list[object]] = {"out": ["--to", "tree"], "out.zarr": ["--chunk", 4]}
    chosen: list[object] = options.get(name, ["--chunk", 3, "--zarr-format", 2])
    run("convert", tree, tmp_path / name, *chosen)
    (tmp_path / name / lost).unlink()
    result = run("inspect", tmp_path / name, "--json", code=1)
    assert [each["key"] for each in json.loads(result.stdout)["problems"]] == [lost]
    assert lost in result.stderr
    assert "missing" in run("inspect", tmp_path / name, "--verify", code=3).stdout


def test_a_negative_label_of_others_is_no_label(run: Run, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "odd.tar", "w") as tar:
        for name, content in (("a.jpg", jpeg(8, 8, 0)), ("a.cls", b"-5")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    assert json.loads(run("inspect", tmp_path / "odd.tar", "--json").stdout)["labels"] == {"-1": 1}


def test_sample_by_key_and_by_position(run: Run, tree: Path, packed: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.jpg"
    run("inspect", packed, "--sample", "class1/0001.jpg", "-o", one)
    assert one.read_bytes() == (tree / "class1" / "0001.jpg").read_bytes()
    run("inspect", packed, "--sample", 0, "-o", one)
    assert one.read_bytes() == (tree / "class0" / "0000.jpg").read_bytes()
    assert "position" in run("inspect", packed, "--sample", 99, "-o", one, code=2).stderr
    assert "-o" in run("inspect", packed, "--sample", 0, code=2).stderr
    for odd in ("²", "--5", "-", "٣", "9" * 40):
        assert "position" in run("inspect", packed, f"--sample={odd}", "-o", one, code=2).stderr


def test_sample_of_pixels_is_a_png(run: Run, tree: Path, tmp_path: Path) -> None:
    run("convert", tree, tmp_path / "out.raw")
    run("inspect", tmp_path / "out.raw", "--sample", 3, "-o", tmp_path / "3.png")
    pixels: Any = cv2.imread(str(tmp_path / "3.png"), cv2.IMREAD_COLOR_RGB)
    assert np.array_equal(pixels, open_reader(tmp_path / "out.raw").read(3).image)


def test_preview(run: Run, packed: Path, tmp_path: Path) -> None:
    run("inspect", packed, "--preview", tmp_path / "sheet.png")
    sheet = cv2.imread(str(tmp_path / "sheet.png"))
    assert sheet is not None
    assert min(sheet.shape[:2]) > 300


def test_preview_shows_bad_samples_as_such(run: Run, tree: Path, tmp_path: Path) -> None:
    (tree / "class0" / "0000.jpg").write_bytes(b"")
    run("inspect", tree, "--preview", tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").exists()


def test_verify(run: Run, packed: Path) -> None:
    assert "20 samples, checksums match" in run("inspect", packed, "--verify").stdout
    data = bytearray(packed.read_bytes())
    data[data.index(jpeg(40, 48, 3)) + 200] ^= 1
    packed.write_bytes(data)
    result = run("inspect", packed, "--verify", code=3)
    assert "class0/0003.jpg" in result.stdout
    assert "1 finding in 20 samples" in result.stdout
    found = json.loads(run("inspect", packed, "--verify", "--json", code=3).stdout)["verified"]
    assert [each["key"] for each in found["findings"]] == ["class0/0003.jpg"]


def test_not_a_dataset(run: Run, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("hello")
    assert "no format recognises" in run("inspect", notes, code=2).stderr
    assert "nothing here" in run("inspect", tmp_path / "nowhere", code=2).stderr


def test_formats(run: Run) -> None:
    text = run("formats").stdout
    for name in ("tree", "raw", "zarr", "lmdb", "webdataset", "hdf5"):
        assert name in text
    assert "--codec" in run("formats", "zarr").stdout
    rows = json.loads(run("formats", "--json").stdout)
    assert {"name", "suffixes", "payloads", "capabilities", "write_options"} <= set(rows[0])
    assert "formats:" in run("formats", "nope", code=2).stderr


@pytest.mark.parametrize("name", ["own.tar", "own.lmdb"])
def test_no_part_of_the_dataset_is_overwritten(
    run: Run, tree: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / name
    run("convert", tree, out)
    part = out if out.is_file() else out / "data.mdb"
    before = part.read_bytes()
    said = run("inspect", out, "--sample", "0", "-o", part, code=2).output
    assert "belongs to the dataset" in said.replace("\n", " ")
    assert part.read_bytes() == before


def test_a_picture_of_the_source_is_not_overwritten(run: Run, tree: Path) -> None:
    image = next(tree.rglob("*.jpg"))
    before = image.read_bytes()
    run("inspect", tree, "--sample", "1", "-o", image, code=2)
    assert image.read_bytes() == before


def test_the_layout_is_in_words(
    run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # no path is folded
    run("convert", tree, tmp_path / "set-%03d.tar", "--shard-samples", 8)
    run("convert", tree, tmp_path / "out", "--to", "tree")
    run("convert", tree, tmp_path / "out.zarr", "--chunk", 5)
    shown = {
        name: " ".join(run("inspect", tmp_path / name).stdout.split())
        for name in ("set-%03d.tar", "out", "out.zarr")
    }
    assert "layout shards 3, samples per shard 4 to 8, bytes per shard" in shown["set-%03d.tar"]
    assert "layout codec none, sidecar " in shown["out"]
    assert "zarr format 3, array images, chunk 5," in shown["out.zarr"]
    assert f"source {tree} (tree)" in shown["out.zarr"]
    for text in shown.values():
        assert not re.search(r"True|False|None|[\[{]", text)


def test_samples_without_a_label_among_others_are_counted(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    assert "no label" not in run("inspect", tree).stdout
    for name in ("x.jpg", "y.jpg"):
        (tree / name).write_bytes(jpeg(40, 48, 5))
    assert "2 of 22, such as x.jpg" in run("inspect", tree).stdout
    assert json.loads(run("inspect", tree, "--json").stdout)["unlabelled_first"] == "x.jpg"
    told = run("convert", tree, tmp_path / "out.raw").stderr.replace("\n", " ")
    assert "2 samples have no label, where others have one, such as x.jpg" in told


def test_a_missing_key_is_answered_with_this_dataset(run: Run, packed: Path) -> None:
    said = run("inspect", packed, "--sample", "nokey", "-o", "one.jpg", code=2).stderr
    assert f"fastdata inspect {packed} shows some keys" in said.replace("\n", "")


def test_notes_of_one_kind_are_put_together(run: Run, tree: Path) -> None:
    for number in range(5):
        (tree / f"empty{number}").mkdir()
    shown = " ".join(run("inspect", tree).stdout.split())
    assert "notes empty-class=5 (empty0, empty1, empty2 …)" in shown
    assert json.loads(run("inspect", tree, "--json").stdout)["notes"]["empty-class: empty4"] == 1


@pytest.mark.parametrize(("dtype", "channels"), [("uint8", 4), ("uint16", 1), ("uint16", 3)])
def test_pixels_that_png_holds_are_taken_out(
    run: Run, tmp_path: Path, dtype: str, channels: int
) -> None:
    values = np.random.default_rng(0).integers(0, 256, (2, 5, 6, channels)).astype(dtype)
    np.save(tmp_path / "a.npy", values)
    run("inspect", tmp_path / "a.npy", "--sample", 1, "-o", tmp_path / "one.png")
    found = cv2.imread(str(tmp_path / "one.png"), cv2.IMREAD_UNCHANGED)
    assert found is not None
    order = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[channels]
    assert found.dtype == values.dtype
    assert (found.reshape(5, 6, channels) == values[1][:, :, order]).all()


@pytest.mark.parametrize(("dtype", "channels"), [("float32", 3), ("int16", 1), ("uint8", 2)])
def test_pixels_that_png_does_not_hold_are_refused_in_words(
    run: Run, tmp_path: Path, dtype: str, channels: int
) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 5, 6, channels), dtype))
    said = run("inspect", tmp_path / "a.npy", "--sample", 0, "-o", tmp_path / "x.png", code=2)
    assert f"{dtype}[5, 6, {channels}]" in said.stderr.replace("\n", " ")
    assert not (tmp_path / "x.png").exists()


def test_options_that_did_nothing_are_not_shown(run: Run, tree: Path, tmp_path: Path) -> None:
    for name, shown in (("kept.lmdb", False), ("sized.raw", True)):
        run("convert", tree, tmp_path / name, *(("--size", 8) if shown else ()))
        text = run("inspect", tmp_path / name).stdout
        assert ("fit crop" in text) == shown
        assert ("interpolation area" in text) == shown


def test_quiet_says_nothing(run: Run, packed: Path, tmp_path: Path) -> None:
    for flags in (("--verify",), ("--json",), ("--sample", 0, "-o", tmp_path / "one.jpg")):
        found = run("inspect", packed, *flags, "--quiet")
        assert found.stderr == ""
        assert bool(found.stdout) == ("-o" not in flags)
