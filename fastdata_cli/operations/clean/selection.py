"""What ``convert --clean`` leaves out: judged while it is decoded, settled in source order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fastdata_cli.contract import Reader, Receipt
from fastdata_cli.engines.local import ordered_map
from fastdata_cli.errors import StaleStagingError
from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.operations.clean.candidate import Candidate
from fastdata_cli.operations.clean.prints import PrintStore
from fastdata_cli.operations.clean.ruling import DUPLICATE_REASONS, Ruling
from fastdata_cli.operations.packer import Outcome
from fastdata_cli.quality.checks import CHECKS
from fastdata_cli.quality.fingerprints import Fingerprint
from fastdata_cli.quality.judge import Examined, Judge
from fastdata_cli.quality.options import CleanOptions
from fastdata_cli.quality.verdict import Reason, Score
from fastdata_cli.sample import Reject, Sample
from fastdata_cli.storage.staging import staging_root

CLEAN_REASONS = frozenset({*(check.reason for check in CHECKS), *DUPLICATE_REASONS.values()})
"""Reasons that somebody asked for; all others are those of bad samples."""


class Selection:
    """Judges the samples of one conversion.

    Args:
        options: the checks.
        policy: the image policy.
        destination: of the conversion.
    """

    def __init__(self, options: CleanOptions, policy: ImagePolicy, destination: Path) -> None:
        self.judge = Judge(options, policy)
        self._ruling = Ruling(self.judge)
        self._store = PrintStore(staging_root(destination))
        self._destination = destination

    def __enter__(self) -> Self:
        self._ruling.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ruling.__exit__(kind, problem, trace)

    def settle(self, outcome: Outcome) -> Outcome:
        """Return the outcome of the next sample, or a reject if it repeats an earlier one."""
        if isinstance(outcome, Reject) or outcome.finding is None:
            return outcome
        verdict = self._ruling.rule(outcome.sample.key, outcome.index, outcome.finding)
        if verdict.kept:
            return outcome
        return left_out(verdict.key, verdict.index, verdict.reasons)

    def keep(self, part: int, prints: Sequence[Fingerprint]) -> None:
        """Keep the fingerprints of a part that is about to be written."""
        if prints:
            self._store.save(part, prints)

    def resume(self, receipts: Sequence[Receipt], reader: Reader, jobs: int) -> None:
        """Learn the samples of finished parts, so that what repeats them is still found.

        Raises:
            StaleStagingError: the source does not hold them any more.
        """
        if self.judge.options.duplicates is None:
            return
        keys = reader.keys()
        start = 0
        for receipt in receipts:
            part = receipt.part
            gone = {reject.index for reject in part.rejects}
            there = [at for at in range(start, part.source_stop) if at not in gone]
            prints = self._store.load(part.index)
            if prints is None or len(prints) != len(there):
                prints = self._measure(reader, range(start, part.source_stop), gone, jobs)
            if len(prints) != len(there):
                raise StaleStagingError(
                    f"{self._destination}: the source changed since the interrupted run",
                    hint=f"delete {staging_root(self._destination)} to start over",
                )
            for at, fingerprint in zip(there, prints, strict=True):
                self._ruling.remember(keys[at], (fingerprint,))
            start = part.source_stop

    def _measure(self, reader: Reader, span: range, gone: set[int], jobs: int) -> list[Fingerprint]:
        """Compute the fingerprints of a part's samples from the source."""

        def examine(found: Sample | Reject) -> tuple[Fingerprint, ...]:
            if isinstance(found, Reject):
                return ()
            view = Candidate(found.key, -1, found.image).view(self.judge.policy)
            finding = self.judge.examine(view)
            return finding.prints if isinstance(finding, Examined) else ()

        samples: Iterator[Sample | Reject] = (
            found for at, found in zip(span, reader.scan(span), strict=True) if at not in gone
        )
        results = ordered_map(examine, samples, workers=jobs, ahead=2 * jobs + 2)
        return [fingerprint for prints in results for fingerprint in prints]


def given(options: CleanOptions) -> dict[str, Score]:
    """Return what was asked for, by option."""
    return {name: v for name, v in options.to_mapping().items() if v not in (None, False)}


def what_decides(options: CleanOptions) -> dict[str, Any]:
    """Return all that the verdicts depend on besides the source, JSON-able."""
    state = None
    if options.against is not None and os.path.exists(options.against):
        found = os.stat(options.against)
        state = [found.st_size, found.st_mtime_ns]
    return {**options.to_mapping(), "state_of_against": state}


def left_out(key: str, index: int, reasons: Sequence[Reason]) -> Reject:
    """Return the reject that stands for a sample with reasons against it."""
    words = "; ".join(_worded(reason, alone=len(reasons) == 1) for reason in reasons)
    return Reject(key, reasons[0].name, words, index)


def _worded(reason: Reason, *, alone: bool) -> str:
    measured = ""
    if reason.score:
        measured = f"{reason.score} {_number(reason.value)}"
        if reason.threshold is not None and not isinstance(reason.threshold, bool):
            measured += f", asked for {_number(reason.threshold)}"
    text = " ".join(filter(None, (measured, reason.detail)))
    return text if alone else f"{reason.name}: {text}".rstrip(": ")


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
