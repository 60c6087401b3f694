"""What ``survey`` found: a row for each format that was tried, and which of them is best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastdata_cli.sample import Payload
from fastdata_cli.timing.device import DeviceResult

AS_IT_IS = "as it is"

# Rates that differ by less are as good as one: then the smaller set is the better.
_AS_FAST = 0.9


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What became of the sample in one format, extrapolated to the whole source."""

    name: str
    """Destination and what distinguishes it; ``as it is`` for the source itself."""
    words: tuple[str, ...]
    """What converts the source so, behind it on the command line; empty for the source itself."""
    payload: Payload
    reencoded: bool
    """Whether image files are made anew, with loss."""
    stored_bytes: float
    convert_s: float | None
    """Seconds to convert it; None for the source."""
    memory_samples_per_s: float
    """Random batches, from the page cache."""
    disk_samples_per_s: float | None
    """Random batches, at most, where they come from the disk; None where that is not known."""
    fits: bool
    """Whether all of it fits into the memory that is free."""

    @property
    def samples_per_s(self) -> float:
        """Of an epoch after the first: from memory if the set fits there, else from the disk."""
        if self.fits or self.disk_samples_per_s is None:
            return self.memory_samples_per_s
        return self.disk_samples_per_s


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What was tried."""

    source: str
    samples: int
    measured: int
    size: tuple[int, int] | None
    """(height, width) of images in a batch; None for pixels, which stay as they are."""
    trials: tuple[Trial, ...]
    """The source itself, then the candidates."""
    disk: DeviceResult | None
    """Random reads of the source's own files, past the page cache."""
    memory_bytes: int
    """Free, or used for nothing but the page cache."""
    others: float = 0.0
    """Share of the processors that others took while rates were measured."""

    @property
    def fastest(self) -> Trial:
        """The trial that is read fastest; of several about as fast, the smallest."""
        return _best(self.trials)

    @property
    def faithful(self) -> Trial:
        """The same among those that keep all of what the source holds."""
        held = self.trials[0].payload
        return _best([each for each in self.trials if each.payload is held and not each.reencoded])


def _best(trials: Sequence[Trial]) -> Trial:
    enough = _AS_FAST * max(each.samples_per_s for each in trials)
    fast = (each for each in trials if each.samples_per_s >= enough)
    return min(fast, key=lambda each: each.stored_bytes)
