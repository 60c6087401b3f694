"""Makes the pictures that the tests of checks look at."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.quality.view import View

Pixels = NDArray[np.uint8]
POLICY = ImagePolicy()


def natural(height: int, width: int, seed: int = 0) -> Pixels:
    """RGB whose spectrum falls as that of photographs does: amplitude over frequency."""
    rng = np.random.default_rng(seed)
    down, across = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)
    fall = np.hypot(down, across)
    fall[0, 0] = np.inf
    channels = []
    for _ in range(3):
        noise = np.fft.rfft2(rng.standard_normal((height, width))) / fall
        plane = np.fft.irfft2(noise, (height, width))
        channels.append(128 + 45 * (plane - plane.mean()) / plane.std())
    return np.asarray(np.clip(np.stack(channels, axis=2), 0, 255).round(), np.uint8)


def checkers(cell: int, cells: int, dark: int = 0, light: int = 255) -> Pixels:
    """Grey squares, RGB."""
    rows, columns = np.indices((cells * cell, cells * cell)) // cell
    return rgb(np.where((rows + columns) % 2, light, dark))


def rgb(grey: NDArray[Any]) -> Pixels:
    """Grey, H x W, as three channels."""
    plane = np.clip(grey, 0, 255).astype(np.uint8)
    return np.dstack([plane, plane, plane])


def blurred(pixels: Pixels, sigma: float) -> Pixels:
    """Blurred by a Gaussian; as it is for 0."""
    return pixels if not sigma else np.asarray(cv2.GaussianBlur(pixels, (0, 0), sigma), np.uint8)


def of_pixels(pixels: NDArray[Any]) -> View:
    """A view of pixels."""
    return View.of_pixels("x", pixels, POLICY)


def of_file(data: bytes, key: str = "x.jpg", policy: ImagePolicy = POLICY) -> View:
    """A view of a file."""
    return View.of_file_bytes(key, data, policy)


def gps_exif() -> bytes:
    """An EXIF block with a place, a date and an orientation of 6."""
    from PIL import Image

    tags = Image.Exif()
    tags[0x112] = 6
    tags[0x132] = "2021:05:06 07:08:09"
    tags.get_ifd(0x8825)[1] = "N"
    return tags.tobytes()
