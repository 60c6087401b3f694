"""What limits a dataset, and what to do next: rules in order, the first that applies decides.

Pure: numbers in, words out. ``docs/bench.md`` shows the rules as a table, which a test compares
with ``RULES``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from fastdata_cli.timing import symptoms
from fastdata_cli.timing.observation import Observation
from fastdata_cli.timing.symptoms import Words

__all__ = ["RULES", "Advice", "Bottleneck", "Observation", "Rule", "judge"]


class Bottleneck(StrEnum):
    """What limits a dataset."""

    MEMORY = "memory"
    CONSUMER = "consumer"
    STARVED = "starved"
    DEVICE = "device"
    LOADER = "loader"
    WORKERS = "workers"
    TRANSFER = "transfer"
    DECOMPRESS = "decompress"
    DECODE = "decode"
    RESIZE = "resize"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The verdict on one dataset."""

    bottleneck: Bottleneck
    sentence: str
    """One line that names the bottleneck with its numbers."""
    action: str
    """The command or loader setting to use next."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """When one bottleneck is named."""

    bottleneck: Bottleneck
    when: str
    why: str
    """Why the threshold is what it is, and stands at this place."""
    judge: Callable[[Observation], Words | None]
    """Returns sentence and action, or None where it does not apply."""


def judge(seen: Observation) -> Advice:
    """Return what limits a dataset, by the first of ``RULES`` that applies; the last always does.

    Where a consumer would wait, every other verdict says for how much of the time.
    """
    found = _first(seen)
    if seen.busy is None or seen.busy >= symptoms.BUSY_GOAL:
        return found
    step = f" with steps of {seen.step_s * 1000:g} ms" if seen.step_s else ""
    idle = f"; the accelerator is busy {seen.busy:.0%} of the time{step}"
    return replace(found, sentence=found.sentence + idle)


def _first(seen: Observation) -> Advice:
    for rule in RULES:
        words = rule.judge(seen)
        if words is not None:
            return Advice(bottleneck=rule.bottleneck, sentence=words[0], action=words[1])
    raise AssertionError("the last rule applies always")


RULES: tuple[Rule, ...] = (
    Rule(
        bottleneck=Bottleneck.MEMORY,
        when=f"{symptoms.SWAPPED_BYTES >> 20} MiB or more were swapped, or loading took "
        f"{symptoms.MEMORY_SHARE:.0%} of the available memory",
        why="idle pages trickle out at any time, but fewer; beyond the share nothing is left for "
        "the page cache. First, because no other number is right while a machine swaps",
        judge=symptoms.short_of_memory,
    ),
    Rule(
        bottleneck=Bottleneck.CONSUMER,
        when=f"with `--step-ms`, the consumer computes {symptoms.BUSY_GOAL:.0%} of the time",
        why="the mark that MLPerf Storage sets for the use of accelerators. Whatever else is slow "
        "does not matter then",
        judge=symptoms.busy_consumer,
    ),
    Rule(
        bottleneck=Bottleneck.STARVED,
        when=f"others took {symptoms.OTHERS_SHARE:.0%} of the processors",
        why="a quarter is more than runs differ by anyway, and it hides which stage is slow",
        judge=symptoms.starved_processors,
    ),
    Rule(
        bottleneck=Bottleneck.DEVICE,
        when=f"not from a warm cache, and {symptoms.NEAR_CEILING:.0%} to "
        f"{symptoms.BEYOND_CEILING:.0%} of the device ceiling arrive",
        why="real reads seldom keep a queue as full as fio does; more than the ceiling does not "
        "come from the device",
        judge=symptoms.full_device,
    ),
    Rule(
        bottleneck=Bottleneck.DEVICE,
        when=f"not from a warm cache, and the disk is busy {symptoms.DISK_BUSY:.0%} of the time "
        f"with {symptoms.DISK_QUEUE} requests queued, or with processors waiting for it "
        f"{symptoms.IOWAIT:.0%} of theirs",
        why="an SSD that is always busy may still take more: it needs a queue as deep as the one "
        "the ceiling is measured with, or work that waits",
        judge=symptoms.full_queue,
    ),
    Rule(
        bottleneck=Bottleneck.LOADER,
        when=f"FastLoader delivers {symptoms.GAIN:.0%} more than the best number of workers, "
        "beyond noise",
        why="a smaller gain is not worth another loader. Before workers and stages, because it "
        "costs neither memory nor a conversion",
        judge=symptoms.slow_loader,
    ),
    Rule(
        bottleneck=Bottleneck.WORKERS,
        when="the most workers tried are fewer than the cores, deliver "
        f"{symptoms.GAIN:.0%} more than fewer did, and leave {1 - symptoms.CORES_FULL:.0%} of the "
        "processors idle",
        why="a smaller gain does not pay for a worker's memory, and training needs processors "
        "too. Before the stages, because a setting is cheaper than a conversion",
        judge=symptoms.too_few_workers,
    ),
    Rule(
        bottleneck=Bottleneck.WORKERS,
        when="only more workers than cores were tried, and "
        f"{symptoms.LOST:.0%} are lost of what the cores could do by the stages",
        why="the hand-over and the training process cost some; a third means that workers stand in "
        "each other's way",
        judge=symptoms.too_many_workers,
    ),
    Rule(
        bottleneck=Bottleneck.TRANSFER,
        when=f"{symptoms.NEAR_CEILING:.0%} of the DataLoader's rate on free input arrive",
        why="two DataLoaders that do the same differ by less",
        judge=symptoms.idle_loader,
    ),
    Rule(
        bottleneck=Bottleneck.TRANSFER,
        when="no workers are faster than some, and neither decompress, decode nor resize takes a "
        "third",
        why="what workers gain is less than what handing over costs",
        judge=symptoms.useless_workers,
    ),
    Rule(
        bottleneck=Bottleneck.TRANSFER,
        when="collate, transfer and, from a warm cache, read take a third of all stages, and more "
        "than decompress, decode or resize",
        why="what takes less than a third, spared entirely, gains less than half as much again",
        judge=symptoms.much_copying,
    ),
    Rule(
        bottleneck=Bottleneck.DECOMPRESS,
        when="decompress takes a third of all stages, and no less than decode and resize",
        why="for a smaller gain it is not worth writing the dataset anew",
        judge=symptoms.slow_decompression,
    ),
    Rule(
        bottleneck=Bottleneck.DECODE,
        when="decode takes a third of all stages, and no less than decompress and resize",
        why="the same",
        judge=symptoms.slow_decoding,
    ),
    Rule(
        bottleneck=Bottleneck.RESIZE,
        when="resize takes a third of all stages, and no less than decompress and decode",
        why="the same",
        judge=symptoms.slow_resizing,
    ),
    Rule(
        bottleneck=Bottleneck.DEVICE,
        when="not from a warm cache, and read takes a third of all stages",
        why="without a ceiling and a watched disk, the stages are all there is to go by",
        judge=symptoms.slow_reading,
    ),
    Rule(
        bottleneck=Bottleneck.UNKNOWN,
        when="none of the above",
        why="a guess may cost a conversion",
        judge=symptoms.nothing_found,
    ),
)
