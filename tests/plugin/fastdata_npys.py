"""npys: a folder of ``.npy`` files, one for each part; a complete plug-in in one module.

out.npys/
    000000.npy …   pixels N×H×W×C of one part each
    table.npz      keys, labels, checksums, metadata
    manifest.json  the manifest; its layout holds the number of samples of each part
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Capability, Format, Part, PartLimits, Receipt, Target, Writer
from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.formats.base import Images, IndexedReader, manifest_text
from fastdata_cli.formats.staged import StagedWriter
from fastdata_cli.manifest import Manifest
from fastdata_cli.options import Options, option
from fastdata_cli.sample import Batch, Payload
from fastdata_cli.storage import durable
from fastdata_cli.storage.table import SampleTable


@dataclass(frozen=True, kw_only=True)
class NpysWriteOptions(Options):
    """How the folder is cut into files."""

    shard_samples: int | None = option(None, "samples in a file; default 1024", minimum=1)


class NpysReader(IndexedReader[list[NDArray[Any]]]):
    """Reads through memory maps of the files."""

    def _start(self) -> None:
        where = self.path / "manifest.json"
        self.manifest = Manifest.from_json(where.read_bytes(), where=str(where))
        self.schema = self.manifest.schema
        self._stops = np.cumsum(self.manifest.layout["parts"])

    def _open(self) -> list[NDArray[Any]]:
        paths = [self.path / _name(index) for index in range(len(self._stops))]
        try:
            return [np.load(path, mmap_mode="r") for path in paths]
        except (OSError, ValueError) as problem:
            raise DamagedDatasetError(
                f"{self.path}: a part cannot be read ({problem})"
            ) from problem

    def _close(self, handle: list[NDArray[Any]]) -> None:
        """Nothing to do: a map is released with its last view."""

    def _load_table(self) -> SampleTable:
        path = self.path / "table.npz"
        with np.load(path, allow_pickle=False) as columns:
            return SampleTable.from_columns(dict(columns), where=str(path))

    def _fetch(
        self, handle: list[NDArray[Any]], indices: NDArray[np.int64], out: NDArray[Any] | None
    ) -> Images:
        assert self.schema.image_shape is not None
        if out is None:
            out = np.empty((len(indices), *self.schema.image_shape), self.schema.dtype)
        parts = np.searchsorted(self._stops, indices, side="right")
        for row, (part, index) in enumerate(zip(parts, indices, strict=True)):
            out[row] = handle[part][index - self._stops[part]]  # negative: counted from its end
        return Images(out)

    def describe(self) -> Mapping[str, Any]:
        """Return the number of files."""
        return {"codec": "none", "files": len(self._stops)}


class NpysWriter(StagedWriter):
    """Writes each part to a file of its own, in any order."""

    def __init__(self, target: Target, options: NpysWriteOptions) -> None:
        super().__init__(target, options)
        self.limits = PartLimits(samples=options.shard_samples or 1024, bytes=64 << 20)

    def _create(self) -> None:
        self.staging.item.mkdir()

    def _resume(self, receipts: Sequence[Receipt]) -> None:
        """Nothing to do: a file that is not finished is written anew."""

    def _store(self, part: Part, batch: Batch) -> Mapping[str, Any]:
        path = self.staging.item / _name(part.index)
        np.save(path, batch.images)
        durable.sync_path(path)
        return {}

    def _finish(self, manifest: Manifest, table: SampleTable) -> None:
        folder = self.staging.item
        np.savez(folder / "table.npz", **table.columns())  # type: ignore[arg-type]
        layout = {"parts": [receipt.part.samples for receipt in self.in_order()]}
        (folder / "manifest.json").write_text(manifest_text(manifest, layout))

    def _release(self) -> None:
        """Nothing is open between two parts."""


def _recognises(path: Path) -> bool:
    return os.path.isfile(path / "manifest.json") and os.path.isfile(path / _name(0))


def _name(index: int) -> str:
    return f"{index:06d}.npy"


FORMAT = Format(
    name="npys",
    summary="a folder of .npy files",
    suffixes=(".npys",),
    capabilities=Capability.RANDOM_ACCESS | Capability.PARALLEL_WRITE,
    payloads=(Payload.PIXELS,),
    recognises=_recognises,
    open_reader=NpysReader,
    open_writer=lambda target, options: cast(
        Writer, NpysWriter(target, cast(NpysWriteOptions, options))
    ),
    write_options=NpysWriteOptions,
)
