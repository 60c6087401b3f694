"""How long names may be where a dataset is made, as the file system says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fastdata_cli.storage.staging import staging_root

# Names of chunks, journals and the like below a dataset.
_BELOW = 64
# Of Linux, where the file system does not say.
_USUAL_NAME, _USUAL_PATH = 255, 4096


@dataclass(frozen=True, slots=True)
class NameLimits:
    """How many bytes names may have."""

    name: int
    """Of a file or folder."""
    path: int
    """Of a path below the dataset, while it is made; negative where there is no place for any."""


def name_limits(path: Path) -> NameLimits:
    """Return the limits for what lies below the dataset at ``path``."""
    whole = path.absolute()
    try:
        name, most = (os.pathconf(whole.parent, word) for word in ("PC_NAME_MAX", "PC_PATH_MAX"))
    except (OSError, ValueError):
        name, most = _USUAL_NAME, _USUAL_PATH
    used = len(os.fsencode(staging_root(whole))) + len(os.fsencode(whole.name)) + _BELOW
    return NameLimits(name, most - used)
