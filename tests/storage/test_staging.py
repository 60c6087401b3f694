"""Staging: one live run, and only whole receipts to continue from."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from fastdata_cli.contract import Receipt
from fastdata_cli.errors import BusyError, DamagedDatasetError, StaleStagingError, StorageError
from fastdata_cli.storage import durable
from fastdata_cli.storage.staging import Staging, staging_root
from tests.storage.steps import commit, interrupted, part, resume, table

HOLDER = """
import sys
from pathlib import Path
from fastdata_cli.storage.staging import Staging
Staging(Path(sys.argv[1])).begin("same")
print("holding", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    return tmp_path / "set.raw"


@pytest.fixture
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of many small steps, in which no power is cut."""
    monkeypatch.setattr(durable, "sync_path", lambda path: None)
    monkeypatch.setattr(durable, "sync_directory", lambda path: None)
    monkeypatch.setattr(durable, "sync_file", lambda descriptor: None)


# -- one live run


@pytest.fixture
def holder(destination: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the place."""
    command = [sys.executable, "-c", HOLDER, str(destination)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        output: IO[str] | None = process.stdout
        assert output is not None
        assert output.readline() == "holding\n"
        yield process
        process.kill()


def test_another_process_is_refused_until_it_dies(
    destination: Path, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(BusyError, match=f"another run is writing {destination}"):
        Staging(destination).begin("same")
    holder.send_signal(signal.SIGKILL)
    holder.wait(10)
    assert resume(destination) == [], "what a dead process held is free"


def test_a_loser_never_removes_the_place_of_the_winner(destination: Path) -> None:
    winner, loser = Staging(destination), Staging(destination)
    winner.begin("same")
    with pytest.raises(BusyError):
        loser.begin("same")
    loser.abort(keep=False)
    loser.abort(keep=True)
    commit(winner, 0)
    with pytest.raises(BusyError):
        Staging(destination).begin("same")
    winner.item.write_text("content")
    winner.publish()
    assert destination.read_text() == "content"


def test_a_lock_on_a_place_that_was_removed_is_none(
    destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run before publishes between this one's opening of the lock file and its locking."""
    flock, removals = fcntl.flock, iter([staging_root(destination)])

    def late(descriptor: int, operation: int) -> None:
        for root in removals:
            durable.remove(root)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    staging = Staging(destination)
    assert staging.begin("same") == []
    with pytest.raises(BusyError):
        Staging(destination).begin("same")
    commit(staging, 0)
    staging.abort(keep=False)


def test_the_lock_is_removed_last(destination: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that starts while the place is being removed is refused, and loses nothing."""
    staging = Staging(destination)
    staging.begin("same")
    remove, seen = durable.remove, []

    def removing(path: Path) -> None:
        with pytest.raises(BusyError):
            Staging(destination).begin("same")
        seen.append(path.name)
        remove(path)

    monkeypatch.setattr(durable, "remove", removing)
    staging.abort(keep=False)
    assert {"journal.jsonl", "data", "side"} <= set(seen)
    assert not staging.root.exists()


# -- what a next run continues from


def test_receipts_come_back_whole(destination: Path) -> None:
    receipts = interrupted(destination, 0, 1, 2)
    assert resume(destination) == receipts
    assert resume(destination) == receipts, "looking changes nothing"


@pytest.mark.parametrize(
    ("committed", "continued"),
    [((), 0), ((1,), 0), ((0, 2), 1), ((2, 0, 1), 3), ((3, 1, 0), 2), ((0, 1, 1), 2)],
)
def test_only_the_contiguous_prefix_counts(
    destination: Path, committed: tuple[int, ...], continued: int
) -> None:
    interrupted(destination, *committed)
    receipts = resume(destination)
    assert [receipt.part for receipt in receipts] == [part(index) for index in range(continued)]


def test_a_part_beyond_the_prefix_is_forgotten(destination: Path) -> None:
    """Its data is dropped or redone by the run that continues: the old receipt proves nothing."""
    interrupted(destination, 0, 2)
    staging = Staging(destination)
    assert len(staging.begin("same")) == 1
    commit(staging, 1)
    staging.abort(keep=True)
    assert [receipt.part.index for receipt in resume(destination)] == [0, 1]


@pytest.mark.usefixtures("no_sync")
def test_a_journal_cut_at_any_byte(destination: Path) -> None:
    receipts = interrupted(destination, 0, 1)
    journal = staging_root(destination) / "journal.jsonl"
    whole = journal.read_bytes()
    side = shutil.copytree(staging_root(destination) / "side", destination.parent / "side")
    ends = [position for position, byte in enumerate(whole) if byte == ord("\n")]
    for length in range(len(whole) + 1):
        journal.write_bytes(whole[:length])
        shutil.copytree(side, staging_root(destination) / "side", dirs_exist_ok=True)
        complete = sum(end <= length for end in ends[1:])
        staging = Staging(destination)
        assert staging.begin("same") == receipts[:complete]
        following = commit(staging, complete) if length % 5 == 0 else None
        staging.abort(keep=True)
        if following:  # the cut line does not stand before it
            assert resume(destination) == [*receipts[:complete], following]


@pytest.mark.usefixtures("no_sync")
@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_receipt_whose_sample_table_was_lost_does_not_count(
    destination: Path, damage: Callable[[Path], object]
) -> None:
    """A power cut may keep the one and lose the other: neither is synced."""
    receipts = interrupted(destination, 0, 1, 2)
    damage(staging_root(destination) / "side" / "000001.npz")
    assert resume(destination) == receipts[:1]


def test_facts_that_are_arrays_come_back_by_their_name(destination: Path) -> None:
    staging = Staging(destination)
    staging.begin("same")
    facts = [{"end": index, "begins": np.array([2 * index, 2 * index + 1])} for index in range(2)]
    receipts = [staging.commit(part(i), table(i), each) for i, each in enumerate(facts)]
    staging.abort(keep=True)
    assert resume(destination) == receipts
    assert [receipt.facts["end"] for receipt in receipts] == [0, 1]
    assert staging.side.column("begins", receipts).tolist() == [0, 1, 2, 3]
    assert len(staging.side.table(receipts)) == 4


def test_a_run_killed_before_its_first_part_leaves_no_obstacle(destination: Path) -> None:
    staging = Staging(destination)
    staging.begin("same")
    staging.item.mkdir()
    staging.abort(keep=True)
    again = Staging(destination)
    assert again.begin("same") == []
    assert list(again.data.iterdir()) == []
    again.abort(keep=False)


def test_what_cannot_be_continued_starts_afresh(destination: Path) -> None:
    interrupted(destination, 0, 1)
    staging = Staging(destination)
    (staging.data / "left").write_text("by the run before")
    assert staging.begin("same", resumable=False) == []
    assert list(staging.data.iterdir()) == []
    staging.abort(keep=True)
    assert resume(destination) == []


@pytest.mark.parametrize("head", ["[1]", "1", "null", '{"started": [1]}', "deep"])
def test_a_journal_without_a_head_is_none(destination: Path, head: str) -> None:
    interrupted(destination, 0)
    (staging_root(destination) / "journal.jsonl").write_text(f"{head}\n")
    assert Staging(destination).is_remnant
    assert resume(destination) == []


@pytest.mark.parametrize("failing", ["read_text", "read_bytes"])
def test_what_cannot_be_read_for_now_is_kept(
    destination: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """Neither a journal nor a sample table on a disk that fails is taken for none."""
    receipts = interrupted(destination, 0, 1)

    def fails(path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    staging = Staging(destination)
    monkeypatch.setattr(Path, failing, fails)
    with pytest.raises(StorageError, match=r"[Ii]nput/output error"):
        staging.begin("same")
    staging.abort(keep=False)  # as whoever has got no receipts does
    if failing == "read_text":
        with pytest.raises(StorageError, match=r"cannot read .*journal\.jsonl"):
            assert not staging.is_remnant
    monkeypatch.undo()
    assert resume(destination) == receipts


def test_a_disk_that_is_still_full_costs_nothing(
    destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipts = interrupted(destination, 0, 1)

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "", str(path))

    staging = Staging(destination)
    monkeypatch.setattr(durable, "sync_path", full)
    with pytest.raises(StorageError, match="no space left"):
        staging.begin("same")
    staging.abort(keep=False)
    monkeypatch.undo()
    assert resume(destination) == receipts


@pytest.mark.usefixtures("no_sync")
def test_the_journal_is_removed_before_what_it_tells_of(
    destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(destination, 0)
    remove, journals = durable.remove, []

    def removing(path: Path) -> None:
        journals.append((staging_root(destination) / "journal.jsonl").exists())
        remove(path)

    monkeypatch.setattr(durable, "remove", removing)
    staging = Staging(destination)
    assert len(staging.begin("same")) == 1
    staging.abort(keep=False)
    assert len(journals) > 2
    assert not any(journals)


def older_version(journal: Path) -> None:
    journal.write_text(
        journal.read_text().replace('"fastdata_journal": 1', '"fastdata_journal": 0')
    )


def other_run(journal: Path) -> None:
    journal.write_text(journal.read_text().replace('"same"', '"other"'))


@pytest.mark.parametrize("change", [older_version, other_run])
def test_another_run_is_not_mixed_in(destination: Path, change: Callable[[Path], None]) -> None:
    interrupted(destination, 0)
    journal = staging_root(destination) / "journal.jsonl"
    change(journal)
    before = journal.read_bytes()
    staging = Staging(destination)
    for _ in range(2):  # the refused run holds nothing
        with pytest.raises(StaleStagingError, match="unfinished run of another") as e:
            staging.begin("same")
        assert e.value.facts["path"] == str(staging.root)
        assert "delete" in e.value.hint
    staging.abort(keep=False)
    assert journal.read_bytes() == before


def test_tables_are_joined_by_part(destination: Path) -> None:
    staging = Staging(destination)
    staging.begin("same")
    commit(staging, 1)
    commit(staging, 0)
    joined = staging.side.table([Receipt(part(0)), Receipt(part(1))])
    assert list(joined.keys) == ["0/0\n", "0/1\n", "1/0\n", "1/1\n"]
    assert joined.labels.tolist() == [0, 0, 1, 1]
    assert len(staging.side.table([])) == 0
    staging.abort(keep=False)


@pytest.mark.parametrize("length", [None, 0, 10, 200, -1])
def test_a_lost_table_is_named(destination: Path, length: int | None) -> None:
    staging = Staging(destination)
    staging.begin("same")
    receipt = commit(staging, 0)
    side = staging.root / "side" / "000000.npz"
    whole = side.read_bytes()
    side.unlink() if length is None else side.write_bytes(whole[:length])
    with pytest.raises(DamagedDatasetError, match=r"000000\.npz: the sample table .*") as e:
        staging.side.table([receipt])
    assert str(staging.root) in e.value.hint
    staging.abort(keep=False)
