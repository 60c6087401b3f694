"""What a check is: a score measured on an image, and how it is held against a threshold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import ClassVar

from fastdata_cli.quality.verdict import Score
from fastdata_cli.quality.view import View


class Needs(Enum):
    """What of an image a score is made from; the judge decodes no more than the chosen checks need.

    Whatever it is, all of the file's data is decoded far enough to know whether it is sound.
    """

    HEADER = "header"
    """The header: a JPEG is decoded in grey at 1/8 of its size."""
    GREY = "grey"
    """Grey at full resolution: of a colour JPEG, the colour channels are left out."""
    COLOUR = "colour"
    """RGB at full resolution."""


class Check(ABC):
    """One check. Instances hold nothing, so that any number of threads may use one.

    Attributes:
        name: the flag without its dashes, such as ``variance-min``.
        score: name of what is measured; checks that share it share the measurement.
        reason: the word against an image that fails.
        unit: of score and threshold; empty where it is a word, yes or no, or a ratio.
        formula: how the score is computed.
        source: where formula and suggested threshold come from.
        suggested: a threshold to begin with; None for checks without a threshold.
        needs: what of an image the score is made from.
    """

    name: ClassVar[str]
    score: ClassVar[str]
    reason: ClassVar[str]
    unit: ClassVar[str] = ""
    formula: ClassVar[str]
    source: ClassVar[str]
    suggested: ClassVar[Score] = None
    needs: ClassVar[Needs] = Needs.GREY

    @property
    def option(self) -> str:
        """The field of CleanOptions that holds the threshold."""
        return self.name.replace("-", "_")

    @abstractmethod
    def measure(self, view: View) -> Score:
        """Return the score; None where the image does not have one.

        Errors:
            BadSampleError: the file is unusable by the image policy.
        """

    @abstractmethod
    def fails(self, score: Score, threshold: Score) -> bool:
        """Return whether an image with this score is to be rejected."""


class AtLeast(Check):
    """Rejects what scores below a threshold; an image without a score passes."""

    def fails(self, score: Score, threshold: Score) -> bool:
        """Return whether the score lies below the threshold."""
        return score is not None and float(score) < float(threshold or 0)


class AtMost(Check):
    """Rejects what scores above a threshold; an image without a score passes."""

    def fails(self, score: Score, threshold: Score) -> bool:
        """Return whether the score lies above the threshold."""
        return score is not None and float(score) > float(threshold or 0)
