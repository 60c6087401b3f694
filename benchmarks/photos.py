"""Owns the source images: the user's photographs copied, or what stands in for them, labelled."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.data import files_below, name_for
from fastdata_cli.errors import BadSampleError, NothingUsableError, SourceNotFoundError
from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.imaging.probe import probe
from fastdata_cli.imaging.resize import opencv

SAMPLE_DATA = Path(__file__).resolve().parents[1] / "sample_data" / "images"
_JPEG = (".jpg", ".jpeg")
_CLASSES = 20

# The longer side that the small pictures of sample_data are enlarged to: as in ImageNet.
_ENLARGED = 500

LARGE_COUNT = 16
_LARGE_SIDE = 4000
_LARGE_PIXELS = 8_000_000
# In steps of 255: a camera's files of twelve megapixels are megabytes, because its sensor makes
# noise. What is enlarged has none, and would decode faster than any photograph.
_NOISE = 6.0


@dataclass(frozen=True, kw_only=True)
class Photos:
    """What the measurements are made with."""

    folder: str
    """A tree of ``count`` JPEG files."""
    large: str
    count: int
    distinct: int
    """Different files among them; the rest are copies."""
    mean_bytes: int
    large_mean_bytes: int
    words: str
    """What they are and are not, for the table."""


def make_photos(work: Path, given: Path | None, count: int, *, fresh: bool = False) -> Photos:
    """Return ``count`` JPEG files in a tree of classes, and a few large ones.

    Args:
        work: where they are put; what is there already is used again.
        given: a folder of JPEG files; None takes the painted images of ``sample_data``.
        count: how many files; those there are repeat.
        fresh: nothing is used again, neither images nor the containers beside them.

    Raises:
        SourceNotFoundError: there is no such folder.
        NothingUsableError: no JPEG files are below it.
    """
    origin = SAMPLE_DATA if given is None else given
    if not origin.is_dir():
        raise SourceNotFoundError(f"{origin}: no such folder", hint="PHOTOS=DIR make bench")
    files = [path for path in files_below(origin) if path.suffix.lower() in _JPEG]
    if not files:
        raise NothingUsableError(f"{origin}: no JPEG files here", hint="PHOTOS=DIR make bench")
    stamps = [(str(path), path.stat().st_size) for path in files]
    here = work / name_for([count, *stamps])
    if fresh:
        shutil.rmtree(here, ignore_errors=True)
    if given is None:
        files = _once(here / "enlarged", lambda to: _enlarge(files, to, _ENLARGED, noise=0.0))
    distinct = files[:count]
    camera = _large_ones(files)
    copied = _once(here / "photos", lambda to: _copy(distinct, to, count))
    if camera:
        large = _once(here / "large-photos", lambda to: _copy(camera, to, LARGE_COUNT))
    else:
        some = distinct[:LARGE_COUNT]
        large = _once(here / "enlarged-photos", lambda to: _enlarge(some, to, _LARGE_SIDE, _NOISE))
    return Photos(
        folder=str(here / "photos"),
        large=str(here / ("large-photos" if camera else "enlarged-photos")),
        count=count,
        distinct=len(distinct),
        mean_bytes=_mean_bytes(copied),
        large_mean_bytes=_mean_bytes(large),
        words=_words(count, len(distinct), painted=given is None, camera=bool(camera)),
    )


def _words(count: int, distinct: int, *, painted: bool, camera: bool) -> str:
    copies = f", copies of {distinct:,} different ones" if distinct < count else ""
    words = f"{count:,} JPEG files{copies}."
    if painted:
        words = (
            f"No photographs: {count:,} JPEG files{copies}, the painted images of sample_data "
            f"enlarged to {_ENLARGED} pixels. They are smoother than photographs and decode "
            "faster: rates are too high, ratios only roughly right. PHOTOS=DIR make bench takes "
            "your own JPEG files."
        )
    if camera:
        return words
    return (
        f"{words} The large photographs are no camera's: enlarged to {_LARGE_SIDE} pixels, with "
        f"noise (σ {_NOISE:g} of 255), so that the files are as large as a camera's."
    )


def _large_ones(files: Sequence[Path]) -> list[Path]:
    """Return photographs of many pixels, or none where there are too few of them."""
    found = [path for path in files if _pixels(path) >= _LARGE_PIXELS][:LARGE_COUNT]
    return found if len(found) >= LARGE_COUNT // 2 else []


def _pixels(path: Path) -> int:
    try:
        height, width = probe(path.read_bytes(), ImagePolicy()).size
    except BadSampleError:
        return 0
    return height * width


def _mean_bytes(files: Sequence[Path]) -> int:
    return sum(path.stat().st_size for path in files) // len(files)


def _once(folder: Path, fill: Callable[[Path], None]) -> list[Path]:
    """Return the files of a folder; without it, let ``fill`` make them, and name it when whole."""
    if not folder.exists():
        partial = folder.with_name(f".{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        fill(partial)
        partial.rename(folder)
    return files_below(folder)


def _place(folder: Path, at: int) -> Path:
    place = folder / f"class-{at % _CLASSES:02d}" / f"{at:06d}.jpg"
    place.parent.mkdir(exist_ok=True)
    return place


def _copy(files: Sequence[Path], folder: Path, count: int) -> None:
    # Real copies: links would share their pages in the cache, and a set would seem smaller.
    for at in range(count):
        shutil.copyfile(files[at % len(files)], _place(folder, at))


def _enlarge(files: Sequence[Path], folder: Path, side: int, noise: float) -> None:
    cv2 = opencv()
    random = np.random.default_rng(0)
    for at, path in enumerate(files):
        pixels = cv2.imread(str(path), cv2.IMREAD_COLOR)
        if pixels is None:
            raise NothingUsableError(f"{path}: OpenCV cannot decode it")
        factor = side / max(pixels.shape[:2])
        large = cv2.resize(pixels, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC)
        if noise:
            grain = random.standard_normal(large.shape, np.float32) * noise
            large = np.clip(large + grain, 0, 255).astype(np.uint8)
        cv2.imwrite(str(_place(folder, at)), large, [cv2.IMWRITE_JPEG_QUALITY, 90])
