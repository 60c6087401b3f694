"""Fingerprints kept beside parts: what is not there whole is not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fastdata_cli.errors import StorageError
from fastdata_cli.operations.clean.prints import PrintStore
from fastdata_cli.quality.fingerprints import Fingerprint, exact


def prints(count: int) -> list[Fingerprint]:
    rng = np.random.default_rng(1)
    return [exact(rng.bytes(50)) for _ in range(count)]


def test_they_come_back(tmp_path: Path) -> None:
    store = PrintStore(tmp_path)
    store.save(3, prints(2))
    assert store.load(3) == prints(2)
    assert store.load(4) is None


def test_a_damaged_file_counts_as_none(tmp_path: Path) -> None:
    store = PrintStore(tmp_path)
    store.save(0, prints(2))
    (file,) = (tmp_path / "prints").iterdir()
    whole = file.read_bytes()
    for at in range(0, len(whole), 7):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert store.load(0) is None
    file.write_bytes(whole[:20])
    assert store.load(0) is None


def test_what_the_system_refuses_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "prints").write_bytes(b"")  # in the way, as a full disk would be
    with pytest.raises(StorageError, match=r"cannot write .*prints"):
        PrintStore(tmp_path).save(0, prints(1))
