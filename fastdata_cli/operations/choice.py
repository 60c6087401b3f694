"""Which samples of a source are tried for a dataset that lacks them, and which stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Format, Reader
from fastdata_cli.errors import BadSampleError
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import to_text
from fastdata_cli.operations.events import Listener
from fastdata_cli.operations.pairing import Pairing, pair
from fastdata_cli.operations.rejects import read_rejects
from fastdata_cli.operations.source import Source
from fastdata_cli.operations.transform import FILLED
from fastdata_cli.operations.words import count_text, label_of, some
from fastdata_cli.sample import Reject


@dataclass(frozen=True, kw_only=True)
class AppendRequest:
    """What somebody wants added to a dataset."""

    new: bool = True
    """What the dataset neither holds nor lists among its rejects (``--append``)."""
    again: bool = False
    """What is listed among its rejects (``--retry-bad``)."""
    options: Mapping[str, Any] | None = None
    """Options that were given, by the names of ConvertOptions: they may not contradict it."""
    write_options: Mapping[str, Any] | None = None
    """Those of the format."""


@dataclass(frozen=True)
class Standing:
    """The dataset that is added to."""

    path: Path
    row: Format
    reader: Reader


@dataclass(frozen=True)
class Choice:
    """Which samples of the source are tried."""

    source: Source
    standing: Standing
    pairing: Pairing
    """The dataset first, the source second."""
    positions: NDArray[np.int64]
    rejects: list[Reject]
    """Listed earlier, and not tried."""
    listed: int
    """How many samples of the source are listed and not held."""
    healed: bool
    """Entries of the list are held by now: it was to be written anew when a run was killed."""


def choose(source: Source, standing: Standing, request: AppendRequest) -> Choice:
    """Compare a source with a dataset and its rejects."""
    current = KeyTable.of(source.reader.keys())
    pairing = pair(KeyTable.of(standing.reader.keys()), current)
    listed = {to_text(each.key): each for each in read_rejects(standing.path) if each.index >= 0}
    missing = pairing.only_second
    bad = np.fromiter((current.text(at) in listed for at in missing.tolist()), bool, len(missing))
    wanted = (~bad & request.new) | (bad & request.again)
    where = {current.text(at): at for at in missing[bad & ~wanted].tolist()}
    tried = {current.text(at) for at in missing[bad & wanted].tolist()}
    done = _healed(pairing, current, listed, standing.reader)
    rejects = [
        replace(each, index=where.get(text, each.index))
        for text, each in listed.items()
        if text not in tried and text not in done
    ]
    return Choice(
        source, standing, pairing, missing[wanted], rejects, int(bad.sum()), healed=bool(done)
    )


def _healed(
    pairing: Pairing, current: KeyTable, listed: Mapping[str, Reject], standing: Reader
) -> set[str]:
    """Return which listed samples the dataset holds, but for those that a grey image stands for."""
    if not listed:
        return set()
    pairs = zip(pairing.first.tolist(), map(current.text, pairing.second.tolist()), strict=True)
    held = [(at, text) for at, text in pairs if text in listed]
    return {text for at, text in held if not _is_filled(standing, at)}


def _is_filled(reader: Reader, index: int) -> bool:
    """Tell whether an image is the grey one of ``--on-bad fill``, whichever run put it there."""
    try:
        return FILLED in (reader.read(index).metadata or {})
    except BadSampleError:  # nobody can tell: it stays listed
        return True


def say_what_stays(choice: Choice, listener: Listener) -> None:
    """Tell what of the dataset is not as the source has it now, and stays as it is."""
    own, current = (
        KeyTable.of(choice.standing.reader.keys()),
        KeyTable.of(choice.source.reader.keys()),
    )
    if not len(choice.pairing.first) and len(own) and len(current):
        listener.notice(
            f"not one key of the source is in the dataset: {current.text(0)} here, {own.text(0)} "
            "there; where they should be the same, choose what keys are relative to with --root"
        )
    for positions, what in (
        (choice.pairing.only_first, "no longer in the source, and kept"),
        (_relabelled(choice), "relabelled in the source, and kept with the old label"),
    ):
        if len(positions):
            names = some(map(own.text, positions.tolist()), len(positions))
            listener.notice(f"{count_text(len(positions), 'sample')} {what}: {names}")


def _relabelled(choice: Choice) -> NDArray[np.int64]:
    """Return which samples of the dataset have another label in the source."""
    sides = (choice.standing.reader, choice.source.reader)
    names: Sequence[Sequence[str]] = [reader.schema.class_names for reader in sides]
    names = names if all(names) else ((), ())
    first, second = choice.pairing.first, choice.pairing.second
    pairs = zip(sides[0].labels()[first].tolist(), sides[1].labels()[second].tolist(), strict=True)
    other = (label_of(old, names[0]) != label_of(new, names[1]) for old, new in pairs)
    moved: NDArray[np.int64] = first[np.fromiter(other, bool, len(first))]
    return moved
