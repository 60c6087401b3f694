"""Options: what a set accepts, refuses and says of itself."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

from fastdata_cli import registry
from fastdata_cli.errors import EXIT_USAGE, UsageError
from fastdata_cli.options import Options, OptionSpec, flag, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example(Options):
    chunk: int | None = option(None, "samples in a chunk", minimum=1)
    shard_size: int | None = option(None, "bytes in a shard", minimum=1, unit="bytes")
    codec: str = option("lz4", "how chunks are compressed", choices=("none", "lz4"), short="-c")
    strict: bool = option(False, "refuse what is odd")
    share: float | None = option(None, "least share", minimum=0.5)


def test_specs_say_what_a_flag_needs() -> None:
    chunk, shard_size, codec, strict, share = Example.specs()
    assert chunk == OptionSpec(
        name="chunk", kind=int, default=None, text="samples in a chunk", minimum=1
    )
    assert shard_size.unit == "bytes"
    assert codec == OptionSpec(
        name="codec",
        kind=str,
        default="lz4",
        text="how chunks are compressed",
        choices=("none", "lz4"),
        short="-c",
    )
    assert (strict.kind, strict.default) == (bool, False)
    assert (share.kind, share.minimum) == (float, 0.5)
    assert Options.specs() == ()


def test_values_go_in_and_come_out() -> None:
    chosen = Example.from_mapping({"chunk": 10, "codec": "none"}, owner="format example")
    assert chosen == Example(chunk=10, codec="none")
    values = {"chunk": 10, "shard_size": None, "codec": "none", "strict": False, "share": None}
    assert chosen.to_mapping() == values
    assert Example.from_mapping(values, owner="format example") == chosen
    assert pickle.loads(pickle.dumps(chosen)) == chosen  # noqa: S301 - our own bytes


def test_a_number_may_be_whole() -> None:
    assert Example(share=3).share == 3
    assert Example(share=0.5).share == 0.5


def test_a_set_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Example().chunk = 5  # type: ignore[misc]


def test_an_unknown_name_is_named_with_its_owner() -> None:
    with pytest.raises(UsageError, match="--shard-samples is not an option of format example") as e:
        Example.from_mapping({"shard_samples": 5}, owner="format example")
    assert e.value.hint == "its options: --chunk, --codec, --shard-size, --share, --strict"
    assert e.value.exit_code == EXIT_USAGE
    assert e.value.facts == {"option": "shard_samples"}
    with pytest.raises(UsageError) as e:
        Options.from_mapping({"chunk": 5}, owner="format plain")
    assert e.value.hint == "its options: none"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"codec": "zip"}, "--codec does not know 'zip'"),
        ({"chunk": 0}, "--chunk must be at least 1, not 0"),
        ({"shard_size": -5}, "--shard-size must be at least 1, not -5"),
        ({"chunk": "ten"}, "--chunk must be a whole number, not 'ten'"),
        ({"chunk": 2.5}, "--chunk must be a whole number, not 2.5"),
        ({"chunk": True}, "--chunk must be a whole number, not True"),
        ({"share": 0.4}, "--share must be at least 0.5, not 0.4"),
        ({"share": "much"}, "--share must be a number, not 'much'"),
        ({"share": True}, "--share must be a number, not True"),
        ({"share": float("nan")}, "--share must be a number, not nan"),
    ],
)
def test_a_value_that_cannot_be_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Example(**values)
    with pytest.raises(UsageError, match=message):
        Example.from_mapping(values, owner="format example")


def test_choices_are_in_the_hint() -> None:
    with pytest.raises(UsageError) as e:
        Example(codec="zip")
    assert e.value.hint == "one of: none, lz4"


def test_flags_are_spelled_with_dashes() -> None:
    assert flag("shard_samples") == "--shard-samples"


@pytest.mark.parametrize("name", registry.names())
def test_one_name_means_one_thing_in_all_formats(name: str) -> None:
    """A flag of the command line is shared by the formats that have it."""
    shared = {
        "chunk": (int, None),
        "shard_samples": (int, None),
        "shard_size": (int, "bytes"),
        "codec": (str, None),
        "level": (int, None),
        "shuffle": (str, None),
    }
    row = registry.get(name)
    for spec in (*row.write_options.specs(), *row.read_options.specs()):
        assert spec.text
        assert not spec.text.endswith(".")
        if spec.name in shared:
            assert (spec.kind, spec.unit) == shared[spec.name]
            assert spec.default is None, "the format decides, so that none given can be told"
