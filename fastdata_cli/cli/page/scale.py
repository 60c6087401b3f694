"""Axes: round ticks, linear from zero and logarithmic."""

from __future__ import annotations

import math


def ticks(largest: float, about: int = 4) -> list[float]:
    """Return round numbers from 0 to at least ``largest``, about so many."""
    if largest <= 0:
        return [0.0, 1.0]
    rough = largest / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(times * power for times in (1, 2, 2.5, 5, 10) if times * power >= rough)
    return [step * at for at in range(math.ceil(largest / step - 1e-9) + 1)]


def decades(smallest: float, largest: float) -> list[float]:
    """Return the powers of ten, with their doubles and fives if few, from below to above."""
    if smallest <= 0 or largest <= 0:
        return [0.1, 1.0]
    low, high = math.floor(math.log10(smallest)), math.ceil(math.log10(largest))
    steps = (1.0,) if high - low > 2 else (1.0, 2.0, 5.0)
    every = [times * 10.0**power for power in range(low, high + 1) for times in steps]
    first = max((at for at, value in enumerate(every) if value <= smallest), default=0)
    last = min((at for at, value in enumerate(every) if value >= largest), default=len(every) - 1)
    if first == last:
        last = min(last + 1, len(every) - 1)
        first = max(first - (first == last), 0)
    return every[first : last + 1]
