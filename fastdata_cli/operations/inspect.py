"""inspect: what a dataset holds, in constant time; and one image or a contact sheet out of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.contract import Reader
from fastdata_cli.errors import BadSampleError, UnsupportedError, UsageError
from fastdata_cli.imaging.policy import DAMAGED_CONTAINER
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import printable, to_text
from fastdata_cli.operations.sampling import spread
from fastdata_cli.operations.sizes import stored_bytes
from fastdata_cli.operations.source import unlabelled
from fastdata_cli.operations.verify import Verification
from fastdata_cli.sample import Payload, Reject, Sample

INSPECT_VERSION = 1
"""Version of the JSON; documented in docs/inspect-json.md."""

# Images whose headers are read; more would not change the picture of a set.
_SAMPLED = 512
_NAMED = 10


@dataclass(frozen=True, kw_only=True)
class ImageStatistics:
    """Headers of encoded images, counted; an estimate where not all were read."""

    read: int
    estimate: bool
    """True when ``read`` is a sample of a larger set."""
    kinds: Mapping[str, int]
    sizes: Mapping[str, int]
    """``HxW`` as shown."""
    modes: Mapping[str, int]
    notes: Mapping[str, int]
    turned: int
    """Images with an EXIF orientation other than upright."""
    mean_bytes: float
    unreadable: Mapping[str, int]
    """By reason."""
    unreadable_first: tuple[Reject, ...] = ()
    """The first few of those, in order."""


@dataclass(frozen=True, kw_only=True)
class InspectReport:
    """What ``fastdata inspect`` shows; ``--json`` prints exactly these fields."""

    path: str
    format: str
    samples: int
    payload: str
    image_shape: tuple[int, ...] | None
    dtype: str
    class_names: tuple[str, ...]
    labels: Mapping[str, int]
    """Samples per label number, as text; -1 where there is none."""
    unlabelled_first: str | None
    """Key of the first sample without a label, where others have one."""
    keys: tuple[str, ...]
    """Some keys, in their text form."""
    layout: Mapping[str, Any]
    stored_bytes: int
    stored_bytes_exact: bool
    logical_bytes: int
    logical_bytes_exact: bool
    images: ImageStatistics | None
    """None for pixels: there are no headers."""
    made_by: str | None
    """Tool and version; None for datasets that others made."""
    source: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, Any] = field(default_factory=dict)
    generations: tuple[Mapping[str, Any], ...] = ()
    """What each run added; empty where none added to the first."""
    notes: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Mapping[str, Any], ...] = ()
    """What opening it found to be unusable."""
    verified: Verification | None = None
    """None unless everything was read."""

    @property
    def ratio(self) -> float | None:
        """Logical over stored bytes."""
        return self.logical_bytes / self.stored_bytes if self.stored_bytes else None

    @property
    def damage(self) -> str | None:
        """The first problem that makes this less than the dataset it was; None for a sound one.

        What others made may well have files that are not there.
        """
        grave = {DAMAGED_CONTAINER, "missing"} if self.made_by else {DAMAGED_CONTAINER}
        return next(
            (
                f"{each['key']}: {each['detail']}"
                for each in self.problems
                if each["reason"] in grave
            ),
            None,
        )

    def to_mapping(self) -> dict[str, Any]:
        """Return the documented JSON."""
        ratio = self.ratio
        return {
            "fastdata_inspect": INSPECT_VERSION,
            **asdict(self),
            "ratio": None if ratio is None else round(ratio, 4),
        }


def inspect(
    reader: Reader, format_name: str, *, verified: Verification | None = None
) -> InspectReport:
    """Describe a dataset from its metadata and at most 512 image headers.

    Args:
        reader: the dataset.
        format_name: of its format.
        verified: what reading everything found, where that was asked for.
    """
    images = None
    if reader.schema.payload is Payload.ENCODED and len(reader):
        images = _statistics(reader)
    stored = stored_bytes(reader)
    lacking = unlabelled(reader)
    manifest = reader.manifest
    return InspectReport(
        path=printable(str(reader.path)),
        format=format_name,
        samples=len(reader),
        payload=reader.schema.payload.value,
        image_shape=reader.schema.image_shape,
        dtype=reader.schema.dtype,
        class_names=reader.schema.class_names,
        labels=_histogram(reader),
        unlabelled_first=None if lacking is None else lacking[1],
        keys=_key_examples(reader),
        layout=reader.describe(),
        stored_bytes=stored.bytes,
        stored_bytes_exact=stored.exact,
        logical_bytes=_logical(reader, images),
        logical_bytes_exact=images is None or not images.estimate,
        images=images,
        made_by=None if manifest is None else manifest.tool,
        source={} if manifest is None else dict(manifest.source),
        options={} if manifest is None else manifest.options,
        counts={} if manifest is None else manifest.counts,
        generations=() if manifest is None else tuple(manifest.generations),
        notes=dict(reader.notes),
        problems=(
            *(
                {"key": to_text(r.key), "reason": r.reason, "detail": r.detail}
                for r in reader.rejects
            ),
            *(_absence(reader, file) for file in stored.absent),
        ),
        verified=verified,
    )


def find_sample(reader: Reader, which: str) -> Sample:
    """Return the sample with that key (in either form), or at that position.

    Raises:
        UsageError: there is none.
        BadSampleError: it cannot be read.
    """
    keys = reader.keys()
    table = KeyTable.of(keys)
    position = table.find(which)
    if position is None:
        position = table.find_text(which)
    if position is None and re.fullmatch("-?[0-9]{1,18}", which):
        number = int(which)
        position = number if -len(reader) <= number < len(reader) else None
    if position is None:
        raise UsageError(
            f"no sample has the key or position {to_text(which)!r} among {len(reader)}",
            hint=f"fastdata inspect {reader.path} shows some keys",
        )
    return reader.read(position)


def image_file(sample: Sample, payload: Payload) -> bytes:
    """Return a sample as the bytes of an image file: as stored, or as PNG for pixels.

    Raises:
        UnsupportedError: pixels that PNG does not hold.
    """
    if payload is Payload.ENCODED:
        return sample.image.tobytes()
    from fastdata_cli.imaging.encode import encode_png

    try:
        return encode_png(sample.image)
    except ValueError as problem:
        what = f"{sample.image.dtype}{list(sample.image.shape)}"
        raise UnsupportedError(
            f"{to_text(sample.key)}: PNG does not hold pixels of {what}",
            hint="it holds uint8 or uint16 of 1, 3 or 4 channels; in Python, open_reader gives any",
        ) from problem


def _absence(reader: Reader, file: Path) -> Mapping[str, Any]:
    file, root = file.absolute(), reader.path.absolute()
    inside = file.relative_to(root) if file.is_relative_to(root) else file
    return {"key": to_text(str(inside)), "reason": "missing", "detail": "this file is not there"}


def _histogram(reader: Reader) -> dict[str, int]:
    numbers, counts = np.unique(reader.labels(), return_counts=True)
    return {str(int(n)): int(c) for n, c in zip(numbers, counts, strict=True)}


def _key_examples(reader: Reader) -> tuple[str, ...]:
    keys = reader.keys()
    return tuple(to_text(keys[index]) for index in spread(len(reader), 5)) if len(reader) else ()


def _logical(reader: Reader, images: ImageStatistics | None) -> int:
    if images is None:
        return len(reader) * reader.schema.pixel_bytes
    return round(images.mean_bytes * len(reader))


def _statistics(reader: Reader) -> ImageStatistics:
    from fastdata_cli.imaging.probe import probe

    kinds, sizes, modes, notes, unreadable = (Counter[str]() for _ in range(5))
    bad: list[Reject] = []
    total = turned = 0
    positions = spread(len(reader), _SAMPLED)
    for position in positions:
        try:
            image = reader.read(position).image
            total += image.nbytes
            header = probe(image.data)
        except BadSampleError as problem:
            unreadable[problem.reason] += 1
            bad.append(_named(reader, position, problem))
            continue
        kinds[header.kind] += 1
        sizes["{}x{}".format(*header.size)] += 1
        modes[header.mode] += 1
        notes.update(header.notes)
        turned += header.orientation != 1
    return ImageStatistics(
        read=len(positions),
        estimate=len(positions) < len(reader),
        kinds=_ranked(kinds),
        sizes=_ranked(sizes),
        modes=_ranked(modes),
        notes=_ranked(notes),
        turned=turned,
        mean_bytes=total / len(positions),
        unreadable=_ranked(unreadable),
        unreadable_first=tuple(bad[:_NAMED]),
    )


def _named(reader: Reader, position: int, problem: BadSampleError) -> Reject:
    key = to_text(problem.key or reader.keys()[position])
    return Reject(key, problem.reason, problem.detail, position)


def _ranked(counter: Counter[str]) -> dict[str, int]:
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))
