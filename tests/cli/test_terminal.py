"""Nothing that a terminal obeys is printed, wherever in a dataset it stands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fastdata_cli import registry
from fastdata_cli.sample import Payload
from fastdata_cli.testing.synthetic import encoded_samples, png, write_dataset
from tests.cli.hostile import HOSTILE, OBEYED, clean_words, pickled_zarr, tar
from tests.conftest import Run


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def hostile_tree(folder: Path) -> Path:
    root = folder / HOSTILE
    (root / HOSTILE).mkdir(parents=True)
    (root / HOSTILE / f"{HOSTILE}.png").write_bytes(png(3, 4, 0))
    (root / HOSTILE / f"broken {HOSTILE}.png").write_bytes(png(3, 4, 0)[:40])
    (root / "dog").mkdir()
    (root / "dog" / "b.png").write_bytes(png(3, 4, 1))
    return root


@pytest.mark.parametrize("suffix", [".zarr", ".lmdb", ".tar", ".tfrecord", ".h5", ".raw", ""])
def test_names_are_never_printed_raw(tmp_path: Path, run: Run, suffix: str) -> None:
    root, out = hostile_tree(tmp_path), tmp_path / f"{HOSTILE}out{suffix}"
    to = [] if suffix else ["--to", "tree"]
    clean_words(run("convert", root, out, *to, "--max-bad", "100%"))
    clean_words(run("convert", root, out, *to, code=2))  # it is there
    clean_words(run("inspect", out))
    clean_words(run("inspect", out, "--json"))
    clean_words(run("inspect", out, "--verify"))
    clean_words(run("inspect", root, code=0))
    (root / "dog" / f"{HOSTILE}.png").write_bytes(png(5, 4, 1))
    clean_words(run("inspect", "--diff", root, out, code=3))
    clean_words(run("inspect", f"{out}{HOSTILE}", code=2))
    clean_words(run("inspect", out, "--sample", HOSTILE, "-o", tmp_path / "x.png", code=2))


def test_clean_says_nothing_raw(tmp_path: Path, run: Run) -> None:
    root = hostile_tree(tmp_path)
    clean_words(run("clean", root, "--json"))
    moved = run("clean", root, "--quarantine", tmp_path / f"bad{HOSTILE}")
    assert OBEYED.search(moved.stderr) is None
    assert HOSTILE in moved.stdout, "names go to a pipe as they are"


def foreign_codec(folder: Path) -> Path:
    path = pickled_zarr(folder, codec=HOSTILE)
    file = path / "images" / ".zarray"
    file.write_text(file.read_text().replace("|O", "|u1"))
    return path


def foreign_arrays(folder: Path) -> Path:
    import h5py

    path = folder / "set.h5"
    with h5py.File(path, "w") as file:
        for name in ("x", "y"):
            file[f"{name}{HOSTILE}"] = np.zeros((2, 8, 8, 3), np.uint8)
    return path


def foreign_manifest(folder: Path) -> Path:
    row = registry.get("raw")
    path = write_dataset(row, folder / "set.raw", encoded_samples(3), Payload.ENCODED)
    record = json.loads((path / "meta.json").read_text())
    record["manifest"].update(
        tool=HOSTILE,
        source={HOSTILE: HOSTILE},
        options={HOSTILE: 1},
        counts={"notes": {HOSTILE: 3}},
    )
    record["manifest"]["schema"]["class_names"] = [HOSTILE, "a", "b"]
    (path / "meta.json").write_text(json.dumps(record))
    return path


def foreign_tar(folder: Path) -> Path:
    return tar(
        folder / "set.tar",
        {
            f"{HOSTILE}.png": png(3, 4, 0),
            f"{HOSTILE}.cls": HOSTILE.encode(),
            f"{HOSTILE}2.png": b"x",
        },
    )


@pytest.mark.parametrize(
    "make", [foreign_codec, foreign_arrays, foreign_manifest, foreign_tar], ids=lambda m: m.__name__
)
@pytest.mark.parametrize("verb", ["inspect", "convert"])
def test_what_is_inside_is_never_printed_raw(
    tmp_path: Path, application: object, make: Callable[[Path], Path], verb: str
) -> None:
    words = [verb, str(make(tmp_path)), *(["out.raw"] if verb == "convert" else ["--verify"])]
    result = CliRunner().invoke(application, words)  # type: ignore[arg-type]
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "internal error" not in result.output
    clean_words(result)


def half_zarr(folder: Path) -> Path:
    import zarr

    path = folder / "set.zarr"
    root = zarr.open_group(path, mode="w")
    root.create_array("images", data=np.ones((2, 8, 8, 3), np.uint8))
    root.create_array("labels", data=np.array([0, 1]), attributes={"class_names": ["\ud800", "a"]})
    return path


def half_parquet(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    label = {"names": ["\ud800", "a"], "_type": "ClassLabel"}
    facts = json.dumps({"info": {"features": {"image": {"_type": "Image"}, "label": label}}})
    table = pa.table({"image": [{"bytes": png(3, 4, 0), "path": "0.png"}], "label": [1]})
    path = folder / "set.parquet"
    pq.write_table(table.replace_schema_metadata({"huggingface": facts}), path)
    return path


@pytest.mark.parametrize("make", [half_zarr, half_parquet])
def test_half_a_character_in_a_class_name(
    tmp_path: Path, run: Run, make: Callable[[Path], Path]
) -> None:
    path = make(tmp_path)
    clean_words(run("inspect", path))
    run("convert", path, "out.raw")
    assert registry.open_reader(tmp_path / "out.raw").schema.class_names == ("\ufffd", "a")


def test_half_a_character_in_a_quarantine_list(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "bad.png").write_bytes(b"no image")
    run("clean", folder, "--quarantine", "bad")
    (listed,) = (tmp_path / "bad").glob("*.jsonl")
    listed.write_text(listed.read_text().replace('"from": "', '"from": "/\\ud800'))
    result = run("clean", "--restore", "bad", code=1)
    assert "internal error" not in result.output
