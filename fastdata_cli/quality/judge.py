"""Judging one image: measure what is asked for in one decode, then hold it against thresholds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.quality import fingerprints
from fastdata_cli.quality.checks import CHECKS, Needs
from fastdata_cli.quality.exif import REPORT, located
from fastdata_cli.quality.fingerprints import Fingerprint
from fastdata_cli.quality.options import CleanOptions
from fastdata_cli.quality.verdict import Reason, Score
from fastdata_cli.quality.view import View
from fastdata_cli.sample import Reject

_FLAT = "flat"
_OF_DUPLICATES: Mapping[str | None, set[Needs]] = {
    None: set(),
    "exact": set(),
    "pixels": {Needs.COLOUR},
    "near": {Needs.COLOUR},
}


@dataclass(frozen=True, slots=True)
class Examined:
    """What was measured on one image."""

    scores: Mapping[str, Score] = field(default_factory=dict)
    """By name, in the order of the judge's ``score_names``."""
    notes: tuple[str, ...] = ()
    """Words of the image policy and of the checks that are worth knowing."""
    prints: tuple[Fingerprint, ...] = ()
    """What the search for duplicates compares; empty without one."""


class Judge:
    """Measures and judges images by one set of options.

    Holds nothing but its options: any number of threads may use one, and it pickles.

    Args:
        options: the thresholds.
        policy: how files are judged and turned into pixels.
        measure_all: measure for every check, also where no threshold was given.
    """

    def __init__(
        self, options: CleanOptions, policy: ImagePolicy, *, measure_all: bool = False
    ) -> None:
        self.options = options
        self.policy = policy
        self._checks = tuple(c for c in CHECKS if getattr(options, c.option) not in (None, False))
        measured = CHECKS if measure_all else self._checks
        self._measures: dict[str, Callable[[View], Score]] = {
            **{check.score: check.measure for check in measured},
            **(REPORT if options.exif else {}),
        }
        self._needs = {check.needs for check in measured} | _OF_DUPLICATES[options.duplicates]

    @property
    def score_names(self) -> tuple[str, ...]:
        """Names of the scores that images get, in order."""
        return tuple(self._measures)

    @property
    def needs_whole(self) -> bool:
        """Whether images are decoded at full resolution."""
        return not self._needs <= {Needs.HEADER}

    def examine(self, view: View) -> Examined | Reject:
        """Measure an image; a file that is unusable by the image policy is rejected."""
        try:
            self._decode(view)
            scores = {name: measure(view) for name, measure in self._measures.items()}
            return Examined(scores, _notes(view, scores), self._prints(view))
        except BadSampleError as problem:
            return Reject(view.key, problem.reason, problem.detail)

    def narrowed(self, found: Examined) -> Examined | None:
        """Return what this judge would have found, of what others measured; None if it lacks some.

        Args:
            found: of the same file by the same policy.
        """
        prints = tuple(each for each in found.prints if each.kind == self.options.duplicates)
        if not self._measures.keys() <= found.scores.keys():
            return None
        if self.options.duplicates is not None and not prints:
            return None
        scores = {name: found.scores[name] for name in self._measures}
        notes = (*(note for note in found.notes if note != _FLAT), *_notes_on(scores))
        return Examined(scores, notes, prints)

    def reasons(self, scores: Mapping[str, Score]) -> tuple[Reason, ...]:
        """Hold scores against the thresholds; nothing is measured, so that it costs nothing."""
        found = []
        for check in self._checks:
            threshold = getattr(self.options, check.option)
            if check.fails(scores[check.score], threshold):
                found.append(Reason(check.reason, check.score, scores[check.score], threshold))
        return tuple(found)

    def _decode(self, view: View) -> None:
        """Decode once, as far as any check needs, so that unusable files are known in any case."""
        if Needs.COLOUR in self._needs:
            _ = view.pixels
        elif Needs.GREY in self._needs:
            _ = view.grey
        else:
            view.prove()

    def _prints(self, view: View) -> tuple[Fingerprint, ...]:
        match self.options.duplicates:
            case "exact":
                return (fingerprints.exact(view.stored),)
            case "pixels":
                return (fingerprints.pixels(view.pixels),)
            case "near":
                return (fingerprints.near(view.pixels),)
        return ()


def _notes(view: View, scores: Mapping[str, Score]) -> tuple[str, ...]:
    notes = list(view.notes)
    if view.exif is not None and view.exif.taken is None:
        notes.append("exif-missing")
    if located(view):
        notes.append("gps")
    return (*notes, *_notes_on(scores))


def _notes_on(scores: Mapping[str, Score]) -> tuple[str, ...]:
    return (_FLAT,) if "blur" in scores and scores["blur"] is None else ()
