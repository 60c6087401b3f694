"""What a source may be converted to: the formats that ``convert --dry-run`` tries without a DST.

One row each. A format belongs here if people choose it for training and plain fastdata writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fastdata_cli.operations.settings import ConvertOptions
from fastdata_cli.options import flag_words
from fastdata_cli.sample import Payload


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A destination and what is decided about it; the rest is the user's or the format's choice."""

    destination: str
    """Its name, by which the format is known."""
    payload: Payload
    write: Mapping[str, Any] = field(default_factory=dict)
    """Options of the format."""
    max_side: int | None = None
    """Re-encoded at this size."""

    def options(self, given: ConvertOptions, size: tuple[int, int] | None) -> ConvertOptions:
        """Return the options of a conversion to it.

        Args:
            given: the user's.
            size: (height, width) of images in a batch, where the source's are encoded.
        """
        if self.payload is Payload.PIXELS:
            return replace(given, size=f"{size[0]}x{size[1]}") if size else given
        usual = ConvertOptions()
        files = replace(given, size=None, fit=usual.fit, interpolation=usual.interpolation)
        return replace(files, max_side=self.max_side or given.max_side)

    @property
    def name(self) -> str:
        """Destination and what distinguishes it, as they are typed."""
        side = {"max_side": self.max_side} if self.max_side else {}
        return " ".join([self.destination, *flag_words({**self.write, **side})])


_FILES = (
    Candidate(destination="out.lmdb", payload=Payload.ENCODED),
    Candidate(destination="train-%06d.tar", payload=Payload.ENCODED, write={"shard_samples": 1000}),
)
_PIXELS = (
    Candidate(destination="out.raw", payload=Payload.PIXELS),
    Candidate(destination="out.zarr", payload=Payload.PIXELS),
    Candidate(
        destination="out.zarr", payload=Payload.PIXELS, write={"chunk": 1000, "codec": "lz4"}
    ),
    Candidate(
        destination="out.zarr",
        payload=Payload.PIXELS,
        write={"chunk": 1, "shard_samples": 1000, "codec": "zstd"},
    ),
    Candidate(destination="out.h5", payload=Payload.PIXELS),
)


def candidates(stored: Payload, given: ConvertOptions, max_side: int | None) -> Iterator[Candidate]:
    """Yield what is worth trying: the files as they are, smaller files, pixels.

    Args:
        stored: what the source holds; of pixels no files are made.
        given: the user's options; a payload narrows the choice, as does what makes JPEG files.
        max_side: of smaller files, as ``max_side_for`` has it for images in a batch.
    """
    reencoded = given.max_side is not None or given.quality is not None
    if stored is Payload.ENCODED and given.payload != str(Payload.PIXELS):
        yield from _FILES
        if not reencoded and max_side is not None:
            yield replace(_FILES[0], max_side=max_side)
    if given.payload != str(Payload.ENCODED) and not reencoded:
        yield from _PIXELS
