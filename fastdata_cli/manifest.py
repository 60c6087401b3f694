"""The manifest: what a dataset is, what it was made from, and with which options.

Every dataset that fastdata writes carries one; it is how a reader knows its schema without
scanning and how ``--overwrite`` knows that a place may be replaced. It holds no date and no host,
so that equal runs write equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.sample import Payload, Schema

MANIFEST_VERSION = 1


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

    def finished(
        self, num_samples: int, max_image_bytes: int | None = None, table: str = ""
    ) -> Manifest:
        """Return the manifest with the final numbers, and the digest of its table, filled in."""
        schema = replace(self.schema, num_samples=num_samples, max_image_bytes=max_image_bytes)
        return replace(self, schema=schema, table=table or self.table)

    def to_json(self) -> str:
        """Return the JSON text, the same for equal manifests."""
        record = {"fastdata_manifest": MANIFEST_VERSION, **asdict(self)}
        return json.dumps(record, indent=1, sort_keys=True, ensure_ascii=True)

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str) -> Self:
        """Read a manifest; ``where`` names the file in errors.

        Raises:
            DamagedDatasetError: not a manifest, or one of a later version.
        """
        try:
            record = json.loads(text)
            version = record.pop("fastdata_manifest")
        except (ValueError, KeyError, AttributeError, TypeError) as problem:
            raise DamagedDatasetError(f"{where}: the manifest cannot be read") from problem
        if version != MANIFEST_VERSION:
            raise DamagedDatasetError(
                f"{where}: manifest version {version}; this fastdata reads {MANIFEST_VERSION}",
                hint="upgrade fastdata-cli",
            )
        try:
            return cls(**{**record, "schema": _schema(record["schema"])})
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise DamagedDatasetError(f"{where}: the manifest lacks a field") from problem


def _schema(record: Mapping[str, Any]) -> Schema:
    shape = record["image_shape"]
    return Schema(
        payload=Payload(record["payload"]),
        num_samples=None if record["num_samples"] is None else int(record["num_samples"]),
        image_shape=None if shape is None else tuple(int(side) for side in shape),
        dtype=str(record["dtype"]),
        max_image_bytes=record["max_image_bytes"],
        class_names=tuple(record["class_names"]),
    )
