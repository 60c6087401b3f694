"""How a run of ``fastdata convert`` ends when it is disturbed late, or its list comes oddly."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fastdata_cli import open_reader, registry
from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.formats.staged import StagedWriter
from fastdata_cli.sample import Payload, Sample
from fastdata_cli.storage import durable
from fastdata_cli.storage.staging import Staging, staging_root
from fastdata_cli.testing import write_dataset
from tests.conftest import Run

NAMES = ["out.zarr", "out.raw", "out.h5", "out.lmdb", "out.tar", "part-%06d.tar", "out"]
FASTDATA = [sys.executable, "-m", "fastdata_cli"]


def file_with(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def convert(run: Run, source: Path, out: Path, *flags: object, code: int = 0) -> str:
    to = () if out.suffix else ("--to", "tree")
    return run("convert", source, out, *to, *flags, code=code).output


def interrupts(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Press Ctrl-C this often when a dataset is being published."""
    publish = StagedWriter._reveal

    def pressed(writer: StagedWriter) -> None:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        publish(writer)

    monkeypatch.setattr(StagedWriter, "_reveal", pressed)


def killed_when_published(run: Run, source: Path, out: Path) -> None:
    """Leave what a run leaves that is killed after its last rename."""
    leave = Staging.abort

    def die(staging: Staging, *, keep: bool) -> None:
        leave(staging, keep=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Staging, "abort", die)
        convert(run, source, out)
    assert staging_root(out).is_dir()


def test_a_late_interruption_waits_for_the_dataset_and_its_list(
    run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "class0" / "bad.jpg").write_bytes(b"")
    interrupts(monkeypatch, 1)
    text = convert(run, tree, tmp_path / "out.raw", code=130)
    assert "too late" in text
    assert "out.raw is complete" in text.replace("\n", "")
    assert len(open_reader(tmp_path / "out.raw")) == 20
    assert (tmp_path / "out.raw.rejects.jsonl").exists()
    assert not staging_root(tmp_path / "out.raw").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    "when",
    [
        "fastdata_cli.operations.convert.ConvertReport.__init__",
        "fastdata_cli.cli.commands.convert._show",
    ],
)
@pytest.mark.parametrize("name", ["out.raw", "part-%06d.tar", "out"])
def test_an_interruption_behind_the_publishing_says_that_all_is_there(
    run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, name: str
) -> None:
    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(when, pressed)
    text = convert(run, tree, tmp_path / name, code=130)
    assert "too late" in text
    assert len(open_reader(tmp_path / name)) == 20


@pytest.mark.parametrize("name", NAMES)
def test_a_place_in_the_source_is_refused(run: Run, tree: Path, name: str) -> None:
    """The next reading of the folder would take it for a class."""
    assert "lies in the source" in convert(run, tree, tree / name, code=2).replace("\n", " ")
    assert not (tree / name).exists()


