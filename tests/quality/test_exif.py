"""EXIF: dates, places and orientations, from blocks as they come."""

from __future__ import annotations

import struct

import pytest

from fastdata_cli.imaging.exif import read_exif
from fastdata_cli.quality.exif import REPORT, Orientation, RequireExif
from fastdata_cli.quality.view import View

from ..imaging import make
from .pictures import gps_exif, of_file, of_pixels

PHOTO = make.scene(20, 16)
PLAIN = make.jpeg(PHOTO)
TAGGED = make.jpeg(PHOTO, exif=gps_exif())
BROKEN = make.insert(PLAIN, make.segment(0xE1, b"Exif\0\0" + b"\xff" * 40))


def report(view: View) -> dict[str, object]:
    return {name: measure(view) for name, measure in REPORT.items()}


def test_what_is_there_is_reported() -> None:
    assert report(of_file(TAGGED)) == {
        "exif_datetime": "2021:05:06 07:08:09",
        "exif_orientation": 6,
        "exif_gps": True,
    }


@pytest.mark.parametrize("data", [PLAIN, BROKEN])
def test_what_is_not_there_or_unreadable_is_missing(data: bytes) -> None:
    found = report(of_file(data))
    assert found == {"exif_datetime": None, "exif_orientation": 1, "exif_gps": False}


def test_pixels_have_none() -> None:
    assert set(report(of_pixels(PHOTO)).values()) == {None}


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_other_formats(kind: str) -> None:
    view = of_file(make.save(PHOTO, kind, exif=gps_exif()))
    assert report(view)["exif_datetime"] == "2021:05:06 07:08:09"
    assert report(view)["exif_gps"] is True
    assert Orientation().fails(Orientation().measure(view), True)


def gps_block(entries: dict[int, bytes]) -> bytes:
    """An EXIF block whose GPS directory has these entries of two bytes."""
    body = b"".join(
        struct.pack("<HHI4s", tag, 2, 2, value.ljust(4, b"\0")) for tag, value in entries.items()
    )
    pointer = struct.pack("<HHHII", 1, 0x8825, 4, 1, 26)
    gps = struct.pack("<H", len(entries)) + body + bytes(4)
    return b"II*\0" + struct.pack("<I", 8) + pointer + bytes(4) + gps


@pytest.mark.parametrize(
    ("entries", "located"),
    [({0: b"\2\3", 1: b"N"}, True), ({0: b"\2\3"}, False), ({}, False)],
)
def test_a_directory_without_data_is_no_place(entries: dict[int, bytes], located: bool) -> None:
    assert read_exif(gps_block(entries)).located is located


def test_a_pointer_that_leads_nowhere_is_no_place() -> None:
    block = b"II*\0" + struct.pack("<IHHHII", 8, 1, 0x8825, 4, 1, 9999) + bytes(4)
    assert read_exif(block).located is False


def test_verdicts() -> None:
    assert RequireExif().fails(None, "DateTime")
    assert not RequireExif().fails("2021:05:06 07:08:09", "DateTime")
    assert Orientation().fails(3, True)
    assert not Orientation().fails(1, True)
    assert not Orientation().fails(None, True)
