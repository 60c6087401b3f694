"""Damage to files of records: what is wrong is said, and no sample is silently another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fastdata_cli import registry
from fastdata_cli.contract import Reader
from fastdata_cli.errors import DamagedDatasetError, FastdataError
from fastdata_cli.formats.tfrecord import FORMAT
from fastdata_cli.sample import Payload, Reject, Sample
from fastdata_cli.testing import encoded_samples, pixel_samples, write_dataset

from .fixtures.make_tfrecords import COUNT, FOLDER

FOREIGN = FOLDER / "datasets-style.tfrecord"
SAMPLES = encoded_samples(5)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    return write_dataset(FORMAT, tmp_path / "ours.tfrecord", SAMPLES, Payload.ENCODED)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    path = tmp_path / "foreign.tfrecord"
    path.write_bytes(FOREIGN.read_bytes())
    return path


def ends(path: Path) -> list[int]:
    """Return where each record of a file ends."""
    data, found, at = path.read_bytes(), [], 0
    while at < len(data):
        at += 16 + int.from_bytes(data[at : at + 8], "little")
        found.append(at)
    return found


def complaints(path: Path) -> list[str]:
    """Return what opening, reading and verifying say is wrong."""
    try:
        reader = registry.open_reader(path)
        said = [found.detail for found in reader.verify()]
        said += [found.detail for found in reader.scan() if isinstance(found, Reject)]
    except FastdataError as problem:
        said = [problem.message]
    return said


def good(reader: Reader) -> list[Sample]:
    return [found for found in reader.scan() if isinstance(found, Sample)]


@pytest.mark.parametrize("start", range(4))
def test_any_flipped_byte_of_ours_is_found(ours: Path, start: int) -> None:
    whole = ours.read_bytes()
    for at in range(start, len(whole), 4 * 31):
        ours.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        assert complaints(ours), at


@pytest.mark.parametrize("start", range(4))
def test_any_flipped_byte_of_others_is_found(foreign: Path, start: int) -> None:
    whole = foreign.read_bytes()
    for at in range(start, len(whole), 4 * 3):
        foreign.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        assert complaints(foreign), at


def test_a_damaged_image_is_one_reject(foreign: Path) -> None:
    whole = bytearray(foreign.read_bytes())
    whole[whole.index(b"IDAT", ends(foreign)[1]) + 8] ^= 1
    foreign.write_bytes(whole)
    reader = registry.open_reader(foreign)
    bad = [found for found in reader.scan() if isinstance(found, Reject)]
    assert [(each.index, each.key, each.reason) for each in bad] == [(2, "img/2.png", "corrupt")]
    assert len(good(reader)) == COUNT - 1


@pytest.mark.parametrize("name", ["ours", "foreign"])
def test_cut_anywhere(name: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(name)
    boundaries, size = ends(path), path.stat().st_size
    for length in range(size - 1, -1, -37):
        os.truncate(path, length)
        if length in boundaries and name == "foreign":
            continue  # nothing in the file tells
        said = complaints(path)
        assert said, length
        assert all("Traceback" not in text for text in said)


def test_cut_gives_what_is_whole_and_says_so(foreign: Path) -> None:
    os.truncate(foreign, ends(foreign)[3] + 30)
    reader = registry.open_reader(foreign)
    assert len(reader) == len(good(reader)) == 4
    (reject,) = reader.rejects
    assert (reject.key, reject.reason) == ("foreign.tfrecord#4", "damaged-container")
    assert f"byte {ends(FOREIGN)[3]}: truncated" in reject.detail


def test_ours_cut_between_records_is_no_smaller_dataset(ours: Path) -> None:
    os.truncate(ours, ends(ours)[2])
    reader = registry.open_reader(ours)
    assert [sample.image.tobytes() for sample in good(reader)] == [
        sample.image.tobytes() for sample in SAMPLES[:3]
    ]
    (reject,) = reader.rejects
    assert (reject.key, reject.reason) == ("ours.tfrecord#3", "damaged-container")
    assert "it was cut" in reject.detail


def test_pixels_without_their_index_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "pixels.tfrecord"
    write_dataset(FORMAT, path, pixel_samples(5), Payload.PIXELS)
    os.truncate(path, ends(path)[2])
    with pytest.raises(DamagedDatasetError, match="it was cut"):
        registry.open_reader(path)


def test_a_length_that_no_memory_holds(foreign: Path) -> None:
    from fastdata_cli.formats.tfrecord import framing

    at = ends(foreign)[1]
    whole = foreign.read_bytes()
    foreign.write_bytes(whole[:at] + framing.header(1 << 62) + whole[at + 12 :])
    reader = registry.open_reader(foreign)
    assert len(reader) == 2
    assert "reaches to byte" in reader.rejects[0].detail


@pytest.mark.parametrize("tail", [bytes(1), bytes(4096), b"\xff" * 20])
def test_more_behind_the_last_record(foreign: Path, ours: Path, tail: bytes) -> None:
    for path in (foreign, ours):
        path.write_bytes(path.read_bytes() + tail)
        reader = registry.open_reader(path)
        assert "damaged-container" in {each.reason for each in reader.rejects}
        assert len(good(reader)) == len(reader)


def test_joined_files_are_all_read_and_it_is_said(ours: Path) -> None:
    ours.write_bytes(ours.read_bytes() * 2)
    reader = registry.open_reader(ours)
    assert len(good(reader)) == 10
    assert len(set(reader.keys())) == 10
    assert [each.reason for each in reader.rejects] == ["damaged-container"]


@pytest.mark.parametrize("size", [0, 5, 11])
def test_no_whole_header(tmp_path: Path, size: int) -> None:
    path = tmp_path / "short.tfrecord"
    path.write_bytes(FOREIGN.read_bytes()[:size])
    with pytest.raises(DamagedDatasetError, match="named like tfrecord"):
        registry.open_reader(path)


def test_cut_after_it_was_opened(ours: Path, foreign: Path) -> None:
    for path in (ours, foreign):
        reader = registry.open_reader(path)
        os.truncate(path, 100)
        with pytest.raises(FastdataError, match=r"reach|short|not what was opened"):
            reader.read(0)
