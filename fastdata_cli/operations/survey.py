"""convert --dry-run without a DST: what a sample of the source becomes in several formats.

How large the whole set would be, how long it would take to convert, and how fast it would be read
in random batches: from memory, as measured, and from the disk, as its bandwidth allows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import psutil

from fastdata_cli import registry
from fastdata_cli.contract import Reader
from fastdata_cli.errors import NothingUsableError, UsageError
from fastdata_cli.imaging.resize import max_side_for
from fastdata_cli.operations.candidates import Candidate, candidates
from fastdata_cli.operations.convert import convert
from fastdata_cli.operations.events import Listener, Silent
from fastdata_cli.operations.plan import make_plan
from fastdata_cli.operations.random_reading import RandomReading
from fastdata_cli.operations.sampling import spread
from fastdata_cli.operations.settings import DEFAULT_SIZE, ConvertOptions
from fastdata_cli.operations.shown_sizes import common_size, shown_sizes
from fastdata_cli.operations.sizes import stored_bytes
from fastdata_cli.operations.source import Source
from fastdata_cli.operations.subset import Subset
from fastdata_cli.operations.survey_report import AS_IT_IS, Survey, Trial
from fastdata_cli.operations.temporary import temporary_folder
from fastdata_cli.options import flag_words
from fastdata_cli.sample import Payload
from fastdata_cli.timing import cgroup
from fastdata_cli.timing.device import DeviceError, DeviceResult, device_jobs
from fastdata_cli.timing.fio import find_fio, measure_device
from fastdata_cli.timing.measure import measure
from fastdata_cli.timing.measurement import Measurement

# Of so many samples a first candidate is made, to see for how many others there is time.
_FEWEST = 64
_MOST = 512
_CONVERTING_S = 20.0
_READING_S = 20.0
_DEVICE_S = 1.0
_REPEATS = 3
_MOST_FILES = 100_000


def survey(
    source: Source, options: ConvertOptions, *, listener: Listener, jobs: int | None = None
) -> Survey:
    """Convert a sample of the source to each candidate, in a temporary folder, and read it.

    Args:
        source: what would be converted.
        options: what the user decided.
        listener: told what is decided, and how far it is.
        jobs: threads that convert; default all usable cores.

    Raises:
        NothingUsableError: there are no images, or none that can be used.
        UsageError: options that contradict each other, or none of the candidates.
        StorageError: the temporary folder is too small.
    """
    total = min(len(source.reader), options.limit or len(source.reader))
    if not total:
        raise NothingUsableError(f"{source.name}: no images here")
    size = _batch_size(source.reader, options)
    with temporary_folder() as folder:
        run = _Run(
            source=source,
            options=options,
            size=size,
            total=total,
            folder=folder,
            jobs=jobs,
            listener=listener,
        )
        return run.read(run.make())


def _batch_size(reader: Reader, options: ConvertOptions) -> tuple[int, int] | None:
    """Return the size of images in a batch: as asked for, as all have it, or the usual one."""
    if reader.schema.payload is Payload.PIXELS:
        return None
    few = Subset(reader, spread(len(reader), _FEWEST))
    return options.settled_size or common_size(few, options) or DEFAULT_SIZE


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A dataset of the samples that are tried; sizes and times are those of one sample."""

    name: str
    reader: Reader
    stored_bytes: float
    words: tuple[str, ...] = ()
    reencoded: bool = False
    convert_s: float | None = None


