"""JSON of others: whatever is wrong with it is a ValueError."""

import json

import pytest

from fastdata_cli.json_text import DEEPEST, parse, parse_object


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + closing * depth


@pytest.mark.parametrize("text", ['{"a": [1, {"b": null}]}', b'"\xc3\xa9"', "1", nested(DEEPEST)])
def test_what_is_json_is_read(text: str | bytes) -> None:
    assert parse(text) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    ["", "{", b"\xff", nested(DEEPEST + 1), nested(100_000), '{"a":' * 150 + "1" + "}" * 150],
    ids=["nothing", "cut", "no text", "too deep", "beyond the stack", "objects"],
)
def test_what_is_none_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)


def test_many_brackets_are_not_deep() -> None:
    assert parse("[" + ",".join(["[]"] * 5000) + "]") == [[]] * 5000
    assert parse(json.dumps("[" * 5000)) == "[" * 5000


def test_an_object_is_wanted() -> None:
    assert parse_object("{}") == {}
    with pytest.raises(ValueError, match="not a JSON object"):
        parse_object("[]")
