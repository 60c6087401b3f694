"""Owns member names: stems that every tar reader takes for one sample, and its fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

from fastdata_cli.image_suffixes import KIND_OF_SUFFIX, SUFFIX_OF_KIND
from fastdata_cli.imaging.sniff import sniff
from fastdata_cli.keys import to_bytes, to_text

PIXEL_FIELD = "npy"
"""The field of decoded pixels."""

ENCODED_FIELDS = frozenset(KIND_OF_SUFFIX)
"""Extensions that make a field an encoded image."""

_IMAGE_FIELDS = ENCODED_FIELDS | {PIXEL_FIELD}

# What the WebDataset convention or a tar reader would take for something else: the first dot of
# the last part ends the stem, a top folder __x__ is skipped, and paths must stay below the root.
_IN_NAME = re.compile(r"[.\\]")
_IN_FOLDER = re.compile(r"^_(?=_[^/]*__/)|^/|/(?=/)|(?:^|(?<=/))\.{1,2}(?=/)|\\")


def extension_of(image: NDArray[np.uint8]) -> str:
    """Return the extension of an encoded image: by its content, ``bin`` where that says nothing."""
    return SUFFIX_OF_KIND.get(sniff(image[:512].data), "bin")


def stem_of(key: str, *, keep_suffix: bool = False) -> str:
    """Return the stem of a key: the key without an image's suffix, escaped as ``keys`` does.

    Args:
        keep_suffix: leave the suffix in, its dot escaped, so that ``a.jpg`` and ``a.png`` differ.
    """
    kept = key.rstrip("/")
    folder, slash, name = kept.rpartition("/")
    base, _, suffix = name.rpartition(".")
    if base and not keep_suffix and suffix.lower() in _IMAGE_FIELDS:
        name = base
    stem = to_text(folder + slash, also=_IN_FOLDER) + to_text(name, also=_IN_NAME)
    return stem + "%2F" * (len(key) - len(kept)) or "%"


def split_field(name: str) -> tuple[str, str]:
    """Cut a member's name at the first dot of its last part: (stem, field in lower case).

    Without a dot, or with nothing before it, the field is empty: such a member is in no sample.
    """
    at = name.find(".", name.rfind("/") + 1)
    if at <= name.rfind("/") + 1:
        return name, ""
    return name[:at], name[at + 1 :].lower()


class StemRegister:
    """The stems given so far, as 64-bit hashes: 8 bytes each, whatever their length.

    Equal keys in equal order get equal stems, however they are cut into batches. Two stems of one
    hash only make the later one longer than it need be.
    """

    def __init__(self) -> None:
        self._levels: list[NDArray[np.uint64]] = []

    def assign(self, keys: Sequence[str]) -> tuple[list[str], NDArray[np.uint64]]:
        """Return a stem of its own for every key, and the hashes to ``add`` once they are used."""
        stems = [stem_of(key) for key in keys]
        taken = self._known(_hashes(stems))
        fresh: set[int] = set()
        for index, key in enumerate(keys):
            digest = _hash(stems[index])
            if taken[index] or digest in fresh:
                stems[index], digest = self._another(key, fresh)
            fresh.add(digest)
        return stems, _hashes(stems)

    def add(self, hashes: NDArray[np.uint64]) -> None:
        """Note hashes as used."""
        level = np.unique(hashes)
        # Merging only what is not much larger sorts every hash a logarithmic number of times.
        while self._levels and len(self._levels[-1]) < 2 * len(level):
            level = np.union1d(self._levels.pop(), level)
        self._levels.append(level)

    def _another(self, key: str, fresh: set[int]) -> tuple[str, int]:
        base, number = stem_of(key, keep_suffix=True), 1
        stem = base
        while (digest := _hash(stem)) in fresh or self._known(_hashes([stem]))[0]:
            number += 1
            stem = f"{base}~{number}"
        return stem, digest

    def _known(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        known = np.zeros(len(hashes), np.bool_)
        for level in self._levels:
            at = np.minimum(np.searchsorted(level, hashes), len(level) - 1)
            known |= level[at] == hashes
        return known


def _hash(stem: str) -> int:
    return xxhash.xxh3_64_intdigest(to_bytes(stem))


def _hashes(stems: Iterable[str]) -> NDArray[np.uint64]:
    return np.array([_hash(stem) for stem in stems], np.uint64)
