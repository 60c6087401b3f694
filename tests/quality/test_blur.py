"""Blur and sharpness: formulas, what they find, and what they must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fastdata_cli.quality.blur import Blur, Sharpness

from ..imaging import make
from .pictures import Pixels, blurred, checkers, natural, of_file, of_pixels, rgb

SIGMAS = (0, 1, 2, 4)


def blur(pixels: Pixels) -> float | None:
    return Blur().measure(of_pixels(pixels))


def detail(pixels: Pixels) -> float:
    score = blur(pixels)
    assert score is not None
    return score


def sharpness(pixels: Pixels) -> float:
    return Sharpness().measure(of_pixels(pixels))


def plain_share(grey: NDArray[np.uint8]) -> float:
    """The documented formula, block by block and coefficient by coefficient."""
    place = np.arange(8)
    high = rest = 0.0
    for top in range(0, grey.shape[0] - 7, 11):
        for left in range(0, grey.shape[1] - 7, 11):
            block = grey[top : top + 8, left : left + 8].astype(np.float64)
            for u in range(8):
                for v in range(8):
                    down = np.cos(np.pi * u * (2 * place + 1) / 16)
                    across = np.cos(np.pi * v * (2 * place + 1) / 16)
                    scale = (1 if u else 0.5) * (1 if v else 0.5) / 16
                    energy = scale * float(down @ block @ across) ** 2
                    high += energy if u + v >= 4 else 0
                    rest += energy if u + v else 0
    return high / rest


def plain_laplacian(grey: NDArray[np.uint8]) -> Any:
    g = np.pad(grey.astype(np.float64), 1, mode="reflect")
    edges = g[1:-1, :-2] + g[1:-1, 2:] + g[:-2, 1:-1] + g[2:, 1:-1] - 4 * g[1:-1, 1:-1]
    return edges.var()


@pytest.mark.parametrize("size", [(75, 100), (200, 333), (400, 300), (8, 8), (19, 30)])
@pytest.mark.parametrize("sigma", [0, 2])
def test_scores_agree_with_plain_computations(size: tuple[int, int], sigma: int) -> None:
    pixels = blurred(natural(*size, seed=4), sigma)
    reduced = of_pixels(pixels).reduced
    assert detail(pixels) == pytest.approx(plain_share(reduced), rel=1e-4)
    assert sharpness(pixels) == pytest.approx(plain_laplacian(reduced), rel=1e-9)


@pytest.mark.parametrize("size", [(375, 500), (150, 200), (800, 600)])
def test_scores_fall_with_blur(size: tuple[int, int]) -> None:
    for seed in range(5):
        sharp = natural(*size, seed=seed)
        shares = [detail(blurred(sharp, sigma)) for sigma in SIGMAS]
        edges = [sharpness(blurred(sharp, sigma)) for sigma in SIGMAS]
        assert shares == sorted(set(shares), reverse=True)
        assert edges == sorted(set(edges), reverse=True)


@pytest.mark.parametrize("quality", [None, 90, 50])
@pytest.mark.parametrize("check", [Blur(), Sharpness()])
def test_suggested_thresholds(check: Blur | Sharpness, quality: int | None) -> None:
    for seed in range(8):
        for sigma in (0, 4):
            pixels = blurred(natural(375, 500, seed=seed), sigma)
            view = of_file(make.jpeg(pixels, quality=quality)) if quality else of_pixels(pixels)
            assert check.fails(check.measure(view), check.suggested) is (sigma == 4)


@pytest.mark.parametrize("factor", [2, 3, 4])
def test_scores_do_not_depend_on_the_size(factor: int) -> None:
    """A large picture scores as its small copy, though soft pixel by pixel."""
    small = natural(192, 256, seed=7)
    large = np.repeat(np.repeat(small, factor, axis=0), factor, axis=1)
    assert detail(large) == pytest.approx(detail(small), rel=1e-6)
    assert sharpness(large) == pytest.approx(sharpness(small), rel=1e-6)


def test_low_contrast_is_not_blur() -> None:
    sharp = natural(200, 200, seed=2)
    faint = (sharp // 8 + 100).astype(np.uint8)
    assert detail(faint) > 0.5 * detail(sharp) > detail(blurred(sharp, 2))
    # The Laplacian cannot tell them apart.
    assert sharpness(faint) < sharpness(blurred(sharp, 1))


def test_a_small_object_on_black_is_judged_by_itself() -> None:
    for sigma, is_blurry in ((0, False), (4, True)):
        scene = np.zeros((375, 500, 3), np.uint8)
        scene[100:250, 200:350] = natural(150, 150, seed=9)
        assert Blur().fails(blur(blurred(scene, sigma)), 0.05) is is_blurry


@pytest.mark.parametrize("level", [0, 90, 255])
def test_flat_pictures_have_no_score(level: int) -> None:
    flat = rgb(np.full((100, 100), level))
    assert blur(flat) is None
    assert not Blur().fails(blur(flat), 0.05)


def test_a_step_of_one_level_is_no_detail() -> None:
    assert blur(rgb(np.tile(np.arange(200) // 100, (200, 1)))) is None


@pytest.mark.parametrize("size", [(7, 100), (100, 7), (1, 1)])
def test_pictures_too_small_for_a_block_have_no_score(size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    assert blur(pixels) is None
    assert sharpness(pixels) >= 0


def test_strips_are_judged() -> None:
    strip = np.random.default_rng(0).integers(0, 256, (12, 4000, 3), np.uint8)
    assert detail(strip) > 0.5


@pytest.mark.parametrize("cell", [8, 16, 32, 64])
def test_edges_on_the_grid_of_blocks_are_seen(cell: int) -> None:
    """Where blocks lie side by side, these edges would fall between them."""
    board = checkers(cell, 256 // cell)
    shares = [detail(blurred(board, sigma)) for sigma in SIGMAS]
    assert shares[0] > 0.1
    assert shares == sorted(set(shares), reverse=True)
    faint = checkers(cell, 256 // cell, dark=100, light=125)
    assert detail(faint) == pytest.approx(shares[0])
