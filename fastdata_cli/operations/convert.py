"""convert: streams samples from a source through one transform into a writer, part by part."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field

from fastdata_cli.contract import Capability, Part, Receipt, Target, Writer
from fastdata_cli.engines.local import ordered_map
from fastdata_cli.errors import BadSampleError, NothingUsableError, StaleStagingError
from fastdata_cli.operations.clean.selection import CLEAN_REASONS, Selection
from fastdata_cli.operations.continuing import refuse_changes, remember_source, why_not
from fastdata_cli.operations.events import Listener, Silent
from fastdata_cli.operations.packer import Outcome, Packer
from fastdata_cli.operations.plan import Plan
from fastdata_cli.operations.publishing import publish
from fastdata_cli.operations.rejects import first_of, worded
from fastdata_cli.operations.sizes import stored_bytes
from fastdata_cli.operations.totals import add_up
from fastdata_cli.operations.transform import transform_for
from fastdata_cli.operations.words import count_text
from fastdata_cli.sample import Batch, Reject, Sample
from fastdata_cli.storage.refusals import storage_errors
from fastdata_cli.timing.environment import usable_cores
from fastdata_cli.timing.stages import Stage, StageClock

# A task of the pool holds about this many payload bytes and never more samples than this: small
# images then share the cost of a task, and large ones still spread over the threads.
_BLOCK_BYTES = 512 << 10
_BLOCK_SAMPLES = 32

# Bytes of finished parts that may wait to be written.
_WAITING_BYTES = 128 << 20


@dataclass(frozen=True, kw_only=True)
class ConvertReport:
    """What a conversion did."""

    path: str
    format: str
    payload: str
    image_shape: tuple[int, ...] | None
    samples: int
    classes: int
    rejects: Mapping[str, int]
    """By reason."""
    reject_examples: tuple[Reject, ...]
    rejects_path: str | None
    notes: Mapping[str, int]
    logical_bytes: int
    stored_bytes: int
    looked_at: int
    """Source samples: good, bad and found bad while listing."""
    seconds: float
    resumed_samples: int
    """Samples that an interrupted run had finished already."""
    too_many_bad: bool
    interrupted: bool = False
    """Ctrl-C was pressed when it could not be helped any more: the dataset is complete."""
    cleaned: Mapping[str, int] = field(default_factory=dict)
    """Good samples that the checks left out, by reason."""
    stages: tuple[Stage, ...] = field(default=())
    added: int | None = None
    """Samples added to a dataset that was there; None for a new one."""

    @property
    def bad(self) -> int:
        """All rejects."""
        return sum(self.rejects.values())

    @property
    def left_out(self) -> int:
        """All that the checks left out."""
        return sum(self.cleaned.values())


def convert(
    plan: Plan,
    *,
    jobs: int | None = None,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> ConvertReport:
    """Carry out a plan.

    Args:
        jobs: threads that decode; default all usable cores. Never changes the output.
        overwrite: replace the dataset at the destination (checked by the caller).

    Raises:
        NothingUsableError: no sample was usable; nothing was published.
        BadSampleError: the first bad sample, under ``on_bad="fail"``.
        StorageError, StaleStagingError, BusyError, DestinationExistsError: see errors.

    On KeyboardInterrupt and when storage fails, finished parts stay in the staging place and the
    same plan continues from them.
    """
    run = _Run(plan, jobs or usable_cores(), listener or Silent())
    assert plan.format.open_writer is not None
    target = Target(
        path=plan.path,
        manifest=plan.manifest(),
        overwrite=overwrite,
        standing=None if plan.growth is None else plan.growth.manifest,
        settled=plan.settled,
    )
    with storage_errors(plan.path):
        writer = plan.format.open_writer(target, plan.write_options)
    try:
        return run.into(writer)
    except (BadSampleError, NothingUsableError):
        writer.abort(keep=False)
        raise
    except BaseException:
        writer.abort(keep=bool(run.receipts))
        raise


class _Run:
    """One conversion under way."""

    def __init__(self, plan: Plan, jobs: int, listener: Listener) -> None:
        self.plan = plan
        self.jobs = jobs
        self.listener = listener
        self.clock = StageClock()
        self.receipts: dict[int, Receipt] = {}
        self.resumed = 0
        self.selection: Selection | None = None
        self.broken = False
        """A part could not be written: those that wait behind it must not be."""

    def into(self, writer: Writer) -> ConvertReport:
        for reject in self.plan.source.rejects:
            self._fail_at(reject)
        with contextlib.ExitStack() as open_things:
            if self.plan.clean is not None:
                selection = Selection(self.plan.clean, self.plan.options.policy(), self.plan.path)
                self.selection = open_things.enter_context(selection)
            packer = self._begin(writer)
            self._write_parts(writer, packer)
            return self._publish(writer, packer)

    def _begin(self, writer: Writer) -> Packer:
        """Return the packer of the first part that is to be written."""
        try:
            done = list(writer.begin(self.plan.fingerprint))
        except StaleStagingError as problem:
            raise why_not(self.plan, problem) from problem
        self.receipts = {receipt.part.index: receipt for receipt in done}
        there = sum(receipt.part.samples for receipt in done)
        growth = self.plan.growth
        self.resumed = there - (0 if growth is None else growth.samples)
        if self.resumed:
            there_now = count_text(self.resumed, "sample is", "samples are")
            self.listener.notice(f"continuing an interrupted run: {there_now} there")
        if not self.resumed:
            remember_source(self.plan)
        else:
            refuse_changes(self.plan, writer.started)
            if self.selection is not None:
                self.selection.resume(done, self.plan.source.reader, self.jobs)
        return Packer(
            self.plan.schema,
            writer.limits,
            index=len(done),
            start=there,
            position=done[-1].part.source_stop if done else 0,
        )

    def _write_parts(self, writer: Writer, packer: Packer) -> None:
        parallel = Capability.PARALLEL_WRITE in self.plan.format.capabilities
        threads = self.jobs if parallel else 1
        pool = ThreadPoolExecutor(threads, thread_name_prefix="fastdata-write")
        waiting: list[Future[Receipt]] = []
        weight = 0
        try:
            for part, batch in packer.pack(self._outcomes(packer.position)):
                weight = max(weight, batch.images.nbytes)
                most = max(1, min(threads + 1, _WAITING_BYTES // max(weight, 1)))
                while waiting and len(waiting) >= most:
                    waiting.pop(0).result()
                waiting.append(pool.submit(self._write, writer, packer, part, batch))
                del batch
            while waiting:
                waiting.pop(0).result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _write(self, writer: Writer, packer: Packer, part: Part, batch: Batch) -> Receipt:
        if self.broken:  # writers go on from the part before, and that is not there
            raise CancelledError
        try:
            with self.clock.stage("write"):
                if self.selection is not None:
                    self.selection.keep(part.index, packer.prints.pop(part.index, ()))
                receipt = writer.write_part(part, batch)
        except BaseException:
            self.broken = Capability.PARALLEL_WRITE not in self.plan.format.capabilities
            raise
        packer.recycle(batch)
        self.receipts[part.index] = receipt
        return receipt

    def _outcomes(self, position: int) -> Iterator[Outcome]:
        plan = self.plan
        judge = None if self.selection is None else self.selection.judge
        settle = _as_it_is if self.selection is None else self.selection.settle
        transform = transform_for(plan.options, plan.source.reader, plan.schema, judge)
        timed = self.clock.timed("transform", transform)
        samples = plan.source.reader.scan(range(position, plan.total))
        blocks = _blocks(self.clock.drawn("read", samples), position)
        done = position
        # Threads that only look at headers would take the interpreter lock from the one that reads.
        workers = 0 if transform.light else self.jobs
        for outcomes in ordered_map(timed, blocks, workers=workers, ahead=2 * workers + 2):
            for outcome in map(settle, outcomes):
                if isinstance(outcome, Reject):
                    self._fail_at(outcome)
                yield outcome
            done += len(outcomes)
            self.listener.progress(done, plan.total)

    def _fail_at(self, reject: Reject) -> None:
        """Raise BadSampleError if a bad sample is to end the run."""
        if self.plan.options.on_bad == "fail" and reject.reason not in CLEAN_REASONS:
            raise BadSampleError(
                key=reject.key,
                reason=reject.reason,
                detail=reject.detail,
                hint="leave out --on-bad fail to skip bad samples and list them",
            )

    def _publish(self, writer: Writer, packer: Packer) -> ConvertReport:
        plan = self.plan
        receipts = [self.receipts[index] for index in sorted(self.receipts)]
        totals = add_up(plan, receipts, packer.trailing)
        if not totals.samples:
            raise NothingUsableError(
                f"{plan.source.name}: not one of {len(totals.rejects)} samples is usable"
                + worded({**totals.by_reason, **totals.cleaned}),
                hint=first_of(totals.rejects),
                rejects=[asdict(reject) for reject in totals.rejects[:20]],
            )
        with self.clock.stage("publish"):
            published = publish(writer, plan, totals)
        return ConvertReport(
            path=str(plan.path),
            format=plan.format.name,
            payload=plan.schema.payload.value,
            image_shape=plan.schema.image_shape,
            samples=totals.samples,
            added=None if plan.growth is None else totals.added,
            classes=len(plan.schema.class_names),
            rejects=totals.by_reason,
            reject_examples=tuple(totals.rejects[:10]),
            rejects_path=str(published.rejects_path) if published.rejects_path else None,
            notes=totals.notes,
            logical_bytes=sum(receipt.part.bytes for receipt in receipts),
            stored_bytes=stored_bytes(
                plan.format.open_reader(plan.path, plan.format.read_options())
            ).bytes,
            looked_at=totals.looked_at,
            seconds=self.clock.wall,
            resumed_samples=self.resumed,
            too_many_bad=totals.too_many_bad,
            interrupted=published.interrupted,
            cleaned=totals.cleaned,
            stages=self.clock.stages(),
        )


def _as_it_is(outcome: Outcome) -> Outcome:
    return outcome


def _blocks(
    samples: Iterable[Sample | Reject], position: int
) -> Iterator[list[tuple[int, Sample | Reject]]]:
    block: list[tuple[int, Sample | Reject]] = []
    size = 0
    for index, sample in enumerate(samples, position):
        block.append((index, sample))
        size += 0 if isinstance(sample, Reject) else sample.image.nbytes
        if size >= _BLOCK_BYTES or len(block) >= _BLOCK_SAMPLES:
            yield block
            block, size = [], 0
    if block:
        yield block
