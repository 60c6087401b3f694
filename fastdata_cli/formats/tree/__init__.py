"""Tree: image files in folders, as ImageFolder and every file manager know them.

out/
    cat/1.jpg      encoded: the file's bytes under its key, untouched
    cat/2.png      pixels: PNG, the key's image suffix replaced (``cat/2.jpg``)
out.fastdata/      the sidecar, beside the tree so that comparing the tree finds nothing else

A key that cannot be a file name, or whose name is taken, gets another (``formats/tree/names.py``
has the rules), and the sidecar remembers the key. ``formats/tree/sidecar.py`` has its layout. With
a sidecar the tree is read in its order, with its labels, classes, metadata and checksums; files
that it does not know are findings of ``verify`` and a note. Without one the folder is listed
(``storage/listing.py`` says in which order and with which labels). What is read is encoded always:
a tree has no pixels, only files.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import cast

from fastdata_cli.contract import Format, Reader, Target, Writer
from fastdata_cli.formats.tree.check import check_names
from fastdata_cli.formats.tree.reader import TreeReader, TreeReadOptions
from fastdata_cli.formats.tree.writer import NAME, TreeWriter
from fastdata_cli.options import Options
from fastdata_cli.sample import Payload


def _recognises(path: Path) -> bool:
    from fastdata_cli.imaging.sniff import DECODED, PICTURES, SNIFF_BYTES, sniff

    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):  # a pipe is not opened: it might never answer
            return stat.S_ISDIR(mode)
        with open(path, "rb") as file:
            return sniff(file.read(SNIFF_BYTES)) in DECODED | PICTURES
    except OSError:
        return False


def _open_reader(path: Path, options: Options) -> Reader:
    return TreeReader(path, cast(TreeReadOptions, options))


def _open_writer(target: Target, options: Options) -> Writer:
    return cast(Writer, TreeWriter(target, options))


FORMAT = Format(
    name=NAME,
    summary="image files in a folder for each class; what every tool reads",
    suffixes=(),
    capabilities=TreeReader.capabilities,
    payloads=(Payload.ENCODED, Payload.PIXELS),
    recognises=_recognises,
    open_reader=_open_reader,
    open_writer=_open_writer,
    read_options=TreeReadOptions,
    check=check_names,
)
