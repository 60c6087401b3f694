"""The tree format."""

from __future__ import annotations

import pytest

from fastdata_cli.formats.tree import FORMAT
from fastdata_cli.sample import Payload
from fastdata_cli.testing import FormatConformance


class TestTree(FormatConformance):
    format = FORMAT

    @pytest.fixture
    def payload(self) -> Payload:
        """A tree is read as files, so only those come back as they were."""
        return Payload.ENCODED
