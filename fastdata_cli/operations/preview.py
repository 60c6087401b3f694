"""A contact sheet: some images of a dataset on one page, each with its label and key."""

from __future__ import annotations

import math
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Reader
from fastdata_cli.errors import BadSampleError, NothingUsableError
from fastdata_cli.keys import to_text
from fastdata_cli.operations.sampling import spread
from fastdata_cli.sample import Payload, Sample

_TILE = 160
_CAPTION = 34
_GAP = 10
_PAPER = (250, 250, 248)
_INK = (40, 40, 40)
_FAINT = (130, 130, 130)


def contact_sheet(reader: Reader, count: int = 24) -> NDArray[np.uint8]:
    """Return a page of ``count`` images spread evenly over the dataset, H×W×3 RGB.

    A sample that cannot be shown is drawn as an empty tile with the reason.

    Raises:
        NothingUsableError: the dataset is empty.
    """
    from PIL import Image, ImageDraw

    positions = spread(len(reader), count) if len(reader) else []
    if not positions:
        raise NothingUsableError(f"{reader.path}: no sample to show")
    columns = min(len(positions), max(1, round(math.sqrt(len(positions) * 1.5))))
    rows = -(-len(positions) // columns)
    width, height = columns * (_TILE + _GAP) + _GAP, rows * (_TILE + _CAPTION + _GAP) + _GAP
    page = Image.new("RGB", (width, height), _PAPER)
    pen = ImageDraw.Draw(page)
    for place, position in enumerate(positions):
        x = _GAP + place % columns * (_TILE + _GAP)
        y = _GAP + place // columns * (_TILE + _CAPTION + _GAP)
        label, name = "", f"sample {position}"
        try:
            sample = reader.read(position)
            label, name = _label(reader, sample), PurePosixPath(to_text(sample.key)).name
            page.paste(Image.fromarray(_tile(reader, sample)), (x, y))
        except BadSampleError as problem:
            pen.rectangle((x, y, x + _TILE, y + _TILE), outline=_FAINT)
            pen.text((x + 8, y + 8), problem.reason, fill=_INK)
        pen.text((x, y + _TILE + 3), _short(label), fill=_INK)
        pen.text((x, y + _TILE + 17), _short(name), fill=_FAINT)
    return np.asarray(page)


def _tile(reader: Reader, sample: Sample) -> NDArray[np.uint8]:
    from fastdata_cli.imaging.decode import decode
    from fastdata_cli.imaging.resize import resize

    pixels = sample.image
    if reader.schema.payload is Payload.ENCODED:
        pixels = decode(sample.image.data).pixels
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
        raise BadSampleError(reason="not-shown", detail=f"{pixels.dtype}{list(pixels.shape)}")
    if pixels.shape[2] == 1:
        pixels = np.repeat(pixels, 3, axis=2)
    return resize(pixels, (_TILE, _TILE), "pad", "area", background=_PAPER)


def _label(reader: Reader, sample: Sample) -> str:
    if sample.label < 0:
        return ""
    names = reader.schema.class_names
    name = names[sample.label] if sample.label < len(names) else ""
    return f"{sample.label} {to_text(name)}".strip()


def _short(text: str, most: int = 25) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
