"""What may be asked for, in Python and in one line of text."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fastdata_cli.errors import UsageError
from fastdata_cli.quality.checks import CHECKS
from fastdata_cli.quality.options import CleanOptions, parse_clean


def test_every_check_has_an_option_that_is_off() -> None:
    specs = {spec.name: spec for spec in CleanOptions.specs()}
    for check in CHECKS:
        assert specs[check.option].default in (None, False)
        if check.suggested is not None:
            chosen: dict[str, Any] = {check.option: check.suggested}
            assert CleanOptions(**chosen)


def test_every_option_is_that_of_a_check_or_of_duplicates() -> None:
    """An option that no check looks up would be accepted and do nothing."""
    beside = {"exif", "duplicates", "distance", "against", "save_index"}
    assert {spec.name for spec in CleanOptions.specs()} == {c.option for c in CHECKS} | beside


def test_the_text_says_the_suggested_threshold() -> None:
    texts = {spec.name: spec.text for spec in CleanOptions.specs()}
    for check in CHECKS:
        if check.name in ("variance-min", "blur-min", "sharpness-min"):
            assert f"{check.suggested:g} finds" in texts[check.option]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"variance_min": -1}, "--variance-min must be at least 0, not -1"),
        ({"variance_min": math.nan}, "--variance-min must be a number, not nan"),
        ({"variance_min": math.inf}, "--variance-min must be a number, not inf"),
        ({"variance_min": "10"}, "--variance-min must be a number, not '10'"),
        ({"variance_min": True}, "--variance-min must be a number, not True"),
        ({"min_side": 3.5}, "--min-side must be a whole number, not 3.5"),
        ({"max_aspect": 0.5}, "--max-aspect must be at least 1, not 0.5"),
        ({"require_exif": "Artist"}, "--require-exif does not know 'Artist'"),
        ({"duplicates": "similar"}, "--duplicates does not know 'similar'"),
        ({"distance": 4}, "--distance is for near duplicates"),
        ({"distance": 4, "duplicates": "exact"}, "--distance is for near duplicates"),
        ({"against": "old"}, "--against is for duplicates"),
        ({"save_index": "new"}, "--save-index is for duplicates"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        CleanOptions(**values)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("variance-min=10", {"variance_min": 10.0}),
        (
            " variance-min = 10 , min-side=32,grayscale ,",
            {"variance_min": 10.0, "min_side": 32, "grayscale": True},
        ),
        ("near-duplicates", {"duplicates": "near"}),
        ("near-duplicates=4", {"duplicates": "near", "distance": 4}),
        ("duplicates=near,distance=4", {"duplicates": "near", "distance": 4}),
        ("duplicates=exact,against=old=1", {"duplicates": "exact", "against": "old=1"}),
        ("require-exif=DateTime", {"require_exif": "DateTime"}),
        ("variance_min=1e1", {"variance_min": 10.0}),
    ],
)
def test_text_is_read(text: str, values: dict[str, Any]) -> None:
    assert parse_clean(text) == CleanOptions(**values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no check is named"),
        (" , ", "no check is named"),
        ("sharp", "--sharp is not an option of clean"),
        ("sharp=3", "--sharp is not an option of clean"),
        ("variance-min", "variance-min needs a value"),
        ("variance-min=", "variance-min must be a number, not ''"),
        ("variance-min=ten", "variance-min must be a number, not 'ten'"),
        ("variance-min=nan", "--variance-min must be a number, not nan"),
        ("min-side=2.5", "min-side must be a whole number, not '2.5'"),
        ("grayscale=1", "grayscale takes no value"),
        ("min-side=3,min-side=4", "min-side is given twice"),
        ("duplicates=exact,near-duplicates", "duplicates is given twice"),
        ("near-duplicates=close", "distance must be a whole number, not 'close'"),
        ("distance=4", "--distance is for near duplicates"),
    ],
)
def test_text_that_cannot_be_meant_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_clean(text)
