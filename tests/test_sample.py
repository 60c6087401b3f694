"""Samples and batches: what is packed comes out, and views are views."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from fastdata_cli.sample import UNLABELLED, Batch, Payload, Sample, Schema, metadata_text

PIXELS = [
    Sample("a", np.full((2, 3, 3), 7, np.uint8), 1, {"b": 1, "a": "ü"}),
    Sample("b", np.arange(18, dtype=np.uint8).reshape(2, 3, 3)),
]
ENCODED = [
    Sample("a", np.array([1, 2, 3], np.uint8), 4, {"index": 0}),
    Sample("b", np.empty(0, np.uint8)),
    Sample("c", np.array([9], np.uint8), 0, {}),
]


@pytest.mark.parametrize(
    ("samples", "payload"), [(PIXELS, Payload.PIXELS), (ENCODED, Payload.ENCODED)]
)
def test_a_batch_holds_its_samples(samples: list[Sample], payload: Payload) -> None:
    batch = Batch.from_samples(samples, payload)
    assert len(batch) == len(samples)
    assert batch.labels.dtype == np.int64
    for got, wanted in zip(batch, samples, strict=True):
        assert (got.key, got.label) == (wanted.key, wanted.label)
        assert got.metadata == (wanted.metadata or None)
        assert np.array_equal(got.image, wanted.image)
        assert np.shares_memory(got.image, batch.images) == bool(got.image.size)


def test_encoded_images_lie_end_to_end() -> None:
    batch = Batch.from_samples(ENCODED, Payload.ENCODED)
    assert batch.images.tolist() == [1, 2, 3, 9]
    assert batch.offsets is not None
    assert batch.offsets.tolist() == [0, 3, 3, 4]


def test_an_empty_batch_of_encoded_images() -> None:
    batch = Batch.from_samples([], Payload.ENCODED)
    assert len(batch) == 0
    assert batch.images.dtype == np.uint8
    assert batch.images.size == 0
    assert list(batch) == []


def test_a_batch_without_metadata() -> None:
    batch = Batch(["a"], np.array([0]), np.zeros((1, 2, 2, 3), np.uint8))
    assert batch.sample(0).metadata is None


def test_pixels_of_two_shapes_make_no_batch() -> None:
    other = Sample("c", np.zeros((3, 3, 3), np.uint8))
    with pytest.raises(ValueError, match="shape"):
        Batch.from_samples([PIXELS[0], other], Payload.PIXELS)


def test_metadata_text_is_the_same_for_equal_metadata() -> None:
    assert metadata_text({"b": 1, "a": "ü"}) == metadata_text({"a": "ü", "b": 1})
    text = metadata_text({"b": [1, 2], "a": "line\nbreak ü"})
    assert text is not None
    assert text.isascii()
    assert "\n" not in text, "containers keep one text a line"
    assert json.loads(text) == {"b": [1, 2], "a": "line\nbreak ü"}
    assert metadata_text({}) is None
    assert metadata_text(None) is None


def test_metadata_text_is_json_whatever_the_numbers_are() -> None:
    text = metadata_text({"a": math.nan, "b": [math.inf, {"c": -math.inf, "d": 0.5}], "e": "NaN"})
    assert text == '{"a":null,"b":[null,{"c":null,"d":0.5}],"e":"NaN"}'


def test_pixel_bytes() -> None:
    assert Schema(payload=Payload.ENCODED).pixel_bytes == 0
    assert Schema(payload=Payload.PIXELS, image_shape=(4, 5, 3)).pixel_bytes == 60
    assert Schema(payload=Payload.PIXELS, image_shape=(4, 5, 1), dtype="uint16").pixel_bytes == 40


def test_payloads_and_unlabelled_are_part_of_the_formats() -> None:
    assert [payload.value for payload in Payload] == ["pixels", "encoded"]
    assert Sample("a", np.empty(0, np.uint8)).label == UNLABELLED == -1
