"""What becomes of one sample between source and destination; pure, and run in many threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.operations.packer import Good, Outcome
from fastdata_cli.operations.settings import DEFAULT_QUALITY, ConvertOptions
from fastdata_cli.sample import Payload, Reject, Sample, Schema

Image = NDArray[Any]
Change = Callable[[Image], tuple[Image, tuple[str, ...]]]

FILL_GREY = 128
_DOUBTS = frozenset({"trailing-bytes", "truncated"})


@dataclass(frozen=True, slots=True)
class Transform:
    """Applies one change to the image of every sample; a bad one becomes a reject or grey.

    Args:
        change: returns the new image and notes, or raises BadSampleError.
        fill: shape of the grey image that stands in for a bad one, or None to reject it.
    """

    change: Change
    fill: tuple[int, ...] | None = None

    def __call__(self, block: list[tuple[int, Sample | Reject]]) -> list[Outcome]:
        """Return the outcome of each sample of a block, in order."""
        return [self._one(index, sample) for index, sample in block]

    def _one(self, index: int, sample: Sample | Reject) -> Outcome:
        if isinstance(sample, Reject):
            return self._rejected(sample, label=-1)
        try:
            image, notes = self.change(sample.image)
        except BadSampleError as problem:
            reject = Reject(sample.key, problem.reason, problem.detail, index)
            return self._rejected(reject, label=sample.label)
        return Good(Sample(sample.key, image, sample.label, sample.metadata), notes)

    def _rejected(self, reject: Reject, *, label: int) -> Outcome:
        if self.fill is None:
            return reject
        grey = np.full(self.fill, FILL_GREY, np.uint8)
        filled = Sample(reject.key, grey, label, {"filled": reject.reason})
        return Good(filled, ("filled",), stands_for=reject)


def change_for(options: ConvertOptions, source: Schema, target: Schema) -> Change:
    """Return the change that turns the source's images into the destination's."""
    if source.payload is Payload.ENCODED:
        if target.payload is Payload.PIXELS:
            return _decoded(options, target)
        return _reencoded(options) if reencodes(options) else _checked(options)
    if target.payload is Payload.PIXELS:
        return _resized(options, source, target)
    return _encoded(options)


def reencodes(options: ConvertOptions) -> bool:
    """Return whether an encoded image is decoded and encoded again."""
    return any(value is not None for value in (options.size, options.max_side, options.quality))


def _decoded(options: ConvertOptions, target: Schema) -> Change:
    from fastdata_cli.imaging.decode import decode
    from fastdata_cli.imaging.resize import resize

    assert target.image_shape is not None
    size = (target.image_shape[0], target.image_shape[1])
    policy, fit, interpolation = options.policy(), options.fit_word, options.interpolation_word
    resizes = options.size is not None

    def change(image: Image) -> tuple[Image, tuple[str, ...]]:
        decoded = decode(image.data, policy, at_least=size if resizes else None)
        pixels = decoded.pixels
        if resizes:
            pixels = resize(pixels, size, fit, interpolation, background=policy.background)
        elif pixels.shape[:2] != size:
            raise BadSampleError(
                reason="size-mismatch",
                detail=f"{pixels.shape[0]}x{pixels.shape[1]}, its header said {size[0]}x{size[1]}",
            )
        return pixels, decoded.notes

    return change


def _checked(options: ConvertOptions) -> Change:
    """Return what looks at the structure, and decodes only where that leaves room for doubt.

    Decoding everything would cost sixteen times as much. Bytes after a picture may be the rest of
    one whose end was lost, a truncated one may hold no pixel at all, and decoder warnings, which
    --strict rejects, show in no other way.
    """
    from fastdata_cli.imaging.check import check
    from fastdata_cli.imaging.decode import decode

    policy = options.policy()

    def change(image: Image) -> tuple[Image, tuple[str, ...]]:
        notes = check(image.data, policy).notes
        if policy.strict or not _DOUBTS.isdisjoint(notes):
            notes = decode(image.data, policy, at_least=(1, 1)).notes
        return image, notes

    return change


def _reencoded(options: ConvertOptions) -> Change:
    from fastdata_cli.imaging.decode import decode
    from fastdata_cli.imaging.probe import probe

    policy = options.policy()
    bounded = _bounded(options)

    def needed(image: Image) -> tuple[int, int] | None:
        if options.max_side is None:
            return options.settled_size
        height, width = probe(image.data, policy).size
        scale = min(1.0, options.max_side / max(height, width))
        return options.settled_size or (math.ceil(height * scale), math.ceil(width * scale))

    def change(image: Image) -> tuple[Image, tuple[str, ...]]:
        decoded = decode(image.data, policy, at_least=needed(image))
        return _jpeg(bounded(decoded.pixels), options), decoded.notes

    return change


def _encoded(options: ConvertOptions) -> Change:
    from fastdata_cli.imaging.encode import encode_png

    bounded = _bounded(options)

    def change(image: Image) -> tuple[Image, tuple[str, ...]]:
        if options.quality is not None or options.max_side is not None:
            return _jpeg(bounded(image), options), ()
        return np.frombuffer(encode_png(bounded(image)), np.uint8), ()

    return change


def _resized(options: ConvertOptions, source: Schema, target: Schema) -> Change:
    from fastdata_cli.imaging.resize import resize

    if source.image_shape == target.image_shape:
        return lambda image: (image, ())
    assert target.image_shape is not None
    size = (target.image_shape[0], target.image_shape[1])
    background = options.policy().background

    def change(image: Image) -> tuple[Image, tuple[str, ...]]:
        fit, interpolation = options.fit_word, options.interpolation_word
        return resize(image, size, fit, interpolation, background=background), ()

    return change


def _bounded(options: ConvertOptions) -> Callable[[Image], Image]:
    """Return what brings pixels to --size or under --max-side before they are encoded."""
    from fastdata_cli.imaging.encode import shrink_to
    from fastdata_cli.imaging.resize import resize

    size, background = options.settled_size, options.policy().background
    fit, interpolation = options.fit_word, options.interpolation_word

    def bound(pixels: Image) -> Image:
        if size is not None:
            pixels = resize(pixels, size, fit, interpolation, background=background)
        if options.max_side is not None:
            pixels = shrink_to(pixels, options.max_side, interpolation)
        return pixels

    return bound


def _jpeg(pixels: Image, options: ConvertOptions) -> Image:
    from fastdata_cli.imaging.encode import encode_jpeg

    quality = DEFAULT_QUALITY if options.quality is None else options.quality
    return np.frombuffer(encode_jpeg(pixels, quality), np.uint8)
