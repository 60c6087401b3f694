"""What is remembered of the images that were the first of their kind."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.keys import from_bytes, to_bytes
from fastdata_cli.quality.fingerprints import LOOK_BYTES, Fingerprint
from fastdata_cli.quality.scratch import Column, Texts


class Entries:
    """Keys and fingerprints in the order in which they came, numbered from 0.

    Args:
        kind: of the fingerprints: ``exact``, ``pixels`` or ``near``.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.hashes = Column("<u8")
        """uint64[N], the values of the fingerprints; a ``HashIndex`` adds to it."""
        self.looks = Column(f"V{LOOK_BYTES[kind]}")
        """Void[N], their looks, as bytes."""
        self.keys = Texts()
        """The keys, as bytes."""

    def __len__(self) -> int:
        return len(self.hashes)

    def append(self, key: str, fingerprint: Fingerprint) -> None:
        """Add one image, but for its hash.

        Raises:
            StorageError: there is no room for it.
        """
        self.looks.append(np.void(bytes.fromhex(fingerprint.look)))
        self.keys.append(to_bytes(key))

    def key(self, number: int) -> str:
        """Return the key of one image."""
        return from_bytes(self.keys[number])

    def look(self, numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return uint8[K, L], the looks of some images."""
        chosen: NDArray[np.uint8] = self.looks.values[numbers].view(np.uint8)
        return chosen.reshape(len(numbers), LOOK_BYTES[self.kind])

    def close(self) -> None:
        """Release the files."""
        self.keys.close()
