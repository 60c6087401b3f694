"""Owns writing samples into one tar or a set of shards, part by part."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.contract import Part, Receipt, Target
from fastdata_cli.errors import DestinationExistsError, StorageError, UsageError
from fastdata_cli.formats.base import StagedWriter
from fastdata_cli.formats.webdataset.cutter import (
    ShardCutter,
    ShardEnd,
    ShardLimits,
    shard_ends,
)
from fastdata_cli.formats.webdataset.index import append_index, open_own, rows
from fastdata_cli.formats.webdataset.names import PIXEL_FIELD, StemRegister, extension_of
from fastdata_cli.formats.webdataset.npy import npy_header
from fastdata_cli.formats.webdataset.sample import (
    LABEL_FIELD,
    METADATA_FIELD,
    label_content,
    metadata_content,
)
from fastdata_cli.formats.webdataset.set import SetIndex, ShardEntry, ShardPattern, index_path
from fastdata_cli.formats.webdataset.tar import member, total_bytes
from fastdata_cli.keys import to_text
from fastdata_cli.manifest import Manifest
from fastdata_cli.options import Options, option
from fastdata_cli.sample import Batch
from fastdata_cli.storage import durable
from fastdata_cli.storage.table import SampleTable

_SHARD_BYTES = 256 << 20
_REGISTER_KEYS = 4096
_PLACE_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class WebDatasetWriteOptions(Options):
    """How tars are cut into shards."""

    shard_samples: int | None = option(None, "samples in a shard; for a %06d pattern", minimum=1)
    shard_size: int | None = option(
        None,
        "bytes in a shard; for a %06d pattern; 256 MiB unless samples are given",
        minimum=1,
        unit="bytes",
    )


class WebDatasetWriter(StagedWriter):
    """Appends samples to the last shard, and starts another when it is full.

    Shards are cut between samples, wherever parts are cut: the bytes do not depend on parts.
    """

    def __init__(self, target: Target, options: WebDatasetWriteOptions) -> None:
        super().__init__(target, options)
        self._pattern = _pattern(target.path, options)
        self._limits = ShardLimits(options.shard_samples, options.shard_size)
        if self._pattern and self._limits == ShardLimits(None, None):
            self._limits = ShardLimits(None, _SHARD_BYTES)
        self._stems = StemRegister()
        self._begins: int | None = None
        self._header = b""
        if self.schema.image_shape is not None:
            self._header = npy_header(self.schema.image_shape, self.schema.dtype)

    def begin(self, fingerprint: str) -> Sequence[Receipt]:
        """Take the staging place; refuse shards that stand in the way."""
        receipts = super().begin(fingerprint)
        for path in self._pattern.standing() if self._pattern else ():
            if not self.target.overwrite or open_own(path) is None:
                self.abort(keep=bool(receipts))
                why = "exists already" if not self.target.overwrite else "is no tar of fastdata"
                raise DestinationExistsError(
                    f"{path} {why}, and {self.target.path.name} stands for it",
                    hint="move it away, or choose another destination",
                    path=str(path),
                )
        return receipts

    def _create(self) -> None:
        self._begins = os.open(self._begins_path, os.O_WRONLY | os.O_CREAT, 0o644)
        durable.sync_directory(self.staging.root)

    def _resume(self, receipts: Sequence[Receipt]) -> None:
        self._create()
        ends = shard_ends(receipts)
        kept = {self.staging.data / self._name(end.shard): end.bytes for end in ends}
        for path in self.staging.data.iterdir():
            if path not in kept:
                durable.remove(path)
        for path in kept:
            self._take_back(path)
        places = {self._begins_path: _PLACE_BYTES * sum(end.samples for end in ends)}
        for path, size in {**kept, **places}.items():
            if path.stat().st_size < size:
                raise StorageError(
                    f"{path} is shorter than its journal says",
                    hint=f"delete {self.staging.root} and run the same command again",
                    path=str(path),
                )
            os.truncate(path, size)
        self._register(self.staging.table(receipts))

    def _take_back(self, staged: Path) -> None:
        """Fetch a shard that an interrupted publish had put in its final place already."""
        if staged.exists():
            return
        if self._pattern:
            self._index.unlink(missing_ok=True)
        os.rename(self.target.path.with_name(staged.name), staged)

    def _register(self, table: SampleTable) -> None:
        self._stems = StemRegister()
        for begin in range(0, len(table), _REGISTER_KEYS):
            self._stems.add(self._stems.assign(table.keys[begin : begin + _REGISTER_KEYS])[1])

    def _store(self, part: Part, batch: Batch) -> Mapping[str, Any]:
        if part.index in self.receipts:  # written again: its own stems must not count as taken
            parts = [self.receipts[index] for index in range(part.index)]
            self._register(self.staging.table(parts))
        before = self.receipts.get(part.index - 1)
        start = before.facts["shards"][-1] if before else (0, 0, 0)
        cutter = ShardCutter(self.staging.data, self._name, self._limits, ShardEnd(*start))
        stems, hashes = self._stems.assign(batch.keys)
        begins = np.empty(len(batch), np.int64)
        try:
            for index, stem in enumerate(stems):
                pieces = self._sample(stem, batch, index)
                begins[index] = cutter.append(pieces) + total_bytes(pieces[: 1 + self._headers])
            ends = cutter.finish()
        finally:
            cutter.close()
        assert self._begins is not None, "begin() comes first"
        os.pwrite(self._begins, begins.tobytes(), part.start * _PLACE_BYTES)
        durable.sync_file(self._begins)
        self._stems.add(hashes)
        return {"shards": [[end.shard, end.samples, end.bytes] for end in ends]}

    def _sample(self, stem: str, batch: Batch, index: int) -> list[Any]:
        """Return all members of a sample; the image's content follows the first pieces."""
        image, label = batch.image(index), int(batch.labels[index])
        if self._header:
            pieces = member(f"{stem}.{PIXEL_FIELD}", self._header, np.ascontiguousarray(image))
        else:
            pieces = member(f"{stem}.{extension_of(image)}", image)
        written_label = label_content(label)
        if written_label is not None:
            pieces += member(f"{stem}.{LABEL_FIELD}", written_label)
        metadata = batch.metadata[index] if batch.metadata else None
        names = self.schema.class_names
        content = metadata_content(to_text(batch.keys[index]), label, names, metadata)
        return pieces + member(f"{stem}.{METADATA_FIELD}", content)

    def _finish(self, manifest: Manifest, table: SampleTable) -> None:
        begins = np.fromfile(self._begins_path, np.int64, len(table))
        shards = shard_ends(self.in_order())
        if not shards and self._pattern is None:
            shards = [ShardEnd()]
        entries, first = [], 0
        for end in shards:
            span = range(first, first + end.samples)
            first = span.stop
            path = self.staging.data / self._name(end.shard)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                digest = append_index(
                    descriptor,
                    end.bytes,
                    rows(table, span),
                    begins[span.start : span.stop],
                    manifest,
                    (end.shard, len(shards)),
                )
            finally:
                os.close(descriptor)
            entries.append(ShardEntry(path.name, end.samples, path.stat().st_size, digest))
        if self._pattern is not None:
            index = SetIndex(manifest, tuple(entries))
            (self.staging.data / self._index.name).write_text(index.to_json())

    def _release(self) -> None:
        if self._begins is not None:
            os.close(self._begins)
            self._begins = None

    def _reveal(self) -> None:
        if self._pattern is None:
            self.staging.publish()
            return
        folder = self.target.path.parent
        if self.target.overwrite:
            durable.sync_tree(self.staging.data)
            # From here to the new index a reader refuses the set: it never sees two sets mixed.
            for path in (self._index, *self._pattern.standing()):
                path.unlink(missing_ok=True)
                durable.sync_directory(folder)
        names = [self._name(end.shard) for end in shard_ends(self.in_order())]
        self.staging.publish(
            [(self.staging.data / name, folder / name) for name in (*names, self._index.name)]
        )

    @property
    def _index(self) -> Path:
        return index_path(self.target.path)

    @property
    def _begins_path(self) -> Path:
        return self.staging.root / "begins.i64"

    @property
    def _headers(self) -> int:
        """Pieces of content that precede the image."""
        return 1 if self._header else 0

    def _name(self, shard: int) -> str:
        return self._pattern.name(shard) if self._pattern else self.target.path.name


def _pattern(path: Path, options: WebDatasetWriteOptions) -> ShardPattern | None:
    pattern = ShardPattern.parse(path)
    if pattern is not None:
        return pattern
    if re.search(r"%\d*d", path.name):
        raise UsageError(
            f"{path.name!r} is no pattern of shards",
            hint="write the number once, as %06d: train-%06d.tar",
        )
    if options.shard_samples or options.shard_size:
        raise UsageError(
            f"one tar, {path.name}, has no shards",
            hint=f"give a pattern: {path.stem}-%06d{path.suffix}",
        )
    return None
