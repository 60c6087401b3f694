"""Made-up reports of clean with their galleries, so that showing one needs no images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from fastdata_cli.operations.clean.gallery import (
    FINE_SCORES,
    Border,
    Gallery,
    Picture,
    PictureGroup,
)
from fastdata_cli.operations.clean.gallery_thumbnail import Thumbnail, make_thumbnail
from fastdata_cli.operations.clean.limits import find_limits
from fastdata_cli.operations.clean.report import (
    CleanReport,
    Duplicate,
    DuplicateGroup,
    ScoreValues,
)
from fastdata_cli.quality.verdict import Reason, Score

HOSTILE = (
    '/d/</figcaption><script>document.title="taken"</script><img src=x onerror=alert(1)>&"\'.jpg'
)
THRESHOLDS: dict[str, Score] = {
    "variance-min": 10.0,
    "brightness-min": 10.0,
    "brightness-max": 245.0,
    "duplicates": "near",
    "distance": 6,
}
_VARIANCES = (0.0, 0.0, 3.25, 9.99, 10.0, 480.0, 2100.5, 4000.0, 5200.0, 11800.0)


def values(name: str, scores: Sequence[float], *, count: int = 0, missing: int = 0) -> ScoreValues:
    """Return a score; ``count`` beyond the number of scores makes them a sample."""
    return ScoreValues(
        name=name,
        count=count or len(scores),
        missing=missing,
        low=min(scores),
        high=max(scores),
        values=tuple(sorted(scores)),
    )


@cache
def scores(many: int = 200) -> dict[str, ScoreValues]:
    """Return plausible values of every score that has thresholds."""
    rng = np.random.default_rng(5)
    made = {
        "variance": (*_VARIANCES, *rng.lognormal(8, 0.7, many)),
        "blur": rng.beta(2, 6, many),
        "sharpness": rng.lognormal(7, 1.2, many),
        "brightness": rng.normal(120, 35, many).clip(0, 255),
        "side": rng.integers(90, 1400, many).astype(float),
        "aspect": 1 + rng.gamma(2, 0.2, many),
        "entropy": rng.normal(7.2, 0.4, many).clip(0, 8),
    }
    return {name: values(name, [float(each) for each in found]) for name, found in made.items()}


@cache
def thumbnail(
    seed: int = 0, side: int = 120, *, noisy: bool = False, detail: bool = False
) -> Thumbnail:
    """Return a real thumbnail; a noisy one takes many bytes."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (side, side + 20, 3), np.uint8)
    if not noisy:
        pixels[:] = pixels[0, 0]
    return make_thumbnail(pixels, detail_of=(side, side + 20) if detail else None)


def picture(
    key: str,
    reason: str = "low-variance",
    value: float = 3.25,
    seed: int = 0,
    *,
    detail: bool = False,
) -> Picture:
    """Return an image that was held back."""
    reasons = (Reason(reason, "variance", value, 10.0), Reason("too-dark", "brightness", 1.0, 10.0))
    measured: dict[str, Score] = dict.fromkeys(scores(), 0.5)
    drawn = thumbnail(seed, 200 if detail else 120, detail=detail)
    return Picture(key, drawn, reasons, {**measured, "variance": value})


def report(**changes: object) -> CleanReport:
    """Return the report of a run that found a bit of everything."""
    facts: dict[str, object] = {
        "source": "/data/birds",
        "looked_at": 12_345,
        "kept": 11_000,
        "reasons": {"low-variance": 1234, "too-dark": 40, "near-duplicate": 105, "truncated": 1},
        "notes": {"exif-missing": 300, "cmyk": 2, "other-name": 1},
        "thresholds": THRESHOLDS,
        "scores": scores(),
        "groups": (
            DuplicateGroup(
                first="/d/a.jpg",
                against=False,
                reason="near-duplicate",
                count=104,
                members=(Duplicate(key="/d/b.jpg", distance=5),),
            ),
        ),
        "groups_found": 2,
        "cached": 0,
        "moved": 0,
        "seconds": 83.4,
    }
    return CleanReport(**{**facts, **changes})  # type: ignore[arg-type]


def gallery(keys: Sequence[str] = (), found: CleanReport | None = None) -> Gallery:
    """Return a gallery for ``report``; the keys are among the images of the first reason."""
    found = found or report()
    shelf = [picture(key, value=1.0 + at) for at, key in enumerate(keys)]
    shelf += [picture(f"/d/low/{at}.jpg", value=at / 10, seed=at % 5) for at in range(60)]
    cut = Picture("/d/cut.jpg", None, (Reason("truncated", detail="jpeg: no end marker"),))
    return Gallery(
        shelves={
            "low-variance": tuple(shelf[:60]),
            "too-dark": tuple(picture(f"/d/dark/{at}.jpg") for at in range(40)),
            "truncated": (cut,),
        },
        borders=tuple(
            Border(
                limit,
                (picture("/d/fails.jpg", detail=limit.check.score in FINE_SCORES),),
                (picture("/d/passes.jpg", detail=limit.check.score in FINE_SCORES),),
            )
            for limit in find_limits(found.thresholds, found.scores.keys())
        ),
        groups=(
            PictureGroup(
                first=Picture("/d/a.jpg", thumbnail(1)),
                members=(Picture("/d/b.jpg", thumbnail(2), distance=5),),
                count=104,
                reason="near-duplicate",
            ),
        ),
    )
