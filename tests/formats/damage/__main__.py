"""``python -m tests.formats.damage``: the cases of one layout as JSON lines, or a table of all."""

from __future__ import annotations

import argparse
import faulthandler
import json
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from fastdata_cli import registry
from tests.formats.damage.judge import Verdict, judge, rows
from tests.formats.damage.kinds import Case, apply, cases, restore
from tests.formats.damage.layouts import LAYOUTS, Layout

# A case takes milliseconds. Whoever believes a damaged length wants more memory than this.
_HANG_SECONDS, _MEMORY = 20, 4 << 30


def verdicts(layout: Layout, folder: Path) -> Iterator[tuple[Case, Verdict]]:
    """Damage a dataset in every way, and judge what comes of each."""
    path = layout.write(folder / "set", 0)
    layout.write(folder / "other", 1)
    originals = rows(registry.open_reader(path))
    for case in list(cases(path.parent, folder / "other")):
        sound = [(file, file.read_bytes()) for file, _ in case.changes]
        apply(case)
        faulthandler.dump_traceback_later(_HANG_SECONDS, exit=True)
        try:
            verdict = judge(path, originals, has_checksums=layout.has_checksums)
        except Exception as problem:  # noqa: BLE001 - that is what is looked for
            verdict = Verdict("fault", f"{type(problem).__name__}: {problem}")
        faulthandler.cancel_dump_traceback_later()
        restore(sound)
        yield case, verdict


def main() -> None:
    """Print a line before each case and one after it: a crash is then known by its case."""
    parser = argparse.ArgumentParser(prog="python -m tests.formats.damage", description=__doc__)
    parser.add_argument("layout", nargs="?", choices=sorted(LAYOUTS))
    chosen = parser.parse_args().layout
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    faulthandler.enable()
    for name in [chosen] if chosen else LAYOUTS:
        with tempfile.TemporaryDirectory() as folder:
            found = verdicts(LAYOUTS[name], Path(folder))
            if chosen:
                _print_lines(found)
            else:
                _print_counts(name, found)


def _print_lines(found: Iterator[tuple[Case, Verdict]]) -> None:
    for case, verdict in found:
        line = {"kind": case.kind, "name": case.name, **asdict(verdict)}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def _print_counts(name: str, found: Iterator[tuple[Case, Verdict]]) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for case, verdict in found:
        counts[case.kind, verdict.outcome] += 1
        counts["unchecked", case.kind] += verdict.unchecked
        if verdict.outcome == "fault":
            sys.stdout.write(f"  {name}: {case.name}: {verdict.detail}\n")
    sys.stdout.write(f"{name}: {dict(counts)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