def test_a_second_interruption_is_obeyed(
    run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts(monkeypatch, 2)
    assert "finished parts are kept" in convert(run, tree, tmp_path / "out.raw", code=130)
    assert not (tmp_path / "out.raw").exists()
    monkeypatch.undo()
    said = convert(run, tree, tmp_path / "out.raw")
    assert "20 samples are there" in said
    assert "samples/s" not in said, "nothing was left to make"
    assert len(open_reader(tmp_path / "out.raw")) == 20


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_was_killed_when_all_was_published_is_done(
    run: Run, tree: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / name
    killed_when_published(run, tree, out)
    text = convert(run, tree, out).replace("\n", " ")
    assert "is complete: the run before had published it when it was killed" in text
    assert staging_root(out).name in text
    assert not staging_root(out).exists()
    assert len(open_reader(out)) == 20
    assert "exists already" in convert(run, tree, out, code=2)


def test_what_another_command_had_published_is_refused_and_cleared(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.raw"
    killed_when_published(run, tree, out)
    text = convert(run, tree, out, "--size", 8, code=2).replace("\n", " ")
    assert "exists already" in text
    assert "is cleared away" in text
    assert not staging_root(out).exists()
    assert len(open_reader(out)) == 20


@pytest.mark.parametrize("name", ["publishing", "journal.jsonl", "data"])
def test_a_kill_while_the_place_is_cleared(run: Run, tree: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out.raw"
    killed_when_published(run, tree, out)
    place = staging_root(out)
    gone = place / name
    gone.rmdir() if gone.is_dir() else gone.unlink()
    if name == "publishing":  # removed last: all else is gone then
        for entry in ("journal.jsonl", "data"):
            path = place / entry
            path.rmdir() if path.is_dir() else path.unlink()
    convert(run, tree, out, code=0 if name == "data" else 2)
    assert not place.exists()
    assert len(open_reader(out)) == 20


def test_a_dataset_that_was_moved_away_is_made_again(run: Run, tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.raw"
    killed_when_published(run, tree, out)
    out.rename(tmp_path / "elsewhere.raw")
    convert(run, tree, out)
    assert len(open_reader(out)) == 20
    assert not staging_root(out).exists()


def test_a_sidecar_goes_with_the_tree_that_it_belonged_to(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    out, sidecar = tmp_path / "out", tmp_path / "out.fastdata"
    convert(run, tree, out)
    assert sidecar.is_dir()
    run("convert", tree, out, "--to", "lmdb", "--overwrite")
    assert not sidecar.exists()
    assert len(open_reader(out)) == 20
    convert(run, tree, out, "--overwrite")
    assert sidecar.is_dir(), "and comes with a tree"


@pytest.mark.parametrize("renames", [0, 1])
def test_a_tree_that_was_being_replaced_is_refused_until_it_is(
    run: Run, tree: Path, mixed_tree: Path, tmp_path: Path, renames: int
) -> None:
    out, exchange, done = tmp_path / "out", durable.exchange, iter(range(renames))
    convert(run, tree, out)

    def failing(source: Path, target: Path) -> None:
        if next(done, None) is None:
            raise OSError(errno.EIO, "pulled out")
        exchange(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "exchange", failing)
        convert(run, mixed_tree, out, "--overwrite", code=1)
    with pytest.raises(DamagedDatasetError, match="incomplete"):
        open_reader(out)
    (staging_root(out) / "journal.jsonl").unlink(missing_ok=True)
    convert(run, mixed_tree, out, "--overwrite")
    assert len(open_reader(out)) == 20
    assert not staging_root(out).exists()
    run("inspect", "--diff", mixed_tree, out)


def test_a_folder_of_that_name_that_is_no_sidecar_stays(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "out.lmdb.fastdata" / "thesis.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    convert(run, tree, tmp_path / "out.lmdb")
    convert(run, tree, tmp_path / "out.lmdb", "--overwrite")
    assert mine.read_text() == "mine"


def test_a_list_with_a_byte_order_mark(run: Run, tree: Path, tmp_path: Path) -> None:
    listed = b"\xef\xbb\xbf" + b"".join(
        os.fsencode(path) + b"\r\n" for path in sorted(tree.rglob("*.jpg"))
    )
    run("convert", "--files-from", file_with(tmp_path / "list.txt", listed), tmp_path / "out.lmdb")
    assert len(open_reader(tmp_path / "out.lmdb")) == 20


def test_empty_labels_are_counted(run: Run, tree: Path, tmp_path: Path) -> None:
    rows = [f"{path.relative_to(tree)},\n" for path in sorted(tree.rglob("*.jpg"))]
    labels = file_with(tmp_path / "labels.csv", "".join(["path,label\n", *rows]).encode())
    assert "empty-label=20" in run("convert", tree, tmp_path / "o.raw", "--labels", labels).output
    report = json.loads(run("inspect", tmp_path / "o.raw", "--json").stdout)
    assert report["counts"]["notes"] == {"empty-label": 20}


def test_a_closed_standard_input_is_no_terminal(tmp_path: Path) -> None:
    command = [*FASTDATA, "convert", "-", str(tmp_path / "out.raw")]
    close: Callable[[], None] = lambda: os.close(0)  # noqa: E731 - for the child
    found = subprocess.run(command, capture_output=True, text=True, preexec_fn=close, check=False)
    assert found.returncode == 2
    assert "standard input, and that is closed" in found.stderr
    assert "terminal" not in found.stderr


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (np.zeros((3, 6, 8), np.uint8), "chw.raw: images of shape [3, 6, 8] are not height"),
        (np.zeros((6, 8, 3), np.float32), "chw.raw: float32[6, 8, 3] pixels cannot be"),
    ],
)
def test_a_refused_source_is_named(run: Run, tmp_path: Path, image: NDArray[Any], why: str) -> None:
    source = tmp_path / "chw.raw"
    write_dataset(registry.get("raw"), source, [Sample("0", image)], Payload.PIXELS)
    text = run("convert", source, tmp_path / "out.zarr", "--size", 3, code=2).output
    assert why in text.replace("\n", " ")
