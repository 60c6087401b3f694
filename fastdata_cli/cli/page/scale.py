"""Axes: round ticks, linear from zero and logarithmic."""

from __future__ import annotations

import math

_MANY = 7


def ticks(largest: float, about: int = 4) -> list[float]:
    """Return round numbers from 0 to at least ``largest``, about so many."""
    if largest <= 0:
        return [0.0, 1.0]
    rough = largest / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(times * power for times in (1, 2, 2.5, 5, 10) if times * power >= rough * 0.999)
    return [step * at for at in range(math.ceil(largest / step - 1e-9) + 1)]


def decades(smallest: float, largest: float) -> list[float]:
    """Return two or more round numbers, the ends of a logarithmic axis first and last.

    They are powers of ten with their doubles and fives; of many, the powers and the ends.
    """
    low, high = math.floor(math.log10(smallest)), math.ceil(math.log10(largest)) + 1
    every = [times * 10.0**power for power in range(low, high) for times in (1, 2, 5)]
    first = max(at for at, value in enumerate(every) if value <= smallest * 1.001)
    last = next(at for at, value in enumerate(every) if value >= largest * 0.999 and at > first)
    kept = every[first : last + 1]
    if len(kept) <= _MANY:
        return kept
    powers = [value for value in kept[1:-1] if math.log10(value).is_integer()]
    return [kept[0], *powers, kept[-1]]
