"""append: settles which samples of a source a dataset lacks, and how they are added to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fastdata_cli import registry
from fastdata_cli.contract import Capability, Reader
from fastdata_cli.errors import (
    DamagedDatasetError,
    SourceNotFoundError,
    UnsupportedError,
    UsageError,
)
from fastdata_cli.keys import to_text
from fastdata_cli.manifest import Manifest
from fastdata_cli.operations.append_options import (
    agreed_checks,
    agreed_options,
    agreed_write_options,
)
from fastdata_cli.operations.changed import say_what_changed
from fastdata_cli.operations.choice import (
    AppendRequest,
    Choice,
    Standing,
    choose,
    say_what_stays,
)
from fastdata_cli.operations.events import Listener
from fastdata_cli.operations.growth import Growth
from fastdata_cli.operations.plan import Plan, make_plan
from fastdata_cli.operations.rejects import rejects_path, write_rejects
from fastdata_cli.operations.settings import ConvertOptions
from fastdata_cli.operations.shown_sizes import shown_sizes
from fastdata_cli.operations.source import Source
from fastdata_cli.operations.subset import Renumbered
from fastdata_cli.operations.words import count_text, some
from fastdata_cli.sample import UNLABELLED, Payload
from fastdata_cli.storage.staging import Staging


def open_standing(path: Path, to: str | None = None) -> Standing:
    """Open the dataset that is added to; clears away what a run left that had finished.

    Args:
        to: the format that the caller takes it for.

    Raises:
        SourceNotFoundError: there is nothing yet.
        UsageError: it has another format.
        UnsupportedError: nothing can be added to it: its format has no APPEND, or others made it.
        DamagedDatasetError: its table is not what was written.
    """
    if path.is_symlink():  # the staging place must lie where a rename reaches
        path = path.resolve()
    staging = Staging(path)
    if staging.is_remnant:
        staging.clear()
    try:
        row = registry.recognise(path)
    except SourceNotFoundError as problem:
        raise SourceNotFoundError(
            f"{path}: there is no dataset yet to add to",
            hint="make it with the same command without --append",
            path=str(path),
        ) from problem
    if to is not None and to != row.name:
        raise UsageError(f"{path} is {row.name}, not {to}", hint="leave --to out")
    if Capability.APPEND not in row.capabilities:
        able = [
            each.name for each in registry.all_formats() if Capability.APPEND in each.capabilities
        ]
        raise UnsupportedError(
            f"{path}: nothing can be added to a dataset in format {row.name}",
            hint="convert the whole source again, with --overwrite; "
            f"formats that grow: {', '.join(able)}",
            path=str(path),
        )
    reader = row.open_reader(path, row.read_options())
    if reader.manifest is None:
        raise UnsupportedError(
            f"{path} was not made by fastdata: no manifest says how its samples were made",
            hint=f"convert it first: fastdata convert {path} NEW{row.suffixes[0]}",
            path=str(path),
        )
    changed = reader.check_table()
    if changed is not None:
        raise DamagedDatasetError(
            f"{path}: {changed.detail}",
            hint=f"see what is left of it: fastdata inspect {path} --verify",
            path=str(path),
        )
    return Standing(path, row, reader)


def plan_append(
    source: Source, standing: Standing, request: AppendRequest, listener: Listener
) -> Plan | None:
    """Settle what will be added; says on ``listener`` what stays as it is.

    Returns:
        None if there is nothing to add: then nothing was touched.

    Raises:
        UsageError: an option or a label that contradicts the dataset.
        UnsupportedError: samples that the dataset cannot hold.
    """
    manifest = standing.reader.manifest
    assert manifest is not None, "open_standing has seen it"
    options = agreed_options(manifest, request.options or {})
    write = agreed_write_options(manifest, standing.row, request.write_options or {})
    checks = agreed_checks(manifest)
    choice = choose(source, standing, request)
    if request.new:
        say_what_stays(choice, listener)
        say_what_changed(source, standing.reader, choice.pairing, options, listener)
    if not len(choice.positions):
        if choice.healed:
            write_rejects(standing.path, [*source.rejects, *choice.rejects])
        listener.notice(_nothing(source, standing, request, choice))
        return None
    reader = _renumbered(source.reader, standing.reader, choice, listener, all_classes=request.new)
    _say_resized(manifest, options, reader, listener)
    growth = Growth(
        manifest=manifest,
        samples=len(standing.reader),
        positions=choice.positions,
        rejects=tuple(choice.rejects),
        source_fingerprint=source.fingerprint,
    )
    plan = make_plan(
        source.narrowed(reader), standing.path, standing.row, options, write, listener, clean=checks
    )
    _require_same_kind(plan, standing.reader)
    plan = replace(plan, growth=growth)
    what = " or ".join(["new"] * request.new + ["tried again"] * request.again)
    held = f"; {len(choice.pairing.first):,} of the source are there already" * request.new
    listener.notice(f"{count_text(plan.total, 'sample is', 'samples are')} {what}{held}")
    return plan


def _nothing(source: Source, standing: Standing, request: AppendRequest, choice: Choice) -> str:
    if not request.new:
        if not choice.rejects:
            return f"nothing to try again: {rejects_path(standing.path)} lists no sample"
        return (
            f"nothing to try again: what {rejects_path(standing.path)} lists is not in"
            f" {source.name}, or in the dataset already"
        )
    text = f"nothing new: {standing.path} holds what is in {source.name}"
    if choice.listed:
        text += (
            f", but for {count_text(choice.listed, 'bad sample')} listed in "
            f"{rejects_path(standing.path).name} (--retry-bad tries them again)"
        )
    return text


def _renumbered(
    source: Reader, standing: Reader, choice: Choice, listener: Listener, *, all_classes: bool
) -> Renumbered:
    """Return the samples that are tried, under the numbers of the dataset's classes."""
    old, names = standing.schema.class_names, source.schema.class_names
    labels = np.unique(source.labels()[choice.positions])
    labels = labels[labels >= 0]
    if names == old:
        return Renumbered(source, choice.positions, None, old)
    if not names:
        _require_names(labels, old, "the dataset")
        return Renumbered(source, choice.positions, None, old)
    _require_names(labels, names, "the source")
    if not old and (standing.labels() >= 0).any():
        raise UsageError(
            "the labels of the dataset are numbers without names, and the source names its classes",
            hint="give --labels with numbers",
        )
    used = range(len(names)) if all_classes else labels.tolist()
    fresh = [names[label] for label in used if names[label] not in set(old)]
    if fresh:  # their numbers begin where the names of the dataset end
        _require_names(standing.labels(), old, "the dataset")
    number = {name: at for at, name in enumerate((*old, *fresh))}
    numbers = np.array([*(number.get(name, -1) for name in names), -1], np.int64)
    if fresh and old:
        shown = some((f"{number[name]} {to_text(name)}" for name in fresh), len(fresh))
        listener.notice(
            f"new classes take the next numbers, whatever their names: {shown}; "
            "the numbers of the others never change"
        )
    return Renumbered(source, choice.positions, numbers, (*old, *fresh))


