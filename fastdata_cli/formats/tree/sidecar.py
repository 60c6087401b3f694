"""The sidecar of a tree: what fastdata knows of it and may not put among its files.

OUT.fastdata/
    manifest.json                       the manifest
    keys.npy, key_offsets.npy           keys in their text form, uint8 and int64[N + 1]
    labels.npy                          int64[N], -1 without a label
    checksums.npy                       uint64[N], xxh3-64 of each file
    lengths.npy                         int64[N], bytes of each file
    metadata.npy, metadata_offsets.npy  JSON texts; only where samples carry metadata
    names.npy, name_offsets.npy         files in text form; only where one is not its key
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import to_text
from fastdata_cli.manifest import Manifest
from fastdata_cli.storage.staging import is_exchanging
from fastdata_cli.storage.table import SampleTable, npy_array, npy_bytes, text_column

_MANIFEST = "manifest.json"
_ALWAYS = ("labels.npy", "checksums.npy", "key_offsets.npy")


@dataclass(frozen=True)
class Sidecar:
    """The content of a sidecar: N samples."""

    manifest: Manifest
    table: SampleTable
    names: KeyTable
    """The file of each sample, below the tree; often the keys themselves."""


def sidecar_path(tree: Path) -> Path:
    """Return where the sidecar of a tree lies: beside it."""
    whole = Path(os.path.abspath(tree))
    return whole.parent / f"{whole.name}.fastdata"


def is_ours(path: Path) -> bool:
    """Tell whether what lies at ``path`` is a sidecar, and may be replaced by another."""
    try:
        Manifest.from_json((path / _MANIFEST).read_bytes(), where=str(path))
    except (OSError, DamagedDatasetError):
        return False
    return True


def load(tree: Path) -> Sidecar | None:
    """Return the sidecar of a tree, or None where there is none.

    Raises:
        DamagedDatasetError: it is incomplete or contradicts itself.
    """
    path = sidecar_path(tree)
    if not (path / _MANIFEST).is_file():
        if all((path / name).is_file() for name in _ALWAYS):
            raise DamagedDatasetError(
                f"{path / _MANIFEST} is missing, and the rest of the sidecar is there",
                hint="move the sidecar away to read the folder as a plain tree",
                path=str(path),
            )
        return None
    if is_exchanging(tree):
        raise DamagedDatasetError(
            f"{tree}: incomplete, the run that replaces it was interrupted while it was published",
            hint="run the same command again to finish it",
            path=str(tree),
        )
    try:
        manifest = Manifest.from_json((path / _MANIFEST).read_bytes(), where=str(path / _MANIFEST))
        columns = {
            file.stem: npy_array(file.read_bytes(), where=str(file)) for file in path.glob("*.npy")
        }
    except OSError as problem:
        raise DamagedDatasetError(
            f"{path}: cannot be read ({problem.strerror})", path=str(path)
        ) from problem
    table = SampleTable.from_columns(columns, where=str(path))
    names = table.keys
    if "names" in columns and "name_offsets" in columns:
        names = text_column(columns, "names", "name_offsets", where=str(path))
    if not len(table) == len(names) == manifest.schema.num_samples:
        raise DamagedDatasetError(
            f"{path}: {len(table)} rows and {len(names)} names for "
            f"{manifest.schema.num_samples} samples",
            hint="move it away to read the folder as a plain tree",
            path=str(path),
        )
    astray = next(filter(_leads_out, names), None)
    if astray is not None:
        raise DamagedDatasetError(f"{path}: names a file outside the tree: {to_text(astray)}")
    return Sidecar(manifest, table, names)


def _leads_out(name: str) -> bool:
    return name.startswith("/") or (".." in name and ".." in name.split("/"))


def save(path: Path, manifest_json: str, table: SampleTable, names: KeyTable) -> None:
    """Write a sidecar into the empty folder ``path``; ``names`` only if they are not the keys."""
    columns = table.columns()
    same = np.array_equal(names.offsets, table.keys.offsets)
    if not (same and np.array_equal(names.blob, table.keys.blob)):
        columns.update(names=names.blob, name_offsets=names.offsets)
    for name, column in columns.items():
        (path / f"{name}.npy").write_bytes(npy_bytes(column))
    (path / _MANIFEST).write_text(manifest_json + "\n")