@dataclass(kw_only=True)
class _Run:
    """One survey under way."""

    source: Source
    options: ConvertOptions
    size: tuple[int, int] | None
    total: int
    folder: Path
    jobs: int | None
    listener: Listener
    count: int = _FEWEST
    """Samples that are tried."""

    def make(self) -> list[_Made]:
        """Convert the sample to each candidate that can be; one first, to see how long it takes.

        Raises:
            UsageError: there is none, or the last cannot be.
        """
        stored = self.source.reader.schema.payload
        every = list(candidates(stored, self.options, self._max_side()))
        if not every:
            raise UsageError(
                f"{self.source.name} holds pixels: files made of them are not compared",
                hint="name the destination",
            )
        look = self._convert(every[-1])
        seconds = len(every) * (look.convert_s or 0)
        self.count = round(min(_MOST, max(_FEWEST, _CONVERTING_S / max(seconds, 1e-6))))
        made = []
        for number, candidate in enumerate(every):
            self.listener.progress(number, 2 * len(every))
            try:
                made.append(self._convert(candidate))
            except UsageError as problem:
                self.listener.notice(f"{candidate.name} is not tried: {problem}")
        return made

    def _max_side(self) -> int | None:
        """Return what bounds smaller files that still have a margin about images in a batch."""
        if self.size is None:
            return None
        few = Subset(self.source.reader, spread(self.total, _FEWEST))
        sizes = list(shown_sizes(few, self.options))
        return max_side_for(self.size, sizes) if sizes else None

    def read(self, made: Sequence[_Made]) -> Survey:
        """Read what was made, and the source beside it."""
        source = _Made(
            name=AS_IT_IS,
            reader=self._sample(),
            stored_bytes=_sample_bytes(self.source.reader),
        )
        made = [source, *made]
        disk = self._disk(source.stored_bytes)
        memory = _free_memory()
        measured = self._rates(made)
        return Survey(
            source=self.source.name,
            samples=self.total,
            measured=len(source.reader),
            size=self.size,
            trials=tuple(
                self._trial(each, rate.samples_per_s, disk, memory)
                for each, rate in zip(made, measured, strict=True)
                if rate.samples_per_s
            ),
            disk=disk,
            memory_bytes=memory,
            others=max(rate.others for rate in measured),
        )

    def _sample(self) -> Subset:
        return Subset(self.source.reader, spread(self.total, self.count))

    def _convert(self, candidate: Candidate) -> _Made:
        path = Path(tempfile.mkdtemp(dir=self.folder)) / candidate.destination
        row = registry.for_destination(path)
        options = candidate.options(self.options, self.size)
        source = self.source.narrowed(self._sample())
        plan = make_plan(
            source,
            path,
            row,
            options,
            row.write_options.from_mapping(candidate.write, owner=f"format {row.name}"),
            Silent(),
        )
        report = convert(plan.trial(path, source), jobs=self.jobs)
        return _Made(
            name=candidate.name,
            words=(candidate.destination, *flag_words(candidate.write), *options.words()),
            reader=row.open_reader(path, row.read_options()),
            stored_bytes=report.stored_bytes / report.samples,
            reencoded=plan.reencoded is not None,
            convert_s=report.seconds / report.looked_at,
        )

    def _rates(self, made: Sequence[_Made]) -> Sequence[Measurement]:
        """Read each at random, from the page cache, in turn."""
        seconds = _READING_S / (_REPEATS * len(made))
        readings = [RandomReading(each.name, each.reader, self.size, seconds) for each in made]
        steps = _REPEATS * len(made)
        done = 0

        def count(measurement: Measurement) -> None:
            nonlocal done
            done += 1
            self.listener.progress(steps + done, 2 * steps)
            if measurement.failure is not None:
                self.listener.notice(f"{measurement.name}: {measurement.failure.message}")

        try:
            return measure(
                [reading.case for reading in readings],
                repeats=_REPEATS,
                warmup=0,
                budget_s=2 * _READING_S,
                min_repeat_s=seconds / 2,
                on_result=count,
            )
        finally:
            for reading in readings:
                reading.close()

    def _trial(self, made: _Made, rate: float, disk: DeviceResult | None, memory: int) -> Trial:
        stored = made.stored_bytes * self.total
        return Trial(
            name=made.name,
            words=made.words,
            payload=made.reader.schema.payload,
            reencoded=made.reencoded,
            stored_bytes=stored,
            convert_s=None if made.convert_s is None else made.convert_s * self.total,
            memory_samples_per_s=rate,
            disk_samples_per_s=None
            if disk is None
            else min(rate, disk.bandwidth / made.stored_bytes),
            fits=stored < memory,
        )

    def _disk(self, request_bytes: float) -> DeviceResult | None:
        """Measure random reads of the source's own files; None where they cannot be."""
        jobs = device_jobs(round(request_bytes), runtime_s=_DEVICE_S)
        random = [job for job in jobs if job.rw == "randread" and job.depth > 1]
        files = islice(self.source.reader.files(), _MOST_FILES)
        try:
            found = measure_device(files, random, program=find_fio(), scratch=False)
            return max(found, key=lambda each: each.bandwidth, default=None)
        except DeviceError:
            return None


def _sample_bytes(reader: Reader) -> float:
    """Return what a sample takes in storage; of very many files, each is held to be a sample's."""
    found = stored_bytes(reader)
    return found.bytes / (len(reader) if found.exact else found.files)


def _free_memory() -> int:
    free = int(psutil.virtual_memory().available)
    return min(free, cgroup.memory_limit() or free)
