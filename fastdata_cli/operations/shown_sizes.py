"""Sizes of a source's images as they are shown, from their headers alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fastdata_cli.contract import Reader
from fastdata_cli.errors import BadSampleError, NothingUsableError
from fastdata_cli.imaging.policy import ImagePolicy
from fastdata_cli.operations.settings import ConvertOptions


def common_size(reader: Reader, options: ConvertOptions) -> tuple[int, int] | None:
    """Return the one (height, width) as shown of all images, or None when they differ.

    Headers only; stops at the first difference. Unreadable ones do not vote.

    Raises:
        NothingUsableError: no header can be read.
    """
    first: tuple[int, int] | None = None
    for size in shown_sizes(reader, options):
        if first is None:
            first = size
        elif size != first:
            return None
    if first is None:
        raise NothingUsableError(
            f"{reader.path}: not one image has a readable header",
            hint="see which and why: fastdata convert SRC DST --payload encoded",
        )
    return first


def shown_sizes(reader: Reader, options: ConvertOptions) -> Iterator[tuple[int, int]]:
    """Yield the (height, width) as shown of each image whose header can be read."""
    policy = options.policy()
    for index in range(min(len(reader), options.limit or len(reader))):
        try:
            yield _size(reader, index, policy)
        except BadSampleError:
            continue


def _size(reader: Reader, index: int, policy: ImagePolicy) -> tuple[int, int]:
    from fastdata_cli.imaging.probe import HEAD_BYTES, probe

    head = reader.head(index, HEAD_BYTES)
    if len(head) == HEAD_BYTES:
        # A JPEG tells its size and orientation early, unless a thumbnail or profile is in the way;
        # other types may keep the orientation at their end.
        with contextlib.suppress(BadSampleError):
            header = probe(head.data, policy)
            if header.kind == "jpeg":
                return header.size
        head = reader.read(index).image
    return probe(head.data, policy).size
