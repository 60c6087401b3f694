"""What ``import fastdata_cli`` offers: every name is listed, and loads when it is used."""

from __future__ import annotations

from types import ModuleType

import pytest

import fastdata_cli
import fastdata_cli.loading


@pytest.mark.parametrize("module", [fastdata_cli, fastdata_cli.loading])
def test_what_is_public_is_there_and_is_listed(module: ModuleType) -> None:
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []
    assert set(module.__all__) <= set(dir(module))
    assert list(module.__all__) == sorted(module.__all__)
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = module.nothing_of_that_name
