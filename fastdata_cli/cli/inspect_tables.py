"""The tables of ``fastdata inspect``."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from fastdata_cli.cli import tables
from fastdata_cli.cli.output import data
from fastdata_cli.keys import to_text
from fastdata_cli.operations.inspect import InspectReport
from fastdata_cli.operations.verify import Verification
from fastdata_cli.operations.words import count_text, size_text

_GENERATIONS = 8


def show_report(report: InspectReport) -> None:
    """Print what was found, on stdout; the verdict of --verify last."""
    console = data()
    console.print(
        tables.facts_table(
            report.path,
            [
                ("format", report.format),
                ("made by", report.made_by or "others (no fastdata manifest)"),
                ("samples", f"{report.samples:,}"),
                ("payload", report.payload),
                ("image", tables.shape_text(report.image_shape, report.dtype)),
                ("layout", _layout(report)),
                ("remarks", "\n".join(report.layout.get("notes", ()))),
                ("stored size", _stored(report)),
                ("logical size", _logical(report)),
                ("ratio", f"{report.ratio:.2f}" if report.ratio else None),
                ("classes", len(report.class_names) or None),
                ("no label", _unlabelled(report)),
                ("keys", "\n".join(report.keys)),
                ("source", _source(report)),
                ("options", tables.words_text(_options(report))),
                ("generations", _generations(report)),
                ("bad samples", tables.pairs_text(report.counts.get("rejects", {}))),
                ("limit", "more bad samples than --max-bad allowed" if _beyond(report) else None),
                ("notes", tables.notes_text({**report.counts.get("notes", {}), **report.notes})),
            ],
        )
    )
    _show_histograms(console, report)
    if report.problems:
        _show_problems(console, report)
    if report.verified is not None:
        _show_verified(console, report.verified)


def _show_verified(console: Console, verified: Verification) -> None:
    """Print the findings, and the verdict that --verify is asked for."""
    of_all = count_text(verified.samples, "sample")
    if not verified.findings:
        checked = {"checksums": "checksums match", "structure": "whole, and without checksums"}
        verdict = f"verified: {of_all}, {checked[verified.compared]}"
        console.print(tables.cell(verdict, "green"))
        return
    shown = [
        (found.key or "the dataset", _said(found.kind, found.detail)) for found in verified.findings
    ]
    console.print(tables.facts_table(f"Findings: {len(shown):,}", shown))
    verdict = f"{count_text(len(shown), 'finding')} in {of_all}"
    console.print(tables.cell(verdict, "red"))


def _show_histograms(console: Console, report: InspectReport) -> None:
    if report.class_names or set(report.labels) - {"-1"}:
        named = {_label(report, number): count for number, count in report.labels.items()}
        console.print(tables.counts_table("Labels", "label", named, most=20))
    images = report.images
    if images is None:
        return
    how = f"estimate from {images.read:,} headers" if images.estimate else "all headers"
    console.print(tables.counts_table(f"Image sizes, {how}", "height×width", images.sizes, most=8))
    facts = [
        ("types", tables.pairs_text(images.kinds)),
        ("modes", tables.pairs_text(images.modes)),
        ("mean size", size_text(images.mean_bytes)),
        ("EXIF-turned", images.turned or None),
        ("notes", tables.pairs_text(images.notes)),
        ("unreadable", tables.pairs_text(images.unreadable)),
    ]
    console.print(tables.facts_table(f"Images, {how}", facts))
    first = [(r.key, r.reason, to_text(r.detail)) for r in images.unreadable_first]
    if first:
        total = sum(images.unreadable.values())
        console.print(tables.faults_table(f"Unreadable: {total:,}", "reason", first, total))


def _show_problems(console: Console, report: InspectReport) -> None:
    shown = [
        (f"{problem['key']}", _said(problem["reason"], problem["detail"]))
        for problem in report.problems[:20]
    ]
    console.print(tables.facts_table(f"Problems: {len(report.problems):,}", shown))


def _options(report: InspectReport) -> dict[str, Any]:
    """Return the options that did something: nothing is fitted where no size was asked for."""
    options = dict(report.options)
    if not options.get("size"):
        options.pop("fit", None)
        if not options.get("max_side"):
            options.pop("interpolation", None)
    return options


def _said(what: str, detail: str) -> str:
    return f"{what}: {detail}" if detail else what


def _label(report: InspectReport, number: str) -> str:
    if number == "-1":
        return "none"
    index = int(number)
    name = report.class_names[index] if 0 <= index < len(report.class_names) else ""
    return f"{number} {to_text(name)}".strip()


def _layout(report: InspectReport) -> str:
    layout = {name: value for name, value in report.layout.items() if name != "notes"}
    return tables.words_text(layout)


def _source(report: InspectReport) -> str:
    """Return what the dataset was made from; its fingerprint is for programs."""
    path, kind = report.source.get("path"), report.source.get("format")
    return f"{path} ({kind})" if path and kind else ""


def _unlabelled(report: InspectReport) -> str | None:
    if report.unlabelled_first is None:
        return None
    return f"{report.labels['-1']:,} of {report.samples:,}, such as {report.unlabelled_first}"


def _stored(report: InspectReport) -> str:
    text = size_text(report.stored_bytes)
    return text if report.stored_bytes_exact else f"at least {text}"


def _logical(report: InspectReport) -> str:
    text = size_text(report.logical_bytes)
    return text if report.logical_bytes_exact else f"about {text} (estimate)"


def _generations(report: InspectReport) -> str:
    """Return a line for each of the last runs that added to the dataset."""
    shown = report.generations[-_GENERATIONS:]
    lines = [f"… {len(report.generations) - len(shown)} before"] * (shown != report.generations)
    for each in shown:
        bad = sum(each["counts"].get("rejects", {}).values())
        samples = count_text(each["samples"], "sample")
        lines.append(f"{each['number']}: {samples}, {bad:,} bad, {each['tool']}")
    return "\n".join(lines)


def _beyond(report: InspectReport) -> bool:
    return bool(report.counts.get("too_many_bad"))
