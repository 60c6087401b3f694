"""The judge: one image in, scores, notes and reasons out."""

from __future__ import annotations

import dataclasses
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.imaging.decode import decode
from fastdata_cli.quality import fingerprints
from fastdata_cli.quality.checks import CHECKS
from fastdata_cli.quality.judge import Examined, Judge
from fastdata_cli.quality.options import CleanOptions
from fastdata_cli.quality.verdict import Reason
from fastdata_cli.quality.view import View
from fastdata_cli.sample import Reject

from ..imaging import make
from .pictures import POLICY, blurred, gps_exif, natural, of_file, of_pixels, rgb

PHOTO = natural(150, 200)
JPEG = make.jpeg(PHOTO)
GREY_CHECKS: dict[str, Any] = {
    "variance_min": 10,
    "blur_min": 0.05,
    "sharpness_min": 150,
    "brightness_min": 10,
    "brightness_max": 245,
    "min_side": 32,
    "max_aspect": 3,
    "min_entropy": 3,
    "require_exif": "DateTime",
    "format_mismatch": True,
    "orientation": True,
    "exif": True,
}
ALL = CleanOptions(**GREY_CHECKS, grayscale=True)


def judge(**options: Any) -> Judge:
    return Judge(CleanOptions(**options), POLICY)


def examined(made: Judge, view: View) -> Examined:
    found = made.examine(view)
    assert isinstance(found, Examined), found
    return found


def reasons(made: Judge, view: View) -> list[str]:
    return [reason.name for reason in made.reasons(examined(made, view).scores)]


def test_without_a_check_only_unusable_files_are_found() -> None:
    plain = judge()
    assert plain.score_names == ()
    found = examined(plain, of_file(JPEG))
    assert found == Examined({}, ("exif-missing",), ())
    assert plain.reasons(found.scores) == ()


