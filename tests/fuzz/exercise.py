"""Does with a dataset what commands and loaders do: open, read every sample in every way, verify.

Only a FastdataError may come out of any of it; everything else is what the fuzzer looks for.
"""

from __future__ import annotations

import contextlib
import json
import pickle
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np

from fastdata_cli import registry
from fastdata_cli.contract import Capability, Reader
from fastdata_cli.errors import BadSampleError, FastdataError
from fastdata_cli.formats.tree.classes import load_classes
from fastdata_cli.formats.tree.reader import TreeReader, TreeReadOptions
from fastdata_cli.imaging.check import check
from fastdata_cli.imaging.decode import decode
from fastdata_cli.imaging.policy import ImagePolicy
from fastdata_cli.imaging.probe import probe, probe_file
from fastdata_cli.storage.labels import load_labels
from fastdata_cli.storage.listing import list_paths, read_path_list, start_of

Exercise = Callable[[Path], None]

# A damaged dataset may say that it has any number of samples: this many are looked at.
_MOST = 64
_MOST_PIXELS = 1 << 22


def dataset(path: Path) -> None:
    """Open and use whatever dataset lies at ``path``."""
    with contextlib.suppress(FastdataError):
        reader = registry.open_reader(path)
        try:
            _use(reader)
        finally:
            reader.close()


def _use(reader: Reader) -> None:
    uses: tuple[Callable[[Reader], object], ...] = (
        lambda reader: json.dumps(dict(reader.describe())),
        lambda reader: list(islice(reader.keys(), _MOST)),
        lambda reader: reader.labels()[:_MOST].tolist(),
        lambda reader: list(islice(reader.files(), _MOST)),
        lambda reader: list(islice(reader.scan(), _MOST)),
        lambda reader: list(islice(reader.verify(), _MOST)),
        lambda reader: pickle.loads(pickle.dumps(reader)).check_table(),  # noqa: S301 - our own
        lambda reader: reader.spans(3),
        _read_each_way,
    )
    for use in uses:
        with contextlib.suppress(FastdataError):
            use(reader)


def _read_each_way(reader: Reader) -> None:
    some = list(range(min(len(reader), _MOST)))
    ways: tuple[Callable[[int], object], ...] = (
        reader.read,
        lambda index: reader.head(index, 100),
        lambda index: reader.read_each([index]),
    )
    for index in some:
        for way in ways:
            with contextlib.suppress(FastdataError):
                way(index)
    with contextlib.suppress(FastdataError):
        list(reader.read_many([*reversed(some), *some[:1]]))
    if Capability.LOCATE in reader.capabilities:
        reader.locate(some)


def lists(file: Path) -> None:
    """Use one of the lists beside a tree: of paths, labels or classes."""
    root = file.parent / "set"
    with contextlib.suppress(FastdataError):
        if file.stem == "labels":
            load_labels(file)
            list(TreeReader(root, TreeReadOptions(labels=str(file))).scan())
        elif file.stem == "classes":
            load_classes(file)
            list(TreeReader(root, TreeReadOptions(classes=str(file))).scan())
        else:
            with open(file, "rb") as stream:
                paths = read_path_list(stream, nul=file.stem == "nul")
                start, rest = start_of(paths, [root])
                _use(TreeReader.from_listing(list_paths(rest, root=None, start=start)))


_POLICIES = (ImagePolicy(), ImagePolicy(allow_truncated=True), ImagePolicy(strict=True))


def picture(path: Path) -> None:
    """Probe, check and decode one picture."""
    data = path.read_bytes()
    for policy in _POLICIES:
        with contextlib.suppress(BadSampleError):
            probe_file(str(path), policy)
        with contextlib.suppress(BadSampleError):
            header = probe(data, policy)
            check(data, policy)
            if header.height * header.width > _MOST_PIXELS:
                continue
            decoded = decode(data, policy)
            assert decoded.pixels.dtype == np.uint8
            decode(data, policy, at_least=(4, 4), grey=True)
