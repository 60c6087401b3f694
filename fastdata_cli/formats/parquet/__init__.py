"""Parquet, read only: image files in a column, as ``datasets`` of Hugging Face writes them.

    image    struct<bytes: binary, path: string>, or bytes alone
    label    a whole number; the names of classes are in the schema's metadata, ``huggingface``
    …        further columns

One file, a folder of them, or a pattern. The key is the path, or the number of the row; where two
rows have one path, all keys get the number of their row. Rows come in groups, which are compressed
and decoded whole: reading is fast in their order and slow in any other.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from fastdata_cli.contract import Format, Reader
from fastdata_cli.formats.parquet.reader import PARQUETS, ParquetReader, ParquetReadOptions
from fastdata_cli.formats.sharded.find import recognises
from fastdata_cli.options import Options
from fastdata_cli.sample import Payload


def _recognises(path: Path) -> bool:
    return recognises(path, PARQUETS)


def _open_reader(path: Path, options: Options) -> Reader:
    return ParquetReader(path, cast(ParquetReadOptions, options))


FORMAT = Format(
    name="parquet",
    summary="tables of Hugging Face with image files in a column",
    suffixes=(PARQUETS.suffix,),
    capabilities=ParquetReader.capabilities,
    payloads=(Payload.ENCODED,),
    recognises=_recognises,
    open_reader=_open_reader,
    read_options=ParquetReadOptions,
    requires=("pyarrow",),
    install_extra="parquet",
)
