"""Pairing the keys of two datasets."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fastdata_cli.key_table import KeyTable
from fastdata_cli.operations.pairing import pair

_KEYS = st.lists(st.sampled_from(["a", "b", "c/1.jpg", "ü", "caf\udce9", "%41"]), max_size=12)


@given(_KEYS, _KEYS)
def test_every_key_finds_its_like_once(first: list[str], second: list[str]) -> None:
    found = pair(KeyTable.from_keys(first), KeyTable.from_keys(second))
    pairs = list(zip(found.first.tolist(), found.second.tolist(), strict=True))
    assert all(first[i] == second[j] for i, j in pairs)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    assert len(pairs) == (Counter(first) & Counter(second)).total()
    assert sorted([i for i, _ in pairs] + found.only_first.tolist()) == list(range(len(first)))
    assert sorted([j for _, j in pairs] + found.only_second.tolist()) == list(range(len(second)))


def test_repeats_are_paired_in_order() -> None:
    found = pair(KeyTable.from_keys(["x", "y", "x"]), KeyTable.from_keys(["x", "x", "y"]))
    assert dict(zip(found.first.tolist(), found.second.tolist(), strict=True)) == {0: 0, 1: 2, 2: 1}
    assert not found.same_order
