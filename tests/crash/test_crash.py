"""A short form of the crash test: a dozen kills, two presses of Ctrl-C, a full disk."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.crash.disks import can_mount, small_disk
from tests.crash.runs import Ended
from tests.crash.session import Session, Settings, table
from tests.crash.subjects import SUBJECTS, Subject
from tests.crash.trials import Stop, Trial, ending_faults, had_begun

SHORT: Mapping[str, Mapping[Stop, int]] = {
    "raw, pixels": {Stop.KILL: 3},
    "zarr in shards, pixels": {Stop.KILL: 3},
    "hdf5, encoded": {Stop.KILL: 2, Stop.INTERRUPT: 1},
    "lmdb, encoded": {Stop.KILL: 2, Stop.FULL: 1},
    "webdataset shards, encoded": {Stop.KILL: 2, Stop.INTERRUPT: 1},
}
_IMAGES = 190


def subject(name: str) -> Subject:
    return next(each for each in SUBJECTS if each.name == name)


@pytest.mark.parametrize("name", SHORT)
def test_a_disturbed_run_is_as_good_as_an_undisturbed_one(name: str, tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    settings = Settings(counts=SHORT[name], seed=seed, images=_IMAGES)
    done = list(Session(tmp_path, settings, [subject(name)]).trials())
    assert [each.faults for each in done if each.faults] == [], f"seed {seed}\n{table(done)}"
    assert sum(len(each.phases) for each in done) >= sum(SHORT[name].values())


def test_the_short_form_has_enough_of_each() -> None:
    total = {stop: sum(counts.get(stop, 0) for counts in SHORT.values()) for stop in Stop}
    assert total[Stop.KILL] >= 12
    assert total[Stop.INTERRUPT] >= 2
    assert total[Stop.FULL] >= 1


@pytest.mark.parametrize(
    ("stop", "code", "output", "fault"),
    [
        (Stop.KILL, 0, "", "exit code 0, not -9"),
        (Stop.INTERRUPT, 1, "interrupted", "exit code 1, not 130"),
        (Stop.INTERRUPT, 130, "Traceback (most recent call last):", "said: Traceback"),
        (Stop.FULL, 1, "error: something", "does not say what is wrong"),
    ],
)
def test_a_wrong_end_is_a_fault(stop: Stop, code: int, output: str, fault: str) -> None:
    (found,) = ending_faults(stop, Ended(code=code, output=output, phase="parts", landed=True))
    assert fault in found


@pytest.mark.parametrize(
    ("code", "line", "phase", "ours"),
    [
        (1, '"<frozen site>"', "start-up", False),
        (1, '"<frozen site>"', "parts", True),
        (1, '"/x/fastdata_cli/cli/main.py"', "start-up", True),
        (-signal.SIGINT, '"/x/fastdata_cli/__main__.py"', "start-up", False),
        (130, '"<frozen site>"', "start-up", True),
    ],
)
def test_python_may_be_interrupted_before_it_begins(
    code: int, line: str, phase: str, ours: bool
) -> None:
    said = f"Traceback (most recent call last):\n  File {line}, line 1\nKeyboardInterrupt\n"
    assert had_begun(Ended(code=code, output=said, phase=phase, landed=True)) == ours


def test_right_ends_are_none() -> None:
    for stop, code, said in (
        (Stop.KILL, -signal.SIGKILL, ""),
        (Stop.INTERRUPT, 130, "interrupted"),
        (Stop.FULL, 1, "error: cannot write x: no space left on the device"),
    ):
        ended = Ended(code=code, output=said, phase="parts", landed=True)
        assert not list(ending_faults(stop, ended))


@pytest.mark.skipif(sys.platform != "linux", reason="a tmpfs is mounted")
def test_a_small_disk_fills_up_and_is_freed(tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        pytest.skip("this user may not mount a tmpfs")
    with small_disk(tmp_path, 1 << 20) as disk:
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (disk.folder / "more").write_bytes(bytes(1 << 16))
        disk.free()
        (disk.folder / "more").write_bytes(bytes(1 << 16))
    assert list(tmp_path.iterdir()) == []


def test_the_table_counts() -> None:
    one = Trial(number=0, subject="raw", stop=Stop.KILL, overwrite=False, phases=["parts"] * 2)
    two = Trial(number=1, subject="raw", stop=Stop.FULL, overwrite=True, faults=["x"])
    last = table([one, two]).splitlines()[-1].split()
    assert last == ["all", "2", "0", "0", "0", "0", "2", "0", "0", "1", "1"]
