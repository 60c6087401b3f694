"""Textual option values."""

from __future__ import annotations

import pytest

from fastdata_cli.errors import UsageError
from fastdata_cli.operations.settings import (
    ConvertOptions,
    parse_bytes,
    parse_colour,
    parse_max_bad,
    parse_size,
)


@pytest.mark.parametrize(("text", "size"), [("224", (224, 224)), ("32x48", (32, 48))])
def test_sizes_are_height_then_width(text: str, size: tuple[int, int]) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "x3", "3x", "3x0", "-4", "3.5", "1e3", "999999"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(UsageError):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("500", 500), ("1KB", 1000), ("1KiB", 1024), ("1.5GB", 1_500_000_000), ("2gib", 2 << 30)],
)
def test_bytes(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "MB", "1XB", "-1", "1 2"])
def test_bad_bytes(text: str) -> None:
    with pytest.raises(UsageError):
        parse_bytes(text)


def test_colours() -> None:
    assert parse_colour("white") == (255, 255, 255)
    assert parse_colour("#0a10FF") == (10, 16, 255)
    for text in ("mauve", "#12345", "123456"):
        with pytest.raises(UsageError):
            parse_colour(text)


def test_max_bad() -> None:
    assert parse_max_bad("3", 1000) == 3
    assert parse_max_bad("2%", 1000) == 20
    assert parse_max_bad("0.5%", 1000) == 5
    assert parse_max_bad("1.14%", 5000) == 57
    default = ConvertOptions()
    assert default.tolerates(10, 20)
    assert not default.tolerates(11, 20)
    assert default.tolerates(50, 5000)
    assert not default.tolerates(51, 5000)
    assert not ConvertOptions(max_bad="0").tolerates(1, 5000)
