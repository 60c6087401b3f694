"""How the time of a run is shared out.

    device 15 %   reads 25 %   stages 15 %   loader 45 %

Of the loader's part, a third goes to the consumer of --step-ms, and as much to the tries of
--advise, where they are asked for.

A phase gets its share of the time that is still there when it begins: one that is left out, or
done sooner, leaves its time to those behind it, and one that took longer takes it from them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from fastdata_cli.operations.bench.settings import BenchOptions

SHARES = {"device": 15, "reads": 25, "stages": 15, "loader": 15, "consumer": 15, "advise": 15}
_OF_LOADER = ("consumer", "advise")

# Below this a phase would measure noise: it is kept, and the run takes a little longer.
_LEAST_S = 0.5


class Budget:
    """Seconds for everything, handed out phase by phase.

    Args:
        seconds: for all phases together, and what came before them.
        phases: names of SHARES, in order.
        clock: seconds of a clock that never goes back.
        begun: when the time began, by that clock; now, if None.
    """

    def __init__(
        self,
        seconds: float,
        phases: Iterable[str],
        clock: Callable[[], float] = time.perf_counter,
        begun: float | None = None,
    ) -> None:
        self._phases = list(phases)
        # What nobody asked for is the loader's.
        absent = sum(SHARES[name] for name in _OF_LOADER if name not in self._phases)
        self._shares = {**SHARES, "loader": SHARES["loader"] + absent}
        self._clock = clock
        self._begin = clock() if begun is None else begun
        self._deadline = self._begin + seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._begin

    def begin(self, phase: str) -> float:
        """Return the seconds of a phase that begins now."""
        total = sum(self._shares[name] for name in self._phases[self._phases.index(phase) :])
        left = self._deadline - self._clock()
        return max(_LEAST_S, left * self._shares[phase] / total)


def phases(options: BenchOptions, *, loader: bool) -> list[str]:
    """Return the phases of a run.

    Args:
        options: what is asked for.
        loader: whether there is a DataLoader to measure.
    """
    wanted = {
        "device": not options.no_device,
        "reads": True,
        "stages": True,
        "loader": loader,
        "consumer": loader and options.step_ms is not None,
        "advise": loader and options.advise,
    }
    return [name for name, on in wanted.items() if on]
