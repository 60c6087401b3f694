"""LMDB: one memory-mapped file of records, read in any order by many programs.

out.lmdb/
    data.mdb    file format 0.9; no lock.mdb, because readers need none

Records of the main database, in this order:

    0000000000 …                  the images, numbered with ten digits. Encoded: the bytes of the
                                  file. Pixels: H×W×C in C order, with the shape and the dtype in
                                  the manifest, under ``schema``.
    __fastdata__/NAME/0000.npy    a column of all samples as a ``.npy`` file. Columns of more than
                                  8 MiB go on in 0001.npy and so on; joined they are the column.
        checksums                 uint64[N], xxh3-64 of each image
        keys, key_offsets         uint8[…] and int64[N + 1]: key i, in its text form, is
                                  ``keys[key_offsets[i]:key_offsets[i + 1]]``
        labels                    int64[N], -1 without a label
        lengths                   int64[N], the bytes of each image
        metadata, metadata_offsets  as keys: one JSON object or nothing each; only where samples
                                  carry metadata
    __fastdata__/manifest         the manifest as JSON, with the class names

The plain library reads all of it:

    with lmdb.open("out.lmdb", readonly=True, lock=False) as env, env.begin() as txn:
        image = txn.get(b"0000000042")
        labels = np.load(io.BytesIO(txn.get(b"__fastdata__/labels/0000.npy")))

Environments that others made are read when values of their main database are images in a known
file format, be they folders or single files: see ``foreign.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from fastdata_cli.contract import Capability, Format, Reader, Target, Writer
from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.formats.limits import require_fit
from fastdata_cli.formats.lmdb.file import HEAD_BYTES, DataFile, version_of
from fastdata_cli.formats.lmdb.foreign import ForeignLmdbReader
from fastdata_cli.formats.lmdb.reader import LmdbReader
from fastdata_cli.formats.lmdb.records import MANIFEST, data_path
from fastdata_cli.formats.lmdb.writer import LmdbWriter
from fastdata_cli.options import Options
from fastdata_cli.sample import Payload

_SUFFIX = ".lmdb"
_MOST_VALUE_BYTES = 2**32 - 1


def _recognises(path: Path) -> bool:
    try:
        if path.is_dir():
            # Also what is only called so: if it is no LMDB, the error shall say why.
            return path.suffix == _SUFFIX or (path / "data.mdb").exists() or _is_only_lock(path)
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return version_of(file.read(HEAD_BYTES)) is not None
    except OSError:
        return False


def _is_only_lock(folder: Path) -> bool:
    return (folder / "lock.mdb").exists() and len(list(folder.iterdir())) == 1


def _open_reader(path: Path, options: Options) -> Reader:
    data = data_path(path)
    if not data.is_file():
        raise DamagedDatasetError(f"{data} is missing", path=str(data))
    ours = DataFile(data).find(MANIFEST) is not None
    return LmdbReader(path, options) if ours else ForeignLmdbReader(path, options)


def _open_writer(target: Target, options: Options) -> Writer:
    require_fit(1, target.manifest.schema.pixel_bytes, _MOST_VALUE_BYTES, "a value of LMDB takes")
    return cast(Writer, LmdbWriter(target, options))


FORMAT = Format(
    name="lmdb",
    summary="one file of records; random reads of images of any size",
    suffixes=(_SUFFIX,),
    capabilities=LmdbReader.capabilities | Capability.APPEND,
    payloads=(Payload.ENCODED, Payload.PIXELS),
    recognises=_recognises,
    open_reader=_open_reader,
    open_writer=_open_writer,
    requires=("lmdb",),
)
