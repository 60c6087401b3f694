"""What the checks say of one image: its scores, and the reasons against keeping it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Score = float | int | str | bool | None
"""The value of one score; None where the image does not have it."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason against an image."""

    name: str
    """One word, such as ``low-variance`` or ``truncated``."""
    score: str = ""
    """The score that decided, such as ``variance``; empty where none did."""
    value: Score = None
    """What the image scores there."""
    threshold: Score = None
    """What was asked for."""
    detail: str = ""
    """More for a person, such as what the decoder said."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one image."""

    key: str
    """Its path as it was given, or its key in a dataset."""
    index: int
    """Its position in the source."""
    reasons: tuple[Reason, ...] = ()
    """Empty: the image is kept."""
    scores: Mapping[str, Score] = field(default_factory=dict)
    """Every score that a chosen check asked for, by name."""
    notes: tuple[str, ...] = ()
    """What is worth knowing and no reason: words of the image policy, ``exif-missing`` …"""
    duplicate_of: str | None = None
    """Key of the first image of its group, for duplicates."""
    against: bool = False
    """Whether that image is of the index of ``--against``, not of this run."""
    distance: int | None = None
    """Differing bits of the perceptual hashes, for near duplicates."""

    @property
    def kept(self) -> bool:
        """Whether the image is good."""
        return not self.reasons
