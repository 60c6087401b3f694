"""What becomes of one sample between source and destination; pure, and run in many threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Reader
from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.imaging.decode import Decoded, decode
from fastdata_cli.operations.clean.candidate import Candidate
from fastdata_cli.operations.clean.selection import left_out
from fastdata_cli.operations.packer import Good, Outcome
from fastdata_cli.operations.settings import DEFAULT_QUALITY, ConvertOptions
from fastdata_cli.quality.judge import Judge
from fastdata_cli.sample import Payload, Reject, Sample, Schema

Image = NDArray[Any]
Decoding = Callable[[tuple[int, int] | None], Decoded]
"""Decodes the image at hand, at least of the (height, width) given; None for all its pixels."""
Change = Callable[[Image, Decoding], tuple[Image, tuple[str, ...]]]

FILLED = "filled"
"""In the metadata of a grey image that stands for a bad one: why that is bad."""

_DOUBTS = frozenset({"trailing-bytes", "truncated"})


@dataclass(frozen=True, slots=True)
class Transform:
    """Applies one change to the image of every sample; a bad one becomes a reject or grey.

    Args:
        change: returns the new image and notes, or raises BadSampleError.
        policy: how files are judged and decoded.
        fill: the image that stands in for a bad one, or None to reject it.
        labels: int64[N], of all samples of the source; those of filled ones.
        judge: measures the image before it is changed; what it has reasons against becomes a
            reject, whatever ``fill`` says.
        decodes: the change decodes files to RGB: a judge then looks at the same pixels.
        light: it takes less time than handing samples to another thread and back.
    """

    change: Change
    policy: ImagePolicy
    fill: Image | None = None
    labels: NDArray[np.int64] | None = None
    judge: Judge | None = None
    decodes: bool = False
    light: bool = False

    def __call__(self, block: list[tuple[int, Sample | Reject]]) -> list[Outcome]:
        """Return the outcome of each sample of a block, in order."""
        return [self._one(index, sample) for index, sample in block]

    def _one(self, index: int, sample: Sample | Reject) -> Outcome:
        if isinstance(sample, Reject):
            return self._rejected(replace(sample, index=index))
        try:
            if self.judge is not None:
                return self._judged(self.judge, index, sample)
            image, notes = self.change(sample.image, partial(_decoded_anew, sample, self.policy))
        except BadSampleError as problem:
            return self._rejected(Reject(sample.key, problem.reason, problem.detail, index))
        return Good(Sample(sample.key, image, sample.label, sample.metadata), notes, index=index)

    def _judged(self, judge: Judge, index: int, sample: Sample) -> Outcome:
        view = Candidate(sample.key, index, sample.image).view(self.policy)
        if self.decodes and judge.needs_whole:
            _ = view.pixels  # asked for first, so that the checks need no decode of their own
        finding = judge.examine(view)
        if isinstance(finding, Reject):
            return self._rejected(replace(finding, index=index))
        reasons = judge.reasons(finding.scores)
        if reasons:
            return left_out(sample.key, index, reasons)
        image, notes = self.change(sample.image, view.decoded)
        kept = Sample(sample.key, image, sample.label, sample.metadata)
        notes = tuple(dict.fromkeys((*notes, *finding.notes)))
        return Good(kept, notes, index=index, finding=finding)

    def _rejected(self, reject: Reject) -> Outcome:
        if self.fill is None or self.labels is None:
            return reject
        label = int(self.labels[reject.index])
        filled = Sample(reject.key, self.fill, label, {FILLED: reject.reason})
        return Good(filled, ("filled",), stands_for=reject)


def _decoded_anew(sample: Sample, policy: ImagePolicy, at_least: tuple[int, int] | None) -> Decoded:
    return decode(sample.image.data, policy, at_least=at_least)


def transform_for(
    options: ConvertOptions, reader: Reader, target: Schema, judge: Judge | None = None
) -> Transform:
    """Return what turns the source's samples into the destination's.

    Args:
        reader: of the source.
        judge: what measures them on the way, if anything.
    """
    source, fills = reader.schema, options.on_bad == "fill"
    encoded = source.payload is Payload.ENCODED
    decodes = encoded and (target.payload is Payload.PIXELS or reencodes(options))
    keeps = source.payload is target.payload and not reencodes(options)
    resizes = source.image_shape != target.image_shape
    return Transform(
        change=_change_for(options, source, target, judged=judge is not None),
        policy=options.policy(),
        fill=mid_grey(target) if fills else None,
        labels=reader.labels() if fills else None,
        judge=judge,
        decodes=decodes,
        light=keeps and not (resizes or options.strict or judge is not None),
    )


def mid_grey(target: Schema) -> Image | None:
    """Return the image that stands in for a bad one; None where there is none.

    Pixels of floating point have no mid-grey: what is white in them is not written down.
    """
    if target.image_shape is None or np.dtype(target.dtype).kind not in "iu":
        return None
    limits = np.iinfo(target.dtype)
    grey = (int(limits.max) + int(limits.min) + 1) // 2
    return np.full(target.image_shape, grey, target.dtype)


def _change_for(options: ConvertOptions, source: Schema, target: Schema, *, judged: bool) -> Change:
    if source.payload is Payload.ENCODED:
        if target.payload is Payload.PIXELS:
            return _decoded(options, target)
        if reencodes(options):
            return _reencoded(options)
        return _unchanged if judged else _checked(options)
    if target.payload is Payload.PIXELS:
        return _resized(options, source, target)
    return _encoded(options)


def reencodes(options: ConvertOptions) -> bool:
    """Return whether an encoded image is decoded and encoded again."""
    return any(value is not None for value in (options.size, options.max_side, options.quality))


def _unchanged(image: Image, decoding: Decoding) -> tuple[Image, tuple[str, ...]]:
    return image, ()


def _decoded(options: ConvertOptions, target: Schema) -> Change:
    from fastdata_cli.imaging.resize import resize

    assert target.image_shape is not None
    size = (target.image_shape[0], target.image_shape[1])
    background = options.policy().background
    fit, interpolation = options.fit_word, options.interpolation_word
    resizes = options.size is not None

    def change(image: Image, decoding: Decoding) -> tuple[Image, tuple[str, ...]]:
        decoded = decoding(size if resizes else None)
        pixels = decoded.pixels
        if resizes:
            pixels = resize(pixels, size, fit, interpolation, background=background)
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

    policy = options.policy()

    def change(image: Image, decoding: Decoding) -> tuple[Image, tuple[str, ...]]:
        notes = check(image.data, policy).notes
        if policy.strict or not _DOUBTS.isdisjoint(notes):
            notes = decoding((1, 1)).notes
        return image, notes

    return change


def _reencoded(options: ConvertOptions) -> Change:
    from fastdata_cli.imaging.probe import probe

    policy = options.policy()
    bounded = _bounded(options)

    def needed(image: Image) -> tuple[int, int] | None:
        if options.max_side is None:
            return options.settled_size
        height, width = probe(image.data, policy).size
        scale = min(1.0, options.max_side / max(height, width))
        return options.settled_size or (math.ceil(height * scale), math.ceil(width * scale))

    def change(image: Image, decoding: Decoding) -> tuple[Image, tuple[str, ...]]:
        decoded = decoding(needed(image))
        return _jpeg(bounded(decoded.pixels), options), decoded.notes

    return change


def _encoded(options: ConvertOptions) -> Change:
    from fastdata_cli.imaging.encode import encode_png

    bounded = _bounded(options)

    def change(image: Image, decoding: Decoding) -> tuple[Image, tuple[str, ...]]:
        if options.quality is not None or options.max_side is not None:
            return _jpeg(bounded(image), options), ()
        return np.frombuffer(encode_png(bounded(image)), np.uint8), ()

    return change


def _resized(options: ConvertOptions, source: Schema, target: Schema) -> Change:
    from fastdata_cli.imaging.resize import resize

    if source.image_shape == target.image_shape:
        return _unchanged
    assert target.image_shape is not None
    size = (target.image_shape[0], target.image_shape[1])
    background = options.policy().background

    def change(image: Image, decoding: Decoding) -> tuple[Image, tuple[str, ...]]:
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
