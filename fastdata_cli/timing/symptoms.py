"""Signs of each bottleneck in what bench saw, and their wording; ``advice`` has their order.

Each function returns a sentence and an action, or None where its sign is missing. Why a threshold
is what it is stands beside the rule, in ``advice``.
"""

from __future__ import annotations

from typing import NamedTuple

from fastdata_cli.timing import remedies
from fastdata_cli.timing.observation import Observation

SWAPPED_BYTES = 16 << 20
MEMORY_SHARE = 0.9
BUSY_GOAL = 0.9
OTHERS_SHARE = 0.25
NEAR_CEILING = 0.8
BEYOND_CEILING = 1 / NEAR_CEILING
DISK_BUSY = 0.9
IOWAIT = 0.2
DISK_QUEUE = 32
CORES_FULL = 0.85
GAIN = 0.1
LOST = 0.3
STAGE_SHARE = 1 / 3

_MEBI = 1 << 20
_COMPUTING = ("decompress", "decode", "resize")


class Words(NamedTuple):
    """What is told to the person."""

    sentence: str
    action: str


def short_of_memory(seen: Observation) -> Words | None:
    """Swapping, or nearly all memory taken."""
    swapped, share = seen.swapped_bytes or 0, seen.memory_share or 0.0
    if swapped >= SWAPPED_BYTES:
        fact = f"the machine swapped {swapped / _MEBI:,.0f} MiB while loading"
    elif share >= MEMORY_SHARE:
        fact = f"loading took {share:.0%} of the available memory"
    else:
        return None
    sentence = f"Memory is short: {fact}, so no rate can be believed"
    return Words(sentence, remedies.against_memory(seen))


def busy_consumer(seen: Observation) -> Words | None:
    """A consumer that hardly ever waits."""
    if seen.busy is None or seen.busy < BUSY_GOAL:
        return None
    workers, needed = seen.consumer_workers, seen.needed
    if workers is None:
        enough = [count for count, rate in seen.loader.items() if rate >= BUSY_GOAL * (needed or 0)]
        workers = min(enough, default=0)
    rates = f", taking at most {_rate(needed)}" if needed else ""
    sentence = (
        f"The consumer is the limit, as it should be: it computes {seen.busy:.0%} of the time"
        f"{rates}; nothing has to change in the data"
    )
    return Words(sentence, remedies.loader_setting(f"num_workers={workers}"))


def starved_processors(seen: Observation) -> Words | None:
    """Others on the same processors."""
    others = seen.others_share or 0.0
    if others < OTHERS_SHARE:
        return None
    sentence = f"The processors are starved: others took {others:.0%} of them meanwhile"
    workers = ",".join(map(str, sorted(seen.loader)))
    again = remedies.bench(seen, f"--workers {workers}" if workers else "")
    return Words(sentence, f"{again}  (once the other work has ended: top shows it)")


def full_device(seen: Observation) -> Words | None:
    """What the device can deliver arrives, and no more."""
    rate, ceiling = seen.delivered, seen.device_ceiling
    if seen.cache == "warm" or not rate or not ceiling:
        return None
    if not NEAR_CEILING <= rate / ceiling <= BEYOND_CEILING:
        return None
    fact = f"{_rate(rate)} arrive, {rate / ceiling:.0%} of the {_rate(ceiling)} it can deliver"
    return _device(seen, fact)


def full_queue(seen: Observation) -> Words | None:
    """A disk that is always busy, with work waiting for it."""
    busy, queue = seen.disk_utilisation or 0.0, seen.disk_queue or 0.0
    waited_for = (seen.iowait or 0.0) >= IOWAIT or queue >= DISK_QUEUE
    if seen.cache == "warm" or busy < DISK_BUSY or not waited_for:
        return None
    fact = (
        f"it is busy {busy:.0%} of the time with {queue:.0f} requests queued, and processors wait "
        f"for it {seen.iowait or 0.0:.0%} of theirs"
    )
    return _device(seen, fact)


def _device(seen: Observation, fact: str) -> Words:
    if (seen.amplification or 0.0) >= remedies.CLEARLY_SLOWER:
        fact += f"; it reads {seen.amplification:.1f} bytes for each one used"
    return Words(f"The device is the limit: {fact}", remedies.against_device(seen))


def slow_loader(seen: Observation) -> Words | None:
    """FastLoader brings more than any DataLoader."""
    rate, best = seen.fast_loader, max(seen.loader.values(), default=0.0)
    if not rate or not best or rate < (1 + GAIN) * best:
        return None
    workers = "1 worker" if seen.workers == 1 else f"{seen.workers} workers"
    sentence = (
        f"The DataLoader is the limit: FastLoader delivers {_rate(rate)}, {rate / best:.1f} times "
        f"the {_rate(best)} of its best, with {workers}"
    )
    return Words(sentence, seen.fast_loader_line)


