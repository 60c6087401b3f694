"""Each verdict is forced by made-up observations, at its threshold and just short of it."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from fastdata_cli.cli.main import VERBS, build_app
from fastdata_cli.timing.advice import RULES, Advice, Bottleneck, Observation, judge
from tests.conftest import Run

MEBI = 1 << 20

# Two workers on two cores; nothing stands out.
EVEN = Observation(
    dataset="out.zarr",
    format="zarr",
    payload="encoded",
    codec="none",
    sample_bytes=90_000,
    loader={0: 500.0, 2: 900.0},
    stages=dict.fromkeys(("read", "decompress", "decode", "resize", "collate"), 200e-6),
    batch_size=64,
    cores=2,
    cache="cold",
)


def stages(**micro: float) -> dict[str, float]:
    return {name: value * 1e-6 for name, value in micro.items()}


def verdict(seen: Observation = EVEN, **changes: Any) -> Advice:
    return judge(replace(seen, **changes))


def test_nothing_stands_out() -> None:
    found = verdict()
    assert found.bottleneck is Bottleneck.UNKNOWN
    assert found.sentence == (
        "Nothing stands out: read, the longest stage, takes 200 of 1,000 µs per sample (20%)"
    )
    assert found.action == "fastdata bench out.zarr --advise"


def test_nothing_is_known() -> None:
    found = judge(Observation())
    assert found.bottleneck is Bottleneck.UNKNOWN
    assert "not measured" in found.sentence


AT_THE_THRESHOLD: list[tuple[Bottleneck, dict[str, Any], dict[str, Any]]] = [
    (Bottleneck.MEMORY, {"swapped_bytes": 16 * MEBI}, {"swapped_bytes": 16 * MEBI - 1}),
    (Bottleneck.MEMORY, {"memory_share": 0.9}, {"memory_share": 0.89}),
    (Bottleneck.CONSUMER, {"utilisation": 0.9}, {"utilisation": 0.89}),
    (Bottleneck.CONSUMER, {"step_s": 64 / 1000}, {"step_s": 64 / 1001}),
    (Bottleneck.STARVED, {"others_share": 0.25}, {"others_share": 0.24}),
    (Bottleneck.DEVICE, {"device_ceiling": 1125.0}, {"device_ceiling": 1126.0}),
    (Bottleneck.DEVICE, {"device_ceiling": 720.0}, {"device_ceiling": 719.0}),
    (
        Bottleneck.DEVICE,
        {"disk_utilisation": 0.9, "iowait": 0.2},
        {"disk_utilisation": 0.89, "iowait": 0.2},
    ),
    (
        Bottleneck.DEVICE,
        {"disk_utilisation": 1.0, "disk_queue": 32.0},
        {"disk_utilisation": 1.0, "disk_queue": 31.9, "iowait": 0.19},
    ),
    (Bottleneck.LOADER, {"fast_loader": 991.0}, {"fast_loader": 989.0}),
    (Bottleneck.WORKERS, {"cores": 4, "cpu_share": 0.84}, {"cores": 4, "cpu_share": 0.85}),
    (
        Bottleneck.WORKERS,
        {"cores": 4, "loader": {0: 100.0, 2: 111.0}},
        {"cores": 4, "loader": {0: 100.0, 2: 109.0}},
    ),
    (Bottleneck.WORKERS, {"loader": {8: 1399.0}}, {"loader": {8: 1401.0}}),
    (Bottleneck.TRANSFER, {"free_ceiling": 1125.0}, {"free_ceiling": 1126.0}),
    (Bottleneck.TRANSFER, {"loader": {0: 901.0, 2: 900.0}}, {"loader": {0: 900.0, 2: 901.0}}),
    (
        Bottleneck.TRANSFER,
        {"stages": stages(collate=20, transfer=14, decode=33, read=33)},
        {"stages": stages(collate=20, transfer=13, decode=33, read=33)},
    ),
    (
        Bottleneck.TRANSFER,
        {"stages": stages(read=40, decode=60, collate=30), "cache": "warm"},
        {"stages": stages(read=30, decode=60, collate=30), "cache": "warm"},
    ),
    (
        Bottleneck.DECOMPRESS,
        {"stages": stages(decompress=34, resize=33, read=33)},
        {"stages": stages(decompress=33, resize=33, read=33, collate=1)},
    ),
    (
        Bottleneck.DECODE,
        {"stages": stages(decode=34, resize=33, read=33)},
        {"stages": stages(decode=33, resize=33, read=33, collate=1)},
    ),
    (
        Bottleneck.RESIZE,
        {"stages": stages(resize=34, decode=33, read=33)},
        {"stages": stages(resize=33, decode=33, read=33, collate=1)},
    ),
    (
        Bottleneck.DEVICE,
        {"stages": stages(read=34, decode=33, resize=33)},
        {"stages": stages(read=33, decode=33, resize=33, collate=1)},
    ),
]


@pytest.mark.parametrize(("bottleneck", "reached", "missed"), AT_THE_THRESHOLD)
def test_each_verdict_begins_at_its_threshold(
    bottleneck: Bottleneck, reached: dict[str, Any], missed: dict[str, Any]
) -> None:
    assert verdict(**reached).bottleneck is bottleneck
    assert verdict(**missed).bottleneck is not bottleneck


def test_every_rule_is_reached() -> None:
    seen = [replace(EVEN, **reached) for _, reached, _ in AT_THE_THRESHOLD] + [EVEN]
    first = [next(at for at, rule in enumerate(RULES) if rule.judge(each)) for each in seen]
    assert set(first) == set(range(len(RULES)))


ALL_AT_ONCE = replace(
    EVEN,
    swapped_bytes=MEBI << 10,
    utilisation=0.95,
    others_share=0.5,
    device_ceiling=900.0,
    loader={0: 100.0, 2: 900.0},
    cores=4,
    free_ceiling=900.0,
    fast_loader=2000.0,
    stages=stages(decode=60, resize=40),
)


def test_the_first_rule_decides() -> None:
    seen, order = ALL_AT_ONCE, []
    removals: list[dict[str, Any]] = [
        {"swapped_bytes": 0},
        {"utilisation": None},
        {"others_share": None},
        {"device_ceiling": None},
        {"fast_loader": None},
        {"cores": 2},
        {"free_ceiling": None},
        {"stages": stages(resize=40)},
        {"stages": {}},
    ]
    for without in removals:
        order.append(judge(seen).bottleneck)
        seen = replace(seen, **without)
    expected = "memory consumer starved device loader workers transfer decode resize"
    assert [str(each) for each in order] == expected.split()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"swapped_bytes": 300 * MEBI},
            "Memory is short: the machine swapped 300 MiB while loading, so no rate can be "
            "believed",
        ),
        (
            {"utilisation": 0.96, "step_s": 0.1},
            "The consumer is the limit, as it should be: it computes 96% of the time, taking at "
            "most 640 samples/s; nothing has to change in the data",
        ),
        (
            {"others_share": 0.4},
            "The processors are starved: others took 40% of them meanwhile",
        ),
        (
            {"device_ceiling": 1000.0, "amplification": 12.34},
            "The device is the limit: 900 samples/s arrive, 90% of the 1,000 samples/s it can "
            "deliver; it reads 12.3 bytes for each one used",
        ),
        (
            {"disk_utilisation": 0.98, "disk_queue": 40.0, "iowait": 0.1},
            "The device is the limit: it is busy 98% of the time with 40 requests queued, and "
            "processors wait for it 10% of theirs",
        ),
        (
            {"cores": 8},
            "The number of workers is the limit: 2 on 8 cores deliver 900 samples/s, 80% more than "
            "fewer workers do",
        ),
        (
            {"loader": {1: 3.25}},
            "The number of workers is the limit: 1 on 2 cores delivers 3.2 samples/s, other counts "
            "were not tried",
        ),
        (
            {"loader": {8: 700.0}},
            "The number of workers is the limit: 8 on 2 cores deliver 700 samples/s, and the "
            "stages allow 2,000 samples/s",
        ),
        (
            {"loader": {0: 950.0, 2: 900.0}},
            "Copying is the limit: 950 samples/s arrive without workers, 900 samples/s with them",
        ),
        (
            {"free_ceiling": 1000.0},
            "Copying is the limit: 900 samples/s arrive, 90% of what the DataLoader does on free "
            "input",
        ),
        (
            {"stages": stages(collate=100, transfer=300, read=300), "cache": "warm"},
            "Copying is the limit: read, collate and transfer take 700 of 700 µs per sample (100%)",
        ),
        (
            {"stages": {"read": 40e-6}, "cache": "warm"},
            "Copying is the limit: read takes 40 of 40 µs per sample (100%)",
        ),
        (
            {"fast_loader": 1440.0},
            "The DataLoader is the limit: FastLoader delivers 1,440 samples/s, 1.6 times the "
            "900 samples/s of its best, with 2 workers",
        ),
        (
            {"stages": stages(decompress=800, read=200), "codec": "zstd"},
            "Decompression of zstd is the limit: it takes 800 of 1,000 µs per sample (80%)",
        ),
        (
            {"stages": stages(decode=1800, read=200), "decode_ceiling": 1111.1},
            "Decoding is the limit: it takes 1,800 of 2,000 µs per sample (90%); 900 samples/s "
            "arrive, and decoding alone does 1,111 samples/s on all cores",
        ),
        (
            {"stages": stages(decode=300, resize=700)},
            "Resizing is the limit: it takes 700 of 1,000 µs per sample (70%)",
        ),
        (
            {"stages": stages(read=700, decode=300)},
            "The device is the limit: reading takes 700 of 1,000 µs per sample (70%)",
        ),
    ],
)
def test_sentences_have_the_numbers(changes: dict[str, Any], sentence: str) -> None:
    assert verdict(**changes).sentence == sentence


def test_a_waiting_consumer_is_told_with_every_verdict() -> None:
    found = verdict(stages=stages(decode=1000), step_s=0.03)
    assert found.bottleneck is Bottleneck.DECODE
    assert found.sentence.endswith("; the accelerator is busy 42% of the time with steps of 30 ms")
    measured = verdict(stages=stages(decode=1000), utilisation=0.3)
    assert measured.sentence.endswith("; the accelerator is busy 30% of the time")


def test_a_warm_cache_takes_the_device_out() -> None:
    ceiling = replace(EVEN, device_ceiling=900.0)
    queue = replace(EVEN, disk_utilisation=1.0, disk_queue=64.0)
    for cold in (ceiling, queue):
        assert verdict(cold).bottleneck is Bottleneck.DEVICE
        assert verdict(cold, cache="warm").bottleneck is not Bottleneck.DEVICE


def test_without_a_dataloader_plain_reads_are_compared() -> None:
    reads = {"sequential": 2000.0, "block": 950.0}
    found = verdict(loader={}, reads=reads, device_ceiling=1000.0)
    assert found.sentence.startswith("The device is the limit: 950 samples/s arrive, 95%")


RANDOM = {"order": "random", "reads": {"sequential": 800.0, "block": 700.0, "random": 100.0}}
DEVICE = {"device_ceiling": 1000.0}
COPYING = {"stages": stages(collate=1, transfer=1)}


@pytest.mark.parametrize(
    ("changes", "action"),
    [
        ({"swapped_bytes": 99 * MEBI}, "DataLoader(..., num_workers=1)"),
        (
            {"swapped_bytes": 99 * MEBI, "loader": {0: 9.0}},
            "fastdata bench out.zarr --workers 0 --batch-size 32",
        ),
        ({"utilisation": 0.95}, "DataLoader(..., num_workers=0)"),
        (
            {"fast_loader": 1440.0, "fast_loader_line": "FastLoader('out.zarr', 64)"},
            "FastLoader('out.zarr', 64)",
        ),
        ({"step_s": 0.064 * 1.2}, "DataLoader(..., num_workers=2)"),
        ({"utilisation": 0.95, "consumer_workers": 2}, "DataLoader(..., num_workers=2)"),
        (
            {"others_share": 0.5},
            "fastdata bench out.zarr --workers 0,2  (once the other work has ended: top shows it)",
        ),
        (
            {**DEVICE, **RANDOM},
            "fastdata bench out.zarr --order block"
            "  (in training: BlockShuffleSampler(len(dataset), block=256))",
        ),
        (
            {**DEVICE, "order": "random", "amplification": 2.0, "chunk": 1000},
            "fastdata bench out.zarr --order block"
            "  (in training: BlockShuffleSampler(len(dataset), block=1000))",
        ),
        (
            {**DEVICE, "order": "random", "random_access": False},
            "fastdata bench out.zarr --order block"
            "  (in training: BlockShuffleSampler(len(dataset), block=256))",
        ),
        (DEVICE, "fastdata convert out.zarr out256.tar --max-side 256 --quality 90"),
        (
            {**DEVICE, "size": "224x320", "max_side": 366},
            "fastdata convert out.zarr out366.tar --max-side 366 --quality 90",
        ),
        ({**DEVICE, "sample_bytes": 20_000}, "fastdata bench out.zarr --cache warm"),
        (
            {**DEVICE, "format": "tree", "dataset": "my images"},
            "fastdata convert 'my images' train-%06d.tar --shard-samples 1000",
        ),
        (
            {**DEVICE, "chunk": 1, "payload": "pixels"},
            "fastdata convert out.zarr out-sharded.zarr --chunk 1 --shard-samples 1000",
        ),
        ({**DEVICE, "payload": "pixels"}, "fastdata convert out.zarr out-lz4.zarr --codec lz4"),
        (
            {**DEVICE, "payload": "pixels", "format": "hdf5", "dataset": "a.h5"},
            "fastdata convert a.h5 out-lz4.h5 --codec lz4",
        ),
        ({"cores": 3}, "DataLoader(..., num_workers=3)"),
        ({"cores": 64}, "DataLoader(..., num_workers=4)"),
        ({"loader": {0: 9.0}}, "fastdata bench out.zarr --workers 0,2"),
        ({"loader": {8: 9.0}}, "DataLoader(..., num_workers=2)"),
        ({"loader": {0: 950.0, 2: 900.0}}, "DataLoader(..., num_workers=0)"),
        ({**COPYING, "loader": {2: 9.0}}, "fastdata bench out.zarr --workers 0,2"),
        (COPYING, "fastdata bench out.zarr --batch-size 128"),
        (
            {**RANDOM, "stages": stages(read=9), "cache": "warm", "chunk": 50},
            "fastdata bench out.zarr --order block"
            "  (in training: BlockShuffleSampler(len(dataset), block=50))",
        ),
        (
            {"stages": stages(decompress=9), "codec": "lz4"},
            "fastdata convert out.zarr out-none.zarr --codec none",
        ),
        (
            {"stages": stages(decompress=9), "codec": "gzip", "format": "hdf5", "dataset": "a.h5"},
            "fastdata convert a.h5 out-lz4.h5 --codec lz4",
        ),
        (
            {**RANDOM, "stages": stages(decompress=9), "chunk": 1000},
            "fastdata bench out.zarr --order block"
            "  (in training: BlockShuffleSampler(len(dataset), block=1000))",
        ),
        (
            {"stages": stages(decode=9)},
            "fastdata convert out.zarr out256.tar --max-side 256 --quality 90",
        ),
        (
            {"stages": stages(decode=9), "sample_bytes": 50_000},
            "fastdata convert out.zarr out224.zarr --payload pixels --size 224",
        ),
        (
            {"stages": stages(resize=9), "size": "64x96"},
            "fastdata convert out.zarr out64x96.zarr --payload pixels --size 64x96",
        ),
    ],
)
def test_actions_are_exact(changes: dict[str, Any], action: str) -> None:
    found = verdict(**changes).action
    assert found == action
    if found.startswith("fastdata "):
        parse(found.partition("  (")[0])


def parse(line: str) -> None:
    """Let the command line itself look at a command."""
    _, verb, *words = shlex.split(line)
    assert verb in VERBS
    command = typer.main.get_command(build_app(verb)).commands[verb]  # type: ignore[attr-defined]
    command.make_parser(command.context_class(command, info_name=verb)).parse_args(words)


def test_advised_conversions_run(
    run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pixels = replace(EVEN, dataset="pixels.zarr", payload="pixels", sample_bytes=6000)
    run("convert", tree, "pixels.zarr", "--chunk", "1", "--codec", "none", "--quiet")
    ceiling: dict[str, Any] = {"device_ceiling": 900.0}
    for seen in (
        replace(EVEN, dataset=str(tree), stages=stages(decode=9)),
        replace(EVEN, dataset="out256.tar", stages=stages(decode=9), sample_bytes=9000),
        replace(EVEN, dataset=str(tree), format="tree", **ceiling),
        replace(pixels, chunk=1, **ceiling),
        replace(pixels, **ceiling),
        replace(pixels, dataset="out-lz4.zarr", stages=stages(decompress=9), codec="lz4"),
        replace(pixels, format="hdf5", stages=stages(decompress=9), codec="gzip"),
    ):
        line, _, _ = judge(seen).action.partition("  (")
        _, *words = shlex.split(line)
        assert words[0] == "convert"
        run(*words, "--quiet")
        found = run("inspect", words[2], "--json").stdout
        assert json.loads(found)["samples"] == 20


SHARES = st.none() | st.floats(0, 1)
RATES = st.floats(0, 1e7)
OBSERVATIONS = st.builds(
    Observation,
    dataset=st.just("a b.zarr"),
    format=st.sampled_from(["", "zarr", "hdf5", "tree", "raw"]),
    payload=st.sampled_from(["", "pixels", "encoded"]),
    codec=st.sampled_from([None, "none", "lz4", "zstd"]),
    loader=st.dictionaries(st.integers(0, 64), RATES, max_size=4),
    order=st.sampled_from(["sequential", "random", "block"]),
    batch_size=st.none() | st.integers(1, 512),
    reads=st.dictionaries(st.sampled_from(["sequential", "random", "block"]), RATES),
    stages=st.dictionaries(
        st.sampled_from(["read", "decompress", "decode", "resize", "collate", "transfer"]),
        st.floats(0, 1),
    ),
    device_ceiling=st.none() | RATES,
    decode_ceiling=st.none() | RATES,
    free_ceiling=st.none() | RATES,
    cores=st.none() | st.integers(1, 64),
    cache=st.sampled_from(["cold", "warm", "mixed", "unknown"]),
    cpu_share=SHARES,
    iowait=SHARES,
    disk_utilisation=SHARES,
    step_s=st.none() | st.floats(0, 1),
    utilisation=SHARES,
)


@given(OBSERVATIONS)
def test_whatever_is_seen_ends_in_one_line(seen: Observation) -> None:
    found = judge(seen)
    assert found.sentence
    assert found.action
    assert "\n" not in found.sentence + found.action
    assert json.loads(json.dumps(asdict(found)))["bottleneck"] == found.bottleneck.value


def test_the_document_shows_the_rules() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/bench.md").read_text()
    shown = re.findall(r"^\| (\d+) \| ([a-z]+) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    rules = [
        (str(at), str(rule.bottleneck), rule.when, rule.why) for at, rule in enumerate(RULES, 1)
    ]
    assert shown == rules
