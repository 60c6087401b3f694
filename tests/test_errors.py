"""The error tree: what a caller may catch, what a process may hand to another."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from fastdata_cli import errors
from fastdata_cli.errors import BadSampleError, FastdataError

# One row for each: exit code, and the builtins that a caller may catch instead.
PROMISED: dict[str, tuple[int, tuple[type[Exception], ...]]] = {
    "FastdataError": (1, ()),
    "UsageError": (2, (ValueError,)),
    "UnknownFormatError": (2, (ValueError,)),
    "DestinationExistsError": (2, (FileExistsError, ValueError)),
    "SourceNotFoundError": (2, (FileNotFoundError,)),
    "NotADatasetError": (2, ()),
    "DamagedDatasetError": (1, ()),
    "MissingDependencyError": (1, (ImportError,)),
    "UnsupportedError": (2, ()),
    "StaleStagingError": (1, ()),
    "BusyError": (1, ()),
    "StorageError": (1, (OSError,)),
    "NothingUsableError": (1, ()),
    "TooManyBadError": (3, ()),
    "BadSampleError": (1, (ValueError,)),
}
KINDS: list[type[FastdataError]] = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, FastdataError)
]


def example(kind: type[FastdataError]) -> FastdataError:
    if issubclass(kind, BadSampleError):
        return kind(key="cat/\udcff.jpg", reason="truncated", detail="at byte 7", hint="try this")
    return kind("out.raw: cut", hint="try this", path="out.raw", expected=7, found=[1, 2])


def test_every_error_is_promised_and_documented() -> None:
    assert {kind.__name__ for kind in KINDS} == set(PROMISED)
    for kind in KINDS:
        assert kind.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize("kind", KINDS)
def test_exit_code_and_builtins(kind: type[FastdataError]) -> None:
    code, builtins = PROMISED[kind.__name__]
    problem = example(kind)
    assert problem.exit_code == code
    assert isinstance(problem, (FastdataError, *builtins))
    assert all(isinstance(problem, builtin) for builtin in builtins)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("again", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy])  # noqa: S301
def test_survives_pickling(
    kind: type[FastdataError], again: Callable[[FastdataError], FastdataError]
) -> None:
    problem = example(kind)
    copied = again(problem)
    assert type(copied) is kind
    assert str(copied) == str(problem) == problem.message
    assert (copied.message, copied.hint, copied.facts) == (
        problem.message,
        problem.hint,
        problem.facts,
    )
    assert copied.args == problem.args


def test_bad_sample_puts_its_facts_into_words() -> None:
    problem = BadSampleError(key="a.jpg", reason="truncated", detail="at byte 7")
    assert str(problem) == "a.jpg: truncated: at byte 7"
    assert problem.facts == {"key": "a.jpg", "reason": "truncated", "detail": "at byte 7"}
    again = pickle.loads(pickle.dumps(problem))  # noqa: S301 - our own bytes
    assert (again.key, again.reason, again.detail) == ("a.jpg", "truncated", "at byte 7")
    assert str(BadSampleError(reason="truncated")) == "truncated"
    assert str(BadSampleError("said otherwise", reason="truncated")) == "said otherwise"


def test_os_errors_keep_the_message_as_their_text() -> None:
    for kind in (errors.StorageError, errors.SourceNotFoundError, errors.DestinationExistsError):
        assert str(kind("out.raw: no space", path="out.raw")) == "out.raw: no space"
