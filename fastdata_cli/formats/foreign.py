"""The names that others give to what stands beside their images."""

from __future__ import annotations

from collections.abc import Sequence

LABEL_NAMES = ("labels", "label", "targets", "target", "classes", "class", "class_ids", "y")
KEY_NAMES = ("keys", "key", "names", "name", "filenames", "filename", "paths", "path", "ids", "id")
CLASSES_ATTRIBUTES = ("class_names", "classes", "class_labels", "categories")


def unused_labels(name: str, dtype: object, shape: Sequence[int]) -> str:
    """Return what to say of an array that is named like labels and holds something else."""
    return f"{name} holds {dtype}{list(shape)}: not used as labels, which are N whole numbers"
