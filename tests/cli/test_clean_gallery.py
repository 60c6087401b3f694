"""The page of ``clean --gallery``: whole in one file, safe, bounded; seen by a real browser."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from fastdata_cli.cli.clean_gallery import command_line
from fastdata_cli.cli.clean_stats import limits_of
from fastdata_cli.cli.page.gallery import MOST_BYTES, headline, render_gallery
from fastdata_cli.cli.page.gallery_charts import axis_for, histogram
from fastdata_cli.cli.page.write import write_page
from fastdata_cli.errors import StorageError
from fastdata_cli.imaging.decode import decode
from fastdata_cli.operations.clean.gallery import Gallery, Picture
from fastdata_cli.operations.clean.limits import find_limits
from fastdata_cli.quality.verdict import Reason
from tests.cli import clean_reports
from tests.cli.pages import Outline, browser, measure_in_frame, visit
from tests.conftest import Run

COMMAND = "fastdata clean birds --variance-min 10 --gallery page.html"
EMPTY = Gallery({}, (), ())


def page_of(*keys: str) -> str:
    return render_gallery(clean_reports.report(), clean_reports.gallery(keys), COMMAND)


def test_outline() -> None:
    outline = Outline(page_of())
    outline.check()
    # Reasons, quantiles, thresholds, notes.
    assert outline.tables == 4
    assert {"reason-low-variance", "reason-truncated", "duplicates"} <= set(outline.ids)
    anchors = [link[1:] for link in outline.fetched if link.startswith("#")]
    assert anchors
    assert set(anchors) <= set(outline.ids)


def test_the_verdict_comes_first() -> None:
    body = page_of().split("<body>")[1]
    told = ["<h1>1,345 of 12,345 images held back", "12,345", "11,000", "1,345", "fastdata clean"]
    places = [body.index(told[0])]
    for text in told[1:]:
        places.append(body.index(text, places[-1] + 1))
    assert body.index("<img") > places[-1]
    assert '<span class="flag">--variance-min</span> 10' in body


@pytest.mark.parametrize(
    ("looked_at", "kept", "words"),
    [
        (0, 0, "No image to look at"),
        (1, 1, "Nothing held back: all 1 image kept"),
        (5000, 4999, "1 of 5,000 images held back"),
    ],
)
def test_headlines(looked_at: int, kept: int, words: str) -> None:
    assert headline(clean_reports.report(looked_at=looked_at, kept=kept)) == words


def test_it_says_how_many_are_shown() -> None:
    page = page_of()
    assert "showing 60 of 1,234" in page
    assert "showing 1 of 2 groups" in page
    assert "near-duplicate · 105 images, showing 2" in page
    # All forty of the other reason are there, without a word.
    assert re.search(r'too-dark <span class="count">40</span>', page)
    assert "48 more of low-variance" in page


def test_every_picture_is_one_and_is_described() -> None:
    outline = Outline(page_of())
    assert len(outline.pictures) > 100
    for picture in outline.pictures:
        assert str(picture["alt"]).strip()
        head, _, data = str(picture["src"]).partition(",")
        assert head == "data:image/jpeg;base64"
        assert max(decode(base64.b64decode(data)).pixels.shape) <= 160


def test_where_blur_is_judged_the_middle_stands_beside() -> None:
    page = page_of()
    assert page.count('alt="its middle"') == 4  # either side of two thresholds
    assert page.count("at the size that blur is measured at") == 2


def test_an_unreadable_image_is_a_tile_with_its_reason() -> None:
    page = page_of()
    tile = re.search(r'<section class="reason" id="reason-truncated">(.*?)</section>', page, re.S)
    assert tile
    assert "<img" not in tile[1]
    assert '<span class="frame none">truncated</span>' in tile[1]
    assert "cut." in tile[1]
    assert "jpeg: no end marker" in tile[1]


def test_reasons_are_put_in_words() -> None:
    page = page_of()
    assert "variance below 10 grey levels squared" in page
    assert "brightness below 10 grey levels" in page
    assert "the picture&#39;s data ends early" in page or "the picture's data ends early" in page
    assert "also too-dark" in page
    assert "distance 5 bits" in page


def test_it_needs_nothing_else() -> None:
    page = page_of()
    outline = Outline(page)
    assert {link for link in outline.fetched if not link.startswith(("#", "data:image/jpeg"))} == {
        "data:,"
    }
    assert outline.scripts == []
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    assert not re.search(r"url\(|@import|https?://", page)
    assert '<html lang="en">' in page
    assert "width=device-width" in page
    assert "prefers-color-scheme: dark" in page


NAMES = (
    clean_reports.HOSTILE,
    "/d/\udcff\x1b[2J\u202e\n.jpg",
    "javascript:alert(1)",
    "/d/" + "x" * 4000 + ".jpg",
    "",
)


def test_hostile_names_stay_text() -> None:
    page = render_gallery(
        clean_reports.report(source=NAMES[1]),
        clean_reports.gallery(NAMES),
        command_line(["clean", NAMES[1], NAMES[0]]),
    )
    outline = Outline(page)
    assert outline.scripts == []
    assert not [link for link in outline.fetched if not link.startswith(("#", "data:"))]
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "x" * 300 not in page
    assert "%FF%1B" in page
    page.encode()


def test_hostile_words_of_a_decoder_stay_text() -> None:
    reasons = (Reason("corrupt", detail="<script>\x1b[0m" + "y" * 5000),)
    gallery = Gallery({"corrupt": (Picture("a.jpg", None, reasons),)}, (), ())
    page = render_gallery(clean_reports.report(reasons={"corrupt": 1}), gallery)
    assert Outline(page).scripts == []
    assert "y" * 200 not in page


def test_a_page_is_bounded_however_large_its_pictures() -> None:
    noisy = clean_reports.thumbnail(3, 400, noisy=True)
    assert len(noisy.whole) > 9_000
    names = [f"reason{at}" for at in range(25)]
    shelves = {
        name: tuple(Picture("/d/" + "&" * 4000, noisy, (Reason(name),), {}) for _ in range(60))
        for name in names
    }
    report = clean_reports.report(reasons=dict.fromkeys(names, 60))
    page = render_gallery(report, Gallery(shelves, (), ()))
    assert MOST_BYTES * 0.4 < len(page.encode()) <= MOST_BYTES
    shown = {int(count) for count in re.findall(r"showing (\d+) of 60", page)}
    assert len(shown) == 1
    assert 15 <= shown.pop() < 60


@pytest.mark.parametrize(
    "changes",
    [
        {"looked_at": 0, "kept": 0, "reasons": {}, "scores": {}, "notes": {}, "groups_found": 0},
        {"looked_at": 9, "kept": 9, "reasons": {}, "groups_found": 0},
        {"thresholds": {}},
        {"scores": {}},
        {"scores": {"side": clean_reports.values("side", [32.0])}},
        {"scores": {"variance": clean_reports.values("variance", [0.0, 0.0])}},
    ],
    ids=["nothing", "all-kept", "no-threshold", "no-score", "one-value", "all-zero"],
)
def test_whatever_is_missing(changes: dict[str, object]) -> None:
    report = clean_reports.report(**changes)
    for gallery in (EMPTY, clean_reports.gallery(found=report)):
        page = render_gallery(report, gallery)
        Outline(page).check()
        words = re.sub(r"base64,[^\"]*", "", page)
        assert not re.search(r"\b(None|nan|inf)\b", words)


def test_histograms_tell_what_they_show() -> None:
    outline = Outline(page_of())
    told = outline.titles["histogram-variance-desc"]
    assert "210 images score from 0 to 19629" in told
    assert "1,234 fail --variance-min 10." in told
    assert "would fail the suggested --min-entropy" in outline.titles["histogram-entropy-desc"]
    assert len(outline.images) == 7


@pytest.mark.parametrize("name", list(clean_reports.scores()))
def test_an_axis_holds_every_score_and_threshold(name: str) -> None:
    report = clean_reports.report(thresholds={})
    values = report.scores[name]
    limits = [limit for limit in limits_of(report) if limit.check.score == name]
    axis = axis_for(values, limits)
    assert axis.logarithmic == (name in ("variance", "sharpness", "side"))
    assert 38 <= axis.bins <= 44
    places = [axis.place(value) for value in values.values]
    assert places == sorted(places)
    assert min(places) >= 0
    assert max(places) <= axis.bins
    # The first threshold divides two bins, so that each holds what passes or what fails.
    for value in values.values:
        assert limits[0].fails(value) == (
            (axis.bin_of(value) >= round(axis.place(limits[0].value)))
            == (limits[0].side == "above")
        )
    assert len(axis.marks()) >= 2


def test_the_noise_of_arithmetic_is_drawn_as_zero() -> None:
    flat = [4e-16] * 50 + [2000.0] * 50
    values = clean_reports.values("variance", flat)
    axis = axis_for(values, find_limits({"variance-min": 10.0}, ["variance"]))
    assert 0.005 < axis.low < 0.02
    assert axis.bin_of(4e-16) == 0
    page = render_gallery(
        clean_reports.report(scores={"variance": values}),
        Gallery({"low-variance": (clean_reports.picture("/d/flat.jpg", value=4e-16),)}, (), ()),
    )
    assert "<span>variance 0 · 140×120</span>" in page


def test_a_bin_is_coloured_by_what_is_in_it() -> None:
    report = clean_reports.report(
        scores={"variance": clean_reports.values("variance", [5.0, 20.0])}
    )
    drawn = histogram(
        report, report.scores["variance"], find_limits({"variance-min": 10.0}, ["variance"])
    )
    bars = re.findall(r'<rect class="fill (s\d)" x="([\d.]+)%"', drawn)
    (line,) = re.findall(r'<line class="goal" x1="([\d.]+)%"', drawn)
    sides = {style: float(x) for style, x in bars}
    assert sides["s1"] < float(line) <= sides["s0"] + 0.5


def test_a_suggested_threshold_is_dashed() -> None:
    report = clean_reports.report(thresholds={})
    values = report.scores["entropy"]
    drawn = histogram(report, values, find_limits({}, ["entropy"]))
    assert 'stroke-dasharray="5 4"' in drawn
    assert "(suggested)" in drawn


def test_a_command_line_can_be_pasted(tmp_path: Path) -> None:
    arguments = ["clean", "a b", "it's", "\udcff\n\x1b'\\", "--variance-min", "10", "ü"]
    line = command_line(arguments)
    assert line.isprintable()
    assert line.startswith("fastdata clean 'a b' ")
    shown = subprocess.run(
        ["bash", "-c", line.replace("fastdata", "printf '%s\\0'", 1)],
        capture_output=True, check=True, env={"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]},
    ).stdout  # fmt: skip
    assert [os.fsdecode(word) for word in shown.split(b"\0")[:-1]] == arguments


def test_a_page_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "page.html"
    write_page("old", target)
    link = tmp_path / "link.html"
    link.symlink_to(target)
    write_page("new", link)
    assert target.read_text() == "new"
    assert link.is_symlink()

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(StorageError, match="No space left"):
        write_page("newer", target)
    assert target.read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.html", "page.html"]


def test_a_pipe_takes_a_page(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        write_page("<html>", pipe)
        assert reader.communicate(timeout=10)[0] == b"<html>"


@pytest.fixture
def photographs(tree: Path) -> Path:
    """Twenty good images, black ones, a copy, one that is blurred, broken ones, an odd name."""
    for at in range(3):
        black = np.full((60, 80, 3), at, np.uint8)
        cv2.imwrite(str(tree / f"black{at}.png"), black)
    first = next(tree.rglob("*.jpg"))
    (tree / "copy.jpg").write_bytes(first.read_bytes())
    (tree / "empty.jpg").write_bytes(b"")
    odd = os.path.join(os.fsencode(tree), b"\xff<b>'\"&\n.jpg")
    with open(odd, "wb") as file:
        file.write((tree / "black0.png").read_bytes())
    return tree


def test_from_the_command_line(run: Run, photographs: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    flags = ("--variance-min", "10", "--duplicates", "exact")
    result = run("clean", photographs, *flags, "--gallery", target)
    assert "page → " in result.stderr
    page = target.read_text()
    outline = Outline(page)
    outline.check()
    assert "<h1>6 of 26 images held back" in page
    assert {"reason-low-variance", "reason-empty", "duplicates"} <= set(outline.ids)
    assert len(outline.images) == 7  # everything was measured
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "page.html"]


def test_a_dataset_of_pixels_has_a_gallery_too(run: Run, tree: Path, tmp_path: Path) -> None:
    run("convert", tree, tmp_path / "set.raw", "--payload", "pixels", "--size", "32")
    target = tmp_path / "page.html"
    run("clean", tmp_path / "set.raw", "--variance-min", "1e9", "--gallery", target)
    outline = Outline(target.read_text())
    assert "20 of 20 images held back" in target.read_text()
    assert len(outline.pictures) >= 20


def test_a_place_that_cannot_be_written_is_known_before(run: Run, tree: Path) -> None:
    result = run("clean", tree, "--gallery", tree / "nowhere" / "page.html", code=2)
    assert "cannot be written" in result.stderr
    assert result.stdout == ""
    result = run("clean", tree, "--gallery", tree, code=2)
    assert "is a folder" in result.stderr


@browser
def test_in_a_browser_nothing_is_asked_for_and_nothing_complains(tmp_path: Path) -> None:
    shown = visit(page_of(*NAMES), tmp_path)
    assert re.findall("<title>(.*?)</title>", shown)[0].startswith("1,345 of 12,345")
    assert shown.count("<img ") > 100


@browser
@pytest.mark.parametrize("width", [360, 1200])
def test_in_a_browser_it_fits_its_width_and_every_picture_shows(tmp_path: Path, width: int) -> None:
    page = page_of(*NAMES).replace("<details>", "<details open>")
    sizes = (
        "[root.clientWidth, root.scrollWidth, root.querySelectorAll('img').length,"
        "[...root.querySelectorAll('img')].filter(each => each.complete && each.naturalWidth"
        " && each.offsetWidth && each.offsetWidth <= root.clientWidth).length]"
    )
    inside, needed, pictures, loaded = measure_in_frame(page, width, tmp_path, sizes)
    assert needed <= inside
    assert width - 20 <= inside <= width
    assert pictures > 100
    assert loaded == pictures


def test_fewer_pictures_are_still_spread_over_the_set() -> None:
    report = clean_reports.report(reasons={"corrupt": 60})
    noisy = clean_reports.thumbnail(3, 400, noisy=True)
    big = replace(noisy, whole=noisy.whole + b"\0" * 120_000)
    pictures = tuple(Picture(f"/d/{at:02d}.jpg", big, (Reason("corrupt"),), {}) for at in range(60))
    page = render_gallery(report, Gallery({"corrupt": pictures}, (), ()))
    shown = [int(at) for at in re.findall(r'title="/d/(\d\d)\.jpg"', page)]
    assert 20 <= len(shown) <= 40
    assert shown == list(range(1, 60, 2))


def test_nothing_but_a_page_is_replaced(run: Run, tree: Path, tmp_path: Path) -> None:
    image = next(tree.rglob("*.jpg"))
    before = image.read_bytes()
    result = run("clean", tree, "--gallery", image, code=2)
    assert "is no page" in result.output.replace("\n", " ")
    assert image.read_bytes() == before
    for _ in range(2):
        run("clean", tree, "--gallery", tmp_path / "page.html")
