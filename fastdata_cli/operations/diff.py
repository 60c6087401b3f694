"""diff: proves that two datasets of any formats hold the same samples, or lists what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Reader
from fastdata_cli.engines.local import ordered_map
from fastdata_cli.errors import BadSampleError
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import printable, to_text
from fastdata_cli.operations.events import Listener, Silent
from fastdata_cli.operations.pairing import Pairing, pair
from fastdata_cli.sample import UNLABELLED, Payload, Reject, Sample
from fastdata_cli.timing.environment import usable_cores

DIFF_VERSION = 1
"""Version of the JSON; documented in docs/inspect-json.md."""

LISTED = 100_000
"""Differences that a report lists; all are counted."""

_BLOCK_BYTES = 8 << 20
_BLOCK_SAMPLES = 256

Found = Sample | Reject


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same in both datasets."""

    key: str
    """Text form; empty where it concerns the datasets as a whole."""
    kind: str
    """``only-in-first``, ``only-in-second``, ``classes``, ``label``, ``metadata``, ``bytes``,
    ``pixels``, ``shape``, or ``unreadable``."""
    detail: str = ""
    largest: float | None = None
    """Largest difference of one channel of one pixel, where pixels could be compared."""


@dataclass(frozen=True, kw_only=True)
class DiffReport:
    """What comparing two datasets found; ``--diff --json`` prints exactly these fields."""

    first: str
    second: str
    samples: tuple[int, int]
    compared: int
    """Samples that have the same key in both."""
    compared_as: str
    """``bytes`` where both are encoded, else ``pixels``."""
    same_order: bool
    """Whether they stand in the same order; another order is no difference."""
    counts: Mapping[str, int]
    """Differences by kind."""
    largest: float | None
    """Largest difference of one channel over all pixels that were compared."""
    differences: tuple[Difference, ...]
    """The first 100,000."""

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.counts

    def to_mapping(self) -> dict[str, Any]:
        """Return the documented JSON."""
        return {"fastdata_diff": DIFF_VERSION, "equal": self.equal, **asdict(self)}


def diff(first: Reader, second: Reader, *, listener: Listener | None = None) -> DiffReport:
    """Compare two datasets sample by sample, paired by key.

    Everything is read, and checked against its own checksum where it has one. Labels are compared
    by class name where both datasets name their classes, else by number. Encoded images are
    compared by their bytes; where one dataset holds pixels, the other one's are decoded by the
    default image policy.

    Args:
        first, second: datasets of any formats.
        listener: told how far it is.
    """
    listener = listener or Silent()
    pairing = pair(KeyTable.of(first.keys()), KeyTable.of(second.keys()))
    tally = _Tally()
    names = (first.schema.class_names, second.schema.class_names)
    if all(names) and names[0] != names[1]:
        tally.note(Difference("", "classes", _apart(*names)))
    for kind, reader, positions in (
        ("only-in-first", first, pairing.only_first),
        ("only-in-second", second, pairing.only_second),
    ):
        keys = KeyTable.of(reader.keys())
        for position in positions.tolist():
            tally.note(Difference(keys.text(position), kind))
    compare = _Comparison(first, second)
    done = 0
    blocks = _blocks(pairing, _block_samples(first, second))
    workers = usable_cores()
    for found, count in ordered_map(compare, blocks, workers=workers, ahead=2 * workers + 2):
        for difference in found:
            tally.note(difference)
        done += count
        listener.progress(done, len(pairing.first))
    return DiffReport(
        first=printable(str(first.path)),
        second=printable(str(second.path)),
        samples=(len(first), len(second)),
        compared=len(pairing.first),
        compared_as="bytes" if compare.by_bytes else "pixels",
        same_order=pairing.same_order,
        counts=dict(sorted(tally.counts.items())),
        largest=tally.largest,
        differences=tuple(tally.differences),
    )


