"""Owns the texts beside images in foreign tars: found while scanning, read only when asked for."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.formats.webdataset.sample import LABEL_FIELD, METADATA_FIELD
from fastdata_cli.json_text import parse
from fastdata_cli.sample import metadata_text
from fastdata_cli.storage.table import SampleTable, TakenTexts

Content = Callable[[int, int, int], bytes]
"""Returns the bytes of a shard: (shard, begin, size)."""

_TEXTS = frozenset(("txt", "text", "caption", LABEL_FIELD, METADATA_FIELD))


def is_text(name: str) -> bool:
    """Tell whether a field is carried as metadata: by its last extension."""
    return name.rpartition(".")[2] in _TEXTS


@dataclass(slots=True)
class SideFields:
    """Where the texts of each sample lie: about 30 bytes a text."""

    names: dict[str, int] = field(default_factory=dict)
    bounds: array[int] = field(default_factory=lambda: array("q", [0]))
    shards: array[int] = field(default_factory=lambda: array("i"))
    codes: array[int] = field(default_factory=lambda: array("i"))
    begins: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))

    def append(self, shard: int, texts: Mapping[str, tuple[int, int]]) -> None:
        """Add one sample: where its texts lie, by field."""
        for name, (begin, size) in texts.items():
            self.shards.append(shard)
            self.codes.append(self.names.setdefault(name, len(self.names)))
            self.begins.append(begin)
            self.sizes.append(size)
        self.bounds.append(len(self.codes))

    def read(self, index: int, content: Content) -> tuple[dict[str, Any], list[str]]:
        """Return the metadata of a sample, and the fields that are no JSON though they say so."""
        names = list(self.names)
        metadata: dict[str, Any] = {}
        texts: dict[str, Any] = {}
        broken = []
        for at in range(self.bounds[index], self.bounds[index + 1]):
            name = names[self.codes[at]]
            raw = content(self.shards[at], self.begins[at], self.sizes[at])
            value: Any = raw.decode("utf-8-sig", "backslashreplace")
            if name.rpartition(".")[2] == METADATA_FIELD:
                try:
                    value = parse(value)
                except ValueError:
                    broken.append(name)
            if name == METADATA_FIELD and isinstance(value, dict):
                metadata = value
            else:
                texts[name] = value
        for field_name, value in texts.items():
            name = field_name
            while name in metadata:  # nothing is overwritten
                name = f".{name}"
            metadata[name] = value
        return metadata, broken


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTable(SampleTable):
    """A sample table whose metadata stay in the tars."""

    side: SideFields
    content: Content

    def metadata_texts(self, indices: NDArray[np.int64]) -> Sequence[str | None]:
        """Return the JSON texts of some rows, read from the tars when they are looked at."""
        if not self.side.codes:
            return []
        return TakenTexts(self._text, indices)

    def _text(self, index: int) -> str | None:
        return metadata_text(self.side.read(index, self.content)[0])
