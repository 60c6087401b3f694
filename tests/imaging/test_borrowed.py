"""Borrowed pixels are those of decode, and what is no picture gets the same verdict."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.imaging.borrowed import borrowed_pixels
from fastdata_cli.imaging.decode import decode
from tests.conftest import jpeg

POLICIES = [
    ImagePolicy(),
    ImagePolicy(allow_truncated=True),
    ImagePolicy(strict=True),
    ImagePolicy(orient=False),
    ImagePolicy(max_pixels=2000),
]


def encoded(kind: str = "JPEG", mode: str = "RGB", **settings: Any) -> bytes:
    """Return a picture of 41×57 pixels."""
    image = Image.open(io.BytesIO(jpeg(41, 57, 3))).convert(mode)
    buffer = io.BytesIO()
    image.save(buffer, kind, **settings)
    return buffer.getvalue()


def turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x112] = orientation
    return encoded(exif=exif)


PICTURES = [
    encoded(),
    encoded(progressive=True),
    encoded(subsampling=0),
    encoded(restart_marker_rows=1),
    encoded(mode="L"),
    encoded(mode="CMYK"),
    *(turned(orientation) for orientation in range(1, 9)),
    encoded("PNG"),
    encoded("GIF", "P"),
    encoded() + b"trailing",
    b"",
    b"<html>",
]


def outcome(
    data: bytes, policy: ImagePolicy, at_least: tuple[int, int] | None, *, borrow: bool
) -> tuple[Any, ...]:
    """Return the pixels, or the verdict."""
    try:
        if borrow:
            pixels: NDArray[np.uint8] = borrowed_pixels(memoryview(data), policy, at_least)
        else:
            pixels = decode(data, policy, at_least=at_least).pixels
    except BadSampleError as problem:
        return problem.reason, problem.detail
    return pixels.shape, pixels.tobytes()


@pytest.mark.parametrize("at_least", [None, (1, 1), (10, 12), (20, 28), (300, 300)])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_as_decode(policy: ImagePolicy, at_least: tuple[int, int] | None) -> None:
    for data in PICTURES:
        found = outcome(data, policy, at_least, borrow=True)
        assert found == outcome(data, policy, at_least, borrow=False)


def test_the_same_verdict_on_damage() -> None:
    chance = random.Random(0)
    verdicts = set()
    for _ in range(1500):
        data = bytearray(chance.choice(PICTURES[:14]))
        for _ in range(chance.choice((1, 1, 3))):
            at = chance.randrange(len(data))
            change = chance.randrange(4)
            if change == 0:
                data[at] ^= 1 << chance.randrange(8)
            elif change == 1:
                data[at : at + 1] = b"\xff" + bytes([chance.randrange(256)])
            elif change == 2:
                del data[at : at + 5]
            else:
                del data[max(at, 4) :]
        policy, at_least = chance.choice(POLICIES), chance.choice((None, (9, 9)))
        found = outcome(bytes(data), policy, at_least, borrow=True)
        assert found == outcome(bytes(data), policy, at_least, borrow=False)
        verdicts.add(found[0] if isinstance(found[0], str) else "fine")
    assert {"fine", "truncated", "corrupt"} <= verdicts


def test_they_are_put_where_they_fit() -> None:
    data = encoded()
    wanted = decode(data).pixels
    place = np.zeros((2, 41, 57, 3), np.uint8)
    found = borrowed_pixels(data, ImagePolicy(), None, place[1])
    assert found.base is place[1] or np.shares_memory(found, place[1])
    assert np.array_equal(place[1], wanted)
    assert not place[0].any()
    for other in (turned(6), encoded("PNG")):
        place[:] = 0
        found = borrowed_pixels(other, ImagePolicy(), None, place[1])
        assert np.array_equal(found, decode(other).pixels)
        assert not place[0].any()


def test_the_next_call_uses_the_memory_again() -> None:
    first = borrowed_pixels(encoded(), ImagePolicy())
    second = borrowed_pixels(encoded(subsampling=0), ImagePolicy())
    assert np.shares_memory(first, second)
    own = decode(encoded()).pixels
    borrowed_pixels(encoded(mode="L"), ImagePolicy())
    assert np.array_equal(own, decode(encoded()).pixels)
