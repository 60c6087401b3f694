"""Owns writing LMDB environments: one transaction a part, in a map that grows when it is full."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastdata_cli.contract import Part, PartLimits, Receipt
from fastdata_cli.formats.base import StagedWriter, manifest_text
from fastdata_cli.formats.lmdb_records import (
    MANIFEST,
    column_layout,
    column_records,
    sample_key,
)
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Batch
from fastdata_cli.storage.table import SampleTable
