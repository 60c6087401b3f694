"""Listings: which image files a source has, with their labels, before any of them is opened.

**Order.** A folder is listed in the order of its names as bytes, files and folders among each
other, and a folder's content stands where its name does: keys come in the order of their path
components. A list of paths keeps its own order.

**Labels.** The class of a file is the first folder below the root, and classes are numbered in
code-point order of all folders there, those without images too, so that a label does not depend on
which images survive. Files directly in the root are unlabelled, and so is every file of a root
without folders. A label table, or a given numbering, takes the place of this.

**Links** to files and folders are followed, and what lies behind them belongs to where the link
stands. A link to a folder that it lies in ends there, with a note.

**Ignored, and counted in the notes:** ``hidden`` names (one leading dot), ``junk`` of desktops and
file servers, ``special-file`` (pipes, sockets, devices: never opened), ``other-name`` (no image
suffix), ``link-loop``, ``dangling-link`` (of something else than an image), ``empty-class: NAME``,
``image-without-label``, ``empty-label`` and ``label-without-image`` (of a label table).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import from_bytes
from fastdata_cli.sample import UNLABELLED, Reject
from fastdata_cli.storage.labels import LabelTable
from fastdata_cli.storage.listing_names import is_image_name
from fastdata_cli.storage.listing_paths import below_root, read_path_list, start_of
from fastdata_cli.storage.listing_rows import Rows, digests, first_folders, number_classes, text_of
from fastdata_cli.storage.listing_walk import TreeWalk
from fastdata_cli.storage.table import fingerprint

__all__ = ["Listing", "list_image", "list_paths", "list_tree", "read_path_list", "start_of"]


@dataclass(frozen=True)
class Listing:
    """N files as arrays: about 16 bytes each beside its name."""

    root: Path
    files: KeyTable
    """Their paths below the root, which are the keys."""
    labels: NDArray[np.int64]
    """int64[N], -1 without a label."""
    class_names: tuple[str, ...] = ()
    rejects: tuple[Reject, ...] = ()
    """What cannot be a sample and is not among ``files``."""
    notes: Mapping[str, int] = field(default_factory=dict)
    """What was ignored or is odd, counted by kind."""

    def fingerprint(self) -> str:
        """Return the xxh3-128 over keys, labels and class names, in hexadecimal."""
        return fingerprint(self.files, self.labels, self.class_names)


def list_tree(
    root: Path,
    *,
    labels: LabelTable | None = None,
    classes: Sequence[str] | None = None,
    is_wanted: Callable[[bytes], bool] = is_image_name,
) -> Listing:
    """List all images below a folder.

    Args:
        root: the folder.
        labels: takes the place of the folders' names.
        classes: the numbering of the classes.
        is_wanted: tells by their names the files that are listed, where not images are.

    Raises:
        SourceNotFoundError: there is nothing at ``root``.
        NotADatasetError: it is no folder, or not one that may be listed.
        UsageError: a class with images is not in ``classes``, or the labels fit no file.
    """
    walk = TreeWalk(root, is_wanted)
    listed = _Listed(walk.rows.files(), walk.rows.codes(), [from_bytes(top) for top in walk.tops])
    return listed.labelled(root, labels, classes, tuple(walk.rejects), walk.notes)


def list_paths(
    paths: Iterable[bytes | str],
    *,
    root: Path | None = None,
    start: Path | None = None,
    labels: LabelTable | None = None,
    classes: Sequence[str] | None = None,
) -> Listing:
    """List the images that somebody named, in their order; none is looked at here.

    Args:
        paths: absolute, or relative to ``start``.
        root: what keys are relative to; None takes the deepest folder that holds all of them.
        start: where relative paths start; None is the working directory.
        labels: takes the place of the folders' names.
        classes: the numbering of the classes.

    Returns:
        The listing; a path that comes again is a reject, ``duplicate-key``.

    Raises:
        UsageError: a path lies outside the root or holds a NUL byte; also as ``list_tree``.
    """
    base, files = below_root(paths, root, start)
    files, rejects = _without_repeats(files)
    return _Listed(files, *first_folders(files)).labelled(base, labels, classes, rejects, {})


def list_image(
    path: Path, *, labels: LabelTable | None = None, classes: Sequence[str] | None = None
) -> Listing:
    """List a single image file; its folder is the root. Raises as ``list_tree``."""
    rows = Rows()
    rows.add([text_of(os.fsencode(path.name))], UNLABELLED)
    listed = _Listed(rows.files(), rows.codes(), [])
    return listed.labelled(path.parent, labels, classes, (), {})


@dataclass(frozen=True)
class _Listed:
    """Files with the folder that gives each its class."""

    files: KeyTable
    codes: NDArray[np.int64]
    tops: list[str]

    def labelled(
        self,
        root: Path,
        labels: LabelTable | None,
        classes: Sequence[str] | None,
        rejects: tuple[Reject, ...],
        notes: Mapping[str, int],
    ) -> Listing:
        if labels is not None:
            found = labels.apply(self.files, classes)
            kinds = {kind: n for kind, n in notes.items() if not kind.startswith("empty-class: ")}
            notes = {**kinds, **found.notes}
            numbers, class_names = found.labels, found.class_names
        else:
            numbers, class_names = number_classes(self.codes, self.tops, classes)
        return Listing(root, self.files, numbers, class_names, rejects, dict(sorted(notes.items())))


def _without_repeats(files: KeyTable) -> tuple[KeyTable, tuple[Reject, ...]]:
    found = digests(files)
    firsts = np.unique(found, return_index=True)[1]
    if len(firsts) == len(files):
        return files, ()
    again = np.ones(len(files), bool)
    again[firsts] = False
    rejects = tuple(
        Reject(files[index], "duplicate-key", f"path {index + 1} of the list names it again")
        for index in np.flatnonzero(again).tolist()
    )
    return KeyTable.from_keys(files.take(np.flatnonzero(~again))), rejects
