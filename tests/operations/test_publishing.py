"""A dataset and the list of what it lacks: whenever a run is killed, and after the next one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fastdata_cli import open_reader
from fastdata_cli.formats.staged import StagedWriter
from fastdata_cli.operations import publishing
from fastdata_cli.operations.rejects import rejects_path
from tests.cli.growing import rejected
from tests.conftest import Run, make_tree

NAMES = pytest.mark.parametrize("name", ["out.raw", "out.tar", "part-%06d.tar", "out"])


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def killed_before_it_publishes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StagedWriter, "publish", killed)


def killed_before_its_list(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(publishing, "write_rejects", killed)


def words(source: Path, out: Path, *flags: str) -> tuple[object, ...]:
    return ("convert", source, out, *flags, *(() if out.suffix else ("--to", "tree")))


def source_with_bad(root: Path, bad: str | None, count: int) -> Path:
    make_tree(root, count)
    if bad is not None:
        (root / "class0" / bad).write_bytes(b"")
    return root


@pytest.mark.parametrize("kill", [killed_before_it_publishes, killed_before_its_list])
@pytest.mark.parametrize(("old_bad", "bad"), [("old.jpg", "new.jpg"), ("old.jpg", None)])
@NAMES
def test_a_replaced_dataset_has_its_own_list_until_it_is_gone(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    old_bad: str,
    bad: str | None,
    kill: Callable[[pytest.MonkeyPatch], None],
) -> None:
    old = source_with_bad(tmp_path / "old", old_bad, 6)
    new = source_with_bad(tmp_path / "new", bad, 9)
    out = tmp_path / "made" / name
    out.parent.mkdir()
    run(*words(old, out))
    before = rejects_path(out).read_bytes()
    with monkeypatch.context() as patch:
        kill(patch)
        run(*words(new, out, "--overwrite"), code=130)
    assert rejects_path(out).read_bytes() == before
    assert len(open_reader(out)) == (6 if kill is killed_before_it_publishes else 9)
    run(*words(new, out, "--overwrite"))
    assert len(open_reader(out)) == 9
    assert [key for key, _, _ in rejected(out)] == [f"class0/{each}" for each in (bad,) if each]
    assert not any(each.startswith(".") for each in os.listdir(out.parent))


@NAMES
def test_a_new_dataset_is_not_seen_without_its_list(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    source = source_with_bad(tmp_path / "source", "bad.jpg", 6)
    out, publish, seen = tmp_path / name, StagedWriter.publish, []

    def publishes(writer: StagedWriter, manifest: object) -> None:
        seen.append([key for key, _, _ in rejected(out)])
        publish(writer, manifest)  # type: ignore[arg-type]

    monkeypatch.setattr(StagedWriter, "publish", publishes)
    run(*words(source, out))
    assert seen == [["class0/bad.jpg"]]
    assert rejected(out) == [("class0/bad.jpg", "empty", 2)]


@pytest.mark.parametrize("bad", ["bad.jpg", None])
def test_what_a_kill_left_of_a_list_does_not_stay(
    run: Run, tmp_path: Path, bad: str | None
) -> None:
    source = source_with_bad(tmp_path / "images", bad, 6)
    (tmp_path / ".out.raw.rejects-new").write_bytes(b'{"key": "half')
    run("convert", source, tmp_path / "out.raw")
    assert [key for key, *_ in rejected(tmp_path / "out.raw")] == [f"class0/{bad}"] * bool(bad)
    assert not list(tmp_path.glob(".*"))
