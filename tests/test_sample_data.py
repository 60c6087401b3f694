"""The sample set: its script makes again what is committed, and each file is what its name says."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

ROOT = Path(__file__).resolve().parents[1] / "sample_data"
GOOD = sorted((ROOT / "images").glob("*/*"))
BAD = ROOT / "bad"
CLASSES = ("scenes", "shapes", "textures")
DATE_ORIGINAL = 0x9003
EXIF_IFD = 0x8769
MAKE, ORIENTATION = 0x010F, 0x0112

FAULTS = {
    "black.jpg",
    "blurred.jpg",
    "duplicate.jpg",
    "empty.jpg",
    "near-duplicate.jpg",
    "no-exif.jpg",
    "not-an-image.jpg",
    "rotated.jpg",
    "tail-zeroed.jpg",
    "truncated.jpg",
    "white.jpg",
    "wrong-extension.jpg",
}


def pixels(path: Path, mode: str = "RGB") -> NDArray[np.float64]:
    """Decode a file, as it is stored."""
    with Image.open(path) as image:
        return np.asarray(image.convert(mode), np.float64)


def exif(path: Path) -> Image.Exif:
    with Image.open(path) as image:
        return image.getexif()


def sharpness(path: Path) -> float:
    """The variance of the Laplacian."""
    grey = pixels(path, "L")
    middle = -4 * grey[1:-1, 1:-1]
    edges = middle + grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:]
    return float(edges.var())


def produced(root: Path) -> dict[str, Path]:
    files = (path for folder in ("images", "bad") for path in (root / folder).rglob("*"))
    return {path.relative_to(root).as_posix(): path for path in files if path.is_file()}


@pytest.fixture(scope="module")
def remade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sample")
    script = [sys.executable, str(ROOT / "make_sample_data.py"), str(out)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def test_the_script_makes_the_same_names_again(remade: Path) -> None:
    assert sorted(produced(remade)) == sorted(produced(ROOT))


def test_the_script_makes_the_same_pictures_again(remade: Path) -> None:
    for committed in GOOD:
        again = remade / committed.relative_to(ROOT)
        before, after = pixels(committed), pixels(again)
        assert before.shape == after.shape, committed.name
        assert np.abs(before - after).mean() < 3, committed.name


def test_a_second_run_gives_the_same_bytes(remade: Path, tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "make_sample_data.py"), str(tmp_path)]
    subprocess.run(script, check=True)
    for name, path in produced(remade).items():
        assert path.read_bytes() == (tmp_path / name).read_bytes(), name


def test_each_class_has_twenty() -> None:
    assert sorted(p.name for p in (ROOT / "images").iterdir()) == list(CLASSES)
    assert [sum(p.parent.name == name for p in GOOD) for name in CLASSES] == [20, 20, 20]


def test_the_files_stay_small() -> None:
    sizes = [path.stat().st_size for path in produced(ROOT).values()]
    assert max(sizes) < 100_000
    assert sum(sizes) < 3_000_000


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.name)
def test_a_good_one_decodes_and_is_dated(path: Path) -> None:
    with Image.open(path) as image:
        image.load()
        kinds = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp"}
        assert kinds[str(image.format)] == path.suffix
        assert 160 <= min(image.size) <= max(image.size) <= 320
    tags = exif(path)
    assert tags[MAKE]
    assert re.fullmatch(r"20\d\d:\d\d:\d\d \d\d:\d\d:\d\d", tags.get_ifd(EXIF_IFD)[DATE_ORIGINAL])


def test_good_ones_differ_in_kind() -> None:
    suffixes = [path.suffix for path in GOOD]
    assert [suffixes.count(s) for s in (".jpg", ".png", ".webp")] == [56, 3, 1]
    assert sorted(exif(path)[ORIENTATION] for path in GOOD)[-3:] == [1, 6, 8]
    with Image.open(ROOT / "images/textures/marble-2.jpg") as image:
        assert image.mode == "L"


def test_good_ones_are_neither_flat_nor_blurred_nor_repeated() -> None:
    limit = 10 * sharpness(BAD / "blurred.jpg")
    for path in GOOD:
        assert pixels(path, "L").std() > 25, path.name
        assert sharpness(path) > limit, path.name
    assert len({path.read_bytes() for path in GOOD}) == len(GOOD)


def test_turned_ones_show_the_sky_above_once_upright() -> None:
    for path in (ROOT / "images/scenes/hills-4.jpg", ROOT / "images/scenes/city-3.jpg"):
        with Image.open(path) as image:
            upright = np.asarray(ImageOps.exif_transpose(image).convert("L"), np.float64)
        quarter = len(upright) // 4
        assert upright[:quarter].mean() > upright[-quarter:].mean() + 20, path.name


def test_there_is_one_bad_file_for_each_fault() -> None:
    assert {path.name for path in BAD.iterdir()} == FAULTS


@pytest.mark.parametrize(("name", "level"), [("black.jpg", 0), ("white.jpg", 255)])
def test_flat_ones_have_one_level(name: str, level: int) -> None:
    assert np.abs(pixels(BAD / name) - level).max() <= 2


def test_blurred_is_a_soft_copy() -> None:
    source = ROOT / "images/scenes/city-1.jpg"
    assert np.abs(pixels(BAD / "blurred.jpg") - pixels(source)).mean() < 25
    assert sharpness(BAD / "blurred.jpg") < 20


def test_duplicates_copy_good_ones() -> None:
    original = ROOT / "images/shapes/tiles-3.jpg"
    assert (BAD / "duplicate.jpg").read_bytes() == original.read_bytes()
    original, near = ROOT / "images/textures/cells-3.jpg", BAD / "near-duplicate.jpg"
    assert near.read_bytes() != original.read_bytes()
    assert np.abs(pixels(near) - pixels(original)).mean() < 4


@pytest.mark.parametrize("name", ["truncated.jpg", "tail-zeroed.jpg"])
def test_a_cut_one_opens_and_fails_to_decode(name: str) -> None:
    data = (BAD / name).read_bytes()
    assert not data.endswith(b"\xff\xd9")
    with Image.open(BAD / name) as image, pytest.raises(OSError, match="truncated"):
        image.load()


def test_tail_zeroed_is_zero_in_its_second_half_only() -> None:
    data = (BAD / "tail-zeroed.jpg").read_bytes()
    half = len(data) // 2
    assert len(data.rstrip(b"\0")) in range(half - 8, half + 1)


def test_no_exif_is_sound_and_bare() -> None:
    assert pixels(BAD / "no-exif.jpg").std() > 25
    assert not dict(exif(BAD / "no-exif.jpg"))


def test_rotated_is_stored_upside_down() -> None:
    assert exif(BAD / "rotated.jpg")[ORIENTATION] == 3
    stored = pixels(BAD / "rotated.jpg", "L")
    quarter = len(stored) // 4
    assert stored[:quarter].std() > stored[-quarter:].std()  # houses lie where the sky should be


def test_wrong_extension_is_a_png() -> None:
    with Image.open(BAD / "wrong-extension.jpg") as image:
        image.load()
        assert image.format == "PNG"


@pytest.mark.parametrize("name", ["not-an-image.jpg", "empty.jpg"])
def test_one_that_is_no_image_is_not_recognised(name: str) -> None:
    with pytest.raises(UnidentifiedImageError):
        Image.open(BAD / name)


def test_not_an_image_is_a_page_and_empty_is_empty() -> None:
    assert (BAD / "not-an-image.jpg").read_bytes().startswith(b"<!doctype html>")
    assert (BAD / "empty.jpg").stat().st_size == 0
