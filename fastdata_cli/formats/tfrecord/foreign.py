"""Owns reading files of records that others made: each Example with an image is a sample.

Which feature holds the image is decided by the first record that has one: ``image/encoded``, or
else the only feature whose value is an image file. The label is ``image/class/label``, or a
feature of another usual name that is one whole number; ``image/class/text`` names the class of a
label. The key is ``image/filename`` or its like, else the position of the sample.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import UsageError
from fastdata_cli.formats.foreign import KEY_NAMES, LABEL_NAMES, distinct_keys, usable_labels
from fastdata_cli.formats.tfrecord import framing
from fastdata_cli.formats.tfrecord.example import Place, bytes_value, features_in, values_of
from fastdata_cli.formats.tfrecord.framing import Damage, Record
from fastdata_cli.formats.tfrecord.sample import CLASS_NAME, FILE_NAME, IMAGE, INDEX, LABEL, PREFIX
from fastdata_cli.imaging.policy import DAMAGED_CONTAINER
from fastdata_cli.imaging.sniff import DECODED, PICTURES, SNIFF_BYTES, sniff
from fastdata_cli.key_table import KeyTable
from fastdata_cli.sample import UNLABELLED, Reject
from fastdata_cli.storage.listing_rows import Rows, text_of

_LABELS = (LABEL, *LABEL_NAMES)
_KEYS = (FILE_NAME, "file_name", *KEY_NAMES)
_DERIVED = frozenset(
    ("image/format", "image/height", "image/width", "image/channels", "image/colorspace")
)
_IMAGES = DECODED | PICTURES
_MOST_CLASSES = 1_000_000

_Places = Mapping[str, Place]


@dataclass(frozen=True, slots=True)
class ForeignRows:
    """All samples of some files, in order; N rows."""

    image: str | None
    """The feature that holds the image; None where no record has one."""
    keys: KeyTable
    labels: NDArray[np.int64]
    counts: tuple[int, ...]
    """Samples of each file."""
    records: NDArray[np.int64]
    """int64[N, 2]: where the data of each record begins in its file, and its bytes."""
    images: NDArray[np.int64]
    """int64[N, 2]: where the image begins in the file, and its bytes."""
    class_names: tuple[str, ...]
    features: frozenset[str]
    """The names of all features that were met."""
    rejects: tuple[Reject, ...]
    notes: Mapping[str, int]


class SampleBuilder:
    """Turns the records of one file after another into samples.

    Args:
        field: the feature that holds the image; None finds it.
    """

    def __init__(self, field: str | None) -> None:
        self._image = field
        self._other_images: list[str] = []
        self._features: set[str] = set()
        self._rows = Rows()
        self._records, self._images = array("q"), array("q")
        self._counts: list[int] = []
        self._texts: dict[int, bytes] = {}
        self._texts_agree = True
        self._rejects: list[Reject] = []
        self._notes: Counter[str] = Counter()

    def add(self, name: str, data: memoryview, *, has_index: bool) -> None:
        """Add a file.

        Args:
            name: what messages and keys call it.
            data: all of it.
            has_index: fastdata wrote it, and its end is there.
        """
        before, number, ours = len(self._images), 0, False
        for number, found in enumerate(framing.records(data)):
            if isinstance(found, Damage):
                self._reject(
                    name, found.record, DAMAGED_CONTAINER, f"byte {found.at}: {found.detail}"
                )
                break
            try:
                places = features_in(data, Place(found.begin, found.begin + found.size))
                ours = ours or INDEX in places
                self._add(name, number, data, found, places)
            except UsageError:
                raise
            except ValueError as problem:
                self._reject(name, number, "corrupt", f"byte {found.begin}: {problem}")
        else:
            if ours and not has_index:
                detail = "written by fastdata, and the index at its end is not there: it was cut"
                self._reject(name, number + 1, DAMAGED_CONTAINER, detail)
        self._counts.append((len(self._images) - before) // 2)

    def finished(self) -> ForeignRows:
        """Return everything."""
        labels, notes = usable_labels(self._rows.codes())
        self._notes.update(notes)
        unlabelled = int((labels == UNLABELLED).sum())
        if unlabelled < len(labels):
            self._notes["unlabelled"] = unlabelled
        return ForeignRows(
            image=self._image,
            keys=distinct_keys(self._rows.files()),
            labels=labels,
            counts=tuple(self._counts),
            records=np.array(self._records, np.int64).reshape(-1, 2),
            images=np.array(self._images, np.int64).reshape(-1, 2),
            class_names=self._class_names(labels),
            features=frozenset(self._features),
            rejects=tuple(self._rejects),
            notes={name: count for name, count in sorted(self._notes.items()) if count},
        )

    def _add(
        self, name: str, number: int, data: memoryview, record: Record, places: _Places
    ) -> None:
        self._features.update(places)
        if self._image is None:
            self._choose_image(name, data, places)
        self._notes.update(f"field-{each}" for each in self._other_images if each in places)
        place = places.get(self._image or "")
        image = None if place is None else bytes_value(data, place)
        if image is None:
            found = ", ".join(sorted(places)) or "nothing"
            self._reject(name, number, "missing-image", f"no image, only {found}")
            return
        label = _label(data, places)[1]
        key = _key(data, places)[1] or b"%08d" % (len(self._images) // 2)
        self._rows.add([text_of(key)], label)
        self._records.extend(record)
        self._images.extend((image.begin, image.end - image.begin))
        self._note_class(label, _text(data, places, CLASS_NAME))

    def _choose_image(self, name: str, data: memoryview, places: _Places) -> None:
        found = _images_among(data, places)
        if found[1:] and found[0] != IMAGE:
            raise UsageError(
                f"{name}: {len(found)} features may be the image: {', '.join(found)}",
                hint="choose one with --field",
            )
        self._image, self._other_images = next(iter(found), None), found[1:]

    def _note_class(self, label: int, text: bytes) -> None:
        if text and label >= 0:
            self._texts_agree &= self._texts.setdefault(label, text) == text

    def _class_names(self, labels: NDArray[np.int64]) -> tuple[str, ...]:
        """Return a name for each number, if no two texts claim one; the number where none does."""
        highest = int(labels.max(initial=UNLABELLED))
        if not self._texts or not self._texts_agree or highest >= _MOST_CLASSES:
            return ()
        texts = {label: text.decode("utf-8", "replace") for label, text in self._texts.items()}
        names = tuple(texts.get(label, str(label)) for label in range(highest + 1))
        return names if len(set(names)) == len(names) else ()

    def _reject(self, name: str, number: int, reason: str, detail: str) -> None:
        self._rejects.append(Reject(f"{name}#{number}", reason, f"{name}: {detail}"))


def metadata_of(
    data: memoryview, record: Place, image: str | None, *, named_classes: bool
) -> dict[str, Any]:
    """Return what stands in a record beside image, key and label, and does not follow from them.

    Bytes that are no text are left out.

    Args:
        image: the feature that holds the image.
        named_classes: the class of the label has its name elsewhere.

    Raises:
        ValueError: the record is no Example.
    """
    places = features_in(data, record)
    taken = {image, _label(data, places)[0], _key(data, places)[0]}
    if named_classes:
        taken.add(CLASS_NAME)
    found = {}
    for name, place in places.items():
        if name in taken or is_derived(name):
            continue
        values = [_plain(value) for value in values_of(data, place)]
        if values and None not in values:
            found[name] = values[0] if len(values) == 1 else values
    return found


def is_derived(name: str) -> bool:
    """Tell whether a feature says only what the image itself says, or is fastdata's own."""
    return name in _DERIVED or name.startswith(PREFIX)


