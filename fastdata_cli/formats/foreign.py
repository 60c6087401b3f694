"""What datasets of others have in common: names of columns, keys of samples, words for damage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

from fastdata_cli.key_table import KeyTable
from fastdata_cli.sample import UNLABELLED

LABEL_NAMES = ("labels", "label", "targets", "target", "classes", "class", "class_ids", "y")
KEY_NAMES = ("keys", "key", "names", "name", "filenames", "filename", "paths", "path", "ids", "id")
CLASSES_ATTRIBUTES = ("class_names", "classes", "class_labels", "categories")


NEGATIVE_LABEL = "negative-label"
"""Note of labels below -1, which number no class."""


def usable_labels(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], Mapping[str, int]]:
    """Return labels, int64[N], with -1 for those that number no class, and the note of them."""
    below = int(np.count_nonzero(labels < UNLABELLED))
    return (np.maximum(labels, UNLABELLED), {NEGATIVE_LABEL: below}) if below else (labels, {})


def unused_labels(name: str, dtype: object, shape: Sequence[int]) -> str:
    """Return what to say of an array that is named like labels and holds something else."""
    return f"{name} holds {dtype}{list(shape)}: not used as labels, which are N whole numbers"


def numbered_keys(count: int) -> KeyTable:
    """Return the keys of samples that have none: their positions."""
    return KeyTable.from_texts(f"{index:08d}" for index in range(count))


def distinct_keys(keys: KeyTable) -> KeyTable:
    """Return keys no two of which are equal: where two are, all get their position in the name."""
    return KeyTable.from_texts(_with_positions(keys)) if has_repeats(keys) else keys


def has_repeats(keys: KeyTable) -> bool:
    """Tell whether two keys are equal; by 64-bit hashes, which may rarely say so of others."""
    digests = np.fromiter(
        (
            xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogateescape"))
            for text in keys.texts()
        ),
        np.uint64,
        len(keys),
    )
    return len(np.unique(digests)) < len(digests)


def _with_positions(keys: KeyTable) -> Iterator[str]:
    for index, text in enumerate(keys.texts()):
        folder, slash, name = text.rpartition("/")
        yield f"{folder}{slash}{index:08d}-{name}"