def _require_names(labels: NDArray[np.int64], names: Sequence[str], whose: str) -> None:
    """Refuse a label that no class stands for: under other numbers it would be another one's."""
    highest = int(labels.max(initial=UNLABELLED))
    if highest >= len(names):
        raise UsageError(
            f"label {highest} is beyond the {len(names)} classes of {whose}",
            hint="every label needs a name here, or it becomes that of another class; "
            "what has none can be converted to a dataset of its own",
        )


def _say_resized(
    manifest: Manifest, options: ConvertOptions, reader: Renumbered, listener: Listener
) -> None:
    """Say so where new images are resized to the size that all of the dataset had by themselves."""
    sized = manifest.schema.payload is Payload.PIXELS and "size" not in manifest.options
    if not sized or reader.schema.payload is not Payload.ENCODED:
        return
    if any(size != options.settled_size for size in shown_sizes(reader, options)):
        listener.notice(
            f"new images have other sizes: they are stored as {options.size} pixels like the "
            f"others, {options.fit} and {options.interpolation}"
        )


def _require_same_kind(plan: Plan, standing: Reader) -> None:
    wanted, found = standing.schema, plan.schema
    if (found.image_shape, found.dtype) != (wanted.image_shape, wanted.dtype):
        raise UnsupportedError(
            f"{plan.path} holds {wanted.dtype}{list(wanted.image_shape or ())} pixels, and the new "
            f"samples are {found.dtype}{list(found.image_shape or ())}"
        )
