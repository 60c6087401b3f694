"""The manifest: what a dataset is, what it was made from, and with which options.

Every dataset that fastdata writes carries one; it is how a reader knows its schema without
scanning and how ``--overwrite`` knows that a place may be replaced. It holds no date and no host,
so that equal runs write equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.json_text import parse_object
from fastdata_cli.sample import Payload, Schema

MANIFEST_VERSION = 1

_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("source", "options", "counts", "layout"), dict),
    **dict.fromkeys(("format", "table", "tool"), str),
}
# Beyond what any disk holds, and 64-bit sums of it still fit.
_MOST = 1 << 48


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Facts about one dataset, JSON-able throughout."""

    format: str
    """Name of the format that wrote it."""
    schema: Schema
    source: Mapping[str, Any] = field(default_factory=dict)
    """``path``, ``format`` and ``fingerprint`` of what it was made from."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The resolved options of the run, enough to repeat it."""
    counts: Mapping[str, Any] = field(default_factory=dict)
    """``rejects`` by reason, ``notes`` by kind, ``too_many_bad`` where that limit was passed."""
    layout: Mapping[str, Any] = field(default_factory=dict)
    """What the format needs to know of its own layout (chunk, codec, shard …)."""
    table: str = ""
    """xxh3-128 over keys, labels and metadata; empty in manifests that are older than it."""
    tool: str = ""
    """Name and version of the writer."""
    generations: Sequence[Mapping[str, Any]] = ()
    """What each run added, the first included: ``number`` (from 1), ``samples``, ``source`` (its
    fingerprint), ``tool``, ``counts``. Empty in a dataset that was never added to."""

    def finished(
        self, num_samples: int, max_image_bytes: int | None = None, table: str = ""
    ) -> Manifest:
        """Return the manifest with the final numbers, and the digest of its table, filled in."""
        schema = replace(self.schema, num_samples=num_samples, max_image_bytes=max_image_bytes)
        return replace(self, schema=schema, table=table or self.table)

    def generation(self, number: int, samples: int, counts: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a run with this manifest adds as one of ``generations``."""
        return {
            "number": number,
            "samples": samples,
            "source": self.source.get("fingerprint", ""),
            "tool": self.tool,
            "counts": dict(counts),
        }

    @property
    def runs(self) -> tuple[Mapping[str, Any], ...]:
        """``generations``, with the only one of a dataset that was never added to."""
        alone = self.generation(1, self.schema.num_samples or 0, self.counts)
        return tuple(self.generations) or (alone,)

    def continues(self, earlier: Manifest) -> bool:
        """Tell whether appends to ``earlier`` made this: its samples are then the first ones."""
        same = (self.format, self.options, self.schema.image_shape, self.schema.dtype) == (
            earlier.format, earlier.options, earlier.schema.image_shape, earlier.schema.dtype,
        )  # fmt: skip
        return same and self.runs[: len(earlier.runs)] == earlier.runs

    def to_json(self) -> str:
        """Return the JSON text, the same for equal manifests."""
        record = {"fastdata_manifest": MANIFEST_VERSION, **asdict(self)}
        if not self.generations:  # then earlier versions can read it
            del record["generations"]
        return json.dumps(record, indent=1, sort_keys=True, ensure_ascii=True)

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str) -> Self:
        """Read a manifest; ``where`` names the file in errors.

        Raises:
            DamagedDatasetError: not a manifest, or one of a later version.
        """
        try:
            record = parse_object(text)
            version = record.pop("fastdata_manifest")
        except (ValueError, KeyError, TypeError) as problem:
            raise DamagedDatasetError(f"{where}: the manifest cannot be read") from problem
        if version != MANIFEST_VERSION:
            raise DamagedDatasetError(
                f"{where}: manifest version {version}; this fastdata reads {MANIFEST_VERSION}",
                hint="upgrade fastdata-cli",
            )
        try:
            generations = tuple(map(dict, record.get("generations", ())))
            _require_kinds(record)
            changed = {"schema": _schema(record["schema"]), "generations": generations}
            return cls(**{**record, **changed})
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise DamagedDatasetError(
                f"{where}: the manifest lacks a field, or holds what cannot be in it ({problem})"
            ) from problem


def _require_kinds(record: Mapping[str, Any]) -> None:
    for name, kind in _KINDS.items():
        if not isinstance(record.get(name, kind()), kind):
            raise TypeError(f"{name} is no {kind.__name__}")


def _schema(record: Mapping[str, Any]) -> Schema:
    """Return the schema; numbers and a dtype that no dataset can have raise ValueError."""
    shape, dtype, names = record["image_shape"], record["dtype"], record["class_names"]
    payload = Payload(record["payload"])
    if (payload is Payload.PIXELS) != (shape is not None):
        raise ValueError("pixels have a shape, and encoded images have none")
    if np.dtype(dtype).name != dtype or np.dtype(dtype).kind not in "buif":
        raise ValueError("the dtype is no plain number")
    for name in names:
        name.encode("utf-8", "surrogateescape")  # JSON may hold half a character
    schema = Schema(
        payload=payload,
        num_samples=_count(record["num_samples"]),
        image_shape=None if shape is None else tuple(_side(side) for side in shape),
        dtype=dtype,
        max_image_bytes=_count(record["max_image_bytes"]),
        class_names=tuple(names),
    )
    if (shape is not None and len(shape) != 3) or schema.pixel_bytes > _MOST:
        raise ValueError("the shape is none of an image")
    return schema


def _count(value: object) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= _MOST:
        raise ValueError(f"{value!r} is no count")
    return value


def _side(value: object) -> int:
    side = _count(value)
    if not side:
        raise ValueError(f"{value!r} is no side of an image")
    return side