def too_few_workers(seen: Observation) -> Words | None:
    """Cores left, and each worker so far has helped."""
    if not seen.loader or not seen.cores:
        return None
    most = max(seen.loader)
    rate = seen.loader[most]
    idle = most < seen.cores and seen.cores > 1 and (seen.cpu_share or 0.0) < CORES_FULL
    fewer = [rate for count, rate in seen.loader.items() if count < most and rate]
    if not idle or (fewer and rate < (1 + GAIN) * max(fewer)):
        return None
    more = min(seen.cores, max(2, 2 * most))
    if fewer:
        gained = f"{rate / max(fewer) - 1:.0%} more than fewer workers do"
        action = remedies.loader_setting(f"num_workers={more}")
    else:
        gained = "other counts were not tried"
        action = remedies.bench(seen, f"--workers {most},{more}")
    sentence = (
        f"The number of workers is the limit: {most} on {_cores(seen.cores)} "
        f"deliver{'s' if most == 1 else ''} {_rate(rate)}, {gained}"
    )
    return Words(sentence, action)


def too_many_workers(seen: Observation) -> Words | None:
    """More workers than cores, that deliver less than the cores could."""
    if not seen.loader or not seen.cores or not seen.stage_sum or min(seen.loader) <= seen.cores:
        return None
    rate, possible = seen.delivered or 0.0, seen.cores / seen.stage_sum
    if rate > (1 - LOST) * possible:
        return None
    sentence = (
        f"The number of workers is the limit: {seen.workers} on {_cores(seen.cores)} deliver "
        f"{_rate(rate)}, and the stages allow {_rate(possible)}"
    )
    return Words(sentence, remedies.loader_setting(f"num_workers={seen.cores}"))


def idle_loader(seen: Observation) -> Words | None:
    """As much arrives as if there were nothing to read or decode."""
    rate, free = seen.delivered, seen.free_ceiling
    if not seen.loader or not rate or not free or rate < NEAR_CEILING * free:
        return None
    fact = f"{_rate(rate)} arrive, {rate / free:.0%} of what the DataLoader does on free input"
    return Words(f"Copying is the limit: {fact}", remedies.against_transfer(seen))


def useless_workers(seen: Observation) -> Words | None:
    """Workers cost more than they bring."""
    if seen.workers != 0 or len(seen.loader) < 2 or _most_computing(seen) >= STAGE_SHARE:
        return None
    with_workers = max(rate for count, rate in seen.loader.items() if count)
    fact = f"{_rate(seen.loader[0])} arrive without workers, {_rate(with_workers)} with them"
    return Words(f"Copying is the limit: {fact}", remedies.against_transfer(seen))


def much_copying(seen: Observation) -> Words | None:
    """Moving bytes takes longer than making something of them."""
    moving = ("read", "collate", "transfer") if seen.cache == "warm" else ("collate", "transfer")
    names = [name for name in moving if name in seen.stages]
    share = seen.shares(*names)
    if share < STAGE_SHARE or share <= _most_computing(seen):
        return None
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    fact = f"{listed} take{'s' if len(names) == 1 else ''} {_taken(seen, *names)}"
    return Words(f"Copying is the limit: {fact}", remedies.against_transfer(seen))


def slow_decompression(seen: Observation) -> Words | None:
    """Decompression takes the most, and much."""
    if not _stands_out(seen, "decompress"):
        return None
    codec = f" of {seen.codec}" if seen.codec else ""
    sentence = f"Decompression{codec} is the limit: it takes {_taken(seen, 'decompress')}"
    return Words(sentence, remedies.against_decompression(seen))


def slow_decoding(seen: Observation) -> Words | None:
    """Decoding takes the most, and much."""
    if not _stands_out(seen, "decode"):
        return None
    sentence = f"Decoding is the limit: it takes {_taken(seen, 'decode')}"
    if seen.loader and seen.decode_ceiling:
        sentence += (
            f"; {_rate(seen.delivered or 0.0)} arrive, and decoding alone does "
            f"{_rate(seen.decode_ceiling)} on all cores"
        )
    return Words(sentence, remedies.against_decode(seen))


def slow_resizing(seen: Observation) -> Words | None:
    """Resizing takes the most, and much."""
    if not _stands_out(seen, "resize"):
        return None
    sentence = f"Resizing is the limit: it takes {_taken(seen, 'resize')}"
    return Words(sentence, remedies.as_pixels(seen))


def slow_reading(seen: Observation) -> Words | None:
    """Reading takes much, and not from memory."""
    if seen.cache == "warm" or seen.shares("read") < STAGE_SHARE:
        return None
    sentence = f"The device is the limit: reading takes {_taken(seen, 'read')}"
    return Words(sentence, remedies.against_device(seen))


def nothing_found(seen: Observation) -> Words:
    """None of the signs."""
    if not seen.stage_sum:
        sentence = "What limits it cannot be told: the stages were not measured"
    else:
        longest = max(seen.stages, key=lambda name: seen.stages[name])
        sentence = (
            f"Nothing stands out: {longest}, the longest stage, takes {_taken(seen, longest)}"
        )
    return Words(sentence, remedies.bench(seen, "--advise"))


def _stands_out(seen: Observation, name: str) -> bool:
    return STAGE_SHARE <= seen.shares(name) == _most_computing(seen)


def _most_computing(seen: Observation) -> float:
    return max(seen.shares(name) for name in _COMPUTING)


def _rate(value: float) -> str:
    return f"{value:,.0f} samples/s" if value >= 10 else f"{value:.2g} samples/s"


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"


def _taken(seen: Observation, *names: str) -> str:
    taken = sum(seen.stages.get(name, 0.0) for name in names)
    return (
        f"{taken * 1e6:,.0f} of {seen.stage_sum * 1e6:,.0f} µs per sample "
        f"({seen.shares(*names):.0%})"
    )
