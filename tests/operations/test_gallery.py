"""What a gallery is made from: bounded choices, thumbnails, the same in every run."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.imaging.decode import decode
from fastdata_cli.operations.clean.cache import ScoreCache
from fastdata_cli.operations.clean.gallery import (
    FINE_SCORES,
    MOST_GROUPS,
    MOST_NEAR_LIMIT,
    MOST_OF_GROUP,
    MOST_OF_REASON,
    Gallery,
    GalleryCollector,
)
from fastdata_cli.operations.clean.gallery_pick import Pick, scatter
from fastdata_cli.operations.clean.gallery_spool import Spool
from fastdata_cli.operations.clean.gallery_thumbnail import SIDE, Thumbnail, make_thumbnail
from fastdata_cli.operations.clean.limits import find_limits
from fastdata_cli.operations.clean.opening import open_subject
from fastdata_cli.operations.clean.report import CleanReport, Duplicate, DuplicateGroup
from fastdata_cli.operations.clean.run import Extras, clean, thresholds
from fastdata_cli.operations.events import Silent
from fastdata_cli.operations.settings import SourceOptions
from fastdata_cli.quality.judge import Judge
from fastdata_cli.quality.options import CleanOptions
from fastdata_cli.quality.verdict import Reason, Score, Verdict
from fastdata_cli.quality.view import View
from tests.conftest import jpeg, make_tree

Image = NDArray[np.uint8]


def noise(height: int, width: int, seed: int = 0) -> Image:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def grey_file(level: float, seed: int) -> bytes:
    """Return a PNG whose variance grows with the level."""
    spread = np.random.default_rng(seed).normal(100, level, (24, 24, 1))
    pixels = np.repeat(np.clip(spread, 0, 255).astype(np.uint8), 3, axis=2)
    return bytes(cv2.imencode(".png", pixels)[1])


def run_on(
    folder: Path, options: CleanOptions, *, jobs: int = 2, cache: ScoreCache | None = None
) -> tuple[CleanReport, Gallery]:
    judge = Judge(options, ImagePolicy(), measure_all=True)
    collector = GalleryCollector(
        thresholds(judge),
        judge.score_names,
        duplicates=options.duplicates is not None,
        folder=folder.parent,
    )
    subject = open_subject([str(folder)], SourceOptions(), {}, Silent())
    extras = Extras(observer=collector, cache=cache)
    report = clean(subject, judge, lambda verdict, moved_to: None, jobs=jobs, extras=extras)
    collector.close()
    return report, collector.gallery


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Thirty good images, ninety flat ones in two folders, and three that are none."""
    root = make_tree(tmp_path / "set", 30)
    for index in range(90):
        path = root / f"flat{index // 45}" / f"{index:03d}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(grey_file(1 + index / 50, index))
    (root / "empty.jpg").write_bytes(b"")
    (root / "cut.jpg").write_bytes(jpeg(40, 48, 99)[:-200])
    (root / "page.jpg").write_bytes(b"<html>403</html>")
    return root


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 8))
def test_a_pick_keeps_the_smallest_and_never_says_a_wrong_no(scores: list[int], most: int) -> None:
    ranks = [(float(score), index) for index, score in enumerate(scores)]
    kept = sorted(ranks)[:most]
    pick: Pick[int] = Pick(most)
    for place, rank in enumerate(ranks):
        assert all(pick.wants(later) for later in ranks[place:] if later in kept)
        pick.offer(rank, rank[1])
    assert pick.items == tuple(index for _, index in kept)


