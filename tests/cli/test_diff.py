"""``fastdata inspect --diff`` as its users type it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import zarr

from tests.conftest import Run, jpeg


def _diff(run: Run, first: Path, second: Path, code: int = 3) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        run("inspect", "--diff", first, second, "--json", code=code).stdout
    )
    return found


@pytest.mark.parametrize("name", ["b.tar", "b.lmdb", "b.raw", "b.zarr", "b.h5"])
def test_every_format_is_equal_to_the_tree_it_was_made_from(
    run: Run, tree: Path, tmp_path: Path, name: str
) -> None:
    run("convert", tree, tmp_path / name, "--payload", "encoded")
    found = _diff(run, tree, tmp_path / name, code=0)
    assert found["equal"]
    assert found["same_order"]
    assert found["compared"] == 20
    assert found["compared_as"] == "bytes"


def test_pixels_are_compared_with_decoded_files(run: Run, tree: Path, tmp_path: Path) -> None:
    run("convert", tree, tmp_path / "b.zarr", "--chunk", 8)
    found = _diff(run, tree, tmp_path / "b.zarr", code=0)
    assert found["equal"]
    assert found["compared_as"] == "pixels"
    assert "equal: 20 samples" in run("inspect", "--diff", tree, tmp_path / "b.zarr").stdout


def test_what_differs_is_named(run: Run, tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(tree, other)
    (other / "class0" / "0000.jpg").unlink()
    (other / "class1" / "new.jpg").write_bytes(jpeg(40, 48, 99))
    (other / "class1" / "0001.jpg").write_bytes(jpeg(40, 48, 98))
    (other / "class2" / "0002.jpg").write_bytes(jpeg(20, 48, 2))
    with open(other / "class0" / "0003.jpg", "ab") as file:
        file.write(b"trailer")
    (other / "class2" / "0005.jpg").write_bytes(b"no image")
    found = _diff(run, tree, other)
    kinds = {each["key"]: each["kind"] for each in found["differences"]}
    assert kinds == {
        "class0/0000.jpg": "only-in-first",
        "class1/new.jpg": "only-in-second",
        "class1/0001.jpg": "bytes",
        "class2/0002.jpg": "bytes",
        "class0/0003.jpg": "bytes",
        "class2/0005.jpg": "bytes",
    }
    detail = {each["key"]: each["detail"] for each in found["differences"]}
    assert detail["class0/0003.jpg"] == "the pixels are the same"
    assert "by up to" in detail["class1/0001.jpg"]
    assert "[20, 48, 3]" in detail["class2/0002.jpg"]
    assert found["counts"] == {"bytes": 4, "only-in-first": 1, "only-in-second": 1}
    assert found["samples"] == [20, 20]


def test_the_largest_difference_is_measured(run: Run, tmp_path: Path) -> None:
    pixels = np.full((6, 7, 3), 100, np.uint8)
    for name, change in (("one", 0), ("two", 9)):
        pixels[2, 3, 1] += change
        (tmp_path / name / "a").mkdir(parents=True)
        assert cv2.imwrite(str(tmp_path / name / "a" / "x.png"), pixels)
        run("convert", tmp_path / name, tmp_path / f"{name}.raw")
    found = _diff(run, tmp_path / "one.raw", tmp_path / "two.raw")
    assert found["largest"] == 9
    assert found["differences"][0]["detail"] == "1 of 42 pixels differ, by up to 9"


@pytest.mark.parametrize(
    ("change", "largest", "words"),
    [
        (0.25, 0.25, "1 of 42 pixels differ, by up to 0.25"),
        (np.inf, 0, "1 of 42 pixels differ, by what is no number"),
        (np.nan, 0, "1 of 42 pixels differ, by what is no number"),
    ],
)
def test_floating_point_is_compared_too(
    run: Run, tmp_path: Path, change: float, largest: float, words: str
) -> None:
    pixels = np.full((1, 6, 7, 3), 0.5, np.float32)
    pixels[0, 0, 0] = np.nan  # the same in both
    for name, added in (("one", 0.0), ("two", change)):
        pixels[0, 2, 3, 1] += added
        zarr.create_array(tmp_path / name / "images", data=pixels)
        zarr.open_group(tmp_path / name)
    found = _diff(run, tmp_path / "one", tmp_path / "two")
    assert found["largest"] == largest
    assert found["differences"][0]["detail"] == words


def test_labels_are_compared_by_name(run: Run, tree: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("class2\nclass1\nclass0\n")
    run("convert", tree, tmp_path / "a.tar")
    run("convert", tree, tmp_path / "b.tar", "--classes", names)
    found = _diff(run, tmp_path / "a.tar", tmp_path / "b.tar")
    assert found["counts"] == {"classes": 1}
    labels = tmp_path / "labels.csv"
    labels.write_text("key,label\n" + "".join(f"class{i % 3}/{i:04d}.jpg,x\n" for i in range(20)))
    run("convert", tree, tmp_path / "c.tar", "--labels", labels)
    assert _diff(run, tmp_path / "a.tar", tmp_path / "c.tar")["counts"]["label"] == 20


def test_a_damaged_sample_is_no_equal_one(run: Run, tree: Path, tmp_path: Path) -> None:
    for name in ("a.raw", "b.raw"):
        run("convert", tree, tmp_path / name)
    data = bytearray((tmp_path / "b.raw" / "data.raw").read_bytes())
    data[5] ^= 1
    (tmp_path / "b.raw" / "data.raw").write_bytes(data)
    found = _diff(run, tmp_path / "a.raw", tmp_path / "b.raw")
    assert found["counts"] == {"unreadable": 1}
    assert "in the second: corrupt" in found["differences"][0]["detail"]


def test_another_order_is_said_and_no_difference(run: Run, tree: Path, tmp_path: Path) -> None:
    files = sorted(tree.rglob("*.jpg"), reverse=True)
    (tmp_path / "list").write_text("".join(f"{file}\n" for file in files))
    run("convert", tmp_path / "b.tar", "--files-from", tmp_path / "list", "--root", tree)
    found = _diff(run, tree, tmp_path / "b.tar", code=0)
    assert found["equal"]
    assert not found["same_order"]
    assert "not the same" in run("inspect", "--diff", tree, tmp_path / "b.tar").stdout


def test_it_takes_two(run: Run, tree: Path) -> None:
    assert "--diff A B" in run("inspect", "--diff", tree, code=2).stderr
    assert "--diff A B" in run("inspect", tree, tree, code=2).stderr


def test_every_documented_field_is_there_and_no_other(run: Run, tree: Path, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "diff-json.md").read_text()
    documented = {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")}
    assert set(_diff(run, tree, tree, code=0)) == documented