def _plain(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _images_among(data: memoryview, places: _Places) -> list[str]:
    """Return the features that hold an image file, the usual one first."""
    found = [name for name, place in places.items() if _is_image(data, place)]
    return sorted(found, key=lambda name: (name != IMAGE, name))


def _is_image(data: memoryview, feature: Place) -> bool:
    value = bytes_value(data, feature)
    if value is None:
        return False
    return sniff(data[value.begin : min(value.end, value.begin + SNIFF_BYTES)]) in _IMAGES


def _label(data: memoryview, places: _Places) -> tuple[str | None, int]:
    """Return the label and its feature: the first of a usual name that is one whole number."""
    for name in _LABELS:
        values = values_of(data, places[name]) if name in places else ()
        if len(values) == 1 and isinstance(values[0], int):
            return name, values[0]
    return None, UNLABELLED


def _key(data: memoryview, places: _Places) -> tuple[str | None, bytes]:
    """Return the key and its feature: the first of a usual name that is one text."""
    for name in _KEYS:
        text = _text(data, places, name)
        if text:
            return name, text
    return None, b""


def _text(data: memoryview, places: _Places, name: str) -> bytes:
    value = bytes_value(data, places[name]) if name in places else None
    return b"" if value is None else bytes(data[value.begin : value.end])
