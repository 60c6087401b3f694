"""Owns writing samples into one file or a set of shards, part by part."""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fastdata_cli.contract import Part, Receipt, Target
from fastdata_cli.errors import (
    DamagedDatasetError,
    DestinationExistsError,
    UsageError,
)
from fastdata_cli.formats.sharded.cutter import (
    ShardCutter,
    ShardEnd,
    ShardLimits,
    shard_ends,
    shard_facts,
)
from fastdata_cli.formats.sharded.find import find_shards
from fastdata_cli.formats.sharded.index import ShardIndex, rows
from fastdata_cli.formats.sharded.kind import ShardKind
from fastdata_cli.formats.sharded.own import open_own_source
from fastdata_cli.formats.sharded.set import SetIndex, ShardEntry, ShardPattern, index_path
from fastdata_cli.formats.staged import AppendingWriter, has_bytes
from fastdata_cli.manifest import Manifest
from fastdata_cli.options import Options, option
from fastdata_cli.sample import Batch
from fastdata_cli.storage import durable
from fastdata_cli.storage.table import SampleTable

_SHARD_BYTES = 256 << 20


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


class ShardedWriter(AppendingWriter):
    """Appends samples to the last shard, and starts another when it is full.

    Shards are cut between samples, wherever parts are cut: the bytes do not depend on parts. What
    is added to a set makes shards of its own: those that stand there are not touched, and the new
    index, in one rename, makes all of them one dataset. A single file is copied and goes on.
    """

    kind: ClassVar[ShardKind]

    def __init__(self, target: Target, options: ShardWriteOptions) -> None:
        super().__init__(target, options)
        if target.standing is not None and target.path.is_dir():
            raise UsageError(
                f"{target.path} is a folder of shards, and they are added to by their pattern",
                hint=f"such as {target.path}/train-%06d{self.kind.suffix}",
            )
        self._pattern = _pattern(target.path, options)
        self._limits = ShardLimits(options.shard_samples, options.shard_size)
        if self._pattern and self._limits == ShardLimits(None, None):
            self._limits = ShardLimits(None, _SHARD_BYTES)

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
        try:
            self._require_replaceable()
        except BaseException:
            self.abort(keep=any(receipt.part.source_stop for receipt in receipts))
            raise
        return receipts

    def _require_replaceable(self) -> list[Path]:
        """Return the shards that stand there and are to go; raise if one is not ours to remove."""
        known = {entry.name for entry in self._before}
        standing = self._pattern.standing() if self._pattern else []
        replaced = [path for path in standing if path.name not in known]
        for path in replaced:
            if self.target.overwrite and self._is_ours(path):
                continue
            what = "is no whole shard of fastdata" if self.target.overwrite else "exists already"
            raise DestinationExistsError(
                f"{path} {what}, and {self.target.path.name} stands for it",
                hint="move it away, or choose another destination",
                path=str(path),
            )
        return replaced

    def _is_ours(self, path: Path) -> bool:
        try:
            return self.kind.open_own(path) is not None
        except (DamagedDatasetError, OSError):
            return False

    @cached_property
    def _before(self) -> tuple[ShardEntry, ...]:
        """The shards of the set that is added to."""
        if self.target.standing is None or self._pattern is None:
            return ()
        return SetIndex.read(self._index).shards

    def _standing(self) -> tuple[Manifest, SampleTable]:
        path = self.target.path
        shards = find_shards(path, self.kind)
        source = open_own_source(shards, self.kind)
        if source is None or (self._pattern is not None and shards.index is None):
            raise DamagedDatasetError(f"{path}: the index of the shards is missing", path=str(path))
        assert source.manifest is not None
        return source.manifest, source.table()

    def _adopt(self, table: SampleTable) -> Mapping[str, Any]:
        # Where samples begin in shards that stay as they are, nobody will ask.
        begins, end = np.zeros(len(table), np.int64), ShardEnd(len(self._before))
        if self._pattern is None:
            shard = self.kind.open_own(self.target.path)
            assert shard is not None, "_standing has opened it"
            assert self.kind.samples_end is not None, "the format has APPEND"
            end = ShardEnd(0, len(table), self.kind.samples_end(shard))
            begins = shard.places()[0]
            durable.copy(self.target.path, self.staging.item)
            os.truncate(self.staging.item, end.bytes)
            durable.sync_path(self.staging.item)
        return {**shard_facts([end]), "begins": begins}

    def _create(self) -> None:
        """Nothing to do: shards are made as they are needed."""

    def _holds(self, receipts: Sequence[Receipt]) -> bool:
        ends = self._staged_ends(receipts)
        return all(has_bytes(self._lies_at(path), end.bytes) for path, end in ends.items())

    def _lies_at(self, staged: Path) -> Path:
        """Return where a shard is: an interrupted publish may have put it in its final place.

        What stands there otherwise is not ours, or is what the run replaces in the end.
        """
        taken = self._pattern and self.staging.is_publishing and not staged.exists()
        return self.target.path.with_name(staged.name) if taken else staged

    def _staged_ends(self, receipts: Sequence[Receipt]) -> dict[Path, ShardEnd]:
        """Return how far each shard was filled after these parts, by its place while staged."""
        return {self.staging.data / self._name(end.shard): end for end in shard_ends(receipts)}

    def _resume(self, receipts: Sequence[Receipt]) -> None:
        ends = self._staged_ends(receipts)
        for path in self.staging.data.iterdir():
            if path not in ends:
                durable.remove(path)
        for path, end in ends.items():
            self._take_back(path)
            os.truncate(path, end.bytes)
        self._resumed(receipts, ends)

    def _take_back(self, staged: Path) -> None:
        """Fetch a shard that an interrupted publish had put in its final place already."""
        found = self._lies_at(staged)
        if found == staged:
            return
        if self.target.standing is None:
            self._index.unlink(missing_ok=True)
        os.rename(found, staged)

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
        return {**shard_facts(ends), "begins": begins}

    def _finish(self, manifest: Manifest, table: SampleTable) -> None:
        receipts = self.in_order()
        begins = self.staging.side.column("begins", receipts) if receipts else np.empty(0, np.int64)
        shards = shard_ends(receipts)
        if not shards and self._pattern is None:
            shards = [ShardEnd()]
        entries = list(self._before)
        first, total = sum(entry.samples for entry in entries), len(entries) + len(shards)
        for end in shards:
            span = range(first, first + end.samples)
            first = span.stop
            part = slice(span.start, span.stop)
            index = ShardIndex(rows(table, span), begins[part], manifest, end.shard, total)
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
        """Nothing stays open between parts."""

    def _reveal(self) -> None:
        if self._pattern is None:
            self.staging.publish()
            return
        folder = self.target.path.parent
        if self.target.overwrite:
            durable.sync_tree(self.staging.data)
            # From here to the new index a reader refuses the set: it never sees two sets mixed.
            for path in (self._index, *self._require_replaceable()):
                path.unlink(missing_ok=True)
                durable.sync_directory(folder)
        names = [self._name(end.shard) for end in shard_ends(self.in_order())]
        self.staging.publish(
            [(self.staging.data / name, folder / name) for name in (*names, self._index.name)]
        )

    @property
    def _index(self) -> Path:
        return index_path(self.target.path)

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
