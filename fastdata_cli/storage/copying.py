"""Copies ranges of mapped files into a batch, in one call for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np

from fastdata_cli.extents import Bytes, Column
from fastdata_cli.storage.mapping import MappedFile

_LONGEST = 1 << 30
"""Bytes of a row that OpenCV counts in."""


def copy(files: Sequence[MappedFile], offsets: Column, lengths: Column, out: Bytes) -> None:
    """Copy ranges of files into ``out``, end to end, in one call for all of them.

    Args:
        files: the file of each range, or the one of all.
        offsets: where each range begins.
        lengths: its bytes.
        out: as ``Gather.fill``.
    """
    if not len(offsets):
        return
    if len(files) == 1 and _copy_rows(files[0].data, offsets, lengths, out):
        return
    each = files if len(files) == len(offsets) else repeat(files[0])
    ranges = zip(each, offsets.tolist(), (offsets + lengths).tolist(), strict=False)
    pieces = [file.data[begin:end] for file, begin, end in ranges]
    if 0 < lengths[0] <= _LONGEST and (lengths == lengths[0]).all():
        _join(pieces, out[: int(lengths.sum())].reshape(len(pieces), -1))
    else:
        np.concatenate(pieces, out=out[: int(lengths.sum())])


def _join(pieces: Sequence[Bytes], out: Bytes) -> None:
    """Copy pieces of one length into the rows of ``out``.

    ``np.concatenate`` takes the interpreter lock for each piece; OpenCV gives it up once for all.
    Two threads that each made batches of 64 pieces of 150 KB took 27 % less time so.
    """
    import cv2

    joined = cv2.vconcat([piece[np.newaxis] for piece in pieces], out)
    if not np.may_share_memory(joined, out):  # it has taken memory of its own
        np.copyto(out, joined)


def _copy_rows(data: Bytes, offsets: Column, lengths: Column, out: Bytes) -> bool:
    """Copy ranges that are rows of one array, if they are; no object is made for each of them."""
    each = int(lengths[0])
    start = int(offsets[0]) % max(each, 1)
    rows, rest = np.divmod(offsets - start, max(each, 1))
    if not each or (lengths != each).any() or rest.any():
        return False
    source = data[start : start + (len(data) - start) // each * each].reshape(-1, each)
    # The rows are there. With its default mode NumPy buffers ``out``, at half the speed.
    np.take(source, rows, 0, out[: len(rows) * each].reshape(-1, each), "clip")
    return True
