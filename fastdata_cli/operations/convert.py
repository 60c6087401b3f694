"""convert: streams samples from a source through one transform into a writer, part by part."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fastdata_cli.contract import Capability, Part, Receipt, Target, Writer
from fastdata_cli.engines.local import ordered_map
from fastdata_cli.errors import BadSampleError, NothingUsableError, StaleStagingError
from fastdata_cli.keys import to_text
from fastdata_cli.operations.events import Listener, Silent
from fastdata_cli.operations.packer import Outcome, Packer
from fastdata_cli.operations.plan import Plan
from fastdata_cli.operations.sizes import stored_bytes
from fastdata_cli.operations.transform import Transform, change_for
from fastdata_cli.sample import Batch, Reject, Sample
from fastdata_cli.storage.staging import staging_root, storage_errors
from fastdata_cli.timing.environment import usable_cores
from fastdata_cli.timing.stages import Stage, StageClock

# A task of the pool holds about this many payload bytes and never more samples than this: small
# images then share the cost of a task, and large ones still spread over the threads.
_BLOCK_BYTES = 512 << 10
_BLOCK_SAMPLES = 32

# Bytes of finished parts that may wait to be written.
_WAITING_BYTES = 128 << 20

DAMAGED_CONTAINER = "damaged-container"
"""Reject reason of a source that ends before its time; never within any --max-bad."""


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
    stages: tuple[Stage, ...] = field(default=())

    @property
    def bad(self) -> int:
        """All rejects."""
        return sum(self.rejects.values())


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
    target = Target(path=plan.path, manifest=plan.manifest(), overwrite=overwrite)
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

    def into(self, writer: Writer) -> ConvertReport:
        done = list(writer.begin(self.plan.fingerprint))
        self.receipts = {receipt.part.index: receipt for receipt in done}
        self.resumed = sum(receipt.part.samples for receipt in done)
        if self.resumed:
            self.listener.notice(f"continuing an interrupted run: {self.resumed} samples are there")
        if done:
            self._refuse_changes(writer.started)
        position = done[-1].part.source_stop if done else 0
        packer = Packer(
            self.plan.schema, writer.limits, index=len(done), start=self.resumed, position=position
        )
        self._write_parts(writer, packer, position)
        return self._publish(writer, packer)

    def _refuse_changes(self, started: float) -> None:
        """Refuse to go on when a file of the source was changed since the first part was made."""
        for file in self.plan.source.reader.files():
            with contextlib.suppress(OSError):
                if file.stat().st_ctime > started:
                    raise StaleStagingError(
                        f"{file} changed after the interrupted run had begun",
                        hint=f"delete {staging_root(self.plan.path)} to start over",
                        path=str(file),
                    )

    def _write_parts(self, writer: Writer, packer: Packer, position: int) -> None:
        parallel = Capability.PARALLEL_WRITE in self.plan.format.capabilities
        threads = self.jobs if parallel else 1
        pool = ThreadPoolExecutor(threads, thread_name_prefix="fastdata-write")
        waiting: list[Future[Receipt]] = []
        weight = 0
        try:
            for part, batch in packer.pack(self._outcomes(position)):
                weight = max(weight, batch.images.nbytes)
                most = max(1, min(threads - 1, _WAITING_BYTES // max(weight, 1)))
                while waiting and len(waiting) >= most:
                    waiting.pop(0).result()
                waiting.append(pool.submit(self._write, writer, packer, part, batch))
                del batch
            while waiting:
                waiting.pop(0).result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _write(self, writer: Writer, packer: Packer, part: Part, batch: Batch) -> Receipt:
        with self.clock.stage("write"):
            receipt = writer.write_part(part, batch)
        packer.recycle(batch)
        self.receipts[part.index] = receipt
        return receipt

    def _outcomes(self, position: int) -> Iterator[Outcome]:
        plan = self.plan
        fill = plan.schema.image_shape if plan.options.on_bad == "fill" else None
        change = change_for(plan.options, plan.source.reader.schema, plan.schema)
        transform = self.clock.timed("transform", Transform(change, fill))
        samples = plan.source.reader.scan(range(position, plan.total))
        blocks = _blocks(self.clock.drawn("read", samples), position)
        done = position
        for outcomes in ordered_map(transform, blocks, workers=self.jobs, ahead=2 * self.jobs + 2):
            for outcome in outcomes:
                if isinstance(outcome, Reject) and plan.options.on_bad == "fail":
                    raise BadSampleError(
                        key=outcome.key,
                        reason=outcome.reason,
                        detail=outcome.detail,
                        hint="leave out --on-bad fail to skip bad samples and list them",
                    )
                yield outcome
            done += len(outcomes)
            self.listener.progress(done, plan.total)

    def _publish(self, writer: Writer, packer: Packer) -> ConvertReport:
        plan = self.plan
        receipts = [self.receipts[index] for index in sorted(self.receipts)]
        samples = sum(receipt.part.samples for receipt in receipts)
        rejects = [*plan.source.rejects]
        rejects += [reject for receipt in receipts for reject in receipt.part.rejects]
        rejects += packer.trailing
        by_reason = dict(sorted(Counter(reject.reason for reject in rejects).items()))
        notes = Counter(dict(plan.source.notes))
        for receipt in receipts:
            notes.update(receipt.part.notes)
        if not samples:
            raise NothingUsableError(
                f"{plan.source.name}: not one of {len(rejects)} samples is usable"
                + _worded(by_reason),
                hint=_first(rejects),
                rejects=[asdict(reject) for reject in rejects[:20]],
            )
        looked_at = plan.total + len(plan.source.rejects)
        beyond = not plan.options.tolerates(len(rejects), looked_at)
        beyond = beyond or DAMAGED_CONTAINER in by_reason
        counts: dict[str, Any] = {"rejects": by_reason, "notes": dict(sorted(notes.items()))}
        if beyond:
            counts["too_many_bad"] = True
        listed = _write_rejects(plan.path, rejects)
        with self.clock.stage("publish"):
            writer.publish(plan.manifest(counts))
        return ConvertReport(
            path=str(plan.path),
            format=plan.format.name,
            payload=plan.schema.payload.value,
            image_shape=plan.schema.image_shape,
            samples=samples,
            classes=len(plan.schema.class_names),
            rejects=by_reason,
            reject_examples=tuple(rejects[:10]),
            rejects_path=None if listed is None else str(listed),
            notes=counts["notes"],
            logical_bytes=sum(receipt.part.bytes for receipt in receipts),
            stored_bytes=stored_bytes(
                plan.format.open_reader(plan.path, plan.format.read_options())
            ).bytes,
            looked_at=looked_at,
            seconds=self.clock.wall,
            resumed_samples=self.resumed,
            too_many_bad=beyond,
            stages=self.clock.stages(),
        )


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


def rejects_path(destination: Path) -> Path:
    """Return where the rejects of a destination are listed."""
    return destination.parent / f"{destination.name}.rejects.jsonl"


def _write_rejects(destination: Path, rejects: list[Reject]) -> Path | None:
    """List every reject beside the destination; an earlier run's list goes away."""
    path = rejects_path(destination)
    with storage_errors(path):
        if not rejects:
            path.unlink(missing_ok=True)
            return None
        partial = path.with_name(f".{path.name}.partial")
        with open(partial, "w", encoding="ascii") as file:
            for reject in rejects:
                file.write(json.dumps({**asdict(reject), "key": to_text(reject.key)}) + "\n")
        partial.replace(path)
    return path


def _worded(by_reason: Mapping[str, int]) -> str:
    words = ", ".join(f"{count} {reason}" for reason, count in by_reason.items())
    return f" ({words})" if words else ""


def _first(rejects: list[Reject]) -> str:
    shown = [f"{to_text(r.key)}: {r.reason} {r.detail}".rstrip() for r in rejects[:3]]
    return "; ".join(shown)
