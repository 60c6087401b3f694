"""Keys: any file name, through any container, and back."""

from __future__ import annotations

import os
import pickle
import re
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import from_bytes, from_text, inert, printable, to_bytes, to_text

# Pieces that meet each other's escapes when they stand side by side.
PIECES = [b"%", b"4", b"41", b"%41", b"\n", b"\r", b"\0", b"\x7f", b"\xff", b"\xc3", b"\xa9"]
PIECES += [text.encode() for text in (".", "\\", "/", "__", "é", "\x85\u2028\u2029", "\ufeff漢")]

NAMES = st.one_of(st.binary(max_size=40), st.lists(st.sampled_from(PIECES)).map(b"".join))
KEYS = NAMES.map(from_bytes)

# Taboos of containers, and some that only a careless escape survives.
TABOOS = [None, *map(re.compile, (r"[.]", r"[.\\]|^/", r"[%0-9A-F]", r"é"))]

INVISIBLE = {"Cc", "Cs", "Zl", "Zp"}


@given(NAMES)
def test_a_key_is_what_the_file_system_says(name: bytes) -> None:
    key = from_bytes(name)
    assert to_bytes(key) == name
    assert os.fsdecode(name) == key


@given(KEYS)
@pytest.mark.parametrize("also", TABOOS)
def test_text_form_comes_back(also: re.Pattern[str] | None, key: str) -> None:
    assert from_text(to_text(key, also=also)) == key


@given(KEYS)
@pytest.mark.parametrize("also", TABOOS)
def test_text_form_is_one_clean_line(also: re.Pattern[str] | None, key: str) -> None:
    text = to_text(key, also=also)
    assert text.encode("utf-8").decode("utf-8") == text
    assert not INVISIBLE & {unicodedata.category(letter) for letter in text}
    assert len(text.splitlines()) == (1 if text else 0)


@given(KEYS)
def test_forbidden_letters_are_gone(key: str) -> None:
    assert "." not in to_text(key, also=re.compile(r"\."))


@given(KEYS, KEYS)
@pytest.mark.parametrize("also", TABOOS)
def test_distinct_keys_have_distinct_texts(
    also: re.Pattern[str] | None, one: str, two: str
) -> None:
    assume(one != two)
    assert to_text(one, also=also) != to_text(two, also=also)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("cat/1.jpg", "cat/1.jpg"),
        ("Ä/漢 字.jpg", "Ä/漢 字.jpg"),
        ("100%.jpg", "100%.jpg"),
        ("100%41.jpg", "100%2541.jpg"),
        ("%4\n", "%4%0A"),
        ("line\nbreak.jpg", "line%0Abreak.jpg"),
        ("not-utf8-\udcff.jpg", "not-utf8-%FF.jpg"),
        ("next\x85line", "next%C2%85line"),
        ("\u2028", "%E2%80%A8"),
        ("", ""),
    ],
)
def test_text_form_is_part_of_the_formats(key: str, text: str) -> None:
    """What stands in datasets on disk may not change."""
    assert to_text(key) == text
    assert from_text(text) == key


def test_further_taboos_are_escaped_alike() -> None:
    assert to_text("a.b/100%41.jpg", also=re.compile(r"\.")) == "a%2Eb/100%2541%2Ejpg"
    assert from_text("a%2eb") == "a.b", "lower case is read too"


@given(st.lists(KEYS))
def test_table_holds_its_keys(keys: list[str]) -> None:
    table = KeyTable.from_keys(keys)
    assert len(table) == len(keys)
    assert list(table) == keys
    assert [table[index] for index in range(len(keys))] == keys
    assert [table[index - len(keys)] for index in range(len(keys))] == keys
    assert list(table.texts()) == [to_text(key) for key in keys]
    assert table[1:] == keys[1:]
    assert table[::-2] == keys[::-2]
    assert list(pickle.loads(pickle.dumps(table))) == keys  # noqa: S301 - our own bytes


@given(st.lists(KEYS))
def test_table_as_lines_comes_back(keys: list[str]) -> None:
    lines = KeyTable.from_keys(keys).lines()
    assert lines.count(b"\n") == len(keys)
    again = KeyTable.from_lines(np.frombuffer(lines, np.uint8))
    assert list(again) == keys
    assert again.lines() == lines


@given(st.lists(st.lists(KEYS)))
def test_concatenated_tables_hold_all_keys(groups: list[list[str]]) -> None:
    joined = KeyTable.concatenate([KeyTable.from_keys(keys) for keys in groups])
    assert list(joined) == [key for keys in groups for key in keys]
    assert joined.offsets.dtype == np.int64


@given(st.lists(KEYS, min_size=1), st.data())
def test_take_keeps_order_and_repeats(keys: list[str], data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(0, len(keys) - 1)))
    taken = KeyTable.from_keys(keys).take(np.array(indices, np.int64))
    assert taken == [keys[index] for index in indices]


@given(st.lists(KEYS), KEYS)
def test_find_gives_the_first(keys: list[str], key: str) -> None:
    table = KeyTable.from_keys(keys)
    for wanted in {*keys, key}:
        assert table.find(wanted) == (keys.index(wanted) if wanted in keys else None)


def test_outside_raises() -> None:
    table = KeyTable.from_keys(["a", "b"])
    for index in (2, -3):
        with pytest.raises(IndexError, match=f"key {index} of 2"):
            table[index]
    with pytest.raises(IndexError):
        KeyTable.from_keys([])[0]


def test_an_unfinished_line_is_no_key() -> None:
    """A file that was cut short lacks a key, which its reader notices by the count."""
    cut = np.frombuffer(b"first\nsecond\nthi", np.uint8)
    assert list(KeyTable.from_lines(cut)) == ["first", "second"]


def test_half_a_character_is_shown_and_is_no_key() -> None:
    """JSON may hold one, and a message about it must not fail."""
    assert printable("a\ud800\x1b\udcffb") == "a%ED%A0%80%1B%FFb"
    with pytest.raises(UnicodeEncodeError):
        to_text("a\ud800b")


@given(KEYS)
def test_no_cell_is_a_formula_and_each_comes_back(key: str) -> None:
    for named in (key, *(begin + key for begin in "=+-@")):
        cell = inert(to_text(named))
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
        assert from_text(cell) == named
    assert inert("a=1") == "a=1"
    assert inert("") == ""


def test_the_docs_name_every_character_that_is_escaped() -> None:
    docs = (Path(__file__).parents[1] / "docs" / "formats.md").read_text()
    rule = docs[docs.index("> `%XX`") : docs.index("| path | text form |")]
    named: set[int] = set()
    for first, last in re.findall(r"U\+([0-9A-F]+)(?: to U\+([0-9A-F]+))?", rule):
        named.update(range(int(first, 16), int(last or first, 16) + 1))
    characters = (code for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF)
    assert named == {code for code in characters if to_text(chr(code)) != chr(code)}
