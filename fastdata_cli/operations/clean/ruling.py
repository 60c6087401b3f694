"""Turns findings into verdicts, in source order: thresholds first, then duplicates of the rest."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from fastdata_cli.operations.clean.candidate import Finding
from fastdata_cli.quality.duplicates import DuplicateFinder, Match
from fastdata_cli.quality.fingerprints import Fingerprint
from fastdata_cli.quality.judge import Judge
from fastdata_cli.quality.verdict import Reason, Verdict
from fastdata_cli.sample import Reject

DUPLICATE_REASONS = {
    "exact": "duplicate",
    "pixels": "duplicate-pixels",
    "near": "near-duplicate",
}


class Ruling:
    """Says of each image in turn whether it is kept.

    Only images that nothing else speaks against count as the first of a group: else the last good
    copy could go because a bad one came before it.

    Args:
        judge: holds the thresholds, and what is taken for a duplicate.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        options = judge.options
        self._finder: DuplicateFinder | None = None
        if options.duplicates is not None:
            self._finder = DuplicateFinder(
                options.duplicates,
                options.distance,
                against=options.against,
                save=options.save_index,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._finder is not None:
            self._finder.close(save=kind is None)

    def rule(self, key: str, index: int, finding: Finding) -> Verdict:
        """Return the verdict on the next image."""
        if isinstance(finding, Reject):
            return Verdict(key, index, (Reason(finding.reason, detail=finding.detail),))
        reasons = self._judge.reasons(finding.scores)
        match = None if reasons else self._find(key, finding.prints)
        if match is None:
            return Verdict(key, index, reasons, finding.scores, finding.notes)
        return Verdict(
            key,
            index,
            (self._repeats(match),),
            finding.scores,
            finding.notes,
            duplicate_of=match.first,
            against=match.against,
            distance=match.distance,
        )

    def remember(self, key: str, prints: tuple[Fingerprint, ...]) -> None:
        """Count an image that an interrupted run kept as the first of its group."""
        self._find(key, prints)

    def _find(self, key: str, prints: tuple[Fingerprint, ...]) -> Match | None:
        if self._finder is None:
            return None
        return self._finder.find(key, prints[0])

    def _repeats(self, match: Match) -> Reason:
        assert self._finder is not None
        near = self._finder.kind == "near"
        return Reason(
            DUPLICATE_REASONS[self._finder.kind],
            value=match.distance if near else None,
            threshold=self._finder.distance if near else None,
            detail=f"of {match.first}",
        )
