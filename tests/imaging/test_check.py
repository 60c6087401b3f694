"""Judging files by their structure, and at every length."""

from __future__ import annotations

import pytest
from PIL import Image

from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging.check import check
from fastdata_cli.imaging.decode import decode
from fastdata_cli.imaging.policy import ImagePolicy

from . import make

PICTURE = make.scene(48, 40)
DEFAULT = ImagePolicy()
LENIENT = ImagePolicy(allow_truncated=True)


def reason(data: bytes, policy: ImagePolicy = DEFAULT) -> str:
    """Why check refuses, or an empty string."""
    try:
        check(data, policy)
    except BadSampleError as problem:
        return problem.reason
    return ""


@pytest.mark.parametrize("progressive", [False, True])
def test_jpeg_cut_anywhere(progressive: bool) -> None:
    data = make.jpeg(PICTURE, progressive=progressive)
    assert reason(data) == ""
    for length in range(2, len(data), 7):
        cut = data[:length]
        assert reason(cut) == "truncated", length
        with pytest.raises(BadSampleError) as caught:
            decode(cut)
        assert caught.value.reason == "truncated"


def test_jpeg_cut_anywhere_and_allowed() -> None:
    data = make.jpeg(PICTURE)
    scan = data.index(b"\xff\xda")
    whole = decode(data).pixels
    for length in range(2, len(data), 17):
        if length < scan + 20:
            with pytest.raises(BadSampleError) as caught:
                decode(data[:length], LENIENT)
            assert caught.value.reason == "truncated"
        else:
            found = decode(data[:length], LENIENT)
            assert found.pixels.shape == whole.shape
            assert "truncated" in found.notes
    for lost in (1, 2):
        assert (decode(data[:-lost], LENIENT).pixels == whole).all()


def test_jpeg_with_a_lost_tail() -> None:
    data = make.jpeg(PICTURE)
    half = len(data) // 2
    assert reason(data[:half] + bytes(len(data) - half)) == "truncated"
    early = data[:half] + b"\xff\xd9" + data[half + 2 :]
    with pytest.raises(BadSampleError) as caught:
        decode(early)
    assert caught.value.reason == "corrupt"


@pytest.mark.parametrize("tail", [b"SEFT" * 50, bytes(3000), b"\n"])
def test_trailing_bytes_are_noted(tail: bytes) -> None:
    data = make.jpeg(PICTURE) + tail
    assert check(data).notes == ("trailing-bytes",)
    assert (decode(data).pixels == decode(make.jpeg(PICTURE)).pixels).all()
    assert reason(data, ImagePolicy(strict=True)) == "corrupt"


def test_mpo_has_no_trailing_bytes() -> None:
    frames = [Image.new("RGB", (16, 16), c) for c in ("red", "lime")]
    assert check(make.save(frames[0], "MPO", save_all=True, append_images=frames[1:])).notes == ()


def test_restart_markers_and_fill_bytes_do_not_end_a_scan() -> None:
    data = make.jpeg(PICTURE, restart_marker_blocks=2)
    assert data.count(b"\xff\xd0") > 1
    assert reason(data[:-2] + b"\xff\xff\xd9") == ""


def test_png_damage() -> None:
    data = make.rgb_png(PICTURE)
    assert reason(make.rgb_png(PICTURE, damage=1)) == "corrupt"
    assert reason(make.rgb_png(PICTURE, damage=1), LENIENT) == "corrupt"
    assert reason(data[:-12]) == "truncated"
    assert check(data[:-12], LENIENT).notes == ("truncated",)
    assert (decode(data[:-12], LENIENT).pixels == PICTURE).all()
    for kind in (b"tEXt", b"iCCP", b"zzZz"):
        found = decode(make.rgb_png(PICTURE, before=make.chunk(kind, b"a\0b", damage=1)))
        assert "metadata-broken" in found.notes
        assert (found.pixels == PICTURE).all()


def test_png_cut_anywhere() -> None:
    data = make.rgb_png(PICTURE)
    for length in range(8, len(data), 13):
        assert reason(data[:length]) == "truncated", length
        if length < 33:
            with pytest.raises(BadSampleError) as caught:
                decode(data[:length], LENIENT)
            assert caught.value.reason == "truncated"
        else:
            found = decode(data[:length], LENIENT)
            same = (found.pixels == PICTURE).all(axis=(1, 2))
            rows = int(same.argmin()) if not same.all() else len(same)
            assert not found.pixels[rows + 1 :].any()


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF"])
def test_other_formats_cut(kind: str) -> None:
    data = make.save(PICTURE, kind)
    assert reason(data) == ""
    for part in (4, 2, 1.3, 1.02):
        cut = data[: int(len(data) / part)]
        assert reason(cut) == "truncated"
        with pytest.raises(BadSampleError) as caught:
            decode(cut)
        assert caught.value.reason == "truncated"
