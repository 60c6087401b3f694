"""What tests about datasets that mean harm share."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

# What a terminal obeys or shows in another order.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
HOSTILE = "a\x1b[2J\x1b]0;owned\x07\u202egnp.\x9b31m"


class Bomb:
    """Pickled, it runs a command when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch owned",)


def tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def pickled_zarr(folder: Path, codec: str = "pickle") -> Path:
    import numcodecs

    path = folder / "set.zarr"
    array = path / "images"
    array.mkdir(parents=True)
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    record = {
        "zarr_format": 2, "shape": [2, 4, 4, 3], "chunks": [1, 4, 4, 3], "dtype": "|O",
        "compressor": None, "filters": [{"id": codec}], "fill_value": None, "order": "C",
    }  # fmt: skip
    (array / ".zarray").write_text(json.dumps(record))
    for number in range(2):
        data = numcodecs.Pickle().encode(np.array([Bomb()], object))
        (array / f"{number}.0.0.0").write_bytes(data)
    return path


def clean_words(result: Any) -> None:
    for name in ("stdout", "stderr"):
        found = OBEYED.search(getattr(result, name).replace("\t", " "))
        assert found is None, f"{name} has {found[0]!r}: {result.output!r}"
