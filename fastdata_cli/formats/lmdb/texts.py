"""Owns the texts that others keep in records beside their images, as sets for reading text do.

Such a set has the records ``image-000000001`` and ``label-000000001``, and so on; the text of the
second becomes the metadata ``label`` of the first.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.formats.lmdb.page import Extent
from fastdata_cli.sample import metadata_text
from fastdata_cli.storage.table import SampleTable, TakenTexts

_TEXT_KEY = re.compile(rb"label-[0-9]{1,18}")
_IMAGE_KEY = re.compile(rb"image-([0-9]{1,18})")
_NAME = "label"


def is_text_key(key: bytes) -> bool:
    """Tell whether a record is a text, by its key."""
    return _TEXT_KEY.fullmatch(key) is not None


class TextRecords:
    """The texts met in a scan, as compact columns."""

    def __init__(self) -> None:
        self._images = array("q")
        self._numbers = array("q")
        self._extents = array("q")

    def __len__(self) -> int:
        return len(self._numbers)

    def add_image(self, key: bytes) -> None:
        """Note the key of the next sample."""
        match = _IMAGE_KEY.fullmatch(key)
        self._images.append(int(match[1]) if match else -1)

    def add_text(self, key: bytes, extent: Extent) -> None:
        """Take in a record whose key is that of a text."""
        self._numbers.append(int(key.rpartition(b"-")[2]))
        self._extents.extend(extent)

    def of_samples(self) -> NDArray[np.int64] | None:
        """Return where the text of each sample lies, int64[N, 2], -1 for none; None without any."""
        images, numbers = np.array(self._images, np.int64), np.array(self._numbers, np.int64)
        if not len(numbers) or not (images >= 0).any():
            return None
        extents = np.array(self._extents, np.int64).reshape(-1, 2)
        order = np.argsort(numbers, kind="stable")
        at = np.minimum(np.searchsorted(numbers[order], images), len(numbers) - 1)
        row = order[at]
        found: NDArray[np.int64] = np.where((numbers[row] == images)[:, None], extents[row], -1)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable(SampleTable):
    """A sample table whose metadata stay in the file."""

    texts: NDArray[np.int64]
    """int64[N, 2], where each text begins, and its bytes; -1 for none."""
    content: Callable[[int, int], bytes]
    """Returns bytes of the file: (begin, length)."""

    def metadata_texts(self, indices: NDArray[np.int64]) -> Sequence[str | None]:
        """Return the JSON texts of some rows, read when they are looked at."""
        return TakenTexts(self._text, indices)

    def _text(self, index: int) -> str | None:
        begin, length = self.texts[index].tolist()
        if length < 0:
            return None
        text = self.content(begin, length).decode("utf-8", "backslashreplace")
        return metadata_text({_NAME: text})
