"""The error tree: facts as attributes, a hint for the person at the prompt, an exit code.

What was typed cannot work, whatever is tried again: exit 2. What the data, the machine or another
run did: exit 1.

    FastdataError                     exit 1
    ├── UsageError (ValueError)       exit 2
    │   ├── UnknownFormatError
    │   └── DestinationExistsError (FileExistsError)
    ├── SourceNotFoundError (FileNotFoundError)   exit 2
    ├── NotADatasetError              exit 2: the path holds nothing that any format recognises
    ├── DamagedDatasetError           recognised, and broken: names the file and what is wrong
    ├── MissingDependencyError (ImportError)
    ├── UnsupportedError              exit 2: a valid request that this format cannot serve
    ├── StaleStagingError             an unfinished run of another command stands in the way
    ├── BusyError                     another process is writing the same destination
    ├── StorageError (OSError)        no space, no permission, file too large
    ├── NothingUsableError            no sample survived
    ├── TooManyBadError               exit 3: published, and beyond --max-bad
    └── BadSampleError (ValueError)   one sample cannot be read or decoded; carries its Reject

Every error survives pickling: worker processes hand them over.
"""

from __future__ import annotations

from typing import Any

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_FOUND = 3
EXIT_INTERRUPTED = 130


def words_of(problem: BaseException) -> str:
    """Return what the error of another library says, on one line."""
    return " ".join(str(problem).split())


class FastdataError(Exception):
    """Root of all errors that fastdata raises on purpose.

    Args:
        message: one line that says what is wrong, naming the path or value.
        hint: what to try next, naming the flag or command; may be empty.
        facts: values behind the message (path, key, expected, found), JSON-able.
    """

    exit_code = EXIT_FAILED

    def __init__(self, message: str, *, hint: str = "", **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = facts
        if hint:
            self.add_note(f"hint: {hint}")

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.hint, self.facts))


def _rebuild(
    kind: type[FastdataError], message: str, hint: str, facts: dict[str, Any]
) -> FastdataError:
    return kind(message, hint=hint, **facts)


class UsageError(FastdataError, ValueError):
    """The command or call cannot be meant this way; nothing was touched."""

    exit_code = EXIT_USAGE


class UnknownFormatError(UsageError):
    """No format of that name, or none that the destination's suffix stands for."""


class DestinationExistsError(UsageError, FileExistsError):
    """The destination is there already, or is no dataset that may be replaced."""


class SourceNotFoundError(FastdataError, FileNotFoundError):
    """There is nothing at the path."""

    exit_code = EXIT_USAGE


class NotADatasetError(FastdataError):
    """The path exists, and no format recognises what it holds."""

    exit_code = EXIT_USAGE


class DamagedDatasetError(FastdataError):
    """A dataset was recognised and is broken, incomplete or of an unknown version."""


class MissingDependencyError(FastdataError, ImportError):
    """An optional library is not installed; the hint has the command that installs it."""


class UnsupportedError(FastdataError):
    """The request is meaningful, and this format or build cannot serve it."""

    exit_code = EXIT_USAGE


class StaleStagingError(FastdataError):
    """An unfinished run of another command (or another source) holds the staging place."""


class BusyError(FastdataError):
    """Another process holds what this one needs."""


class StorageError(FastdataError, OSError):
    """The operating system refused to store: no space, no permission, file too large."""


class NothingUsableError(FastdataError):
    """Not one sample was usable; nothing was published."""


class TooManyBadError(FastdataError):
    """Published, but more samples were bad than --max-bad allows."""

    exit_code = EXIT_FOUND


class BadSampleError(FastdataError, ValueError):
    """One sample cannot be read or decoded.

    Facts: ``key`` (str, may be empty while unknown) and ``reason`` (a word of the image policy,
    such as ``truncated``); ``detail`` says more. All are empty where only the message survived, as
    in the error that torch's DataLoader makes of one raised in a worker.
    """

    def __init__(
        self,
        message: str = "",
        *,
        hint: str = "",
        key: str = "",
        reason: str = "",
        detail: str = "",
    ) -> None:
        text = message or ": ".join(part for part in (key, reason, detail) if part)
        super().__init__(text, hint=hint, key=key, reason=reason, detail=detail)
        self.key = key
        self.reason = reason
        self.detail = detail
