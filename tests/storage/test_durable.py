"""Renames that happen or do not, also where the system lacks the better call."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fastdata_cli.storage import durable

KINDS = ["file", "folder"]


@pytest.fixture(params=["renameat2", "no renameat2", "no flags"])
def renaming(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The call with its flags; a C library without it; a file system without the flags."""
    if request.param == "no renameat2":
        monkeypatch.setattr(durable, "_libc", lambda name: None)
    if request.param == "no flags":
        monkeypatch.setattr(durable, "_renameat2", lambda *_: errno.EINVAL)
    return str(request.param)


def make(path: Path, kind: str, text: str) -> Path:
    if kind == "file":
        path.write_text(text)
    else:
        (path / "inner").mkdir(parents=True)
        (path / "inner" / "text").write_text(text)
    return path


def text_of(path: Path) -> str:
    return (path if path.is_file() else path / "inner" / "text").read_text()


@pytest.mark.usefixtures("renaming")
@pytest.mark.parametrize("kind", KINDS)
def test_rename_new(tmp_path: Path, kind: str) -> None:
    source = make(tmp_path / "new", kind, "new")
    assert durable.rename_new(source, tmp_path / "there")
    assert text_of(tmp_path / "there") == "new"
    assert not source.exists()


@pytest.mark.usefixtures("renaming")
@pytest.mark.parametrize("old", [*KINDS, "empty folder", "dangling link"])
@pytest.mark.parametrize("new", KINDS)
def test_rename_new_touches_nothing_that_exists(tmp_path: Path, old: str, new: str) -> None:
    source, target = make(tmp_path / "new", new, "new"), tmp_path / "there"
    if old in KINDS:
        make(target, old, "old")
    elif old == "empty folder":
        target.mkdir()
    else:
        target.symlink_to("nowhere")
    before = os.lstat(target)
    assert not durable.rename_new(source, target)
    assert text_of(source) == "new"
    after = os.lstat(target)
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)


@pytest.mark.usefixtures("renaming")
def test_rename_new_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        durable.rename_new(tmp_path / "nothing", tmp_path / "there")
    make(tmp_path / "new", "file", "new")
    with pytest.raises(FileNotFoundError, match="no-such-folder"):
        durable.rename_new(tmp_path / "new", tmp_path / "no-such-folder" / "there")


@pytest.mark.usefixtures("renaming")
@pytest.mark.parametrize("old", [*KINDS, None])
@pytest.mark.parametrize("new", KINDS)
def test_replace(tmp_path: Path, old: str | None, new: str) -> None:
    source, target = make(tmp_path / "new", new, "new"), tmp_path / "there"
    if old is not None:
        make(target, old, "old")
    durable.replace(source, target)
    assert text_of(target) == "new"
    assert list(tmp_path.iterdir()) == [target], "the old content is gone"


@pytest.mark.usefixtures("renaming")
def test_replace_swaps_a_link_itself(tmp_path: Path) -> None:
    kept, target = make(tmp_path / "kept", "folder", "kept"), tmp_path / "there"
    target.symlink_to(kept)
    durable.replace(make(tmp_path / "new", "folder", "new"), target)
    assert text_of(target) == "new"
    assert text_of(kept) == "kept"
    assert not target.is_symlink()


@pytest.mark.usefixtures("renaming")
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_kill_between_two_renames_left_goes_when_the_next_run_is_through(
    tmp_path: Path, kind: str
) -> None:
    make(tmp_path / ".there.fastdata-old", kind, "old")
    durable.replace(make(tmp_path / "new", "folder", "new"), tmp_path / "there")
    assert list(tmp_path.iterdir()) == [tmp_path / "there"]
    assert text_of(tmp_path / "there") == "new"


@pytest.mark.parametrize("kind", KINDS)
def test_replace_after_a_kill_between_its_two_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(durable, "_libc", lambda name: None)
    make(tmp_path / ".there.fastdata-old", kind, "older")
    make(tmp_path / "there", "folder", "old")
    durable.replace(make(tmp_path / "new", "folder", "new"), tmp_path / "there")
    assert [text_of(path) for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("call", [durable.rename_new, durable.replace])
def test_other_refusals_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[Path, Path], object]
) -> None:
    monkeypatch.setattr(durable, "_renameat2", lambda *_: errno.EACCES)
    source, target = make(tmp_path / "new", "file", "new"), make(tmp_path / "old", "file", "old")
    with pytest.raises(PermissionError) as e:
        call(source, target)
    assert e.value.filename == str(target)
    assert (text_of(source), text_of(target)) == ("new", "old")


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    target = tmp_path / "not-utf8-\udcff"
    assert durable.rename_new(make(tmp_path / "new", "file", "new"), target)
    assert os.listdir(os.fsencode(tmp_path)) == [b"not-utf8-\xff"]


