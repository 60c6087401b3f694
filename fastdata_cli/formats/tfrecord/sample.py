"""Owns which features a sample of ours has, and what a record of ours is made of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.imaging.sniff import sniff
from fastdata_cli.keys import to_bytes
from fastdata_cli.sample import UNLABELLED, Schema

IMAGE = "image/encoded"
LABEL = "image/class/label"
CLASS_NAME = "image/class/text"
FILE_NAME = "image/filename"
FORMAT = "image/format"
RAW = "raw"
"""The format of pixels, in the words of TF-Slim."""

PREFIX = "fastdata/"
"""What the names of all features begin with that are fastdata's own."""
INDEX = PREFIX + "index"
METADATA = PREFIX + "metadata"


def features_of(
    schema: Schema, index: int, key_text: str, label: int, metadata: str | None
) -> dict[str, bytes | int]:
    """Return the features that stand beside the image of a sample.

    Args:
        schema: of the dataset.
        index: position of the sample in it.
        key_text: the text form of its key.
        metadata: a JSON object as text.
    """
    features: dict[str, bytes | int] = {INDEX: index, FILE_NAME: to_bytes(key_text)}
    if label != UNLABELLED:
        features[LABEL] = label
    if 0 <= label < len(schema.class_names):
        features[CLASS_NAME] = to_bytes(schema.class_names[label])
    if metadata:
        features[METADATA] = to_bytes(metadata)
    if schema.image_shape is not None:
        height, width, channels = schema.image_shape
        sides = {"image/height": height, "image/width": width, "image/channels": channels}
        features |= {**sides, "image/dtype": schema.dtype.encode(), FORMAT: RAW.encode()}
    return features


def image_format(image: NDArray[np.uint8]) -> bytes:
    """Return the format of an encoded image: ``jpeg``, ``png`` … by its content."""
    return sniff(image[:512].data).encode()
