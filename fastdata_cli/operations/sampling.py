"""Which few samples stand for all of a dataset."""

from __future__ import annotations

import numpy as np


def spread(total: int, count: int) -> list[int]:
    """Return at most ``count`` positions spread evenly over ``total``."""
    picked = np.unique(np.linspace(0, total - 1, min(count, total)).astype(int))
    return [int(index) for index in picked]
