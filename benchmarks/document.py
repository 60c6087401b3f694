"""Owns docs/performance.md: written from the record of a real run, never by hand.

    python -m benchmarks.document build/bench/record.json [again.json ...]

Tables of the further records take the place of those in the first: a neighbour may have disturbed
some of a long run. What results is kept in benchmarks/results/, so that every figure can be traced.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.results import Judgement, TableFacts, Verdict, compared, figure, judge, tables_of
from benchmarks.suite import TABLES
from benchmarks.tables import markdown, spread
from fastdata_cli.errors import FastdataError, UsageError
from fastdata_cli.timing.record import Record, load_record, save_record

_ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = _ROOT / "docs" / "performance.md"
RESULTS = _ROOT / "benchmarks" / "results"

_HEAD = """# Performance

How fast datasets are read and written, against what the machine allows and against other libraries.
`make bench` measures it anew; every figure below is from one run of it{again}, kept in
[{kept}](../benchmarks/results/{kept}).

## How it is measured

- Every line is a process of its own. In each round all processes of a table do one repeat, one
  after another, in an order that rotates, so that a disturbance meets all alike. A repeat lasts
  {seconds:g} s or more; there are {rounds} of them after one of warm-up.
- Rates are medians. A ratio compares the median seconds per sample, ours with its reference; its
  bounds are a 95 % bootstrap. Where they lie far apart the machine was not quiet: trust ratios more
  than rates, and ratios only as far as their bounds.
- A reference is a loop without any container: what somebody would write who knows the machine.
  What each does is said below its table. Plain threads are as many as there are cores.
- All data is in the page cache. That is measured before and after the rounds; where it does not
  hold, the table says so.
- Samples are in random order, another one each epoch, in batches of 64, unless said otherwise.
- Containers are made by `fastdata convert`, from the same files. Conversions are timed within a
  running process: starting Python takes a fraction of a second besides.

## The machine
"""

_REPEAT = """## Do it yourself

```console
$ PHOTOS=~/photos make bench                              # all tables, about ten minutes
$ .venv/bin/python -m benchmarks.run --list               # the rows
$ .venv/bin/python -m benchmarks.run --only pixels/zarr   # one row and its reference
```