def test_scattered_positions_are_a_uniform_sample() -> None:
    shown = sorted(range(10_000), key=scatter)[:100]
    tenths = np.bincount([index // 1000 for index in shown], minlength=10)
    assert tenths.min() >= 3
    assert scatter(-1) != scatter(0)  # a reject without a position


@pytest.mark.parametrize(
    ("size", "shown"),
    [((300, 400), (120, 160)), ((1, 1), (1, 1)), ((4, 900), (1, 160)), ((160, 90), (160, 90))],
)
def test_thumbnails_are_small_and_keep_the_shape(
    size: tuple[int, int], shown: tuple[int, int]
) -> None:
    made = make_thumbnail(noise(*size))
    assert made.size == size
    assert decode(made.whole).pixels.shape[:2] == shown
    assert made.detail == b""


def test_the_detail_is_the_middle_at_the_size_that_was_asked_for() -> None:
    pixels = np.zeros((600, 800, 3), np.uint8)
    pixels[260:340, 360:440] = (250, 20, 20)
    middle = decode(make_thumbnail(pixels, detail_of=(300, 400)).detail).pixels.astype(int)
    assert middle.shape == (SIDE, SIDE, 3)
    red = (middle[:, :, 0] > 150) & (middle[:, :, 1] < 100)
    rows, columns = np.nonzero(red)
    # 80 pixels of the image are 40 of the reduced one, in the middle of 160.
    assert rows.min() == pytest.approx(60, abs=2)
    assert rows.max() == pytest.approx(99, abs=2)
    assert columns.min() == pytest.approx(60, abs=2)
    assert make_thumbnail(pixels, detail_of=(120, 160)).detail == b""


def test_a_flat_strip_has_a_detail_too() -> None:
    made = make_thumbnail(noise(10, 1000), detail_of=(10, 250))
    assert decode(made.detail).pixels.shape == (10, SIDE, 3)


def test_the_spool_finds_what_was_kept(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    keys = [f"{index}.jpg" for index in range(200)] + ["\udcff\n.jpg", ""]
    for place, key in enumerate(keys):
        spool.add(key, Thumbnail((place, 2), bytes([place % 256]) * place))
    found = spool.find(["7.jpg", "\udcff\n.jpg", "nowhere.jpg"])
    assert found == {
        "7.jpg": Thumbnail((7, 2), b"\7" * 7),
        "\udcff\n.jpg": Thumbnail((200, 2), b"\xc8" * 200),
    }
    assert list(tmp_path.iterdir()) == []
    spool.close()


def test_a_full_spool_lets_later_ones_go(tmp_path: Path) -> None:
    spool = Spool(tmp_path, most_bytes=250)
    for key in "abc":
        spool.add(key, Thumbnail((1, 1), b"x" * 100))
    assert set(spool.find("abc")) == {"a", "b"}
    spool.close()


def test_without_a_disk_there_are_no_pictures_and_no_error(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "nowhere")
    spool.add("a", Thumbnail((1, 1), b"x"))
    assert spool.find("a") == {}
    spool.close()


def test_limits_are_what_was_chosen_or_else_suggested() -> None:
    asked: dict[str, Score] = {"variance-min": 5.0, "brightness-max": 200, "grayscale": True}
    found = {
        limit.check.name: limit
        for limit in find_limits(asked, ["variance", "brightness", "entropy", "grayscale"])
    }
    # One side of brightness was chosen: the other is not suggested.
    assert set(found) == {"variance-min", "brightness-max", "min-entropy"}
    assert [found["variance-min"].value, found["variance-min"].chosen] == [5.0, True]
    assert not found["min-entropy"].chosen
    assert [limit.side for limit in found.values()] == ["below", "above", "below"]
    assert found["brightness-max"].fails(201)
    assert not found["brightness-max"].fails(200)
    assert found["variance-min"].distance(3.5) == 1.5


def test_a_run_is_collected_the_same_with_any_number_of_threads(folder: Path) -> None:
    options = CleanOptions(variance_min=10.0, duplicates="near")
    report, gallery = run_on(folder, options, jobs=1)
    for jobs in (2, 5):
        again, other = run_on(folder, options, jobs=jobs)
        assert other == gallery
        assert again.reasons == report.reasons


def test_a_shelf_is_bounded_and_spread_over_the_set(folder: Path) -> None:
    report, gallery = run_on(folder, CleanOptions(variance_min=10.0))
    shelf = gallery.shelves["low-variance"]
    assert report.reasons["low-variance"] == 90
    assert len(shelf) == MOST_OF_REASON
    halves = ["flat1" in picture.key for picture in shelf]
    assert 20 <= sum(halves) <= 40
    assert halves == sorted(halves)  # source order
    assert all(picture.thumbnail is not None for picture in shelf)


def test_only_what_is_judged_by_its_pixels_has_a_detail(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "set", 6, (400, 500))
    _, gallery = run_on(root, CleanOptions(blur_min=1.0, brightness_max=1.0))
    assert all(each.thumbnail and each.thumbnail.detail for each in gallery.shelves["blurry"])
    assert not any(
        each.thumbnail and each.thumbnail.detail for each in gallery.shelves["too-bright"]
    )
    for border in gallery.borders:
        fine = border.limit.check.score in FINE_SCORES
        shown = (*border.failing, *border.passing)
        assert {bool(each.thumbnail and each.thumbnail.detail) for each in shown} <= {fine}


def test_unusable_images_have_a_place_and_no_picture(folder: Path) -> None:
    _, gallery = run_on(folder, CleanOptions())
    assert set(gallery.shelves) == {"empty", "truncated", "not-an-image"}
    (cut,) = gallery.shelves["truncated"]
    assert cut.key.endswith("cut.jpg")
    assert cut.thumbnail is None
    assert cut.reasons[0].detail


def test_borders_show_the_nearest_of_either_side(folder: Path) -> None:
    report, gallery = run_on(folder, CleanOptions(variance_min=4.0))
    border = next(each for each in gallery.borders if each.limit.check.name == "variance-min")
    assert len(border.failing) == len(border.passing) == MOST_NEAR_LIMIT
    every = report.scores["variance"].values
    below = sorted(score for score in every if score < 4)[::-1][:MOST_NEAR_LIMIT]
    above = sorted(score for score in every if score >= 4)[:MOST_NEAR_LIMIT]
    assert [(each.scores or {})["variance"] for each in border.failing] == below
    assert [(each.scores or {})["variance"] for each in border.passing] == above
    assert all(each.thumbnail for each in (*border.failing, *border.passing))


def test_images_that_cannot_be_shown_are_not_drawn() -> None:
    collector = GalleryCollector(
        {"variance-min": 10.0}, ("variance",), duplicates=False, folder=Path()
    )
    drawn = 0
    order = list(range(5000))
    random.Random(1).shuffle(order)
    for place, score in enumerate(order):
        scores: Mapping[str, Score] = {"variance": float(score)}
        reasons = (Reason("low-variance", "variance", score, 10.0),) if score < 10 else ()
        made = collector.draw(place, view_of(noise(4, 4)), scores, reasons)
        drawn += made is not None
        collector.see(Verdict(str(score), place, reasons, scores), made)
    # Records of 5000 shuffled numbers: 8 (1 + ln(5000 / 8)) on average, and the ten rejects.
    assert drawn < 120


def view_of(pixels: Image) -> Callable[[], View]:
    return lambda: View.of_pixels("", pixels, ImagePolicy())


def test_groups_show_the_first_and_the_least_alike_members(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "set", 4, (200, 240))
    original = (root / "class0" / "0000.jpg").read_bytes()
    pixels = decode(original).pixels[:, :, ::-1]
    for quality in range(20, 95, 6):
        copy = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
        (root / "class0" / f"copy{quality}.jpg").write_bytes(copy.tobytes())
    report, gallery = run_on(root, CleanOptions(duplicates="near", distance=8))
    (group,) = gallery.groups
    assert group.first.key.endswith("0000.jpg")
    assert group.first.thumbnail is not None
    assert group.first.thumbnail.size == (200, 240)
    assert group.count == report.groups[0].count == 13
    assert len(group.members) == MOST_OF_GROUP - 1
    distances = [member.distance or 0 for member in group.members]
    assert distances == sorted(distances, reverse=True)
    assert all(member.thumbnail for member in group.members)
    assert "near-duplicate" not in gallery.shelves


def test_the_most_doubtful_groups_come_first_and_their_number_is_bounded(tmp_path: Path) -> None:
    collector = GalleryCollector({}, (), duplicates=True, folder=tmp_path)
    groups = tuple(
        DuplicateGroup(
            first=f"{place}",
            against=False,
            reason="near-duplicate",
            count=1,
            members=(Duplicate(key=f"{place}b", distance=place % 7),),
        )
        for place in range(100)
    )
    collector.finish(report_with(groups))
    shown = collector.gallery.groups
    assert len(shown) == MOST_GROUPS
    assert [group.members[0].distance for group in shown[:16]] == [6] * 14 + [5] * 2
    # The first may be an image of an earlier run, which nobody has seen in this one.
    assert shown[0].first.thumbnail is None
    collector.close()


def report_with(groups: tuple[DuplicateGroup, ...]) -> CleanReport:
    return CleanReport(
        source="set", looked_at=200, kept=100, reasons={}, notes={}, thresholds={}, scores={},
        groups=groups, groups_found=len(groups), cached=0, moved=0, seconds=1.0,
    )  # fmt: skip


def test_scores_from_a_cache_have_pictures_too(folder: Path, tmp_path: Path) -> None:
    options = CleanOptions(variance_min=10.0)
    judge = Judge(options, ImagePolicy(), measure_all=True)
    for path in folder.rglob("*.*"):
        os.utime(path, (1e9, 1e9))  # what changed just now is not taken from a cache
    galleries = []
    for _ in range(2):
        cache = ScoreCache(tmp_path / "scores", judge, Silent())
        report, gallery = run_on(folder, options, cache=cache)
        cache.close()
        galleries.append(gallery)
    assert report.cached > 100
    assert galleries[0] == galleries[1]


def test_an_image_that_vanished_meanwhile_has_no_picture() -> None:
    collector = GalleryCollector({}, (), duplicates=False, folder=Path())

    def gone() -> View:
        return View.of_file_bytes("gone.jpg", b"", ImagePolicy())

    reasons = (Reason("low-variance", "variance", 1.0, 10.0),)
    assert collector.draw(0, gone, {"variance": 1.0}, reasons) is None
