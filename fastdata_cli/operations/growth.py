"""What a dataset that is added to has already: what becomes of its manifest, rejects and notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Reject

_EMPTY_CLASS = "empty-class: "


@dataclass(frozen=True, kw_only=True)
class Growth:
    """A dataset, and which samples of a source may be added to it."""

    manifest: Manifest
    """Of the dataset as it is."""
    samples: int
    """How many it has."""
    positions: NDArray[np.int64]
    """int64[M], ascending: where in the source the samples are that are tried."""
    rejects: tuple[Reject, ...]
    """Listed by earlier runs and not tried again."""
    source_fingerprint: str
    """Of the whole source, where the plan's is of the samples that are tried."""

    @property
    def identity(self) -> str:
        """Return what tells this state of the dataset from others, in hexadecimal."""
        return str(xxhash.xxh3_128_hexdigest(self.manifest.to_json().encode()))

    def grown(self, manifest: Manifest) -> Manifest:
        """Return the manifest of the larger dataset, given that of a run of its own."""
        source = {**manifest.source, "fingerprint": self.source_fingerprint}
        return replace(
            manifest, source=source, options=self.manifest.options, generations=self.manifest.runs
        )

    def with_generation(
        self, manifest: Manifest, added: int, counts: Mapping[str, Any]
    ) -> Manifest:
        """Return the manifest with what this run added and rejected as its last generation."""
        last = manifest.generation(len(manifest.generations) + 1, added, counts)
        return replace(manifest, generations=(*manifest.generations, last))

    def in_source(self, rejects: Iterable[Reject]) -> list[Reject]:
        """Return rejects of this run with their positions in the whole source."""
        return [replace(each, index=int(self.positions[each.index])) for each in rejects]

    def all_rejects(self, listing: Sequence[Reject], found: Sequence[Reject]) -> list[Reject]:
        """Return what the larger dataset lacks: what the listing found, then in source order."""
        others = sorted((*self.rejects, *found), key=lambda each: each.index)
        return [*listing, *others]

    def all_notes(self, listing: Mapping[str, int], found: Mapping[str, int]) -> Counter[str]:
        """Return the notes of the larger dataset.

        What the listing counts it has counted anew; what images are noted for adds up.
        """
        before: Mapping[str, int] = self.manifest.counts.get("notes", {})
        kept = {
            kind: count
            for kind, count in before.items()
            if kind not in listing and not kind.startswith(_EMPTY_CLASS)
        }
        return Counter(kept) + Counter(found) + Counter(listing)