class _Tally:
    """Counts differences, and keeps the first of them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.differences: list[Difference] = []
        self.largest: float | None = None

    def note(self, found: Difference) -> None:
        self.counts[found.kind] += 1
        if len(self.differences) < LISTED:
            self.differences.append(found)
        if found.largest is not None:
            self.largest = max(self.largest or 0, found.largest)


class _Comparison:
    """Compares the pairs of a block; several threads may at once."""

    def __init__(self, first: Reader, second: Reader) -> None:
        self._readers = (first, second)
        payloads = {reader.schema.payload for reader in self._readers}
        self.by_bytes = payloads == {Payload.ENCODED}
        self._labels = _label_words(first, second)

    def __call__(
        self, block: tuple[NDArray[np.int64], NDArray[np.int64]]
    ) -> tuple[list[Difference], int]:
        sides = [
            _read(reader, positions) for reader, positions in zip(self._readers, block, strict=True)
        ]
        found: list[Difference] = []
        for one, other in zip(*sides, strict=True):
            found += self._pair(one, other)
        return found, len(block[0])

    def _pair(self, one: Found, other: Found) -> Iterator[Difference]:
        key = to_text(one.key)
        for side, where in ((one, "first"), (other, "second")):
            if isinstance(side, Reject):
                detail = f"in the {where}: {side.reason}" + (side.detail and f", {side.detail}")
                yield Difference(key, "unreadable", detail)
        if isinstance(one, Reject) or isinstance(other, Reject):
            return
        labels = [
            words.get(sample.label, str(sample.label))
            for words, sample in zip(self._labels, (one, other), strict=True)
        ]
        if labels[0] != labels[1]:
            yield Difference(key, "label", f"{to_text(labels[0])} and {to_text(labels[1])}")
        if (one.metadata or {}) != (other.metadata or {}):
            yield Difference(key, "metadata", _apart(one.metadata or {}, other.metadata or {}))
        yield from self._images(key, one.image, other.image)

    def _images(self, key: str, one: NDArray[Any], other: NDArray[Any]) -> Iterator[Difference]:
        if self.by_bytes and np.array_equal(one, other):
            return
        try:
            pixels = [
                _pixels(image, reader)
                for image, reader in zip((one, other), self._readers, strict=True)
            ]
        except BadSampleError as problem:
            kind = "bytes" if self.by_bytes else "unreadable"
            yield Difference(key, kind, f"cannot be decoded: {problem.reason}")
            return
        found = _compare_pixels(key, *pixels)
        if self.by_bytes:
            detail = "the pixels are the same" if found is None else found.detail
            yield Difference(key, "bytes", detail, 0 if found is None else found.largest)
        elif found is not None:
            yield found


def _compare_pixels(key: str, one: NDArray[Any], other: NDArray[Any]) -> Difference | None:
    kinds = [f"{image.dtype}{list(image.shape)}" for image in (one, other)]
    if kinds[0] != kinds[1]:
        return Difference(key, "shape", f"{kinds[0]} and {kinds[1]}")
    if one.tobytes() == other.tobytes():
        return None
    with np.errstate(invalid="ignore"):  # infinity less infinity
        apart = np.abs(one.astype(np.float64) - other.astype(np.float64))
    # Also where one is no number and the other is, or where zeros differ in their sign.
    unequal = _bits(one) != _bits(other)
    changed = unequal.reshape(*one.shape[:2], -1).any(axis=2)
    finite = apart[unequal & np.isfinite(apart)]
    largest: float = finite.max(initial=0).item()
    if one.dtype.kind in "iub":
        largest = int(largest)
    words = f"by up to {largest:.6g}" if len(finite) else "by what is no number"
    detail = f"{int(changed.sum()):,} of {changed.size:,} pixels differ, {words}"
    return Difference(key, "pixels", detail, largest)


def _bits(pixels: NDArray[Any]) -> NDArray[Any]:
    """Return pixels as whole numbers that are equal where they are the same bit for bit."""
    return pixels if pixels.dtype.kind in "iub" else pixels.view(f"u{pixels.dtype.itemsize}")


def _pixels(image: NDArray[Any], reader: Reader) -> NDArray[Any]:
    if reader.schema.payload is Payload.PIXELS:
        return image
    from fastdata_cli.imaging.decode import decode

    return decode(image.data).pixels


def _read(reader: Reader, positions: NDArray[np.int64]) -> Sequence[Found]:
    """Return the samples at ``positions``: checked, and those that cannot be read as rejects."""
    first, last = int(positions[0]), int(positions[-1])
    if last - first == len(positions) - 1 and (np.diff(positions) == 1).all():
        return list(reader.scan(range(first, last + 1)))
    return [next(iter(reader.scan(range(at, at + 1)))) for at in positions.tolist()]


def _blocks(pairing: Pairing, size: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    for begin in range(0, len(pairing.first), size):
        cut = slice(begin, begin + size)
        yield pairing.first[cut], pairing.second[cut]


def _block_samples(*readers: Reader) -> int:
    sizes = (
        r.schema.pixel_bytes or r.schema.max_image_bytes or _BLOCK_BYTES // 32 for r in readers
    )
    return max(1, min(_BLOCK_SAMPLES, _BLOCK_BYTES // max(*sizes, 1)))


def _label_words(first: Reader, second: Reader) -> tuple[Mapping[int, str], Mapping[int, str]]:
    """Return what each label number stands for in either dataset."""
    names = (first.schema.class_names, second.schema.class_names)
    if not all(names):
        return {}, {}
    words = [dict(enumerate(each)) | {UNLABELLED: "no label"} for each in names]
    return words[0], words[1]


def _apart(one: object, other: object) -> str:
    texts = [printable(str(each)) for each in (one, other)]
    shown = [text if len(text) <= 60 else f"{text[:57]}…" for text in texts]
    return f"{shown[0]} and {shown[1]}"
