"""How an append ends when it is killed, has no room, or meets others; and what it leaves alone."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fastdata_cli import open_reader
from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.operations import convert
from fastdata_cli.storage.staging import staging_root
from tests.cli.growing import (
    GROWING,
    append,
    content,
    grow,
    make,
    rejected,
    state,
)
from tests.conftest import Run, jpeg


def written(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return which file stands where, and when it was last changed."""
    found = {path: path.stat() for path in folder.rglob("*")}
    return {path: (facts.st_ino, facts.st_ctime_ns) for path, facts in found.items()}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("name", ["out.lmdb", "out.tar"])
def test_another_dataset_in_its_place_is_noticed(
    run: Run, tree: Path, tmp_path: Path, name: str
) -> None:
    make(run, tree, tmp_path / name)
    reader = open_reader(tmp_path / name)
    before = state(reader)
    grow(tree, "class01")
    make(run, tree, tmp_path / name, "--overwrite")
    assert state(reader) == before

    def is_refused() -> bool:
        with pytest.raises(DamagedDatasetError, match="added to, replaced or damaged since"):
            reader.read_many([0])
        return True

    assert in_a_fork(is_refused)


@GROWING
def test_nothing_new_touches_nothing(run: Run, tree: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "sets"
    folder.mkdir()
    make(run, tree, folder / name)
    before = written(folder)
    assert "nothing new" in append(run, tree, folder / name)
    assert written(folder) == before


@pytest.mark.parametrize("payload", ["encoded", "pixels"])
def test_new_samples_that_are_all_bad_are_listed_and_the_dataset_stays(
    run: Run, tree: Path, tmp_path: Path, payload: str
) -> None:
    out = tmp_path / "out.lmdb"
    make(run, tree, out, "--payload", payload)
    before = content(out)
    (tree / "class0" / "empty.jpg").write_bytes(b"")
    append(run, tree, out)
    assert content(out) == before
    assert rejected(out) == [("class0/empty.jpg", "empty", 7)]
    (tree / "class0" / "empty.jpg").write_bytes(b"no image")
    run("convert", tree, out, "--retry-bad")
    assert content(out) == before
    assert rejected(out) == [("class0/empty.jpg", "not-an-image", 7)]
    assert not staging_root(out).exists()


def test_a_list_that_a_killed_run_left_too_long_is_put_right(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    out, bad = tmp_path / "out.tar", tree / "class0" / "bad.jpg"
    bad.write_bytes(b"")
    make(run, tree, out)
    listed = (tmp_path / "out.tar.rejects.jsonl").read_bytes()
    bad.write_bytes(jpeg(40, 48, 5))
    run("convert", tree, out, "--retry-bad")
    (tmp_path / "out.tar.rejects.jsonl").write_bytes(listed)  # killed before it was written
    assert "nothing new" in append(run, tree, out)
    assert rejected(out) == []


def in_a_fork(succeeds: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os._exit(0 if succeeds() else 1)
        os._exit(2)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@GROWING
def test_a_reader_that_is_open_never_mixes_the_old_and_the_new(
    run: Run, tree: Path, tmp_path: Path, name: str
) -> None:
    make(run, tree, tmp_path / name)
    used, unused = open_reader(tmp_path / name), open_reader(tmp_path / name)
    before = state(used)
    for seed in (500, 600):
        grow(tree, seed=seed)
        append(run, tree, tmp_path / name)
        assert state(used) == before
        assert in_a_fork(lambda: state(used) == before)  # it opens the files anew
    used.close()  # and here what stands beside the images, too
    for reader in (used, unused):
        if "%" in name:  # its shards stay as they are
            assert state(reader) == before
        else:
            with pytest.raises(DamagedDatasetError, match="added to, replaced or damaged since"):
                reader.read_many([0])
            with pytest.raises(DamagedDatasetError, match="added to, replaced or damaged since"):
                reader.keys()


def test_a_shard_in_the_way_is_not_replaced(run: Run, tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "part-%06d.tar"
    make(run, tree, out)
    grow(tree)
    stranger = tmp_path / "part-000004.tar"
    stranger.write_bytes(b"mine")
    assert "part-000004.tar exists already" in append(run, tree, out, code=2)
    assert stranger.read_bytes() == b"mine"
    assert len(open_reader(out)) == 20
    assert not staging_root(out).exists()


def test_a_link_leads_to_the_dataset(run: Run, tree: Path, tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "out.tar"
    real.mkdir()
    make(run, tree, real / "out.tar")
    link.symlink_to(real / "out.tar")
    grow(tree)
    append(run, tree, link)
    assert link.is_symlink()
    assert len(open_reader(real / "out.tar")) == 25


def test_the_rest_of_the_folder_stays(run: Run, tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.lmdb"
    make(run, tree, out)
    (out / "README").write_text("mine")
    old = open_reader(out)
    first = old.read(0).image.copy()
    grow(tree)
    append(run, tree, out)
    assert (out / "README").read_text() == "mine"
    assert np.array_equal(old.read(0).image, first), "who has the old file open keeps it"


# Imitates kill -9 at the nth time that something touches the files around the destination.
_KILLED = """
    import os, sys
    from fastdata_cli.contract import PartLimits
    from fastdata_cli.formats.lmdb.writer import LmdbWriter
    from fastdata_cli.formats.staged import StagedWriter
    from fastdata_cli.cli.main import main
    left, folder = int(sys.argv.pop(1)), os.fsencode(sys.argv.pop(1))
    StagedWriter.limits = LmdbWriter.limits = PartLimits(samples=4)
    def count(event, arguments):
        global left
        paths = (each for each in arguments if isinstance(each, (str, bytes, os.PathLike)))
        if any(folder in os.fsencode(each) for each in paths):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), 9)
    sys.addaudithook(count)
    main()
"""
_MOMENTS = {"out.lmdb": 66, "out.tar": 90, "out-%06d.tar": 92}


def killed_at(moment: int, out: Path, *arguments: object) -> int:
    script = textwrap.dedent(_KILLED)
    words = [sys.executable, "-c", script, str(moment), str(out.parent), *map(str, arguments)]
    return subprocess.run(words, check=False, capture_output=True).returncode


@pytest.mark.parametrize("name", _MOMENTS)
def test_killed_at_any_moment(run: Run, tree: Path, tmp_path: Path, name: str) -> None:
    start, work = tmp_path / "start", tmp_path / "work"
    start.mkdir()
    make(run, tree, start / name)
    before = state(open_reader(start / name))
    grow(tree, "class01", count=9)
    (tree / "class01" / "bad.jpg").write_bytes(b"")
    shutil.copytree(start, work)
    append(run, tree, work / name)
    after = state(open_reader(work / name))
    killed = 0
    for moment in random.Random(name).sample(range(5, _MOMENTS[name]), 4):
        shutil.rmtree(work)
        shutil.copytree(start, work)
        command = ("convert", tree, work / name, "--append", "-q")
        killed += killed_at(moment, work / name, *command) == -9
        found = state(open_reader(work / name))
        assert found in (before, after), moment
        append(run, tree, work / name)
        assert state(open_reader(work / name)) == after, moment
        assert [key for key, _, _ in rejected(work / name)] == ["class01/bad.jpg"]
        assert not staging_root(work / name).exists()
        run("inspect", work / name, "--verify")
    assert killed > 2


@GROWING
def test_a_full_disk_leaves_the_old_dataset(
    run: Run, tree: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / name
    make(run, tree, out)
    before = state(open_reader(out))
    noise = np.random.default_rng(1).integers(0, 256, 400_000, np.uint8).tobytes()
    (tree / "class1" / "zz.jpg").write_bytes(jpeg(40, 48, 4) + noise)
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000));"
        "from fastdata_cli.cli.main import main; main()"
    )
    words = [sys.executable, "-c", script, "convert", tree, out, "--append", "--no-preflight"]
    done = subprocess.run(list(map(str, words)), check=False, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "file too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert state(open_reader(out)) == before
    append(run, tree, out)
    assert len(open_reader(out)) == 21
    run("inspect", out, "--verify")


def test_a_run_that_another_overtook_is_refused(
    run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.lmdb"
    make(run, tree, out)
    grow(tree)
    begin = convert._Run._begin

    def overtaken(self: object, writer: object) -> object:
        monkeypatch.setattr(convert._Run, "_begin", begin)
        append(run, tree, out)
        return begin(self, writer)  # type: ignore[arg-type]

    monkeypatch.setattr(convert._Run, "_begin", overtaken)
    assert "changed by another run" in append(run, tree, out, code=1)
    assert len(open_reader(out)) == 25
    assert not staging_root(out).exists()


def test_stray_shards_of_an_unfinished_run_are_not_read_with_the_folder(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "sets"
    folder.mkdir()
    out = folder / "part-%06d.tar"
    make(run, tree, out)
    os.makedirs(staging_root(out))
    (staging_root(out) / "journal.jsonl").write_text("{}\n")
    shutil.copy(folder / "part-000000.tar", folder / "part-000004.tar")
    assert len(open_reader(folder)) == 20
