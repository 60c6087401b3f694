"""HDF5's filters: the options that choose them, and what a dataset says it went through."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fastdata_cli.errors import MissingDependencyError, UnsupportedError, UsageError
from fastdata_cli.options import Options, option

_INSTALL_HINT = "pip install 'fastdata-cli[hdf5]'"

GZIP, SHUFFLE, LZF, BLOSC, LZ4, BITSHUFFLE, ZSTD, BLOSC2 = (
    1, 2, 32000, 32001, 32004, 32008, 32015, 32026,
)  # fmt: skip
"""Numbers under which filters are registered."""

Filter = tuple[int, tuple[int, ...], str]
"""Number, parameters and name of a filter of a dataset."""

_CODECS = MappingProxyType(
    {
        GZIP: "gzip",
        4: "szip",
        LZF: "lzf",
        BLOSC: "blosc",
        LZ4: "lz4",
        ZSTD: "zstd",
        BLOSC2: "blosc2",
    }
)
_IN_BITSHUFFLE = MappingProxyType({0: "none", 2: "lz4", 3: "zstd"})
_LEVELS = MappingProxyType({"gzip": (0, 9), "zstd": (1, 22)})
_WITH_BITS = ("none", "lz4", "zstd")


@dataclass(frozen=True, kw_only=True)
class Hdf5WriteOptions(Options):
    """How the images are cut and compressed."""

    chunk: int | None = option(
        None, "samples a chunk; default 1; encoded: samples per part", minimum=1
    )
    codec: str | None = option(
        None,
        "compression of the images; default none",
        choices=("none", "gzip", "lzf", "lz4", "zstd"),
    )
    level: int | None = option(
        None, "level of the codec; gzip 0 to 9, default 4; zstd 1 to 22, default 3"
    )
    shuffle: str | None = option(
        None,
        "rearrange bytes or bits before the codec; default none",
        choices=("none", "byte", "bit"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = _LEVELS.get(self.codec or "none", (None, None))
        if self.level is not None:
            if low is None or high is None:
                raise UsageError(
                    f"--level has no meaning with --codec {self.codec or 'none'}",
                    hint="levels are for gzip (0 to 9) and zstd (1 to 22)",
                )
            if not low <= self.level <= high:
                raise UsageError(
                    f"--level {self.level} is not a level of {self.codec}: {low} to {high}"
                )
        if self.shuffle == "bit" and (self.codec or "none") not in _WITH_BITS:
            raise UsageError(
                f"--shuffle bit does not go with --codec {self.codec}",
                hint="use --codec lz4 or zstd, or --shuffle byte",
            )


def creation_arguments(options: Hdf5WriteOptions) -> dict[str, Any]:
    """Return what ``create_dataset`` needs for the filters of these options.

    Raises:
        MissingDependencyError: a filter is not part of HDF5, and hdf5plugin is not installed.
    """
    codec = options.codec or "none"
    if options.shuffle == "bit":
        level = {"clevel": options.level or 3} if codec == "zstd" else {}
        return dict(_plugin(f"--codec {codec} --shuffle bit").Bitshuffle(cname=codec, **level))
    arguments: dict[str, Any] = {"shuffle": True} if options.shuffle == "byte" else {}
    if codec == "gzip":
        level_or_default = 4 if options.level is None else options.level
        arguments.update(compression="gzip", compression_opts=level_or_default)
    elif codec == "lzf":
        arguments.update(compression="lzf")
    elif codec == "lz4":
        arguments.update(_plugin("--codec lz4").LZ4())
    elif codec == "zstd":
        arguments.update(_plugin("--codec zstd").Zstd(clevel=options.level or 3))
    return arguments


def filters_of(dataset: Any) -> list[Filter]:
    """Return the filters of a dataset, in writing order."""
    creation = dataset.id.get_create_plist()
    found = []
    for position in range(creation.get_nfilters()):
        number, _, values, name = creation.get_filter(position)
        found.append((number, tuple(values), name.decode("utf-8", "replace")))
    return found


def describe_filters(dataset: Any) -> Mapping[str, Any]:
    """Return ``codec``, ``level`` and ``shuffle`` of a dataset."""
    codec, level, shuffle = "none", None, "none"
    for number, values, name in filters_of(dataset):
        if number == SHUFFLE:
            shuffle = "byte"
        elif number == BITSHUFFLE:
            shuffle = "bit"
            codec = _IN_BITSHUFFLE.get(values[4] if len(values) > 4 else 0, "none")
            level = values[5] if len(values) > 5 else None
        else:
            codec = _CODECS.get(number, name or f"filter {number}")
            level = values[0] if number in (GZIP, ZSTD) and values else None
    return {"codec": codec, "level": level, "shuffle": shuffle}


def require_filters(dataset: Any) -> None:
    """Make sure that HDF5 can undo every filter of a dataset.

    Raises:
        MissingDependencyError: hdf5plugin has the filter, and is not installed.
        UnsupportedError: nobody here has it.
    """
    from h5py import h5z

    for number, _, name in filters_of(dataset):
        if h5z.filter_avail(number):
            continue
        what = f"{dataset.file.filename}: {dataset.name} is compressed with {_label(number, name)}"
        _plugin(what)  # importing it makes its filters known to HDF5
        if not h5z.filter_avail(number):
            raise UnsupportedError(
                f"{what}, which is not installed", hint="install the HDF5 plug-in that brings it"
            )


def _label(number: int, name: str) -> str:
    return f"{_CODECS.get(number, name or 'an unnamed filter')} (HDF5 filter {number})"


def _plugin(what: str) -> Any:
    if importlib.util.find_spec("hdf5plugin") is None:
        raise MissingDependencyError(f"{what}: that needs hdf5plugin", hint=_INSTALL_HINT)
    import hdf5plugin

    return hdf5plugin
