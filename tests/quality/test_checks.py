"""The table of checks, and its document."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from fastdata_cli.imaging import NOTES as POLICY_NOTES
from fastdata_cli.imaging import REASONS
from fastdata_cli.quality.check import Check
from fastdata_cli.quality.checks import CHECKS, NOTES
from fastdata_cli.quality.exif import REPORT

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "clean-checks.md"


def test_names_are_distinct() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert len({check.reason for check in CHECKS}) == len(CHECKS)
    # A reason of the image policy means that there is no usable image.
    assert not {check.reason for check in CHECKS} & set(REASONS)
    assert not set(NOTES) & set(POLICY_NOTES)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_every_check_says_what_it_does(check: Check) -> None:
    assert check.score
    assert check.formula
    assert check.source
    assert (type(check).__doc__ or "").startswith("Finds ")
    assert pickle.loads(pickle.dumps(check)).name == check.name  # noqa: S301 - our own bytes


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_every_check_is_documented(check: Check) -> None:
    row = next(
        line for line in DOCUMENT.read_text().splitlines() if line.startswith(f"| `--{check.name}`")
    )
    suggested = f" {check.suggested:g}" if isinstance(check.suggested, int | float) else ""
    assert f"`--{check.name}`{suggested} | `{check.score}` | `{check.reason}` |" in row


def test_every_note_and_report_is_documented() -> None:
    text = DOCUMENT.read_text()
    for word in (*NOTES, *REPORT):
        assert f"`{word}`" in text
