"""Owns writing samples into one file or a set of shards, part by part."""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fastdata_cli.contract import Part, Receipt, Target
from fastdata_cli.errors import DestinationExistsError, StorageError, UsageError
from fastdata_cli.formats.base import StagedWriter
from fastdata_cli.formats.sharded.cutter import (
    ShardCutter,
    ShardEnd,
    ShardLimits,
    shard_ends,
    shard_facts,
)
from fastdata_cli.formats.sharded.index import ShardIndex, rows
from fastdata_cli.formats.sharded.kind import ShardKind
from fastdata_cli.formats.sharded.set import SetIndex, ShardEntry, ShardPattern, index_path
from fastdata_cli.manifest import Manifest
from fastdata_cli.options import Options, option
from fastdata_cli.sample import Batch
from fastdata_cli.storage import durable
from fastdata_cli.storage.table import SampleTable

_SHARD_BYTES = 256 << 20
_PLACE_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class ShardWriteOptions(Options):
    """How a dataset is cut into shards."""

    shard_samples: int | None = option(None, "samples in a shard; for a %06d pattern", minimum=1)
    shard_size: int | None = option(
        None,
        "bytes in a shard; for a %06d pattern; 256 MiB unless samples are given",
        minimum=1,
        unit="bytes",
    )


class ShardedWriter(StagedWriter):
    """Appends samples to the last shard, and starts another when it is full.

    Shards are cut between samples, wherever parts are cut: the bytes do not depend on parts.
    """

    kind: ClassVar[ShardKind]

    def __init__(self, target: Target, options: ShardWriteOptions) -> None:
        super().__init__(target, options)
        self._pattern = _pattern(target.path, options)
        self._limits = ShardLimits(options.shard_samples, options.shard_size)
        if self._pattern and self._limits == ShardLimits(None, None):
            self._limits = ShardLimits(None, _SHARD_BYTES)
        self._begins: int | None = None

    @abstractmethod
    def _samples(self, part: Part, batch: Batch) -> Iterator[tuple[Sequence[Any], int]]:
        """Yield each sample as bytes-like pieces, and where its image begins in them.

        The pieces stay as they are until the next but one is asked for.
        """

    @abstractmethod
    def _end_shard(self, descriptor: int, end: ShardEnd, index: ShardIndex) -> str:
        """Put the index into a shard whose samples are all there; return its footer's digest."""

    @abstractmethod
    def _resumed(self, receipts: Sequence[Receipt], ends: Mapping[Path, ShardEnd]) -> None:
        """Take up a run whose shards are as long as they were after these parts.

        An interrupted ``publish`` may have put indexes into them.
        """

    def begin(self, fingerprint: str) -> Sequence[Receipt]:
        """Take the staging place; refuse shards that stand in the way."""
        receipts = super().begin(fingerprint)
        for path in self._pattern.standing() if self._pattern else ():
            if not self.target.overwrite or self.kind.open_own(path) is None:
                self.abort(keep=bool(receipts))
                what = "exists already" if not self.target.overwrite else "is not of fastdata"
                raise DestinationExistsError(
                    f"{path} {what}, and {self.target.path.name} stands for it",
                    hint="move it away, or choose another destination",
                    path=str(path),
                )
        return receipts

    def _create(self) -> None:
        self._begins = os.open(self._begins_path, os.O_WRONLY | os.O_CREAT, 0o644)
        durable.sync_directory(self.staging.root)

    def _resume(self, receipts: Sequence[Receipt]) -> None:
        self._create()
        ends = {self.staging.data / self._name(end.shard): end for end in shard_ends(receipts)}
        for path in self.staging.data.iterdir():
            if path not in ends:
                durable.remove(path)
        sizes = {self._begins_path: _PLACE_BYTES * sum(end.samples for end in ends.values())}
        for path, end in ends.items():
            self._take_back(path)
            sizes[path] = end.bytes
        for path, size in sizes.items():
            if path.stat().st_size < size:
                raise StorageError(
                    f"{path} is shorter than its journal says",
                    hint=f"delete {self.staging.root} and run the same command again",
                    path=str(path),
                )
            os.truncate(path, size)
        self._resumed(receipts, ends)

    def _take_back(self, staged: Path) -> None:
        """Fetch a shard that an interrupted publish had put in its final place already."""
        if staged.exists():
            return
        if self._pattern:
            self._index.unlink(missing_ok=True)
        os.rename(self.target.path.with_name(staged.name), staged)

    def _store(self, part: Part, batch: Batch) -> Mapping[str, Any]:
        before = self.receipts.get(part.index - 1)
        start = ShardEnd(*before.facts["shards"][-1]) if before else ShardEnd()
        cutter = ShardCutter(self.staging.data, self._name, self._limits, start)
        begins = np.empty(len(batch), np.int64)
        try:
            for index, (pieces, image) in enumerate(self._samples(part, batch)):
                begins[index] = cutter.append(pieces) + image
            ends = cutter.finish()
        finally:
            cutter.close()
        assert self._begins is not None, "begin() comes first"
        os.pwrite(self._begins, begins.tobytes(), part.start * _PLACE_BYTES)
        durable.sync_file(self._begins)
        return shard_facts(ends)

    def _finish(self, manifest: Manifest, table: SampleTable) -> None:
        begins = np.fromfile(self._begins_path, np.int64, len(table))
        shards = shard_ends(self.in_order())
        if not shards and self._pattern is None:
            shards = [ShardEnd()]
        entries, first = [], 0
        for end in shards:
            span = range(first, first + end.samples)
            first = span.stop
            part = slice(span.start, span.stop)
            index = ShardIndex(rows(table, span), begins[part], manifest, end.shard, len(shards))
            path = self.staging.data / self._name(end.shard)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                digest = self._end_shard(descriptor, end, index)
            finally:
                os.close(descriptor)
            entries.append(ShardEntry(path.name, end.samples, path.stat().st_size, digest))
        if self._pattern is not None:
            text = SetIndex(manifest, tuple(entries)).to_json()
            (self.staging.data / self._index.name).write_text(text)

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

    def _name(self, shard: int) -> str:
        return self._pattern.name(shard) if self._pattern else self.target.path.name


def _pattern(path: Path, options: ShardWriteOptions) -> ShardPattern | None:
    pattern = ShardPattern.parse(path)
    if pattern is not None:
        return pattern
    if re.search(r"%\d*d", path.name):
        raise UsageError(
            f"{path.name!r} is no pattern of shards",
            hint=f"write the number once, as %06d: train-%06d{path.suffix}",
        )
    if options.shard_samples or options.shard_size:
        raise UsageError(
            f"one file, {path.name}, has no shards",
            hint=f"give a pattern: {path.stem}-%06d{path.suffix}",
        )
    return None
