"""Owns judging whether a file is structurally whole, for formats that keep its bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fastdata_cli.imaging.headers import avif, gif, jpeg, plain, png, tiff, webp
from fastdata_cli.imaging.headers.header import Draft, Header, truncated
from fastdata_cli.imaging.policy import ImagePolicy
from fastdata_cli.imaging.probe import draft_of, settle
from fastdata_cli.imaging.source import MemorySource, Source

_VERIFIERS: Mapping[str, Callable[[Source], None]] = {
    "gif": gif.verify,
    "bmp": plain.verify_bmp,
    "tiff": tiff.verify,
    "webp": webp.verify,
    "avif": avif.verify,
    "pnm": plain.verify_pnm,
}
_DEFAULT = ImagePolicy()


def check(data: bytes | memoryview, policy: ImagePolicy = _DEFAULT) -> Header:
    """Judge a whole file without decoding it.

    A JPEG is followed to its own end marker, a PNG chunk by chunk with the checksums of what its
    pixels need, the others by the lengths they state. Coded data that is damaged without a trace
    in the structure is found by decoding only.

    Args:
        data: the whole file.
        policy: limits and switches.

    Returns:
        The header, with the notes that the structure shows.

    Errors:
        BadSampleError: as ``probe``, and truncated or corrupt.
    """
    source = MemorySource(data)
    draft = draft_of(source, policy)
    if draft.kind == "jpeg":
        _jpeg(data, draft, policy)
    elif draft.kind == "png":
        png.verify(bytes(data), draft, policy.allow_truncated)
    else:
        _VERIFIERS[draft.kind](source)
    return settle(draft, policy)


def _jpeg(raw: bytes | memoryview, draft: Draft, policy: ImagePolicy) -> None:
    end = jpeg.end_of_picture(raw, draft.read_to)
    if end is None:
        if not policy.allow_truncated:
            raise truncated("jpeg", "no end marker")
        draft.note("truncated")
    elif jpeg.trailing(raw, end):
        draft.note("trailing-bytes")
