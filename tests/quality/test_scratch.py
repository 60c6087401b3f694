"""Room that grows: the same content in memory and in files, and a full disk is one line."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from fastdata_cli.errors import StorageError
from fastdata_cli.quality import scratch
from fastdata_cli.quality.scratch import Column, Texts, scratch_array

TEXTS = [b"one", b"", b"\xff\n", b"long" * 20, b"last"]


@pytest.fixture(params=[0, 40, 1 << 20], ids=["files", "mixed", "memory"])
def in_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(scratch, "IN_MEMORY", request.param)
    return int(request.param)


@pytest.fixture
def texts(in_memory: int, monkeypatch: pytest.MonkeyPatch) -> Texts:
    texts = Texts()
    for text in TEXTS * 30:
        texts.append(text)
    return texts


@pytest.mark.usefixtures("in_memory")
def test_a_column_keeps_what_was_added() -> None:
    column = Column("<i8")
    column.append(-1)
    column.extend(np.arange(3000))
    column.append(7)
    assert len(column) == 3002
    np.testing.assert_array_equal(column.values, [-1, *range(3000), 7])


def test_texts_come_back(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(texts) == 150
    assert [texts[number] for number in range(150)] == TEXTS * 30
    monkeypatch.setattr(scratch, "IN_MEMORY", 16)
    assert b"".join(texts.joined()) == b"".join(TEXTS * 30)
    assert texts.num_bytes == texts.ends[-1] == len(b"".join(TEXTS * 30))
    texts.close()


def test_many_texts_at_once(texts: Texts) -> None:
    ends = np.cumsum([len(text) for text in TEXTS])
    joined = b"".join(TEXTS)
    texts.extend([ends[:2], ends[2:]], [joined[:7], joined[7:]])
    texts.append(b"end")
    assert [texts[number] for number in range(150, 156)] == [*TEXTS, b"end"]
    texts.close()


def test_files_have_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "IN_MEMORY", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    array = scratch_array(1000, np.uint64)
    array[:] = 5
    assert os.listdir(tmp_path) == []
    assert array.sum() == 5000


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "IN_MEMORY", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageError, match=f"no room .* {tmp_path}: No space left") as caught:
        scratch_array(1000, np.uint64)
    assert "TMPDIR" in caught.value.hint


def test_a_full_disk_is_said_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Texts()
    monkeypatch.setattr(scratch, "IN_MEMORY", 0)
    monkeypatch.setattr(scratch, "write_all", full)
    with pytest.raises(StorageError, match="no room"):
        texts.append(b"one")
    texts.close()
