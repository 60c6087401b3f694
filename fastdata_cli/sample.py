"""What moves through fastdata: one sample, a batch of them, a reject, and their common schema."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.json_text import parse_object

# Made once: json.dumps makes an encoder for every call.
_to_json = json.JSONEncoder(
    ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode

UNLABELLED = -1
"""The label of a sample that has none."""


class Payload(StrEnum):
    """What the image of a sample is."""

    PIXELS = "pixels"
    """Decoded: one shape H×W×C for the whole dataset."""
    ENCODED = "encoded"
    """The bytes of the image file, untouched: 1-D uint8."""


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What every sample of a dataset has in common."""

    payload: Payload
    num_samples: int | None = None
    """None while a dataset is being written."""
    image_shape: tuple[int, ...] | None = None
    """(H, W, C) of pixels; None for encoded images."""
    dtype: str = "uint8"
    """NumPy name of the pixels' dtype."""
    max_image_bytes: int | None = None
    """Size of the largest encoded image, where known."""
    class_names: tuple[str, ...] = ()
    """Name of label 0, 1, …; empty without labels."""

    @property
    def pixel_bytes(self) -> int:
        """Bytes of one sample's pixels; 0 for encoded images."""
        if self.image_shape is None:
            return 0
        return math.prod(self.image_shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Sample:
    """One image with its key, label and metadata."""

    key: str
    image: NDArray[Any]
    """H×W×C pixels, or 1-D uint8 when encoded."""
    label: int = UNLABELLED
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Reject:
    """A sample that could not be used, and why."""

    key: str
    reason: str
    """One word, such as ``truncated``; docs/image-policy.md lists them."""
    detail: str = ""
    index: int = -1
    """Position in the source."""


@dataclass(frozen=True, slots=True)
class Batch:
    """N samples as arrays.

    ``images`` is N×H×W×C pixels, or one 1-D uint8 arena in which image ``i`` lies at
    ``offsets[i]:offsets[i + 1]``. Whoever passed ``out`` to a reader owns ``images``; else the
    caller of the reader does. ``metadata`` holds JSON objects as text, None where there is none.
    """

    keys: Sequence[str]
    labels: NDArray[np.int64]
    images: NDArray[Any]
    offsets: NDArray[np.int64] | None = None
    metadata: Sequence[str | None] = field(default=())

    def __len__(self) -> int:
        return len(self.labels)

    def image(self, index: int) -> NDArray[Any]:
        """Return one image: a view, H×W×C or 1-D uint8."""
        if self.offsets is None:
            image: NDArray[Any] = self.images[index]
            return image
        return self.images[self.offsets[index] : self.offsets[index + 1]]

    def sample(self, index: int) -> Sample:
        """Return one sample; its image is a view into this batch.

        Raises:
            BadSampleError: its metadata is no JSON object.
        """
        text = self.metadata[index] if self.metadata else None
        key = self.keys[index]
        metadata = metadata_of(text, key)
        return Sample(key, self.image(index), int(self.labels[index]), metadata)

    def __iter__(self) -> Iterator[Sample]:
        return (self.sample(index) for index in range(len(self)))

    @classmethod
    def from_samples(cls, samples: Sequence[Sample], payload: Payload) -> Batch:
        """Copy samples into one batch; pixels must all have one shape and dtype."""
        images = [sample.image for sample in samples]
        offsets = None
        if payload is Payload.ENCODED:
            offsets = np.zeros(len(images) + 1, np.int64)
            np.cumsum([image.size for image in images], out=offsets[1:])
            arena = np.concatenate(images) if images else np.empty(0, np.uint8)
        else:
            arena = np.stack(images)
        return cls(
            [sample.key for sample in samples],
            np.array([sample.label for sample in samples], np.int64),
            arena,
            offsets,
            [metadata_text(sample.metadata) for sample in samples],
        )


def metadata_of(text: str | None, key: str) -> dict[str, Any] | None:
    """Return the metadata that a container stored as text: the inverse of ``metadata_text``.

    Raises:
        BadSampleError: it is no JSON object; names the sample.
    """
    if not text:
        return None
    try:
        return parse_object(text)
    except ValueError as problem:
        detail = f"its metadata cannot be read ({problem})"
        raise BadSampleError(key=key, reason="corrupt", detail=detail) from problem


def metadata_text(metadata: Mapping[str, Any] | None) -> str | None:
    """Return metadata as the JSON text that containers store; None for nothing.

    JSON has no NaN and no infinities: they become null, as in JavaScript (ECMA-262, JSON.stringify)
    and pandas.
    """
    if not metadata:
        return None
    try:
        return _to_json(metadata)
    except ValueError:  # looked for only then: nearly all metadata has none
        return _to_json(_finite(metadata))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