UNUSABLE = {
    "empty": b"",
    "truncated": JPEG[: len(JPEG) // 2],
    "corrupt": JPEG[: len(JPEG) // 2] + b"\xff\xd9",
    "not-an-image": b"<html>no</html>",
}


@pytest.mark.parametrize("reason", UNUSABLE)
@pytest.mark.parametrize("options", [{}, {"min_side": 3}, {"variance_min": 3}, {"grayscale": True}])
def test_unusable_files_are_always_found(reason: str, options: dict[str, Any]) -> None:
    found = judge(**options).examine(of_file(UNUSABLE[reason], "a/b.jpg"))
    assert isinstance(found, Reject)
    assert (found.key, found.reason) == ("a/b.jpg", reason)


def test_the_policy_decides_what_is_unusable() -> None:
    policy = ImagePolicy(allow_truncated=True)
    lenient = Judge(CleanOptions(), policy)
    found = lenient.examine(of_file(UNUSABLE["truncated"], policy=policy))
    assert isinstance(found, Examined)
    assert "truncated" in found.notes


def test_every_score_has_its_reason() -> None:
    bad = np.zeros((10, 40, 3), np.uint8)
    made = Judge(ALL, POLICY)
    found = examined(made, of_file(make.save(bad, "PNG"), "x.jpg"))
    assert tuple(found.scores) == made.score_names
    names = [reason.name for reason in made.reasons(found.scores)]
    assert names == [
        "low-variance",
        "not-sharp",
        "too-dark",
        "too-small",
        "extreme-aspect",
        "low-entropy",
        "exif-missing",
        "grayscale",
        "format-mismatch",
    ]
    assert found.notes == ("exif-missing", "flat")


def test_a_good_picture_has_no_reason() -> None:
    data = make.jpeg(PHOTO, exif=gps_exif())
    made = Judge(dataclasses.replace(ALL, orientation=False), POLICY)
    assert reasons(made, of_file(data)) == []


def test_a_blurred_and_turned_picture() -> None:
    data = make.jpeg(blurred(PHOTO, 5), exif=gps_exif())
    assert reasons(judge(blur_min=0.05, orientation=True), of_file(data)) == ["blurry", "turned"]


def test_a_flat_picture_is_not_called_blurry() -> None:
    flat = of_pixels(rgb(np.full((90, 90), 90)))
    both = judge(variance_min=10, blur_min=0.05)
    assert reasons(both, flat) == ["low-variance"]
    assert examined(judge(blur_min=0.05), of_pixels(flat.pixels)).notes == ("flat",)


def test_a_reason_carries_its_numbers() -> None:
    made = judge(min_side=300)
    found = examined(made, of_file(JPEG))
    assert made.reasons(found.scores) == (Reason("too-small", "side", 150, 300),)


def test_cached_scores_are_judged_by_other_thresholds() -> None:
    scores = examined(judge(min_side=1, variance_min=1), of_file(JPEG)).scores
    assert judge(min_side=1000, variance_min=1).reasons(scores)
    assert judge(min_side=10).reasons(scores) == ()


def test_the_missing_date_is_a_note_and_on_request_a_reason() -> None:
    assert "exif-missing" in examined(judge(), of_file(JPEG)).notes
    strict = judge(require_exif="DateTime")
    assert reasons(strict, of_file(JPEG)) == ["exif-missing"]
    assert reasons(strict, of_file(make.jpeg(PHOTO, exif=gps_exif()))) == []


def test_gps_is_a_note_and_a_report() -> None:
    data = make.jpeg(PHOTO, exif=gps_exif())
    found = examined(judge(exif=True), of_file(data))
    assert found.notes == ("gps",)
    assert found.scores == {
        "exif_datetime": "2021:05:06 07:08:09",
        "exif_orientation": 6,
        "exif_gps": True,
    }
    assert judge(exif=True).reasons(found.scores) == ()


def test_unreadable_exif_is_a_note() -> None:
    data = make.insert(JPEG, make.segment(0xE1, b"Exif\0\0" + b"\xff" * 40))
    found = examined(judge(exif=True, require_exif="DateTime"), of_file(data))
    assert found.notes == ("metadata-broken", "exif-missing")


def test_pixels_have_no_notes_of_files() -> None:
    assert examined(judge(min_side=1), of_pixels(PHOTO)).notes == ()


def test_measure_all_measures_and_judges_only_what_was_asked_for() -> None:
    made = Judge(CleanOptions(min_side=1000), POLICY, measure_all=True)
    assert set(made.score_names) == {check.score for check in CHECKS}
    assert reasons(made, of_file(JPEG)) == ["too-small"]


@pytest.mark.parametrize("kind", fingerprints.KINDS)
def test_fingerprints_are_made_on_request(kind: str) -> None:
    expected = {
        "exact": fingerprints.exact(JPEG),
        "pixels": fingerprints.pixels(decode(JPEG).pixels),
        "near": fingerprints.near(decode(JPEG).pixels),
    }
    assert examined(judge(duplicates=kind), of_file(JPEG)).prints == (expected[kind],)
    assert examined(judge(), of_file(JPEG)).prints == ()


def test_exact_duplicates_of_pixels() -> None:
    made = judge(duplicates="exact")
    one, same, other = (
        examined(made, of_pixels(each)).prints for each in (PHOTO, PHOTO.copy(), PHOTO[::-1])
    )
    assert one == same != other


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [{"at_least": (1, 1), "grey": True}]),
        (
            {"min_side": 1, "exif": True, "duplicates": "exact"},
            [{"at_least": (1, 1), "grey": True}],
        ),
        (GREY_CHECKS, [{"grey": True}]),
        ({**GREY_CHECKS, "grayscale": True}, [{}]),
        ({"variance_min": 1, "duplicates": "near"}, [{}]),
        ({"variance_min": 1, "duplicates": "pixels"}, [{}]),
    ],
)
def test_one_decode_serves_all_and_goes_no_further_than_needed(
    options: dict[str, Any], expected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, Any]] = []

    def counted(*arguments: Any, **named: Any) -> Any:
        calls.append(named)
        return decode(*arguments, **named)

    monkeypatch.setattr("fastdata_cli.quality.view.decode", counted)
    examined(judge(**options), of_file(JPEG))
    assert calls == expected


def test_judges_pickle_and_serve_many_threads() -> None:
    made = pickle.loads(pickle.dumps(Judge(ALL, POLICY)))  # noqa: S301 - our own bytes
    files = [make.jpeg(natural(40, 60, seed=seed)) for seed in range(8)]
    expected = [made.examine(of_file(data)) for data in files]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda data: made.examine(of_file(data)), files)) == expected
    assert pickle.loads(pickle.dumps(expected)) == expected  # noqa: S301 - our own bytes


@pytest.mark.timed
def test_checks_cost_little_beside_decoding() -> None:
    files = [make.jpeg(natural(375, 500, seed), quality=90, subsampling=2) for seed in range(24)]
    made = judge(**GREY_CHECKS)
    tasks = {
        "decode": lambda data: decode(data).pixels.shape,
        "judge": lambda data: made.examine(of_file(data)),
    }
    best = dict.fromkeys(tasks, float("inf"))
    with ThreadPoolExecutor(2) as pool:
        for _ in range(15):
            for name, task in tasks.items():
                begin = time.perf_counter()
                list(pool.map(task, files))
                best[name] = min(best[name], time.perf_counter() - begin)
    assert best["judge"] <= 1.15 * best["decode"]
