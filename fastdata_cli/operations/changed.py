"""Finds files of a source that changed after a dataset was made of them: it keeps the old ones."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Reader
from fastdata_cli.engines.local import ordered_map
from fastdata_cli.errors import BadSampleError
from fastdata_cli.key_table import KeyTable
from fastdata_cli.operations.events import Listener
from fastdata_cli.operations.packer import Good
from fastdata_cli.operations.pairing import Pairing
from fastdata_cli.operations.sampling import spread
from fastdata_cli.operations.settings import ConvertOptions
from fastdata_cli.operations.source import OF_FILES, Source
from fastdata_cli.operations.subset import Subset
from fastdata_cli.operations.transform import Transform, transform_for
from fastdata_cli.operations.words import count_text, some
from fastdata_cli.sample import Reject, Sample
from fastdata_cli.timing.environment import usable_cores

# Of the files that are newer than the dataset, so many are compared: a whole source that was copied
# is new, and comparing all of it would take as long as converting it.
_COMPARED = 4096


def say_what_changed(
    source: Source,
    standing: Reader,
    pairing: Pairing,
    options: ConvertOptions,
    listener: Listener,
) -> None:
    """Tell of samples whose file is not the one that the dataset was made of.

    Files are told by their times, and then compared: what the options make of them now, with what
    is stored. Sources that are datasets themselves are compared by their keys alone.

    Args:
        pairing: the dataset's samples first, those of the source second.
    """
    if source.format not in OF_FILES or not len(pairing.first):
        return
    newer = _newer(source.reader, standing, pairing.second)
    if not len(newer):
        return
    picked = newer[spread(len(newer), _COMPARED)]
    transform = transform_for(options, source.reader, standing.schema)
    changed = list(_differing(source.reader, standing, pairing, picked, transform))
    if changed:
        keys = KeyTable.of(standing.keys())
        names = some((keys.text(int(pairing.first[at])) for at in changed), len(changed))
        many = count_text(len(changed), "sample has", "samples have")
        text = f"{many} changed in the source, and not in the dataset: {names}"
        if len(picked) < len(newer):
            text += f" (of {len(newer):,} newer files, {len(picked):,} were compared)"
        listener.notice(text)


def _newer(reader: Reader, standing: Reader, second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pairs whose source file changed after the dataset was written."""
    written = min(file.stat().st_mtime for file in standing.files())
    pair_of = np.full(len(reader), -1)
    pair_of[second] = np.arange(len(second))
    newer = []
    for number, file in zip(pair_of.tolist(), reader.files(), strict=False):
        if number < 0:
            continue
        with contextlib.suppress(OSError):
            if os.stat(file).st_ctime > written:
                newer.append(number)
    return np.array(newer, np.int64)


def _differing(
    source: Reader,
    standing: Reader,
    pairing: Pairing,
    picked: NDArray[np.int64],
    transform: Transform,
) -> Iterator[int]:
    def differs(found: tuple[int, Sample | Reject]) -> bool:
        at = found[0]
        outcome = transform([found])[0]
        try:
            stored = standing.read(int(pairing.first[at])).image
        except BadSampleError:
            return False  # it is the dataset that is damaged: --verify says so
        return not isinstance(outcome, Good) or not np.array_equal(outcome.sample.image, stored)

    samples = Subset(source, pairing.second[picked]).scan()
    found = ordered_map(
        differs, zip(picked.tolist(), samples, strict=True), workers=usable_cores(), ahead=16
    )
    for at, is_other in zip(picked.tolist(), found, strict=True):
        if is_other:
            yield at