Without `PHOTOS` the painted images of `sample_data`, enlarged, stand in: they show the order of
magnitude. Other libraries are installed on the first run, each into an environment of its own below
`build/`; one that cannot be installed is named. `WORK=/mnt/disk make bench` puts the data, some
10 GB, on another disk. How a row is added: [benchmarks](../benchmarks/README.md).
"""


def write_document(record: Record, kept: str) -> str:
    """Return the document of a record.

    Args:
        record: of ``benchmarks.run``.
        kept: name of the record's file in ``benchmarks/results``.
    """
    tables = tables_of(record)
    options = record.options
    head = _HEAD.format(
        kept=kept,
        again="".join(f", {words}" for words in record.facts.get("again", ())),
        seconds=options["seconds"],
        rounds=options["rounds"],
    )
    lines = [head, *_machine(record), "", "## Results", ""]
    for table in tables:
        lines += markdown(record, table)
    lines += ["## Where we lose, and why", "", *_losses(record, tables), "", _REPEAT]
    return "\n".join(lines)


def measured_again(record: Record, later: Record) -> Record:
    """Return a record with the tables that a later one of the same software measured again.

    Raises:
        UsageError: they are of other software.
    """
    if later.environment.fastdata != record.environment.fastdata:
        raise UsageError(
            f"fastdata {record.environment.fastdata} and {later.environment.fastdata} do not mix",
            hint="measure all tables anew",
        )
    for case in later.cases:
        record = record.with_case(case)
    anew = {table["name"]: table for table in later.facts["tables"]}
    facts: dict[str, Any] = dict(record.facts)
    facts["tables"] = [anew.get(table["name"], table) for table in facts["tables"]]
    words = f"{' and '.join(anew)} once more with {later.options['rounds']} rounds"
    facts["again"] = [*facts.get("again", ()), words]
    return replace(record, facts=facts)


def _machine(record: Record) -> Iterator[str]:
    where, photos = record.environment, record.facts["photos"]
    facts: dict[str, Any] = {
        "processor": f"{where.cpu_model}, {where.cores_usable} usable cores",
        "memory": f"{where.memory_bytes / 2**30:.0f} GiB",
        "storage": ", ".join(f"{each.filesystem} on {each.device}" for each in where.storage),
        "software": f"{where.kernel}, {where.python}, fastdata {where.fastdata}",
        "libraries": ", ".join(f"{name} {version}" for name, version in where.libraries.items()),
        "other libraries": _peers(record),
        "measured": record.started[:10],
        "images": photos["words"],
        "mean file": f"{photos['mean_bytes'] / 1e3:.0f} kB, "
        f"large ones {photos['large_mean_bytes'] / 1e6:.1f} MB",
        "options": f"`{_options(record)}`",
    }
    yield "| | |"
    yield "|---|---|"
    yield from (f"| {name} | {value} |" for name, value in facts.items())


def _options(record: Record) -> str:
    names = ("samples", "decoded", "many", "rounds", "seconds")
    return " ".join(f"--{name} {record.options[name]}" for name in names)


def _peers(record: Record) -> str:
    found = [f"{name} {version}" for name, version in record.facts["peers"].items()]
    return ", ".join(found) or "none was installed"


def _losses(record: Record, tables: Sequence[TableFacts]) -> Iterator[str]:
    """Yield lines for the rows that are behind, and for each peer that is ahead of one."""
    lines = []
    for table in tables:
        behind = [each for each in judge(record, table) if _behind(each)]
        for why, rows in groupby(behind, lambda each: _why(each.row.case)):
            lines.append(f"- **{table.title}**: {'; '.join(map(_loss, rows))}. {why}")
        lines += _ahead(record, table)
    yield from lines or ["Every target is met, and no library measured here is ahead."]


def _behind(judged: Judgement) -> bool:
    """Tell whether a target is missed; without one, whether the reference is faster."""
    if judged.verdict is Verdict.NO_TARGET:
        return judged.comparison is not None and judged.comparison.high < 1
    return judged.verdict is not Verdict.MET


def _loss(judged: Judgement) -> str:
    row, both = judged.row, judged.comparison
    if judged.verdict is Verdict.NOT_MEASURED:
        found = "not measured"
    elif both:
        wanted = "its reference" if judged.target is None else f"{judged.target:g}"
        found = f"{spread(both.ratio, both.low, both.high)} of {wanted}"
    else:
        pairs = [(figure(judged.ours, limit), limit) for limit in row.limits if judged.ours]
        found = ", ".join(f"{value:.3g} of {of.most:g} {of.unit}" for value, of in pairs if value)
    return f"{row.what} {found}"


def _why(name: str) -> str:
    """Return why a row is behind, as it is explained now: the run may be older."""
    rows = {row.name: row for table in TABLES for row in table.rows}
    return (name in rows and rows[name].why) or "Not explained yet."


def _ahead(record: Record, table: TableFacts) -> Iterator[str]:
    """Yield a line for each peer that is ahead of a row of ours, beyond noise."""
    for side in table.peers:
        behind = []
        for row in table.rows:
            both = compared(record.case(row.case), record.case(side.case))
            if both and both.high < 1:
                behind.append(f"{row.what} {spread(both.ratio, both.low, both.high)}")
        if behind:
            yield f"- **{table.title}: {side.what}** is ahead of: {'; '.join(behind)}."


def main(words: Sequence[str] | None = None) -> int:
    """Write the document and keep the record; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.document")
    what = "what benchmarks.run --save has written"
    parser.add_argument("record", type=Path, help=what)
    parser.add_argument("again", type=Path, nargs="*", help="the same, of tables measured again")
    given = parser.parse_args(words)
    try:
        record = reduce(measured_again, map(load_record, given.again), load_record(given.record))
    except FastdataError as problem:
        print(f"error: {problem}\nhint: {problem.hint}", file=sys.stderr)
        return problem.exit_code
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / f"tables-{record.started[:10]}.json"
    for earlier in RESULTS.glob("tables-*.json"):
        earlier.unlink()
    save_record(record, kept)
    DOCUMENT.write_text(write_document(record, kept.name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
