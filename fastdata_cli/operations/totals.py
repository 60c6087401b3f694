"""Adds up what a run did: rejects, notes, and whether too many samples were bad."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastdata_cli.contract import Receipt
from fastdata_cli.imaging.policy import DAMAGED_CONTAINER
from fastdata_cli.operations.clean.selection import CLEAN_REASONS
from fastdata_cli.operations.plan import Plan
from fastdata_cli.sample import Reject


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What is in the dataset, and what is not; of one that is added to, in all of it."""

    samples: int
    added: int
    """By this run; all of a new dataset."""
    rejects: Sequence[Reject]
    by_reason: Mapping[str, int]
    cleaned: Mapping[str, int]
    """Good samples that the checks left out, by reason."""
    notes: Mapping[str, int]
    looked_at: int
    too_many_bad: bool
    counts: Mapping[str, Any]
    """For the manifest."""
    own_counts: Mapping[str, Any]
    """Of this run alone, where it added to a dataset."""


def add_up(plan: Plan, receipts: Sequence[Receipt], trailing: Sequence[Reject]) -> Totals:
    """Return the totals of a run that wrote these parts, with the rejects after the last."""
    samples = sum(receipt.part.samples for receipt in receipts)
    found = [reject for receipt in receipts for reject in receipt.part.rejects]
    found += trailing
    noted = Counter[str]()
    for receipt in receipts:
        noted.update(receipt.part.notes)
    own: Mapping[str, Any] = {}
    if plan.growth is None:
        added, looked_at = samples, plan.total + len(plan.source.rejects)
        rejects = [*plan.source.rejects, *found]
        notes = Counter(dict(plan.source.notes)) + noted
    else:
        added = samples - plan.growth.samples
        found = plan.growth.in_source(found)
        own = _counts(*_by_reason(found), noted)
        rejects = plan.growth.all_rejects(plan.source.rejects, found)
        notes = plan.growth.all_notes(plan.source.notes, noted)
        looked_at = samples + len(rejects) - notes["filled"]  # those are samples, too
    by_reason, cleaned = _by_reason(rejects)
    judged, of = sum(by_reason.values()), looked_at
    if plan.options.limit is not None and plan.growth is None:
        # What the listing found has no place among the first N samples: it is listed, not judged.
        judged, of = judged - len(plan.source.rejects), plan.total
    beyond = not plan.options.tolerates(judged, of)
    beyond = beyond or DAMAGED_CONTAINER in by_reason
    counts = _counts(by_reason, cleaned, notes)
    return Totals(
        samples=samples,
        added=added,
        rejects=rejects,
        by_reason=by_reason,
        cleaned=cleaned,
        notes=counts["notes"],
        looked_at=looked_at,
        too_many_bad=beyond,
        counts={**counts, "too_many_bad": True} if beyond else counts,
        own_counts=own,
    )


def _counts(
    by_reason: Mapping[str, int], cleaned: Mapping[str, int], notes: Mapping[str, int]
) -> dict[str, Any]:
    counts = {"rejects": dict(by_reason), "notes": dict(sorted(notes.items()))}
    return counts | ({"cleaned": dict(cleaned)} if cleaned else {})


def _by_reason(rejects: Iterable[Reject]) -> tuple[dict[str, int], dict[str, int]]:
    """Count bad samples, and good ones that the checks left out."""
    counts = sorted(Counter(reject.reason for reject in rejects).items())
    bad = {reason: count for reason, count in counts if reason not in CLEAN_REASONS}
    return bad, {reason: count for reason, count in counts if reason in CLEAN_REASONS}
