"""Owns turning a file's bytes into RGB pixels by the image policy.

Decoders are loaded on the first call. Any number of threads may decode at once: nothing here
touches process-wide state on a call, and the codecs work without the interpreter lock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging.check import check
from fastdata_cli.imaging.headers.header import Header
from fastdata_cli.imaging.policy import ImagePolicy
from fastdata_cli.imaging.probe import probe, refuse_strictly
from fastdata_cli.imaging.resize import opencv
from fastdata_cli.imaging.turn import turn, turn_back

_DEFAULT = ImagePolicy()
# libjpeg's words for pixels that it made up. It tells only the first remark about a picture.
_LOSSES = ("premature end", "bad huffman", "instead of rst")
# How its remarks begin that are no errors. simplejpeg hides errors in the coded data as well when
# told not to be strict, so that every other remark has to be taken for one.
_REMARKS = (
    "Application transferred",
    "Corrupt JPEG data",
    "Inconsistent progression",
    "Invalid SOS parameters",
    "Premature end",
    "Unknown Adobe",
    "Warning",
)
# turbojpeg knows the usual samplings only, libjpeg itself all of them.
_OTHER_SAMPLING = "Could not determine subsampling"
_SCALES = (8, 4, 2)


@dataclass(frozen=True, slots=True)
class Decoded:
    """One decoded picture.

    Attributes:
        pixels: uint8, H x W x 3, RGB, C-contiguous, upright; H x W where grey was asked for.
        notes: words of ``NOTES`` that apply.
        full_size: (height, width) of the whole picture as shown; larger than ``pixels`` when the
            decoder was allowed to scale down.
        header: what the file says of itself, with the notes that its structure shows.
    """

    pixels: NDArray[np.uint8]
    notes: tuple[str, ...]
    full_size: tuple[int, int]
    header: Header


def decode(
    data: bytes | memoryview,
    policy: ImagePolicy = _DEFAULT,
    *,
    at_least: tuple[int, int] | None = None,
    grey: bool = False,
) -> Decoded:
    """Decode one picture.

    Args:
        data: the whole file.
        policy: limits and switches.
        at_least: (height, width) as shown that the result must cover. A JPEG may then come at
            1/2, 1/4 or 1/8 of its size (sides rounded up), which is faster; a picture that is
            smaller than this comes at its own size.
        grey: return luma by ITU-R BT.601 (0.299 R + 0.587 G + 0.114 B), H x W. Of a colour JPEG
            that is the channel it stores, a fifth faster than RGB; it is judged as strictly.

    Returns:
        Pixels that belong to the caller, with notes and the full size.

    Errors:
        BadSampleError: any reason of the policy but those of reading files.
    """
    raw = data if isinstance(data, bytes) else bytes(data)
    header = check(raw, policy)
    notes = list(header.notes)
    scale = 1
    if header.kind == "jpeg":
        scale = reduction(header.size, at_least)
        pixels = turn(_jpeg(raw, header, scale, notes, policy, grey), header.orientation)
    else:
        pixels = _other(raw, header, notes, policy)
    if grey:
        pixels = luma(pixels)
    scaled = tuple(-(-side // scale) for side in header.size)
    if pixels.shape[:2] not in (scaled, header.size):
        raise BadSampleError(
            reason="corrupt", detail=f"{header.kind}: header and data disagree about the size"
        )
    kept = tuple(dict.fromkeys(notes))
    refuse_strictly(kept, policy)
    return Decoded(pixels, kept, header.size, header)


def luma(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Grey by ITU-R BT.601, rounded: uint8, H x W, of RGB (H x W x 3) or of grey itself."""
    if pixels.ndim == 2 or pixels.shape[2] == 1:
        return pixels.reshape(pixels.shape[:2])
    cv2 = opencv()
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.uint8)


def reduction(size: tuple[int, int], at_least: tuple[int, int] | None) -> int:
    """The largest reduction of a picture that still covers ``at_least``; (height, width) each."""
    if at_least is None:
        return 1
    (height, width), (least_height, least_width) = size, at_least
    for scale in _SCALES:
        # Sides are rounded up when they are divided.
        if height > (least_height - 1) * scale and width > (least_width - 1) * scale:
            return scale
    return 1


def _jpeg(
    raw: bytes, header: Header, scale: int, notes: list[str], policy: ImagePolicy, grey: bool
) -> NDArray[np.uint8]:
    import simplejpeg

    cmyk = header.mode == "CMYK"
    options = {
        "colorspace": "CMYK" if cmyk else "GRAY" if grey else "RGB",
        "min_height": -(-header.height // scale),
        "min_width": -(-header.width // scale),
        "min_factor": scale,
    }
    try:
        pixels = simplejpeg.decode_jpeg(raw, **options)
    except ValueError as problem:
        if _OTHER_SAMPLING in str(problem):
            return _despite_header(raw, str(problem), notes)
        _judge(str(problem), notes, policy)
        try:
            pixels = simplejpeg.decode_jpeg(raw, strict=False, **options)
        except ValueError as again:
            return _despite_header(raw, str(again), notes)
    return _ink(pixels) if cmyk else pixels


def _despite_header(raw: bytes, remark: str, notes: list[str]) -> NDArray[np.uint8]:
    """Decode what simplejpeg will not: rare samplings, and any remark about the header."""
    from fastdata_cli.imaging import pillow

    if "truncated" in notes:
        raw += b"\xff\xd9"  # Pillow refuses data without an end marker, and fills in with one
    try:
        return pillow.decode_jpeg(raw)
    except BadSampleError as problem:
        raise _rejection(remark, notes) from problem


def _judge(remark: str, notes: list[str], policy: ImagePolicy) -> None:
    lost = any(word in remark.lower() for word in _LOSSES)
    if not remark.startswith(_REMARKS):
        raise _rejection(remark, notes)
    if lost and not policy.allow_truncated:
        raise BadSampleError(reason="corrupt", detail=f"jpeg: {remark}")
    if "truncated" not in notes:
        notes.append("decoder-warning")


def _rejection(remark: str, notes: list[str]) -> BadSampleError:
    reason = "truncated" if "truncated" in notes else "corrupt"
    if "nsupported" in remark or "not supported" in remark:
        reason = "unsupported-format"
    return BadSampleError(reason=reason, detail=f"jpeg: {remark}")


def _ink(stored: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """RGB of inverted CMYK (uint8, H x W x 4): colour times key over 255, rounded.

    By the Adobe convention the stored numbers are 255 minus ink, marker or not.
    """
    pixels = np.empty((*stored.shape[:2], 3), np.uint8)
    for row, out in zip(stored, pixels, strict=True):
        key = row[:, 3:].astype(np.uint32)
        product = (255 - row[:, :3]) * key + 128
        out[:] = key - ((product + (product >> 8)) >> 8)
    return pixels


def _other(raw: bytes, header: Header, notes: list[str], policy: ImagePolicy) -> NDArray[np.uint8]:
    from fastdata_cli.imaging import pillow

    pixels = pillow.decode(raw, header.kind, notes, policy)
    if header.kind != "tiff":
        return turn(pixels, header.orientation)
    # Pillow turns TIFF by itself, and cannot be told not to.
    return (
        pixels
        if policy.orient
        else turn_back(pixels, probe(raw, replace(policy, orient=True)).orientation)
    )
