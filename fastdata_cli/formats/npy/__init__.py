"""A folder of ``.npy`` files, read only: pixels, one image a file or stacks of them.

    set/cat/0001.npy    H×W or H×W×C numbers: one image, with the class of its first folder
    set/dog/batch.npy   N×H×W or N×H×W×C numbers: N images of that class
    images.npy          one file alone, a stack
    labels.npy          N whole numbers, beside the stacks of a folder without class folders

All images have one shape and one type of number; files of others are rejects. The last axis is
that of channels if it is at most 4 long; ``--layout`` says otherwise. Files are mapped, and nothing
is ever unpickled.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from fastdata_cli.contract import Format, Reader
from fastdata_cli.formats.npy.arrays import is_npy_name
from fastdata_cli.formats.npy.reader import NpyReader, NpyReadOptions
from fastdata_cli.formats.npy_header import is_npy
from fastdata_cli.formats.reordered import put_upright
from fastdata_cli.options import Options
from fastdata_cli.sample import Payload
from fastdata_cli.storage.listing_names import is_unwanted

# What may stand beside the arrays; any other file makes a folder something else.
_BESIDE = (b".txt", b".md", b".json", b".jsonl", b".csv", b".tsv", b".yaml", b".yml")

# A folder whose first files have the name of arrays and are none is no folder of arrays.
_LOOKED_INTO = 16


def _recognises(path: Path) -> bool:
    try:
        if path.is_dir():
            return not is_unwanted(os.fsencode(path.name)) and _holds_only_arrays(path)
        if not path.is_file():
            return False
        return _is_array(path)
    except (OSError, ValueError):
        return False


def _is_array(path: Path | bytes) -> bool:
    with open(path, "rb") as file:
        return is_npy(file.read(8))


def _holds_only_arrays(folder: Path) -> bool:
    waiting, named, found = [os.fsencode(folder)], 0, False
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if is_unwanted(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif is_npy_name(entry.name):
                    named += 1
                    found = found or (named <= _LOOKED_INTO and _is_array(entry.path))
                elif not entry.name.lower().endswith(_BESIDE):
                    return False
    return found


def _open_reader(path: Path, options: Options) -> Reader:
    reader = NpyReader(path, cast(NpyReadOptions, options))
    return put_upright(reader, reader.order)


FORMAT = Format(
    name="npy",
    summary="a folder of NumPy arrays: an image a file, or stacks",
    suffixes=(".npy",),
    capabilities=NpyReader.capabilities,
    payloads=(Payload.PIXELS,),
    recognises=_recognises,
    open_reader=_open_reader,
    read_options=NpyReadOptions,
)
