"""What a staged run keeps beside its parts: the sample table of each, and columns of the writer's.

    side/000000.npz

The files are not synced. A receipt carries the digest of the file of its part, so that one that a
power cut took, or cut, is known: then the part is written again.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from fastdata_cli.contract import Part, Receipt
from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.storage.table import SampleTable

# Names, in a receipt and in the file beside it, that are not the writer's.
_DIGEST = "side_xxh3"
_FACT = "fact:"


class SideTables:
    """The side tables of one staging place.

    Args:
        root: of the staging place.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def create(self) -> None:
        """Make room for them."""
        self._folder.mkdir()

    def keep(self, part: Part, table: SampleTable, facts: Mapping[str, Any]) -> Receipt:
        """Write the table of a part, and those of its facts that are arrays.

        Returns:
            The receipt, with the other facts.
        """
        arrays = {name: fact for name, fact in facts.items() if isinstance(fact, np.ndarray)}
        buffer = io.BytesIO()
        columns = {**table.columns(), **{_FACT + name: fact for name, fact in arrays.items()}}
        np.savez(buffer, **columns)  # type: ignore[arg-type]
        content = buffer.getvalue()
        self._path(part.index).write_bytes(content)
        rest = {name: fact for name, fact in facts.items() if name not in arrays}
        return Receipt(part, {**rest, _DIGEST: xxhash.xxh3_64_hexdigest(content)})

    def has(self, receipt: Receipt) -> bool:
        """Tell whether what was kept with a receipt is there, whole.

        Raises:
            OSError: it is there, and cannot be read.
        """
        try:
            content = self._path(receipt.part.index).read_bytes()
        except FileNotFoundError:
            return False
        return xxhash.xxh3_64_hexdigest(content) == receipt.facts.get(_DIGEST)

    def table(self, receipts: Sequence[Receipt]) -> SampleTable:
        """Return the sample table of all parts, in order.

        Raises:
            DamagedDatasetError: what was kept is not there any more.
        """
        where = str(self._root)
        tables = (SampleTable.from_columns(self._read(each), where=where) for each in receipts)
        return SampleTable.concatenate(list(tables))

    def column(self, name: str, receipts: Sequence[Receipt]) -> NDArray[Any]:
        """Return the facts of this name of all parts, arrays each, end to end.

        Raises:
            DamagedDatasetError: what was kept is not there any more.
        """
        return np.concatenate([self._read(receipt)[_FACT + name] for receipt in receipts])

    @property
    def _folder(self) -> Path:
        return self._root / "side"

    def _path(self, index: int) -> Path:
        return self._folder / f"{index:06d}.npz"

    def _read(self, receipt: Receipt) -> dict[str, NDArray[Any]]:
        path = self._path(receipt.part.index)
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as columns:
                return dict(columns)
        except (OSError, EOFError, ValueError, zipfile.BadZipFile) as problem:
            raise DamagedDatasetError(
                f"{path}: the sample table of a finished part cannot be read",
                hint=f"delete {self._root} and run the command again",
                path=str(path),
            ) from problem
