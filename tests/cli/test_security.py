"""Datasets that mean harm: nothing is unpickled, no command is run, no name leads out."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fastdata_cli import registry
from fastdata_cli.sample import Payload
from fastdata_cli.testing.synthetic import encoded_samples, png, write_dataset
from tests.cli.hostile import Bomb, pickled_zarr, tar
from tests.conftest import Run


@pytest.fixture(autouse=True)
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test does, no command of the data is run."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "owned").exists(), "a command was run"


# -- nothing is unpickled


def pickled_lmdb(folder: Path) -> Path:
    import lmdb

    path = folder / "set.lmdb"
    with lmdb.open(str(path), subdir=False, lock=False) as base, base.begin(write=True) as writing:
        for number in range(3):
            writing.put(b"%d" % number, pickle.dumps((Bomb(), number)))
    return path


def pickled_npy(folder: Path) -> Path:
    path = folder / "set.npy"
    np.save(path, np.array([Bomb(), Bomb()], object), allow_pickle=True)
    return path


def pickled_raw(folder: Path) -> Path:
    row = registry.get("raw")
    path = write_dataset(row, folder / "set.raw", encoded_samples(3), Payload.ENCODED)
    np.save(path / "labels.npy", np.array([Bomb()] * 3, object), allow_pickle=True)
    return path


def pickled_shard(folder: Path) -> Path:
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb()], object), allow_pickle=True)
    return tar(folder / "set.tar", {"a.npy": buffer.getvalue(), "a.pyd": pickle.dumps(Bomb())})


@pytest.mark.parametrize("make", [pickled_lmdb, pickled_npy, pickled_raw, pickled_zarr])
@pytest.mark.parametrize("verb", ["convert", "inspect", "bench"])
def test_pickles_are_refused(
    tmp_path: Path, run: Run, make: Callable[[Path], Path], verb: str
) -> None:
    path = make(tmp_path)
    words = {
        "convert": (path, tmp_path / "out.raw"),
        "inspect": (path,),
        "bench": (path, "--quick"),
    }
    # Of what others made it is a kind that is not read; in a layout of our own it is damage.
    result = run(verb, *words[verb], code=1 if make is pickled_raw else 2)
    assert re.search("pickled|run code", result.stderr), result.stderr


def test_pickles_in_a_shard_stay_where_they_are(tmp_path: Path, run: Run) -> None:
    result = run("convert", pickled_shard(tmp_path), tmp_path / "out.raw", code=1)
    assert "no images" in result.stderr


# -- no command is run unasked


def test_a_pipe_is_run_only_when_allowed(tmp_path: Path, run: Run) -> None:
    shard = tar(tmp_path / "a b.tar", {"x.png": png(3, 4, 0), "x.cls": b"1"})
    source = f"pipe:cat '{shard}'; echo some words >&2"
    for verb in ("inspect", "bench", "clean"):
        assert "command" in run(verb, "pipe:touch owned", code=2).stderr
    refused = run("convert", "pipe:touch owned", "out.raw", code=2)
    assert "--allow-pipe" in refused.stderr
    run("convert", source, "out.raw", "--allow-pipe")
    reader = registry.open_reader(tmp_path / "out.raw")
    assert (reader.read(0).key, reader.read(0).label) == ("x.png", 1)


def test_a_pipe_that_fails_is_named(tmp_path: Path, run: Run) -> None:
    shard = tar(tmp_path / "set.tar", {"x.png": png(3, 4, 0)})
    source = f"pipe:cat {shard}; echo 'no such bucket' >&2; exit 7"
    result = run("convert", source, "out.raw", "--allow-pipe", code=1)
    assert "ended with status 7: no such bucket" in result.stderr
    assert not (tmp_path / "out.raw").exists()


# -- names stay within the destination


ASTRAY = (
    "../out.png", "../../out.png", "/abs.png", "a/../../b.png", "./c.png", "d//e.png", "..",
    "f/..", "con.png", "trailing./x.png", "~root.png", "-rf.png", "g\\..\\h.png", "NUL.png",
)  # fmt: skip


def test_no_name_leads_out_of_a_tree(tmp_path: Path, run: Run) -> None:
    names = [f"{name}/x.png" for name in ASTRAY] + [f"{name}~.png" for name in ASTRAY]
    source = tar(tmp_path / "set.tar", {name: png(3, 4, n) for n, name in enumerate(names)})
    inside = tmp_path / "inside"
    inside = tmp_path / "inside"
    inside.mkdir()
    before = sorted(tmp_path.iterdir())
    run("convert", source, inside / "out", "--to", "tree")
    assert sorted(tmp_path.iterdir()) == before
    assert sorted(entry.name for entry in inside.iterdir()) == ["out", "out.fastdata"]
    files = [entry for entry in (inside / "out").rglob("*") if entry.is_file()]
    assert len(files) == len(names) - 2, "two names are dots and no suffix"
    assert all(entry.resolve().is_relative_to(inside / "out") for entry in files)
    keys = set(registry.open_reader(source).keys())
    assert set(registry.open_reader(inside / "out").keys()) == keys


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("place", ["out", ".out.fastdata-partial", "out.fastdata"])
def test_a_link_in_the_way_is_not_followed(
    tmp_path: Path, application: object, place: str, overwrite: bool
) -> None:
    source = tmp_path / "images" / "cat"
    source.mkdir(parents=True)
    (source / "a.png").write_bytes(png(3, 4, 0))
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious.png").write_bytes(png(3, 4, 1))
    (tmp_path / place).symlink_to(victim)
    words = ["convert", str(tmp_path / "images"), str(tmp_path / "out"), "--to", "tree"]
    result = CliRunner().invoke(application, [*words, *(["--overwrite"] * overwrite)])  # type: ignore[arg-type]
    assert result.exit_code == 2, result.output
    assert str(tmp_path / place) in result.stderr
    assert [entry.name for entry in victim.iterdir()] == ["precious.png"]
    assert (victim / "precious.png").read_bytes() == png(3, 4, 1)


def test_no_key_of_a_database_leads_out_of_a_tree(tmp_path: Path, run: Run) -> None:
    import lmdb

    keys = [b"../out.png", b"/abs.png", b"a\0b.png", b"..", b"", b"x/\0/../../y.png", b"\xff/../z"]
    source = tmp_path / "set.lmdb"
    with (
        lmdb.open(str(source), subdir=False, lock=False) as base,
        base.begin(write=True) as writing,
    ):
        for number, key in enumerate(filter(None, keys)):
            writing.put(key, png(3, 4, number))
    inside = tmp_path / "inside"
    inside.mkdir()
    before = sorted(tmp_path.iterdir())
    run("convert", source, inside / "out", "--to", "tree")
    assert sorted(tmp_path.iterdir()) == before
    assert sorted(entry.name for entry in inside.iterdir()) == ["out", "out.fastdata"]
    files = [entry for entry in (inside / "out").rglob("*") if entry.is_file()]
    assert len(files) == len(keys) - 1
    assert all(entry.resolve().is_relative_to(inside / "out") for entry in files)
