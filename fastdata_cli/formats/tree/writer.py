"""Writes a tree: one file for each image, then the sidecar that knows what files cannot say."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Part, PartLimits, Receipt, Target
from fastdata_cli.errors import DestinationExistsError, UnsupportedError
from fastdata_cli.formats.base import manifest_text
from fastdata_cli.formats.staged import StagedWriter, has_bytes
from fastdata_cli.formats.tree import sidecar as tree_sidecar
from fastdata_cli.formats.tree.names import default_name, file_names
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import from_bytes, from_text, to_bytes, to_text
from fastdata_cli.manifest import Manifest
from fastdata_cli.options import Options
from fastdata_cli.sample import UNLABELLED, Batch, Payload, Schema
from fastdata_cli.storage import durable
from fastdata_cli.storage.listing_rows import digests
from fastdata_cli.storage.table import SampleTable

NAME = "tree"
_PNG_THREADS = min(4, os.cpu_count() or 1)


class TreeWriter(StagedWriter):
    """Creates files part by part, in order, so that a name taken twice falls out the same way."""

    limits = PartLimits(samples=4096, bytes=32 << 20)

    def __init__(self, target: Target, options: Options) -> None:
        super().__init__(target, options)
        _check_encodable(self.schema)
        self._sidecar = tree_sidecar.sidecar_path(target.path)
        self._staged_sidecar = self.staging.data / self._sidecar.name
        self._folder = os.fsencode(self.staging.item) + b"/"
        self._made: set[bytes] = set()
        """Folders that are there, so that none is asked for twice."""

    def begin(self, fingerprint: str) -> Sequence[Receipt]:
        """Take the staging place; return the receipts of an interrupted equal run.

        Raises:
            DestinationExistsError: something else lies where the sidecar has to go.
        """
        self._check_sidecar_place()
        return super().begin(fingerprint)

    def write_part(self, part: Part, batch: Batch) -> Receipt:
        """Store a part; pixels become PNG first, and count as such from here on."""
        return super().write_part(part, batch if batch.offsets is not None else _as_png(batch))

    def _create(self) -> None:
        self.staging.item.mkdir()

    def _holds(self, receipts: Sequence[Receipt]) -> bool:
        table = self.staging.side.table(receipts)
        names = map(to_bytes, self._names(table.keys, receipts))
        sizes = zip(names, table.lengths.tolist(), strict=True)
        return all(has_bytes(self._folder + name, size) for name, size in sizes)

    def _resume(self, receipts: Sequence[Receipt]) -> None:
        known = digests(self._names(self.staging.side.table(receipts).keys, receipts))
        for folder, _, files in os.walk(os.fsencode(self.staging.item), topdown=False):
            below = folder.removeprefix(self._folder.rstrip(b"/")).lstrip(b"/")
            prefix = below + b"/" if below else b""
            there = KeyTable.from_keys(from_bytes(prefix + name) for name in files)
            for index in np.flatnonzero(~np.isin(digests(there), known)).tolist():
                os.unlink(os.path.join(folder, files[index]))
            if below:
                with contextlib.suppress(OSError):  # it holds files of finished parts
                    os.rmdir(folder)

    def _store(self, part: Part, batch: Batch) -> Mapping[str, Any]:
        if part.index in self.receipts:
            self._remove(self._part_names(batch.keys, self.receipts[part.index]))
        taken: list[bytes] = []
        others: dict[str, str] = {}
        try:
            for row, key in enumerate(batch.keys):
                name, is_default = self._place(key, part.start + row, batch.image(row))
                taken.append(name)
                if not is_default:
                    others[str(row)] = to_text(from_bytes(name))
            durable.sync_filesystem(self.staging.item)
        except BaseException:
            self._remove(taken)
            raise
        return {"names": others}

    def _place(self, key: str, position: int, image: NDArray[np.uint8]) -> tuple[bytes, bool]:
        """Write a file under the first name that is free; return it, and whether it is the best."""
        names = enumerate(file_names(key, self._kind(), position))
        return next((name, rank == 0) for rank, name in names if self._written(name, image))

    def _written(self, name: bytes, image: NDArray[np.uint8]) -> bool:
        path = self._folder + name
        try:
            self._make_folder(os.path.dirname(path))
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except (FileExistsError, NotADirectoryError):
            return False
        try:
            durable.write_all(descriptor, image.data)
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(descriptor)
        return True

    def _make_folder(self, folder: bytes) -> None:
        if folder not in self._made:
            os.makedirs(folder, exist_ok=True)
            self._made.add(folder)

    def _remove(self, names: Sequence[bytes]) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._folder + name)

    def _names(self, keys: Sequence[str], receipts: Sequence[Receipt]) -> KeyTable:
        """Return the file of every sample of finished parts."""

        def each() -> Iterator[str]:
            for receipt in receipts:
                part = receipt.part
                rows = (keys[index] for index in range(part.start, part.start + part.samples))
                yield from map(from_bytes, self._part_names(rows, receipt))

        return KeyTable.from_keys(each())

    def _kind(self) -> str | None:
        """Return the type of the files that fastdata made; None for files kept as they are."""
        if self.schema.payload is Payload.PIXELS:
            return "png"
        kind = self.target.manifest.options.get("reencoded")
        return None if kind is None else str(kind)

    def _part_names(self, keys: Iterable[str], receipt: Receipt) -> list[bytes]:
        others = receipt.facts["names"]
        return [
            to_bytes(from_text(others[str(row)]))
            if str(row) in others
            else default_name(key, self._kind())
            for row, key in enumerate(keys)
        ]

    def _finish(self, manifest: Manifest, table: SampleTable) -> None:
        schema = manifest.schema
        layout = {"shape": schema.image_shape, "dtype": schema.dtype} if schema.image_shape else {}
        stored = replace(
            schema,
            payload=Payload.ENCODED,
            image_shape=None,
            dtype="uint8",
            max_image_bytes=int(table.lengths.max(initial=0)),
        )
        durable.remove(self._staged_sidecar)  # of a run that was killed here
        self._staged_sidecar.mkdir()
        tree_sidecar.save(
            self._staged_sidecar,
            manifest_text(replace(manifest, schema=stored), layout),
            table,
            self._names(table.keys, self.in_order()),
        )
        if _is_named_by_folder(table, schema.class_names):
            # Whoever numbers the classes by these folders must count the empty ones too.
            for name in schema.class_names:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(self._folder + to_bytes(name), 0o755)

    def _release(self) -> None:
        """Nothing is held open between parts."""

    def _check_sidecar_place(self) -> None:
        if os.path.lexists(self._sidecar) and not tree_sidecar.is_ours(self._sidecar):
            raise _in_the_way(self._sidecar)

    def _reveal(self) -> None:
        destination = self.staging.destination
        self._check_sidecar_place()
        if not self.target.overwrite:
            if os.path.lexists(destination):
                raise _in_the_way(destination)
            # Without its tree it was left by a run that was killed between the two renames.
            durable.remove(self._sidecar)
        # The sidecar goes first: a tree without it would be read as one that others made.
        self.staging.publish(
            [(self._staged_sidecar, self._sidecar), (self.staging.item, destination)]
        )


def _as_png(batch: Batch) -> Batch:
    """Return the batch with its pixels as PNG files."""
    from fastdata_cli.imaging.encode import encode_png

    with ThreadPoolExecutor(_PNG_THREADS) as pool:
        files = list(pool.map(encode_png, batch.images))
    offsets = np.zeros(len(files) + 1, np.int64)
    np.cumsum([len(file) for file in files], out=offsets[1:])
    arena = np.frombuffer(b"".join(files), np.uint8)
    return replace(batch, images=arena, offsets=offsets)


def _check_encodable(schema: Schema) -> None:
    if schema.payload is not Payload.PIXELS:
        return
    shape = schema.image_shape or ()
    if schema.dtype not in ("uint8", "uint16") or shape[-1:] not in ((1,), (3,)):
        raise UnsupportedError(
            f"a tree stores pixels as PNG, which does not hold {schema.dtype}{list(shape)}",
            hint="it takes uint8 or uint16 with 1 or 3 channels; --to raw stores any",
        )


def _is_named_by_folder(table: SampleTable, class_names: Sequence[str]) -> bool:
    """Tell whether every label is that of the first folder of its key."""
    numbers = {name: number for number, name in enumerate(class_names)}
    if any("/" in name or name in (".", "..", "") or "\0" in name for name in class_names):
        return False
    for key, label in zip(table.keys, table.labels.tolist(), strict=True):
        top, slash, _ = key.partition("/")
        if label != (numbers.get(top) if slash else UNLABELLED):
            return False
    return bool((table.labels >= 0).any())


def _in_the_way(path: Path) -> DestinationExistsError:
    return DestinationExistsError(
        f"{path} is in the way", hint="move it, or choose another destination", path=str(path)
    )
