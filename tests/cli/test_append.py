"""``fastdata convert --append``: what is added, and what stays as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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
)
from tests.conftest import Run, jpeg


@GROWING
@pytest.mark.parametrize("payload", ["encoded", "pixels"])
def test_a_grown_tree(run: Run, tree: Path, tmp_path: Path, name: str, payload: str) -> None:
    out, held = tmp_path / name, [str(p.relative_to(tree)) for p in sorted(tree.rglob("*.jpg"))]
    make(run, tree, out, "--payload", payload)
    assert generations(run, out) == []
    new = grow(tree)
    text = append(run, tree, out)
    assert "5 samples are new; 20 of the source are there already" in text
    assert list(open_reader(out).keys()) == [*held, *new]
    make(run, tree, tmp_path / "fresh.raw", "--payload", payload)
    is_sound(run, out, fresh=tmp_path / "fresh.raw")
    first, second = generations(run, out)
    assert (first["number"], first["samples"]) == (1, 20)
    assert (second["number"], second["samples"]) == (2, 5)
    assert first["source"] != second["source"]
    assert "generations" in run("inspect", out).stdout
    assert not staging_root(out).exists()


@GROWING
def test_a_class_in_the_middle_of_the_alphabet_takes_the_next_number(
    run: Run, tree: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / name
    make(run, tree, out)
    before = open_reader(out).labels().tolist()
    grow(tree, "class01", count=3)
    grow(tree, "class2", count=2, seed=600)
    assert "new classes take the next numbers, whatever their names: 3 class01" in append(
        run, tree, out
    )
    found = open_reader(out)
    assert found.schema.class_names == ("class0", "class1", "class2", "class01")
    assert found.labels().tolist() == [*before, 3, 3, 3, 2, 2]
    make(run, tree, tmp_path / "fresh.raw", "--payload", "encoded", "--classes", out)
    is_sound(run, out, fresh=tmp_path / "fresh.raw")


def test_shards_of_two_generations_are_read_without_their_index(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "sets"
    folder.mkdir()
    out = folder / "part-%06d.tar"
    make(run, tree, out)
    before = content(folder)
    grow(tree, "another")
    append(run, tree, out)
    after = content(folder)
    index = f"{out.name}.fastdata.json"
    assert {name: after[name] for name in before if name != index} == {
        name: data for name, data in before.items() if name != index
    }, "shards that were there are not touched"
    (folder / index).unlink()
    assert list(open_reader(folder).keys()) == list(open_reader(out).keys())
    assert open_reader(folder).schema.class_names[-1] == "another"


@GROWING
def test_appended_again_and_again(run: Run, tree: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    make(run, tree, out)
    for number in range(3):
        grow(tree, f"more{number}", count=2, seed=700 + 10 * number)
        append(run, tree, out)
    assert [each["samples"] for each in generations(run, out)] == [20, 2, 2, 2]
    make(run, tree, tmp_path / "fresh.raw", "--payload", "encoded", "--classes", out)
    is_sound(run, out, fresh=tmp_path / "fresh.raw")


@pytest.mark.parametrize("payload", ["encoded", "pixels"])
def test_what_changed_or_went_away_stays_and_is_named(
    run: Run, tree: Path, tmp_path: Path, payload: str
) -> None:
    out = tmp_path / "out.lmdb"
    make(run, tree, out, "--payload", payload)
    before = open_reader(out).read(1).image.copy()
    (tree / "class0" / "0003.jpg").write_bytes(jpeg(40, 48, 999))
    (tree / "class0" / "0006.jpg").touch()  # newer, and the same
    (tree / "class2" / "0002.jpg").unlink()
    text = append(run, tree, out)
    assert "1 sample has changed in the source, and not in the dataset: class0/0003.jpg" in text
    assert "1 sample no longer in the source, and kept: class2/0002.jpg" in text
    assert "nothing new" in text
    assert np.array_equal(open_reader(out).read(1).image, before)
    grow(tree, count=1)
    assert "changed in the source" in append(run, tree, out)
    assert len(open_reader(out)) == 21


def test_another_label_is_named(run: Run, tree: Path, tmp_path: Path) -> None:
    out, table = tmp_path / "out.lmdb", tmp_path / "labels.csv"
    keys = [str(p.relative_to(tree)) for p in sorted(tree.rglob("*.jpg"))]
    table.write_text("".join(f"{key},cat\n" for key in keys))
    make(run, tree, out, "--labels", table)
    (new,) = grow(tree, count=1)
    table.write_text("".join(f"{key},cat\n" for key in keys[1:]) + f"{keys[0]},ant\n{new},cat\n")
    text = append(run, tree, out, "--labels", table)
    assert f"1 sample relabelled in the source, and kept with the old label: {keys[0]}" in text
    assert "1 ant" in text
    assert open_reader(out).labels().tolist() == [0] * 21
