"""A dataset of no cost: every image is the same one, in memory. What is left is the harness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Capability, Finding
from fastdata_cli.errors import UnsupportedError
from fastdata_cli.extents import Extents
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Batch, Payload, Reject, Sample, Schema


class ConstantReader:
    """A Reader whose samples are one and the same grey image.

    Args:
        samples: how many.
        shape: (H, W, C) of the image.
        dtype: NumPy name of the pixels' dtype.
    """

    capabilities = Capability.RANDOM_ACCESS
    manifest: Manifest | None = None
    rejects: tuple[Reject, ...] = ()
    notes: Mapping[str, int] = MappingProxyType({})

    def __init__(self, samples: int, shape: tuple[int, ...], dtype: str = "uint8") -> None:
        self.path = Path("constant")
        self.schema = Schema(
            payload=Payload.PIXELS, num_samples=samples, image_shape=shape, dtype=dtype
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (len(self), self.schema.image_shape, self.schema.dtype)

    def __len__(self) -> int:
        return self.schema.num_samples or 0

    def read(self, index: int) -> Sample:
        """Return the image."""
        return self.read_many([index]).sample(0)

    def read_many(
        self, indices: Sequence[int] | NDArray[np.int64], out: NDArray[Any] | None = None
    ) -> Batch:
        """Return the image as often as asked for."""
        if out is None:
            shape = self.schema.image_shape or ()
            out = np.empty((len(indices), *shape), self.schema.dtype)
        out.fill(127)
        return Batch([""] * len(indices), np.zeros(len(indices), np.int64), out)

    def read_each(self, indices: Sequence[int] | NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        """Return the image as often as asked for."""
        return [sample.image for sample in self.read_many(indices)]

    def locate(self, indices: Sequence[int] | NDArray[np.int64]) -> Extents:
        """Refuse: nothing is stored."""
        raise UnsupportedError("the image is in memory, and stored nowhere")

    def head(self, index: int, size: int) -> NDArray[np.uint8]:
        """Return the first bytes of the image."""
        return self.read(index).image.reshape(-1).view(np.uint8)[:size]

    def scan(self, span: range | None = None) -> Iterator[Sample | Reject]:
        """Yield the image."""
        for index in range(len(self)) if span is None else span:
            yield self.read(index)

    def spans(self, at_most: int) -> Sequence[range]:
        """Return one span."""
        return [range(len(self))][:at_most]

    def keys(self) -> Sequence[str]:
        """Return empty keys."""
        return [""] * len(self)

    def labels(self) -> NDArray[np.int64]:
        """Return zeros."""
        return np.zeros(len(self), np.int64)

    def files(self) -> Iterator[Path]:
        """Yield nothing."""
        return iter(())

    def describe(self) -> Mapping[str, Any]:
        """Return nothing."""
        return {}

    def compare(
        self, indices: Sequence[int] | NDArray[np.int64], images: Sequence[NDArray[Any]]
    ) -> Iterator[Finding]:
        """Find nothing."""
        return iter(())

    def verify(self, span: range | None = None) -> Iterator[Finding]:
        """Find nothing."""
        return iter(())

    def verify_whole(self) -> Iterator[Finding]:
        """Find nothing."""
        return iter(())

    def check_table(self) -> Finding | None:
        """Find nothing."""
        return None

    def close(self) -> None:
        """Do nothing."""
