"""Folders of trials: gone after the block, and after the signals that end a process."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fastdata_cli.operations.temporary import temporary_folder

CODE = """
import time
from fastdata_cli.operations.temporary import temporary_folder
with temporary_folder() as folder:
    (folder / "large").write_bytes(bytes(99))
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_nothing_stays_when_the_process_is_ended(number: signal.Signals) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert child.stdout is not None
    with child, child.stdout:
        folder = Path(child.stdout.readline().strip())
        assert (folder / "large").exists()
        child.send_signal(number)
        assert child.wait(30) != 0
    assert not folder.exists()


def test_what_somebody_handles_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with temporary_folder() as folder:
            assert folder.parent == tmp_path
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not list(tmp_path.iterdir())
