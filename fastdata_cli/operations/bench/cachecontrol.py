"""The page cache around each run: brought into the state asked for, and measured, never assumed."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from fastdata_cli.operations.bench.report import CacheFacts
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.timing.cache import Residency, evict, residency, touch
from fastdata_cli.timing.measurement import Measurement

# Looking must not take long beside what is measured; of many files, a random part is looked at.
_LOOK_S = 0.2


class CacheControl:
    """The cache of one dataset around the repeats of one case.

    Args:
        subject: the dataset.
        mode: ``as-is`` leaves the cache, ``warm`` reads the files ahead, ``cold`` evicts them.
    """

    def __init__(self, subject: Subject, mode: str) -> None:
        self._subject = subject
        self._mode = mode
        self._looked = False
        self._cannot_be_warm = False
        self._before: list[Residency] = []
        self._after: list[Residency] = []
        self._notes: dict[str, None] = {}

    def prepare(self) -> None:
        """Bring the cache into its state before a run; untimed.

        Raises:
            DamagedDatasetError: the dataset is not what it was.
        """
        self._subject.check_unchanged()
        if self._mode == "cold":
            found = self._evict()
        elif self._looked:  # later runs of one repeat follow at once
            return
        else:
            found = self._look()
            if self._mode == "warm" and found.state != "warm" and not self._cannot_be_warm:
                found = touch(self._subject.files)
                self._cannot_be_warm = found.state != "warm"
                self._note(found)
        self._looked = True
        self._before.append(found)

    def settle(self, so_far: Measurement) -> None:
        """Look at the cache after a repeat; a warm-up's looks are forgotten."""
        self._looked = False
        if so_far.repeats or so_far.failure:
            self._after.append(self._look())
        else:
            self._before.clear()

    def facts(self) -> CacheFacts:
        """Return what was found over all repeats."""
        return CacheFacts(
            before=_state(self._before),
            after=_state(self._after),
            resident_before=_fraction(self._before),
            resident_after=_fraction(self._after),
            method=next((each.method for each in self._before), ""),
            notes=tuple(self._notes),
        )

    def _look(self) -> Residency:
        return residency(self._subject.files, seconds=_LOOK_S)

    def _evict(self) -> Residency:
        self._subject.reader.close()  # what is mapped stays cached
        found = evict(self._subject.files)
        if found.state != "cold":
            self._note(found)
            stayed = f"{found.fraction:.0%} of the files stayed in the page cache"
            self._notes[f"not proven cold: {stayed}"] = None
        return found

    def _note(self, found: Residency) -> None:
        self._notes.update(dict.fromkeys(found.notes))


def _state(found: Sequence[Residency]) -> str:
    states = {each.state for each in found}
    return states.pop() if len(states) == 1 else ("mixed" if states else "unknown")


def _fraction(found: Sequence[Residency]) -> float | None:
    known = [each.fraction for each in found if each.method != "none"]
    return median(known) if known else None
