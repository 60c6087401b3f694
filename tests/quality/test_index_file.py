"""Index files: everything comes back, any damage is one line, a write is whole or not there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import xxhash

from fastdata_cli.errors import (
    DamagedDatasetError,
    DestinationExistsError,
    FastdataError,
    NotADatasetError,
    SourceNotFoundError,
    StorageError,
    UnsupportedError,
    UsageError,
)
from fastdata_cli.quality import index_file, scratch
from fastdata_cli.quality.entries import Entries
from fastdata_cli.quality.fingerprints import KINDS, LOOK_BYTES, Fingerprint
from fastdata_cli.quality.index_file import check_target, load_index, save_index

KEYS = ["a.jpg", "", "name with\nnewline", "bytes\udcff that are not UTF-8", "%0A", "é" * 300]


def entries_of(kind: str, keys: list[str]) -> Entries:
    rng = np.random.default_rng(len(keys))
    entries = Entries(kind)
    for key in keys:
        look = rng.bytes(LOOK_BYTES[kind]).hex()
        value = int(rng.integers(0, 2**64, dtype=np.uint64))
        entries.append(key, Fingerprint(kind, value, look))
        entries.hashes.append(value)
    return entries


def content(entries: Entries) -> tuple[list[str], list[int], list[list[int]]]:
    everyone = np.arange(len(entries))
    keys = [entries.key(number) for number in everyone.tolist()]
    return keys, entries.hashes.values.tolist(), entries.look(everyone).tolist()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "index"
    save_index(path, entries_of("near", KEYS))
    return path


@pytest.mark.parametrize("keys", [[], KEYS, [f"{number}.png" for number in range(5000)]])
@pytest.mark.parametrize("kind", KINDS)
def test_everything_comes_back(kind: str, keys: list[str], tmp_path: Path) -> None:
    entries = entries_of(kind, keys)
    save_index(tmp_path / "index", entries)
    loaded = load_index(tmp_path / "index", kind)
    assert content(loaded) == content(entries)
    assert content(loaded)[0] == keys
    assert os.listdir(tmp_path) == ["index"]
    save_index(tmp_path / "again", loaded)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "index").read_bytes()


def test_everything_comes_back_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "_PIECE", 200)
    monkeypatch.setattr(scratch, "IN_MEMORY", 100)
    entries = entries_of("near", KEYS * 50)
    save_index(tmp_path / "index", entries)
    loaded = load_index(tmp_path / "index", "near")
    assert content(loaded) == content(entries)
    entries.close()
    loaded.close()


def test_a_committed_file_stays_readable() -> None:
    entries = load_index(Path(__file__).parent / "fixtures" / "near-v1.index", "near")
    keys, hashes, looks = content(entries)
    assert keys == ["first.jpg", "second\udcff\n.jpg"]
    assert hashes == [0x0123456789ABCDEF, 2**64 - 1]
    assert looks == [[1, *range(80)], [0, *range(100, 116), *[0] * 64]]


def test_any_changed_byte_is_noticed(saved: Path) -> None:
    whole = saved.read_bytes()
    for place in range(len(whole)):
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(FastdataError) as caught:
            load_index(saved, "near")
        assert "\n" not in str(caught.value)


def test_any_missing_end_is_noticed(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in range(len(whole)):
        saved.write_bytes(whole[:length])
        with pytest.raises((DamagedDatasetError, NotADatasetError)):
            load_index(saved, "near")
    saved.write_bytes(whole + b"x")
    with pytest.raises(DamagedDatasetError, match="bytes instead of"):
        load_index(saved, "near")


def with_header(path: Path, **changes: object) -> None:
    """Change the first line, and the checksum with it."""
    line, _, rest = path.read_bytes().partition(b"\n")
    record = {name: value for name, value in {**json.loads(line), **changes}.items() if value != ""}
    body = json.dumps(record).encode() + b"\n" + rest[:-16]
    path.write_bytes(body + xxhash.xxh3_128_digest(body))


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"fastdata_duplicates": 2}, UnsupportedError, "index version 2"),
        ({"formula": "phash-0"}, UnsupportedError, "cannot be compared"),
        ({"kind": "exact"}, UsageError, "index of exact duplicates"),
        ({"kind": "else"}, DamagedDatasetError, "kind 'else'"),
        ({"kind": ["near"]}, DamagedDatasetError, "not known"),
        ({"count": -1}, DamagedDatasetError, "impossible number"),
        ({"key_bytes": "six"}, DamagedDatasetError, "impossible number"),
        ({"count": 2**62}, DamagedDatasetError, "bytes instead of"),
        ({"key_bytes": 0, "count": 1}, DamagedDatasetError, "bytes instead of"),
        ({"tool": ""}, DamagedDatasetError, "first line"),
    ],
)
def test_headers_that_cannot_be(
    changes: dict[str, object], error: type[FastdataError], words: str, saved: Path
) -> None:
    with_header(saved, **changes)
    with pytest.raises(error, match=words) as caught:
        load_index(saved, "near")
    assert caught.value.hint


@pytest.mark.parametrize(
    "data", [b"", b"\x89PNG\r\n", b"{}\n", b'{"fastdata_bench": 1}\n', b"x" * 9999]
)
def test_other_files_are_no_index(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(NotADatasetError, match="no index"):
        load_index(tmp_path / "file", "near")


def test_what_is_no_file_is_no_index(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(NotADatasetError, match="no index"):
            load_index(path, "near")
    with pytest.raises(SourceNotFoundError, match="no such index"):
        load_index(tmp_path / "missing", "near")


def test_a_failed_write_leaves_the_old_index(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    whole = saved.read_bytes()
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageError, match="no space left"):
        save_index(saved, entries_of("near", ["other.jpg"]))
    assert saved.read_bytes() == whole
    assert os.listdir(saved.parent) == ["index"]


def test_a_link_stays_a_link(saved: Path) -> None:
    link = saved.with_name("link")
    link.symlink_to(saved)
    save_index(link, entries_of("near", ["other.jpg"]))
    assert link.is_symlink()
    assert content(load_index(saved, "near"))[0] == ["other.jpg"]


def test_only_an_index_may_be_replaced(saved: Path) -> None:
    folder = saved.parent
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff")
    (folder / "empty").touch()
    for name in ("index", "new", "empty"):
        check_target(folder / name)
    for path in (folder / "photo.jpg", folder):
        with pytest.raises(DestinationExistsError, match="not replaced"):
            check_target(path)
    with pytest.raises(UsageError, match="folder is missing"):
        check_target(folder / "missing" / "index")
