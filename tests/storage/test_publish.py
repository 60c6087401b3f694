"""Publishing: one rename, nothing left; and what is said when the system refuses."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fastdata_cli.errors import DestinationExistsError, StorageError, UsageError
from fastdata_cli.storage import durable
from fastdata_cli.storage.refusals import storage_errors
from fastdata_cli.storage.staging import Staging
from tests.storage.steps import commit, resume


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    return tmp_path / "set.raw"


def stage(staging: Staging, kind: str, text: str) -> None:
    staging.begin("same")
    make(staging.item, kind, text)
    commit(staging, 0)


def make(path: Path, kind: str, text: str) -> None:
    if kind == "folder":
        path.mkdir()
        path = path / "data.raw"
    path.write_text(text)


def text_of(path: Path) -> str:
    return (path / "data.raw" if path.is_dir() else path).read_text()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_published_whole_and_nothing_left(destination: Path, kind: str) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    staging = Staging(destination)
    stage(staging, kind, "new")
    assert not destination.exists()
    staging.publish()
    assert text_of(destination) == "new"
    assert list(destination.parent.iterdir()) == [destination]
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize("old", ["file", "folder"])
@pytest.mark.parametrize("new", ["file", "folder"])
def test_overwriting_exchanges(destination: Path, old: str, new: str) -> None:
    make(destination, old, "old")
    staging = Staging(destination, overwrite=True)
    stage(staging, new, "new")
    assert text_of(destination) == "old", "not before it is complete"
    staging.publish()
    assert text_of(destination) == "new"
    assert list(destination.parent.iterdir()) == [destination]


@pytest.mark.parametrize("before", [None, "file", "folder"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_only_what_stood_there_is_overwritten(
    destination: Path, before: str | None, kind: str
) -> None:
    if before:
        make(destination, before, "old")
    staging = Staging(destination, overwrite=True)
    stage(staging, "folder", "new")
    if before:
        destination.rename(destination.with_name("moved away"))
    make(destination, kind, "somebody's")
    with pytest.raises(DestinationExistsError, match="appeared while this run"):
        staging.publish()
    staging.abort(keep=True)
    assert text_of(destination) == "somebody's"
    durable.remove(destination)
    again = Staging(destination, overwrite=True)
    assert len(again.begin("same")) == 1
    again.publish()
    assert text_of(destination) == "new"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_appeared_meanwhile_is_kept_and_so_is_the_work(destination: Path, kind: str) -> None:
    staging = Staging(destination)
    stage(staging, "folder", "new")
    make(destination, kind, "somebody's")
    with pytest.raises(DestinationExistsError, match="appeared while this run") as e:
        staging.publish()
    assert str(staging.root) in e.value.hint
    staging.abort(keep=True)
    assert text_of(destination) == "somebody's"
    durable.remove(destination)
    again = Staging(destination)
    assert len(again.begin("same")) == 1
    again.publish()
    assert text_of(destination) == "new"


def test_several_items_appear_in_the_order_given(destination: Path) -> None:
    names = ["set-000000.tar", "set-000001.tar", "set.index"]
    staging = Staging(destination)
    staging.begin("same")
    for name in names:
        (staging.data / name).write_text(name)
    finals = [destination.with_name(name) for name in names]
    finals[1].write_text("somebody's")
    pairs = [(staging.data / name, final) for name, final in zip(names, finals, strict=True)]
    with pytest.raises(DestinationExistsError, match=r"set-000001\.tar appeared"):
        staging.publish(pairs)
    assert not finals[2].exists(), "without its index the set is not readable"
    finals[1].unlink()
    staging.publish(pairs[1:])
    assert [final.read_text() for final in finals] == names


def test_giving_up_removes_everything(destination: Path) -> None:
    staging = Staging(destination)
    stage(staging, "folder", "new")
    staging.abort(keep=False)
    staging.abort(keep=False)
    assert list(destination.parent.iterdir()) == []


# -- the system refuses

WORDS = {
    errno.ENOSPC: "no space left on the device",
    errno.EDQUOT: "disk quota exceeded",
    errno.EFBIG: "file too large",
    errno.EACCES: "no permission to write here",
    errno.EPERM: "no permission to write here",
    errno.EROFS: "read-only file system",
    errno.EIO: "input/output error",
    errno.ENAMETOOLONG: "File name too long",
}


@pytest.mark.parametrize("number", WORDS, ids=errno.errorcode.get)
def test_refusals_in_words(number: int) -> None:
    with pytest.raises(StorageError) as e, storage_errors(Path("out.raw")):
        raise OSError(number, os.strerror(number))
    assert str(e.value) == f"cannot write out.raw: {WORDS[number]}"
    assert e.value.hint
    assert e.value.facts == {"path": "out.raw"}
    assert isinstance(e.value.__cause__, OSError)


def test_the_file_that_the_system_names_is_named(tmp_path: Path) -> None:
    inner = tmp_path / "no-such-folder" / "data.raw"
    with pytest.raises(StorageError) as e, storage_errors(Path("out.raw")):
        inner.touch()
    assert str(e.value) == f"cannot write {inner}: No such file or directory"


def test_a_full_device_is_named() -> None:
    full = open("/dev/full", "wb", buffering=0)  # noqa: SIM115 - closed in the next line
    with full, pytest.raises(StorageError) as e, storage_errors(Path("out.raw")):
        full.write(b"x")
    assert str(e.value) == "cannot write out.raw: no space left on the device"


def test_other_errors_pass() -> None:
    with pytest.raises(UsageError), storage_errors(Path("out.raw")):
        raise UsageError("said already")
    with pytest.raises(DestinationExistsError), storage_errors(Path("out.raw")):
        raise DestinationExistsError("an OSError too, and said already")
    with pytest.raises(ValueError, match="not the system's"), storage_errors(Path("out.raw")):
        raise ValueError("not the system's")


def test_a_full_disk_costs_only_the_part_at_hand(
    destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging = Staging(destination)
    staging.begin("same")
    done = commit(staging, 0)

    def full(descriptor: int, data: memoryview) -> None:
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(durable, "write_all", full)
    with pytest.raises(StorageError, match="no space left"):
        commit(staging, 1)
    monkeypatch.undo()
    staging.abort(keep=True)
    assert resume(destination) == [done]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file or directory"):
        Staging(tmp_path / "nowhere" / "set.raw").begin("same")
    assert list(tmp_path.iterdir()) == []
