"""Owns what of an HDF5 dataset lies in other files, looked at before HDF5 reads any of it.

HDF5 has zeros for a source of a virtual dataset that is not there, and for what an external file is
too short for. It crashes over a virtual dataset that is made of itself. And it opens whatever file
a name leads to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from fastdata_cli.errors import DamagedDatasetError, UnsupportedError
from fastdata_cli.formats.hdf5.index import read_table
from fastdata_cli.formats.hdf5.open import open_file

_DEEPEST = 8
_SAME_FILE = "."


def require_parts(path: Path, *datasets: Any) -> None:
    """Make sure that all of some datasets is there, and in the folder of their file or below it.

    Args:
        path: of the file.
        datasets: open ones, reached from it.

    Raises:
        DamagedDatasetError: a part is missing or truncated.
        UnsupportedError: a part lies in another folder, or has no fixed size; or a dataset is of
            another file, behind a link.
    """
    here = os.path.abspath(path)
    parts = _Parts(here)
    for dataset in datasets:
        there = os.path.abspath(dataset.file.filename)
        if there != here:
            raise UnsupportedError(
                f"{path}: a link leads to {dataset.name} of another file, {there}",
                hint="open that file, or copy what the link leads to into this one",
            )
        parts.require(dataset)


class _Parts:
    """A look at datasets, each once.

    Args:
        path: of their file, in whose folder all other files are to be: that of its name, or of
            the file itself where the name is a link.
    """

    def __init__(self, path: str) -> None:
        real = os.path.realpath
        self._folders = {real(os.path.dirname(path)), os.path.dirname(real(path))}
        self._seen: set[tuple[str, str]] = set()

    def require(self, dataset: Any, depth: int = 0) -> None:
        """Look at a dataset, and at those that it is made of."""
        path = os.path.abspath(dataset.file.filename)
        where = f"{path}: {dataset.name}"
        self._require_inside(path, where)
        if (path, dataset.name) in self._seen:
            return
        if depth > _DEEPEST:
            raise DamagedDatasetError(
                f"{where}: made of virtual datasets that are made of others, more than {_DEEPEST} "
                "times, or of itself"
            )
        if dataset.external:
            self._require_external(dataset, os.path.dirname(path), where)
        if dataset.is_virtual:
            self._require_sources(dataset, path, where, depth)
        self._seen.add((path, dataset.name))

    def _require_inside(self, part: str, where: str) -> None:
        real = os.path.realpath(part)  # a link in the folder may lead anywhere
        if not any(os.path.commonpath([real, folder]) == folder for folder in self._folders):
            raise UnsupportedError(
                f"{where}: a part of it is {part}, outside of its folder",
                hint="copy all of it into one folder; names of external files count from the "
                "current folder, or from HDF5_EXTFILE_PREFIX",
            )

    def _require_external(self, dataset: Any, beside: str, where: str) -> None:
        # As HDF5 looks for them: not beside the dataset, unless the environment says so.
        base = os.environ.get("HDF5_EXTFILE_PREFIX", "").replace("${ORIGIN}", beside)
        rest = dataset.size * dataset.dtype.itemsize
        for name, offset, most in dataset.external:
            # As it stands: without a folder `a`, there is no `a/../b`, though its sense is `b`.
            part = os.path.join(os.getcwd(), base, name)
            self._require_inside(part, where)
            size, there = min(rest, most), _size(part, where)
            if offset + size > there:
                raise DamagedDatasetError(
                    f"{where}: truncated: {part} has {there} bytes, and {offset + size} are "
                    "expected",
                    expected=offset + size,
                    found=there,
                )
            rest -= size
        if rest:
            raise DamagedDatasetError(f"{where}: truncated: {rest} bytes are in no file")

    def _require_sources(self, dataset: Any, path: str, where: str, depth: int) -> None:
        sources = sorted(
            dataset.virtual_sources(), key=lambda each: (each.file_name, each.dset_name)
        )
        covered = sum(_points(each.vspace, where) for each in sources)
        if covered < dataset.size:
            raise DamagedDatasetError(
                f"{where}: missing: {dataset.size - covered} of {dataset.size} values are in none "
                "of its sources"
            )
        for name, of_file in groupby(sources, key=lambda each: str(each.file_name)):
            part = self._source_file(name, path, where)
            _size(part, where)
            with open_file(Path(part)) as file:
                for inner, several in groupby(of_file, key=lambda each: str(each.dset_name)):
                    source = file.get(inner)
                    if source is None:
                        raise DamagedDatasetError(f"{where}: missing: {part} has no {inner}")
                    self.require(source, depth + 1)
                    _require_values(source, several, where)

    def _source_file(self, name: str, path: str, where: str) -> str:
        """Return the file that HDF5 takes a source from."""
        beside, name = os.path.dirname(path), name.replace("%%", "%")
        if name == _SAME_FILE:
            return path
        part = os.path.join(beside, name)
        if os.path.isabs(name) and not os.path.isfile(part):
            part = os.path.join(beside, os.path.basename(name))
        self._require_inside(part, where)
        return part


def _size(part: str, where: str) -> int:
    try:
        return os.stat(part).st_size
    except OSError as problem:
        raise DamagedDatasetError(
            f"{where}: missing: {part}, which is a part of it ({problem.strerror})"
        ) from problem


def _points(space: Any, where: str) -> int:
    try:
        return int(space.get_select_npoints())
    except RuntimeError as problem:
        raise UnsupportedError(
            f"{where}: a virtual dataset that grows with its sources",
            hint="copy it into one of a fixed size (h5repack, or h5py)",
        ) from problem


def _require_values(source: Any, mappings: Iterator[Any], where: str) -> None:
    """Make sure that a source has the values which are taken from it."""
    table = None if source.is_virtual else read_table(source)
    for each in mappings:
        first, last = _bounds(each, source)
        if any(end >= side for end, side in zip(last, source.shape, strict=True)):
            raise DamagedDatasetError(
                f"{where}: truncated: its source {source.file.filename}: {source.name} has only "
                f"{list(source.shape)}"
            )
        if table is not None and not table.has(first[0] // table.rows, last[0] // table.rows):
            raise DamagedDatasetError(
                f"{where}: missing: some of {source.file.filename}: {source.name} was never written"
            )


def _bounds(mapping: Any, source: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the first and the last position in a source that a virtual dataset takes."""
    from h5py import h5s

    space = mapping.src_space
    if space.get_select_type() != h5s.SEL_ALL:
        first, last = space.get_select_bounds()
        return first, last
    whole = tuple(side - 1 for side in source.shape)
    if source.size < mapping.vspace.get_select_npoints():
        whole = source.shape  # one more than there is
    return (0,) * len(whole), whole


def is_never_written(dataset: Any) -> bool:
    """Tell whether HDF5 would have fill values for all of a dataset, whatever size it claims."""
    elsewhere = dataset.is_virtual or dataset.external
    return bool(dataset.size and not elsewhere and not dataset.id.get_storage_size())
