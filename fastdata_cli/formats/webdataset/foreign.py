"""Owns reading tars that others made: members become samples by the WebDataset convention.

A sample is the members of one stem (the name up to the first dot of its last part). Its image is
the field with an image's extension; with several such fields each is a sample of its own. The key
is the name of the image's member, without ``./``; where two shards have equal keys, all keys get
the name of their shard in front. ``.cls`` is the label if it is a whole number. ``.json`` (an
object) is the metadata, and texts (``.txt .text .caption``, other JSON, a ``.cls`` that is no
number) join it under the name of their field.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.formats.foreign import has_repeats, usable_labels
from fastdata_cli.formats.webdataset.members import TarMembers, plain_name
from fastdata_cli.formats.webdataset.names import ENCODED_FIELDS, PIXEL_FIELD, split_field
from fastdata_cli.formats.webdataset.npy import NpyLayout, npy_layout
from fastdata_cli.formats.webdataset.sample import LABEL_FIELD
from fastdata_cli.formats.webdataset.side import SideFields, is_text
from fastdata_cli.formats.webdataset.walk import Bytes, Damage
from fastdata_cli.imaging.policy import DAMAGED_CONTAINER
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import to_text
from fastdata_cli.sample import UNLABELLED, Payload, Reject

_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_LONGEST_LABEL = 64


@dataclass(frozen=True, slots=True)
class ForeignRows:
    """All samples of some tars, in order."""

    keys: KeyTable
    counts: tuple[int, ...]
    """Samples of each shard."""
    begins: NDArray[np.int64]
    lengths: NDArray[np.int64]
    labels: NDArray[np.int64]
    odd_labels: NDArray[np.int64]
    """Samples whose ``.cls`` is no number."""
    side: SideFields
    layout: NpyLayout | None
    """Of pixels; None for encoded images."""
    rejects: tuple[Reject, ...]
    ignored: Counter[str]
    fields: tuple[str, ...]
    """All that there are, in the order of their names."""
    several: tuple[str, ...]
    """Image fields that stand beside others in one sample."""
    flavours: tuple[str, ...]


class SampleBuilder:
    """Turns the members of one tar after another into samples.

    Args:
        field: the image's field (``left.jpg``); None takes every field that is an image.
    """

    def __init__(self, field: str | None) -> None:
        self.field = None if field is None else field.lower().removeprefix(".")
        self.payload: Payload | None = None
        self.layout: NpyLayout | None = None
        self.side = SideFields()
        self.rejects: list[Reject] = []
        self.ignored: Counter[str] = Counter()
        self.fields: set[str] = set()
        self.several: set[str] = set()
        self.flavours: set[str] = set()
        self._names: list[str] = []
        self._keys: list[KeyTable] = []
        self._begins, self._lengths, self._labels = array("q"), array("q"), array("q")
        self._odd_labels = array("q")

    def add(self, name: str, data: Bytes, members: TarMembers) -> None:
        """Add a shard; ``name`` is what messages and keys call it."""
        self.payload = self.payload or self._payload_of(members)
        self.flavours |= members.flavours
        self.ignored += members.ignored
        self.rejects += [
            Reject(each.key, each.reason, f"{name}: {each.detail}") for each in members.rejects
        ]
        torn = _torn_stem(members)
        keys: list[str] = []
        for group in members.groups():
            fields = _Fields(name, data, members, group)
            if fields.stem != torn:
                keys += self._samples(len(self._keys), fields)
        if members.damage is not None:
            self.rejects.append(_damage_reject(name, members.damage))
        self._names.append(name)
        self._keys.append(KeyTable.from_keys(keys))

    def finished(self) -> ForeignRows:
        """Return everything."""
        labels, notes = usable_labels(np.array(self._labels, np.int64))
        return ForeignRows(
            keys=distinct_keys(self._keys, self._names),
            counts=tuple(len(table) for table in self._keys),
            begins=np.array(self._begins, np.int64),
            lengths=np.array(self._lengths, np.int64),
            labels=labels,
            odd_labels=np.array(self._odd_labels, np.int64),
            side=self.side,
            layout=self.layout,
            rejects=tuple(self.rejects),
            ignored=self.ignored + Counter(notes),
            fields=tuple(sorted(self.fields)),
            several=tuple(sorted(self.several)),
            flavours=tuple(sorted(self.flavours)),
        )

    def _payload_of(self, members: TarMembers) -> Payload | None:
        """Return pixels where the images are arrays: nothing but ``.npy``, or the chosen field."""
        found = None
        for name in members.names.texts():
            field = split_field(name)[1]
            if self.field is not None and field != self.field:
                continue
            extension = field.rpartition(".")[2]
            if extension in ENCODED_FIELDS:
                return Payload.ENCODED
            if extension == PIXEL_FIELD:
                found = Payload.PIXELS
        return found

    def _is_image(self, field: str) -> bool:
        if self.field is not None:
            return field == self.field
        extension = field.rpartition(".")[2]
        return extension == PIXEL_FIELD if self._pixels else extension in ENCODED_FIELDS

    @property
    def _pixels(self) -> bool:
        return self.payload is Payload.PIXELS

    def _samples(self, shard: int, fields: _Fields) -> Iterator[str]:
        """Add the samples of one stem; yield their keys."""
        repeated = fields.repeated()
        if repeated is not None:
            name, field = repeated
            detail = f"{fields.shard}: key {fields.stem}, field {field} stands there twice"
            self.rejects.append(Reject(name, "duplicate-key", detail))
            return
        images = [field for field in fields.places if self._is_image(field)]
        self.fields.update(fields.places)
        self.several.update(images if len(images) > 1 else ())
        if not images:
            found = ", ".join(fields.places)
            detail = f"{fields.shard}: key {fields.stem} has no image, only {found}"
            self.rejects.append(Reject(fields.stem, "missing-image", detail))
            return
        label, texts = self._texts(fields)
        for image in images:
            key = fields.names[image]
            place = self._place(key, fields, image)
            if place is None:
                continue
            if LABEL_FIELD in texts:
                self._odd_labels.append(len(self._labels))
            self._begins.append(place[0])
            self._lengths.append(place[1])
            self._labels.append(label)
            self.side.append(shard, texts)
            yield key

    def _texts(self, fields: _Fields) -> tuple[int, dict[str, tuple[int, int]]]:
        """Return the label, and the fields that become metadata."""
        texts = {field: place for field, place in fields.places.items() if is_text(field)}
        label = None
        if LABEL_FIELD in texts:
            label = parse_label(fields.content(LABEL_FIELD, _LONGEST_LABEL))
            if label is not None:
                del texts[LABEL_FIELD]
        for field in fields.places:
            if not is_text(field) and not self._is_image(field):
                self.ignored[f"field-{field}"] += 1
        return UNLABELLED if label is None else label, texts

    def _place(self, key: str, fields: _Fields, field: str) -> tuple[int, int] | None:
        """Return where the image begins and its bytes; None for one that cannot be used."""
        begin, size = fields.places[field]
        if not self._pixels:
            return begin, size
        try:
            layout = npy_layout(fields.content(field, 1 << 16))
        except ValueError as problem:
            self.rejects.append(Reject(key, "unsupported-format", f"{fields.shard}: {problem}"))
            return None
        self.layout = self.layout or layout
        if (layout.shape, layout.dtype) != (self.layout.shape, self.layout.dtype):
            wanted = f"{self.layout.dtype}{list(self.layout.shape)}"
            detail = f"{fields.shard}: {layout.dtype}{list(layout.shape)} among {wanted}"
            self.rejects.append(Reject(key, "size-mismatch", detail))
            return None
        if layout.offset + layout.nbytes != size:
            detail = f"{fields.shard}: {size} bytes, and {layout.offset + layout.nbytes} expected"
            self.rejects.append(Reject(key, "truncated", detail))
            return None
        return begin + layout.offset, layout.nbytes


class _Fields:
    """The members of one stem, by field; the first of equal fields."""

    def __init__(self, shard: str, data: Bytes, members: TarMembers, group: range) -> None:
        self.shard = shard
        self.data = data
        self.names: dict[str, str] = {}
        self.places: dict[str, tuple[int, int]] = {}
        self._repeated: tuple[str, str] | None = None
        for index in group:
            name = members.names.text(index)
            self.stem, field = split_field(name)
            if field in self.places:
                self._repeated = self._repeated or (name, field)
                continue
            self.names[field] = name
            self.places[field] = int(members.begins[index]), int(members.sizes[index])

    def repeated(self) -> tuple[str, str] | None:
        """Return the first member whose field was there already: (name, field)."""
        return self._repeated

    def content(self, field: str, at_most: int) -> bytes:
        """Return the first bytes of a field."""
        begin, size = self.places[field]
        return self.data[begin : begin + min(size, at_most)]


def parse_label(content: bytes) -> int | None:
    """Return a label written as text, or None when it is no whole number."""
    text = content.decode("utf-8-sig", "replace").strip()
    return int(text) if _NUMBER.fullmatch(text) else None


def distinct_keys(tables: Sequence[KeyTable], shards: Sequence[str]) -> KeyTable:
    """Join the keys of shards; where two shards share one, every key gets its shard in front."""
    joined = KeyTable.concatenate(tables)
    if len(tables) < 2 or not has_repeats(joined):
        return joined
    prefixes = [to_text(name.removesuffix(".tar")) for name in shards]
    return KeyTable.from_texts(
        f"{prefix}/{text}"
        for prefix, table in zip(prefixes, tables, strict=True)
        for text in table.texts()
    )


def _torn_stem(members: TarMembers) -> str | None:
    """Return the stem that the damage tore apart: what is whole of it makes no sample.

    Where the damage has no name, the last sample is torn if it lacks a field of the one before.
    """
    if members.damage is None:
        return None
    if members.damage.name:
        return split_field(plain_name(members.damage.name))[0]
    before, last = (
        [split_field(members.names.text(index)) for index in group]
        for group in ([range(0), range(0), *members.groups()])[-2:]
    )
    lacking = {field for _, field in before} - {field for _, field in last}
    return last[0][0] if last and lacking else None


def _damage_reject(shard: str, damage: Damage) -> Reject:
    detail = f"{shard}, byte {damage.at}: {damage.detail}"
    return Reject(plain_name(damage.name) or shard, DAMAGED_CONTAINER, detail)
