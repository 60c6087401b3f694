"""Fingerprints: the formulas, copies that stay close, and pictures that only seem the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from math import lcm

import cv2
import numpy as np
import pytest
import xxhash
from numpy.typing import NDArray

from benchmarks.near_duplicates import crop, jpeg, page, resize
from fastdata_cli.quality.duplicates import DEFAULT_DISTANCE
from fastdata_cli.quality.fingerprints import (
    LOOK_BYTES,
    Fingerprint,
    agree,
    exact,
    near,
    pixels,
)
from tests.quality.pictures import natural

Image = NDArray[np.uint8]


def scene(seed: int) -> Image:
    return natural(240, 320, seed)


def bits_between(one: Fingerprint, other: Fingerprint) -> int:
    return (one.value ^ other.value).bit_count()


def look_alike(one: Fingerprint, other: Fingerprint) -> bool:
    mine, theirs = (np.frombuffer(bytes.fromhex(each.look), np.uint8) for each in (one, other))
    return bool(agree(one.kind, mine, theirs[None])[0])


def same(one: Fingerprint, other: Fingerprint) -> bool:
    return bits_between(one, other) <= DEFAULT_DISTANCE and look_alike(one, other)


def area_means(image: Image) -> NDArray[np.float64]:
    """32 x 32 means by repeating pixels until the areas fall on whole ones."""
    for axis in (0, 1):
        length = image.shape[axis]
        fine = np.repeat(image.astype(np.float64), lcm(length, 32) // length, axis=axis)
        shape = list(fine.shape)
        shape[axis : axis + 1] = [32, shape[axis] // 32]
        image = fine.reshape(shape).mean(axis + 1)
    return np.asarray(image)


def reference_hash(image: Image) -> int:
    """The classic hash, term by term."""
    grey = area_means(image) @ [0.299, 0.587, 0.114]
    angles = np.pi * (2 * np.arange(32) + 1) / 64
    coefficients = np.array(
        [
            [
                (grey * np.outer(np.cos(row * angles), np.cos(column * angles))).sum()
                * (np.sqrt(0.5) if row == 0 else 1)
                * (np.sqrt(0.5) if column == 0 else 1)
                for column in range(8)
            ]
            for row in range(8)
        ]
    )
    above = (coefficients > np.median(coefficients)).ravel()
    return int("".join("01"[bit] for bit in above.astype(int)), 2)


@pytest.mark.parametrize("data", [b"", b"one", bytes(range(256)) * 999])
def test_exact_is_xxh3_128_of_the_bytes(data: bytes) -> None:
    found = exact(data)
    assert f"{found.value:016x}{found.look}" == xxhash.xxh3_128_hexdigest(data)
    assert exact(np.frombuffer(data, np.uint8)) == found


def test_pixels_are_their_values_and_their_shape() -> None:
    image = scene(1)
    assert pixels(image) == pixels(image.copy())
    assert pixels(image[:, ::-1]) == pixels(np.ascontiguousarray(image[:, ::-1]))
    assert pixels(image[:, ::-1]) != pixels(image)
    changed = image.copy()
    changed[-1, -1, -1] ^= 1
    assert pixels(changed) != pixels(image)
    assert pixels(np.zeros((2, 8, 3), np.uint8)) != pixels(np.zeros((4, 4, 3), np.uint8))


@pytest.mark.parametrize(
    ("height", "width"), [(32, 32), (33, 47), (64, 96), (100, 31), (17, 200), (7, 5), (255, 254)]
)
def test_near_is_the_classic_hash(height: int, width: int) -> None:
    image = natural(height, width, seed=height)
    assert near(image).usable
    assert near(image).value == reference_hash(image)


def test_large_pictures_keep_their_hash() -> None:
    image = natural(96, 128)
    for height, width in ((960, 1281), (2001, 255), (300, 5000)):
        large = np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_CUBIC))
        assert bits_between(near(image), near(large.astype(np.uint8))) <= 4


def test_grey_is_a_colour_picture_without_colour() -> None:
    grey = scene(4)[:, :, 0]
    assert near(grey) == near(np.repeat(grey[:, :, None], 3, axis=2))
    assert near(grey[:, :, None]) == near(grey)


@pytest.mark.parametrize(
    "change",
    [
        lambda image: jpeg(image, 40),
        lambda image: resize(image, 0.5),
        lambda image: jpeg(resize(image, 0.7), 60),
        lambda image: crop(image, 0.02, corner=False),
    ],
    ids=["quality 40", "half", "0.7 at 60", "cropped by 2 %"],
)
def test_copies_are_the_same(change: Callable[[Image], Image]) -> None:
    found = [same(near(image), near(change(image))) for image in map(scene, range(20))]
    assert all(found)


def test_different_pictures_are_not() -> None:
    prints = [near(scene(seed)) for seed in range(100)]
    assert not any(same(one, other) for one in prints for other in prints if one is not other)


def test_a_mirrored_picture_is_another() -> None:
    assert bits_between(near(scene(5)), near(scene(5)[:, ::-1])) > 16


def test_one_drawing_in_two_colours_is_two_pictures() -> None:
    grey = scene(6)[:, :, :1].astype(np.float64)
    red, blue = (
        np.clip(grey * colour, 0, 255).astype(np.uint8) for colour in ([1, 0.5, 0.4], [0.4, 0.5, 1])
    )
    assert bits_between(near(red), near(blue)) <= DEFAULT_DISTANCE
    assert not look_alike(near(red), near(blue))


def test_pages_of_one_layout_are_different_pages() -> None:
    prints = [near(page(seed)) for seed in range(100)]
    assert all(each.usable for each in prints)
    pairs = [(one, other) for one in prints for other in prints if one is not other]
    assert any(bits_between(*pair) <= DEFAULT_DISTANCE for pair in pairs)
    assert not any(same(*pair) for pair in pairs)
    assert all(same(each, near(jpeg(page(seed), 50))) for seed, each in enumerate(prints[:10]))


def noise_in_the_dark(seed: int) -> Image:
    noise = np.random.default_rng(seed).normal(6, 3, (200, 300, 3))
    return np.clip(noise, 0, 255).astype(np.uint8)


def slope(start: int) -> Image:
    rows = np.linspace(start, 250, 200).astype(np.uint8)
    return np.repeat(np.repeat(rows[:, None, None], 300, axis=1), 3, axis=2)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.full((64, 64, 3), 10, np.uint8), np.full((64, 64, 3), 128, np.uint8)),
        (np.full((64, 64, 3), 128, np.uint8), np.full((64, 65, 3), 128, np.uint8)),
        (noise_in_the_dark(0), noise_in_the_dark(1)),
        (slope(0), slope(200)),
        (np.zeros((1, 1, 3), np.uint8), np.full((1, 1, 3), 255, np.uint8)),
    ],
    ids=["flat", "flat of another size", "dark", "slopes", "one pixel"],
)
def test_pictures_without_detail_equal_only_their_own_pixels(one: Image, other: Image) -> None:
    assert not near(one).usable
    assert not near(other).usable
    assert same(near(one), near(one.copy()))
    assert not look_alike(near(one), near(other))


def test_a_picture_without_detail_is_none_with_detail() -> None:
    flat, rich = near(np.zeros((9, 9, 3), np.uint8)), near(scene(7))
    assert not look_alike(flat, rich)
    assert not look_alike(rich, flat)


@pytest.mark.parametrize("make", [lambda image: exact(image.tobytes()), pixels, near])
def test_fingerprints_survive_json(make: Callable[[Image], Fingerprint]) -> None:
    found = make(scene(8))
    assert Fingerprint(**json.loads(json.dumps(asdict(found)))) == found
    assert len(bytes.fromhex(found.look)) == LOOK_BYTES[found.kind]
    assert 0 <= found.value < 2**64
