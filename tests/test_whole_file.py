"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from fastdata_cli.whole_file import name_beside, whole_file, write_whole


@pytest.mark.parametrize("sync", [False, True])
def test_the_old_or_the_new_one_whole(tmp_path: Path, sync: bool) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old", sync=sync)
    with whole_file(path, sync=sync) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
def test_after_a_failure_the_old_one_stands_alone(
    tmp_path: Path, problem: type[BaseException]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail() -> None:
        with whole_file(path, sync=True) as file:
            file.write(b"half")
            raise problem

    with pytest.raises(problem):
        fail()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with whole_file(path, sync=False) as first:
        first.write(b"first, ")
        first.flush()
        with whole_file(path, sync=False) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
        first.write(b"whole")
    assert path.read_bytes() == b"first, whole"


def test_sync_reaches_the_content_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[bool, int, list[str]]] = []

    def note(descriptor: int) -> None:
        found = os.fstat(descriptor)
        is_folder = stat.S_ISDIR(found.st_mode)
        synced.append((is_folder, 0 if is_folder else found.st_size, os.listdir(tmp_path)))

    monkeypatch.setattr(os, "fsync", note)
    write_whole(tmp_path / "file", b"12345", sync=False)
    assert synced == []
    (tmp_path / "file").unlink()
    write_whole(tmp_path / "file", b"12345", sync=True)
    [content, name] = synced
    assert (content[:2], "file" in content[2]) == ((False, 5), False)
    assert name == (True, 0, ["file"])


def test_links_and_pipes_stay(tmp_path: Path) -> None:
    link, pipe, received = tmp_path / "link", tmp_path / "pipe", []
    link.symlink_to("real")
    write_whole(link, b"content", sync=True)
    assert link.is_symlink()
    assert (tmp_path / "real").read_bytes() == b"content"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"through", sync=True)
    reader.join()
    assert received == [b"through"]
    assert pipe.is_fifo()


def test_the_longest_name_has_room_beside_it(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    write_whole(path, b"content", sync=False)
    assert path.read_bytes() == b"content"
    assert name_beside(path) != name_beside(path)


def test_refusals_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "none" / "file"
    with pytest.raises(FileNotFoundError) as missing:
        write_whole(path, b"", sync=False)
    assert missing.value.filename == str(path)
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, b"", sync=False)


def test_a_new_file_may_be_read_like_any_other(tmp_path: Path) -> None:
    write_whole(tmp_path / "ours", b"", sync=False)
    (tmp_path / "plain").touch()
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ours", "plain")}
    assert len(modes) == 1
