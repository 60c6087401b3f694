"""The fuzzer's targets without the fuzzer: sound inputs, and some damage drawn at random."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fastdata_cli.storage.gather import SWITCH
from tests.fuzz.damage import damaged, json_damaged
from tests.fuzz.seeds import MAKERS
from tests.fuzz.target import HEAD, LIBRARY, REPAIR, Target

_TRIES = 60


@pytest.fixture(params=MAKERS)
def target(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Target:
    monkeypatch.setenv(SWITCH, "on")  # restored afterwards: targets change it
    return Target(request.param, tmp_path)


@pytest.mark.filterwarnings("ignore")  # what NumPy or Zarr remarks about nonsense is no failure
def test_nothing_but_our_errors_comes_out(target: Target) -> None:
    draw = random.Random(target.name)  # the same damage in every run
    seeds = list(target.seeds())
    for seed in seeds:
        target.run(seed)
    for _ in range(_TRIES):
        seed = draw.choice(seeds)
        head, content = bytes((seed[0], draw.choice((0, REPAIR, LIBRARY)))), seed[HEAD:]
        target.run(head + (json_damaged(content, draw) or damaged(content, draw)))
