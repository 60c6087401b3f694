"""Recognising files and reading their headers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging.policy import NOTES, REASONS, STRICT_NOTES, ImagePolicy
from fastdata_cli.imaging.probe import HEAD_BYTES, probe, probe_file, sniff

from . import make

PICTURE = make.scene(40, 24)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "empty"),
        (bytes(100), "zeros"),
        (b"<!DOCTYPE html><html>", "html"),
        (b"  <?xml version='1.0'?><Error/>", "xml"),
        (b"<svg xmlns=''/>", "svg"),
        (b'{"error": 1}', "json"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"PK\x03\x04", "zip"),
        (b"%PDF-1.4", "pdf"),
        (b"hello there", "text"),
        (b"\x89", "unknown"),
        (b"\x00\x05\x16\x07\x00\x02", "appledouble"),
    ],
)
def test_other_content_is_named(data: bytes, kind: str) -> None:
    assert sniff(data) == sniff(memoryview(data)) == kind
    with pytest.raises(BadSampleError) as caught:
        probe(data)
    assert caught.value.reason == ("empty" if kind == "empty" else "not-an-image")
    assert caught.value.detail == ("" if kind == "empty" else kind)


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\x18ftypheic\0\0\0\0mif1heic",
        b"\0\0\1\0\1\0",
        b"8BPS\0\1",
        b"\0\0\0\x0cjP  \r\n\x87\n",
        b"P7\nWIDTH 2\n",
        make.insert(b"\xff\xd8", make.segment(0xC3, b"\x08\0\x08\0\x08\3" + bytes(9))),
    ],
)
def test_pictures_of_other_formats(data: bytes) -> None:
    with pytest.raises(BadSampleError) as caught:
        probe(data)
    assert caught.value.reason == "unsupported-format"


@pytest.mark.parametrize(
    ("mode", "kind", "expected"),
    [
        ("RGB", "JPEG", "RGB"),
        ("L", "JPEG", "L"),
        ("CMYK", "JPEG", "CMYK"),
        ("RGB", "PNG", "RGB"),
        ("RGBA", "PNG", "RGBA"),
        ("LA", "PNG", "LA"),
        ("P", "PNG", "P"),
        ("1", "PNG", "1"),
        ("I;16", "PNG", "I;16"),
        ("P", "GIF", "P"),
        ("RGB", "BMP", "RGB"),
        ("P", "BMP", "P"),
        ("RGB", "WEBP", "RGB"),
        ("RGBA", "WEBP", "RGBA"),
        ("RGB", "TIFF", "RGB"),
        ("RGBA", "TIFF", "RGBA"),
        ("1", "TIFF", "1"),
        ("I;16", "TIFF", "I;16"),
        ("CMYK", "TIFF", "CMYK"),
        ("RGB", "PPM", "RGB"),
        ("L", "PPM", "L"),
        ("1", "PPM", "1"),
    ],
)
def test_size_and_mode(mode: str, kind: str, expected: str) -> None:
    deep = Image.fromarray(np.zeros((24, 40), np.uint16))
    image = deep if mode == "I;16" else Image.fromarray(PICTURE).convert(mode)
    if "A" in mode:
        image.putalpha(100)
    header = probe(make.save(image, kind))
    assert (header.width, header.height, header.mode) == (40, 24, expected)
    assert header.size == (24, 40)
    assert ("16-bit" in header.notes) == (mode == "I;16")
    assert ("cmyk" in header.notes) == (mode == "CMYK")


def test_lossless_webp_size() -> None:
    header = probe(make.save(PICTURE, "WEBP", lossless=True))
    assert (header.width, header.height, header.mode) == (40, 24, "RGB")


def test_date_and_orientation() -> None:
    tags = Image.Exif()
    tags[0x132], tags[0x112] = "2020:01:31 10:00:00", 6
    header = probe(make.jpeg(PICTURE, exif=tags.tobytes()))
    assert (header.taken, header.orientation) == ("2020:01:31 10:00:00", 6)
    assert header.size == (40, 24)
    tags.get_ifd(0x8769)[0x9003] = "2019:12:31 23:59:59"
    assert probe(make.jpeg(PICTURE, exif=tags.tobytes())).taken == "2019:12:31 23:59:59"
    assert probe(make.save(PICTURE, "TIFF", exif=tags)).taken == "2020:01:31 10:00:00"
    assert probe(make.jpeg(PICTURE, exif=tags.tobytes()), ImagePolicy(orient=False)).size == (
        24,
        40,
    )


@pytest.mark.parametrize("value", [0, 9, 300])
def test_orientation_out_of_range(value: int) -> None:
    header = probe(
        make.insert(make.jpeg(PICTURE), make.segment(0xE1, b"Exif\0\0" + make.exif(value)))
    )
    assert header.orientation == 1
    assert "metadata-broken" in header.notes


@pytest.mark.parametrize(("count", "wanted"), [(1, 6), (2, 6), (0, 1), (3, 1)])
def test_orientation_counted_more_than_once(count: int, wanted: int) -> None:
    block = bytearray(make.exif(6))
    block[14:18] = count.to_bytes(4, "little")
    header = probe(make.insert(make.jpeg(PICTURE), make.segment(0xE1, b"Exif\0\0" + block)))
    assert header.orientation == wanted


@pytest.mark.parametrize("cut", range(0, 30, 3))
def test_exif_cut_anywhere(cut: int) -> None:
    block = b"Exif\0\0" + make.exif(6)[:cut]
    header = probe(make.insert(make.jpeg(PICTURE), make.segment(0xE1, block)))
    assert header.orientation in (1, 6)
    assert ("metadata-broken" in header.notes) == (cut < 22)


def test_the_first_exif_block_counts_and_xmp_does_not() -> None:
    six, three = (make.segment(0xE1, b"Exif\0\0" + make.exif(v)) for v in (6, 3))
    xmp = make.segment(0xE1, b'http://ns.adobe.com/xap/1.0/\0<a tiff:Orientation="8"/>')
    assert probe(make.insert(make.jpeg(PICTURE), six, three)).orientation == 6
    assert probe(make.insert(make.jpeg(PICTURE), xmp)).orientation == 1


def test_png_orientation_behind_the_data_and_damaged() -> None:
    behind = make.rgb_png(PICTURE, after=make.chunk(b"eXIf", make.exif(8)))
    assert probe(behind).orientation == 8
    damaged = probe(make.rgb_png(PICTURE, before=make.chunk(b"eXIf", make.exif(8), damage=1)))
    assert damaged.orientation == 1
    assert damaged.notes == ("metadata-broken",)


def test_files_are_read_as_far_as_needed(tmp_path: Path) -> None:
    thumbnail = make.segment(0xE1, b"Exif\0\0" + make.exif(6, extra=bytes(60_000)))
    data = make.insert(make.jpeg(PICTURE), thumbnail, *[make.segment(0xEB, bytes(60_000))] * 3)
    assert len(data) > 3 * HEAD_BYTES
    path = tmp_path / "far.jpg"
    path.write_bytes(data)
    assert probe_file(str(path)) == probe(data)
    assert probe_file(str(path)).size == (40, 24)
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), dtype=np.uint8)
    for kind, more in (("TIFF", {}), ("WEBP", {"lossless": True}), ("PNG", {})):
        tags = Image.Exif()
        tags[0x112] = 5
        options: dict[str, Any] = {"exif": tags, **more}
        path.write_bytes(make.save(noise, kind, **options))
        assert probe_file(bytes(path)) == probe(path.read_bytes())
        assert probe_file(bytes(path)).orientation == 5
    with pytest.raises(FileNotFoundError):
        probe_file(str(tmp_path / "none.jpg"))
    (tmp_path / "empty").touch()
    with pytest.raises(BadSampleError, match="empty"):
        probe_file(str(tmp_path / "empty"))


@pytest.mark.parametrize("size", [(20000, 20000), (65535, 65535), (2**31 - 1, 1)])
def test_enormous_claims_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(BadSampleError) as caught:
        probe(make.png(*size, 8, 2, [bytes(90)]))
    assert caught.value.reason == "too-large"


def test_limits() -> None:
    data = make.jpeg(PICTURE)
    assert probe(data, ImagePolicy(max_pixels=960))
    with pytest.raises(BadSampleError) as caught:
        probe(data, ImagePolicy(max_pixels=959))
    assert caught.value.reason == "too-large"
    with pytest.raises(BadSampleError) as caught:
        probe(make.png(0, 0, 8, 2, [b""]))
    assert caught.value.reason == "corrupt"


@pytest.mark.parametrize("mode", ["F", "I"])
def test_depths_without_meaning(mode: str) -> None:
    with pytest.raises(BadSampleError) as caught:
        probe(make.save(Image.fromarray(PICTURE).convert(mode), "TIFF"))
    assert caught.value.reason == "unsupported-depth"


def test_frames_and_profiles_are_noted() -> None:
    frames = [Image.new("RGB", (8, 6), c) for c in ("red", "lime", "blue")]
    for kind in ("GIF", "WEBP", "PNG", "TIFF"):
        data = make.save(frames[0], kind, save_all=True, append_images=frames[1:])
        assert probe(data).notes == ("multi-frame",)
    mpo = make.save(frames[0], "MPO", save_all=True, append_images=frames[1:])
    assert probe(mpo).notes == ()
    icc = bytes(36) + b"acsp" + bytes(100)
    for kind in ("JPEG", "PNG", "WEBP", "TIFF"):
        assert probe(make.save(PICTURE, kind, icc_profile=icc)).notes == ("colour-profile",)
        assert probe(make.save(PICTURE, kind, icc_profile=icc + b"sRGB IEC61966-2.1")).notes == ()


def test_strict_rejects_broken_metadata() -> None:
    data = make.rgb_png(PICTURE, before=make.chunk(b"tIME", b"x"))
    assert probe(data).notes == ("metadata-broken",)
    with pytest.raises(BadSampleError) as caught:
        probe(data, ImagePolicy(strict=True))
    assert caught.value.reason == "corrupt"


def test_words_are_explained() -> None:
    assert set(NOTES) >= STRICT_NOTES
    assert all(REASONS.values())
    assert all(NOTES.values())


def test_probing_loads_no_decoder() -> None:
    code = (
        "import sys, fastdata_cli.imaging.probe, fastdata_cli.imaging.check\n"
        "assert not {'cv2', 'PIL', 'simplejpeg'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
