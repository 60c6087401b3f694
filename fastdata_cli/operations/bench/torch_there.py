"""Whether there is a DataLoader to measure."""

from __future__ import annotations

from fastdata_cli.errors import MissingDependencyError


def missing_loader() -> str:
    """Return why there can be no DataLoader; empty where there can."""
    try:
        import fastdata_cli.loading.dataset  # noqa: F401 - says so itself if torch is missing
    except MissingDependencyError as problem:
        return f"{problem}; {problem.hint}"
    return ""
