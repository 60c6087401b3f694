"""How well the blur and sharpness scores tell blurred photographs from sharp ones.

    python benchmarks/calibrate_blur.py FOLDER

Blurs every photograph below FOLDER by known amounts, at the size it has, and prints the tables of
docs/clean-checks.md: scores by amount, how often they fall with it, errors at the suggested
threshold, and how the scores of smaller and larger copies compare. Takes a minute per 500.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.imaging.decode import decode
from fastdata_cli.quality.blur import Blur, Sharpness
from fastdata_cli.quality.view import View

CHECKS: tuple[Blur | Sharpness, ...] = (Blur(), Sharpness())
SIGMAS = (0.0, 1.0, 2.0, 4.0)
QUALITIES = (90, 50)
SCALES = (0.35, 0.5, 0.75, 1.5, 2.0)
POLICY = ImagePolicy()
Scores = NDArray[np.float64]


def photographs(folder: Path) -> Iterator[NDArray[np.uint8]]:
    """Decode what can be decoded below a folder, in the order of names."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            yield decode(path.read_bytes()).pixels
        except BadSampleError:
            continue


def blurred(pixels: NDArray[np.uint8], sigma: float) -> NDArray[np.uint8]:
    """Blur by a Gaussian of ``sigma`` pixels."""
    return pixels if not sigma else np.asarray(cv2.GaussianBlur(pixels, (0, 0), sigma), np.uint8)


def compressed(pixels: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """Return what a JPEG of this quality makes of the pixels."""
    _, data = cv2.imencode(".jpg", pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    return decode(data.tobytes()).pixels


def scaled(pixels: NDArray[np.uint8], scale: float) -> NDArray[np.uint8]:
    """Shrink by the mean of areas, or enlarge."""
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=method), np.uint8)


def variants(pixels: NDArray[np.uint8]) -> Mapping[str, NDArray[np.uint8]]:
    """Everything that is measured of one photograph, by name."""
    worst = blurred(pixels, SIGMAS[-1])
    return {
        **{f"sigma {sigma:g}": blurred(pixels, sigma) for sigma in SIGMAS},
        **{f"sigma {SIGMAS[-1]:g}, JPEG {q}": compressed(worst, q) for q in QUALITIES},
        **{f"scale {scale:g}": scaled(pixels, scale) for scale in SCALES},
    }


def measure(folder: Path) -> tuple[list[str], Scores]:
    """Return the names of the variants, and scores: photographs × variants × checks."""
    rows, names = [], list[str]()
    for pixels in photographs(folder):
        made = variants(pixels)
        names = list(made)
        views = [View.of_pixels(name, each, POLICY) for name, each in made.items()]
        rows.append([[check.measure(view) for check in CHECKS] for view in views])
    return names, np.array(rows, np.float64)  # no score becomes not-a-number


def show_blur(names: Sequence[str], scores: Scores, threshold: float) -> None:
    """Print the table of scores by amount of blur, and how often they fall with it."""
    print("\n| | 1 % | median | 99 % | below the threshold |\n|---|---|---|---|---|")
    for index, name in enumerate(names):
        if name.startswith("sigma"):
            low, middle, high = np.nanquantile(scores[:, index], (0.01, 0.5, 0.99))
            below = (scores[:, index] < threshold).mean()
            print(f"| {name} | {low:.3g} | {middle:.3g} | {high:.3g} | {below:.1%} |")
    falls = (np.diff(scores[:, : len(SIGMAS)], axis=1) < 0).all(axis=1)
    print(f"\nStrictly falling from sigma to sigma: {falls.mean():.1%} of {len(scores)}")


def show_scale(names: Sequence[str], scores: Scores) -> None:
    """Print how the scores of copies of other sizes compare to those of the photographs."""
    print("\n| copy | 5 % | median | 95 % |\n|---|---|---|---|")
    for index, name in enumerate(names):
        if name.startswith("scale"):
            ratio = np.nanquantile(scores[:, index] / scores[:, 0], (0.05, 0.5, 0.95))
            print(f"| {name} | " + " | ".join(f"{each:.2f}" for each in ratio) + " |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    names, scores = measure(parser.parse_args().folder)
    if not len(scores):
        parser.error("no photograph in that folder")
    for index, check in enumerate(CHECKS):
        print(f"\n## {check.score}, threshold {check.suggested}")
        show_blur(names, scores[:, :, index], check.suggested)
        show_scale(names, scores[:, :, index])


if __name__ == "__main__":
    main()
