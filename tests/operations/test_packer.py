"""The packer: parts within limits, every sample once, the same parts after any interruption."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastdata_cli.contract import Part, PartLimits
from fastdata_cli.operations.packer import Good, Outcome, Packer
from fastdata_cli.sample import Batch, Payload, Reject, Sample, Schema

ENCODED = Schema(payload=Payload.ENCODED)
PIXELS = Schema(payload=Payload.PIXELS, image_shape=(2, 3, 1))


@dataclass(frozen=True)
class Stream:
    """A source: None is a reject, a number an encoded image of so many bytes."""

    sizes: list[int | None]
    schema: Schema

    def outcomes(self, start: int = 0) -> list[Outcome]:
        return [self._outcome(index, size) for index, size in enumerate(self.sizes)][start:]

    def goods(self) -> list[int]:
        return [index for index, size in enumerate(self.sizes) if size is not None]

    def _outcome(self, index: int, size: int | None) -> Outcome:
        if size is None:
            return Reject(str(index), "truncated", index=index)
        shape = self.schema.image_shape or (size,)
        image = np.full(shape, index % 256, np.uint8)
        notes = ("cmyk", "rotated")[: index % 3]
        return Good(Sample(str(index), image, index, {"at": index}), notes)


SIZES = st.lists(st.none() | st.integers(0, 12), max_size=30)
LIMITS = st.builds(PartLimits, st.integers(1, 7), st.none() | st.integers(1, 40))
STREAMS = st.builds(Stream, SIZES, st.sampled_from([ENCODED, PIXELS]))


def pack(stream: Stream, limits: PartLimits) -> tuple[list[tuple[Part, Batch]], list[Reject]]:
    packer = Packer(stream.schema, limits, index=0, start=0, position=0)
    return list(packer.pack(stream.outcomes())), packer.trailing


@given(STREAMS, LIMITS)
def test_parts_stay_within_limits(stream: Stream, limits: PartLimits) -> None:
    for part, batch in pack(stream, limits)[0]:
        assert 1 <= part.samples == len(batch) <= limits.samples
        assert part.bytes == sum(sample.image.nbytes for sample in batch)
        assert part.bytes <= (limits.bytes or math.inf) or part.samples == 1


@given(STREAMS, LIMITS)
def test_parts_hold_all_good_samples_in_order(stream: Stream, limits: PartLimits) -> None:
    parts, _ = pack(stream, limits)
    keys = [sample.key for _, batch in parts for sample in batch]
    assert keys == [str(index) for index in stream.goods()]
    originals = {o.sample.key: o.sample for o in stream.outcomes() if isinstance(o, Good)}
    for _, batch in parts:
        for sample in batch:
            original = originals[sample.key]
            assert np.array_equal(sample.image, original.image)
            assert (sample.label, sample.metadata) == (original.label, original.metadata)


@given(STREAMS, LIMITS)
def test_every_source_position_is_settled_once(stream: Stream, limits: PartLimits) -> None:
    parts, trailing = pack(stream, limits)
    before = 0
    for part, batch in parts:
        assert before < part.source_stop <= len(stream.sizes)
        settled = [int(key) for key in batch.keys] + [reject.index for reject in part.rejects]
        assert sorted(settled) == list(range(before, part.source_stop))
        before = part.source_stop
    assert [reject.index for reject in trailing] == list(range(before, len(stream.sizes)))


@given(STREAMS, LIMITS)
def test_parts_are_numbered_and_placed_end_to_end(stream: Stream, limits: PartLimits) -> None:
    parts = [part for part, _ in pack(stream, limits)[0]]
    assert [part.index for part in parts] == list(range(len(parts)))
    starts = np.cumsum([0, *(part.samples for part in parts)]).tolist()
    assert [part.start for part in parts] == starts[:-1]
    for kind, least in (("cmyk", 1), ("rotated", 2)):
        noted = sum(part.notes.get(kind, 0) for part in parts)
        assert noted == sum(index % 3 >= least for index in stream.goods())


@given(STREAMS, LIMITS)
def test_any_prefix_of_parts_is_continued_alike(stream: Stream, limits: PartLimits) -> None:
    parts, trailing = pack(stream, limits)
    for count in range(1, len(parts) + 1):
        last = parts[count - 1][0]
        packer = Packer(
            stream.schema,
            limits,
            index=count,
            start=last.start + last.samples,
            position=last.source_stop,
        )
        rest = list(packer.pack(stream.outcomes(last.source_stop)))
        assert [part for part, _ in rest] == [part for part, _ in parts[count:]]
        assert [list(b.keys) for _, b in rest] == [list(b.keys) for _, b in parts[count:]]
        assert packer.trailing == trailing


def test_a_full_part_does_not_wait_for_the_next_sample() -> None:
    """What has arrived can be written while the source is slow."""
    packer = Packer(ENCODED, PartLimits(2), index=0, start=0, position=0)
    outcomes = iter(Stream([1, 1, 1], ENCODED).outcomes())
    part, _ = next(packer.pack(outcomes))
    assert part.source_stop == 2
    assert next(outcomes, None) is not None


def test_a_sample_larger_than_the_limit_is_a_part_of_its_own() -> None:
    parts, _ = pack(Stream([3, 50, 3], ENCODED), PartLimits(10, 10))
    assert [(part.samples, part.bytes) for part, _ in parts] == [(1, 3), (1, 50), (1, 3)]


def test_rejects_alone_make_no_part() -> None:
    parts, trailing = pack(Stream([None, None], ENCODED), PartLimits(5))
    assert parts == []
    assert [reject.index for reject in trailing] == [0, 1]


def test_rejects_after_a_full_part_belong_to_the_next() -> None:
    parts, trailing = pack(Stream([1, None, 1, None], ENCODED), PartLimits(1))
    assert [[reject.index for reject in part.rejects] for part, _ in parts] == [[], [1]]
    assert [reject.index for reject in trailing] == [3]


def test_pixels_are_copied_so_that_a_decoder_may_reuse_its_buffer() -> None:
    buffer = np.zeros((2, 3, 1), np.uint8)

    def decoded() -> Iterator[Outcome]:
        for index in range(3):
            buffer[...] = index
            yield Good(Sample(str(index), buffer))

    packer = Packer(PIXELS, PartLimits(3), index=0, start=0, position=0)
    ((_, batch),) = packer.pack(decoded())
    assert batch.images[:, 0, 0, 0].tolist() == [0, 1, 2]
    assert batch.images.flags.c_contiguous


def test_parts_do_not_share_memory() -> None:
    """A part is written in a thread while the next is filled."""
    parts, _ = pack(Stream([1] * 4, PIXELS), PartLimits(2))
    one, two = (batch.images for _, batch in parts)
    assert not np.shares_memory(one, two)


def test_sixteen_bit_pixels_keep_their_type() -> None:
    schema = Schema(payload=Payload.PIXELS, image_shape=(1, 1, 1), dtype="uint16")
    packer = Packer(schema, PartLimits(9, 4), index=0, start=0, position=0)
    goods = [Good(Sample(str(value), np.full((1, 1, 1), value, np.uint16))) for value in (1, 65535)]
    ((part, batch),) = packer.pack(goods)
    assert batch.images.dtype == np.uint16
    assert part.bytes == 4
    assert batch.images.ravel().tolist() == [1, 65535]


@pytest.mark.parametrize("schema", [ENCODED, PIXELS])
def test_nothing_at_all(schema: Schema) -> None:
    assert pack(Stream([], schema), PartLimits(5)) == ([], [])
