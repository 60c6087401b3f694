"""What every reader owes, of whatever it reads: a format's own, those of others, wrappers."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fastdata_cli.contract import Capability, Reader
from fastdata_cli.errors import UnsupportedError
from fastdata_cli.sample import Payload, Reject, Sample
from fastdata_cli.storage.gather import Gather
from fastdata_cli.storage.mapping import FileMaps
from fastdata_cli.storage.table import checksums

Digests = list[tuple[str, int, int]]


class ReaderConformance:
    """Subclass it, override the two fixtures, and pytest runs the suite on the reader.

    It needs no writer, and fits formats that are only read, and readers around readers.
    """

    @pytest.fixture
    def samples(self) -> list[Sample]:
        """What the reader is to give, in order: 41 samples or more."""
        raise NotImplementedError("override the fixture samples")

    @pytest.fixture
    def reader(self) -> Reader:
        """An open reader of them."""
        raise NotImplementedError("override the fixture reader")

    # -- what is read is what was written

    def test_round_trip(self, reader: Reader, samples: list[Sample]) -> None:
        """Every sample comes back: key, label, image, metadata, order."""
        assert len(reader) == len(samples)
        assert reader.schema.num_samples == len(samples)
        for index, sample in enumerate(samples):
            assert_same(reader.read(index), sample)
        assert list(reader.keys()) == [sample.key for sample in samples]
        assert reader.labels().tolist() == [sample.label for sample in samples]

    def test_description(self, reader: Reader, samples: list[Sample]) -> None:
        """The schema fits the samples, the description is JSON, and the files are there."""
        assert str(samples[0].image.dtype) == reader.schema.dtype
        if reader.schema.payload is Payload.PIXELS:
            assert reader.schema.image_shape == samples[0].image.shape
        assert max(sample.label for sample in samples) < len(reader.schema.class_names or samples)
        json.dumps(dict(reader.describe()))
        assert all(file.is_file() for file in reader.files())

    # -- random access and bulk reads

    def test_read_many_keeps_order_and_repeats(self, reader: Reader, samples: list[Sample]) -> None:
        """Any order, any repeats, as lists or arrays."""
        wanted = [5, 0, 40, 5, 5, 17, 39]
        for indices in (wanted, np.array(wanted), []):
            batch = reader.read_many(indices)
            assert len(batch) == len(indices)
            for sample, index in zip(batch, indices, strict=True):
                assert_same(sample, samples[index])

    def test_read_many_fills_out(self, reader: Reader, samples: list[Sample]) -> None:
        """``out`` is filled, returned, and checked."""
        payload, wanted = reader.schema.payload, [3, 1, 3, 40]
        plain = reader.read_many(wanted)
        shape = plain.images.shape if payload is Payload.PIXELS else (plain.images.size + 100,)
        out = np.zeros(shape, plain.images.dtype)
        filled = reader.read_many(wanted, out)
        assert np.shares_memory(filled.images, out)
        for sample, index in zip(filled, wanted, strict=True):
            assert_same(sample, samples[index])
        too_small = out[:-1] if payload is Payload.PIXELS else out[: plain.images.size - 1]
        with pytest.raises(ValueError, match="out "):
            reader.read_many(wanted, too_small)
        with pytest.raises(ValueError, match="out "):
            reader.read_many(wanted, out.astype(np.float32))

    def test_read_each(self, reader: Reader, samples: list[Sample]) -> None:
        """The images of ``read_many``, one by one; they stay when the reader is closed."""
        for wanted in ([40, 3, 3, 0, 17], np.array([5]), []):
            images = reader.read_each(wanted)
            reader.close()
            assert len(images) == len(wanted)
            for image, index in zip(images, wanted, strict=True):
                assert image.dtype == samples[index].image.dtype
                assert np.array_equal(image, samples[index].image)
        with pytest.raises(IndexError):
            reader.read_each([len(reader)])

    def test_locate(self, reader: Reader, samples: list[Sample]) -> None:
        """With LOCATE, samples are where they are said to be, in their order."""
        wanted = [40, 3, 3, 0, 17]
        if Capability.LOCATE not in reader.capabilities:
            with pytest.raises(UnsupportedError):
                reader.locate(wanted)
            return
        extents = reader.locate(wanted)
        images = [samples[index].image.reshape(-1).view(np.uint8) for index in wanted]
        assert extents.sample_sizes(len(wanted)).tolist() == [len(image) for image in images]
        out = np.zeros(sum(map(len, images)), np.uint8)
        Gather(FileMaps(extents.path_of)).fill(extents, out)
        assert np.array_equal(out, np.concatenate(images))
        with pytest.raises(IndexError):
            reader.locate([len(samples)])

    def test_out_of_range(self, reader: Reader, samples: list[Sample]) -> None:
        """Positions outside raise IndexError; -1 is the last for ``read``."""
        assert_same(reader.read(-1), samples[-1])
        for call in (
            lambda: reader.read(len(samples)),
            lambda: reader.read(-len(samples) - 1),
            lambda: reader.read_many([0, len(samples)]),
            lambda: reader.read_many([-1]),
        ):
            with pytest.raises(IndexError):
                call()

    def test_scan(self, reader: Reader, samples: list[Sample]) -> None:
        """Scans give everything, or a span, in order."""
        for span in (None, range(4, 23), range(0)):
            found = list(reader.scan(span))
            wanted = samples if span is None else samples[span.start : span.stop]
            assert len(found) == len(wanted)
            for got, sample in zip(found, wanted, strict=True):
                assert not isinstance(got, Reject)
                assert_same(got, sample)

    def test_spans(self, reader: Reader) -> None:
        """Spans cover the dataset once, in order."""
        for at_most in (1, 3, 1000):
            spans = reader.spans(at_most)
            assert len(spans) <= at_most
            assert [index for span in spans for index in span] == list(range(len(reader)))

    # -- processes and threads

    def test_pickle_and_close(self, reader: Reader) -> None:
        """A reader travels as (path, options), also when in use, and reopens after close."""
        before = digests(reader)
        data = pickle.dumps(reader)
        assert len(data) < 10_000
        assert digests(pickle.loads(data)) == before  # noqa: S301 - our own bytes
        reader.close()
        assert digests(reader) == before

    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_fork_after_use(self, reader: Reader) -> None:
        """Children forked from a process that has read already read the same."""
        before = digests(reader)
        assert in_children("fork", reader, 3) == [before] * 3
        assert digests(reader) == before

    def test_spawn(self, reader: Reader) -> None:
        """A spawned child reads the same."""
        before = digests(reader)
        assert in_children("spawn", reader, 1) == [before]

    def test_threads(self, reader: Reader) -> None:
        """Many threads, one reader."""
        before = digests(reader)
        reader.close()
        barrier = threading.Barrier(4)

        def read(_: int) -> Digests:
            barrier.wait()
            return digests(reader)

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(read, range(4))) == [before] * 4

    # -- checks, flags

    def test_verify_finds_nothing_in_a_sound_dataset(self, reader: Reader) -> None:
        """Checksums match what was written."""
        assert list(reader.verify()) == []

    def test_compare_finds_nothing_wrong_with_what_was_read(self, reader: Reader) -> None:
        """Images just read are what was written, whatever their order."""
        wanted = [5, 40, 0, 40]
        assert list(reader.compare(wanted, reader.read_each(wanted))) == []

    def test_zero_copy(self, reader: Reader) -> None:
        """With ZERO_COPY, pixels are views of one place."""
        if Capability.ZERO_COPY in reader.capabilities and reader.schema.image_shape:
            one, two = reader.read(0).image, reader.read(0).image
            assert np.shares_memory(one, two)


def assert_same(got: Sample, wanted: Sample) -> None:
    """Compare two samples in every field."""
    assert got.key == wanted.key
    assert got.label == wanted.label
    assert dict(got.metadata or {}) == dict(wanted.metadata or {})
    assert got.image.dtype == wanted.image.dtype
    assert np.array_equal(got.image, wanted.image)


def digests(reader: Reader) -> Digests:
    """Return (key, label, checksum) of all samples, read backwards in batches."""
    found: Digests = []
    for stop in range(len(reader), 0, -16):
        batch = reader.read_many(list(range(max(0, stop - 16), stop)))
        rows = zip(batch.keys, batch.labels.tolist(), checksums(batch).tolist(), strict=True)
        found[:0] = rows
    return found


def in_children(method: str, reader: Reader, count: int) -> list[Digests]:
    """Return what child processes started by ``method`` read."""
    context = multiprocessing.get_context(method)
    queue: Any = context.Queue()
    children = [
        context.Process(target=_report, args=(reader, queue))  # type: ignore[attr-defined]
        for _ in range(count)
    ]
    for child in children:
        child.start()
    found = [queue.get(timeout=60) for _ in children]
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    return found


def _report(reader: Reader, queue: Any) -> None:
    queue.put(digests(reader))
