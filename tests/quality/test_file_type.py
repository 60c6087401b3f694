"""Names that say another format than the content has."""

from __future__ import annotations

import pytest

from fastdata_cli.quality.file_type import FormatMismatch

from ..imaging import make
from .pictures import of_file, of_pixels

PIXELS = make.scene(20, 16)
FILES = {kind: make.save(PIXELS, kind) for kind in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP")}


@pytest.mark.parametrize(
    ("kind", "key", "found"),
    [
        ("JPEG", "a/b.jpg", None),
        ("JPEG", "a/b.JPEG", None),
        ("JPEG", "b.jfif", None),
        ("PNG", "b.jpg", "png"),
        ("JPEG", "b.png", "jpeg"),
        ("JPEG", "IMG_1.HEIC", "jpeg"),
        ("TIFF", "b.tif", None),
        ("WEBP", "b.v1.jpg", "webp"),
        ("GIF", "b.gif", None),
        ("BMP", "b.dib", None),
        ("PNG", "b", None),
        ("PNG", "jpg", None),
        ("PNG", "x.jpg/b", None),
        ("PNG", "b.22", None),
        ("PNG", "", None),
    ],
)
def test_names_and_contents(kind: str, key: str, found: str | None) -> None:
    score = FormatMismatch().measure(of_file(FILES[kind], key))
    assert score == found
    assert FormatMismatch().fails(score, True) is (found is not None)


def test_pixels_have_no_format() -> None:
    assert FormatMismatch().measure(of_pixels(PIXELS)) is None