@pytest.mark.parametrize("kind", [*KINDS, "link", "nothing"])
def test_remove(tmp_path: Path, kind: str) -> None:
    target, kept = tmp_path / "there", make(tmp_path / "kept", "folder", "kept")
    if kind == "link":
        target.symlink_to(kept)
    elif kind != "nothing":
        make(target, kind, "old")
    durable.remove(target)
    assert list(tmp_path.iterdir()) == [kept]
    assert text_of(kept) == "kept"


def test_write_all_goes_on_after_short_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    with open(tmp_path / "data", "wb") as file:
        durable.write_all(file.fileno(), memoryview(b"ten bytes."))
        durable.write_all(file.fileno(), memoryview(b""))
    assert (tmp_path / "data").read_bytes() == b"ten bytes."


@pytest.mark.parametrize("count", [0, 3, 100])
def test_sync_tree_reaches_every_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for index in range(count):
        (tmp_path / "a" / "b" / str(index)).touch()
    synced: list[Path] = []
    whole: list[Path] = []
    monkeypatch.setattr(durable, "sync_path", synced.append)
    monkeypatch.setattr(durable, "sync_filesystem", whole.append)
    durable.sync_tree(tmp_path)
    everything = {tmp_path, *tmp_path.rglob("*")}
    assert set(synced) == everything or whole == [tmp_path]
    assert bool(whole) == (count == 100), "one by one is dear when there are many"


def test_sync_filesystem_without_syncfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(durable, "_libc", lambda name: None)
    monkeypatch.setattr(os, "sync", lambda: calls.append("sync"))
    durable.sync_filesystem(tmp_path)
    assert calls == ["sync"]


def test_syncing_what_is_not_there_fails(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        durable.sync_path(tmp_path / "nothing")


def test_a_file_takes_the_place_of_a_file_without_an_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = make(tmp_path / "new", "file", "new"), make(tmp_path / "old", "file", "old")
    assert not durable.exchanges(source, target)
    replaced = os.replace

    def watched(old: Path, new: Path) -> None:
        assert target.exists()
        replaced(old, new)

    monkeypatch.setattr(os, "replace", watched)
    durable.replace(source, target)
    assert target.read_text() == "new"
    assert not source.exists()


def test_a_folder_needs_an_exchange(tmp_path: Path) -> None:
    file, folder = make(tmp_path / "file", "file", "x"), make(tmp_path / "folder", "folder", "x")
    assert durable.exchanges(folder, file)
    assert durable.exchanges(file, folder)
    assert not durable.exchanges(folder, tmp_path / "nothing")


def test_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)) * 5000)
    durable.copy(source, tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == source.read_bytes()
    room = os.statvfs_result((4096, 4096, 10, 10, 10, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "fstatvfs", lambda _: room)
    monkeypatch.setattr(durable, "_shares_blocks", lambda *_: False)
    with pytest.raises(OSError, match="No space left"):
        durable.copy(source, tmp_path / "other")
    assert (tmp_path / "other").stat().st_size == 0


@pytest.mark.parametrize("most", [1 << 20, 3, 1])
def test_pieces_are_written_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """However few bytes the system takes at a time."""
    writev, write = os.writev, os.write
    pieces = [b"", *(bytes([number % 251]) * (number % 7) for number in range(2500))]

    def few(descriptor: int, some: list[memoryview]) -> int:
        whole = sum(map(len, some)) <= most
        return writev(descriptor, some) if whole else write(descriptor, b"".join(some)[:most])

    monkeypatch.setattr(os, "writev", few)
    with open(tmp_path / "file", "wb") as file:
        durable.write_pieces(file.fileno(), pieces)
    assert (tmp_path / "file").read_bytes() == b"".join(pieces)


@pytest.mark.parametrize("size", [0, 1, 10, 11, 35])
def test_what_is_written_through_lies_at_its_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(durable, "_STRIDE", 10)
    data = bytes(range(size))
    with open(tmp_path / "file", "wb") as file:
        file.write(b"ab")
        file.flush()
        durable.write_through(file.fileno(), memoryview(data), 2)
    assert (tmp_path / "file").read_bytes() == b"ab" + data


def test_a_system_without_the_call_writes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "_libc", lambda name: None)
    durable.start_writing(-1, 0, 1)
