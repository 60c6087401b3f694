"""What fio printed, as numbers, or as an error in fio's own words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastdata_cli.timing.device import DeviceError, Latency

PERCENTILES = "50:95:99"

_LONGEST_WORDS = 240
_NO_NUMBER = re.compile(r"(:\s*)-?(?:nan|inf)\b")
_DECODER = json.JSONDecoder(strict=False)  # fio copies control characters of names as they are


@dataclass(frozen=True, kw_only=True)
class Report:
    """The read side of one fio run: bytes/s, reads/s, seconds."""

    bandwidth: float
    iops: float
    latency: Latency
    seconds: float


def read_report(stdout: bytes, stderr: bytes, code: int) -> Report:
    """Read the JSON that fio printed, among whatever else it printed.

    Args:
        stdout: JSON, with text before and after it as the case may be.
        stderr: where most of fio's complaints are.
        code: its exit status.

    Raises:
        DeviceError: fio failed, read nothing, or printed no report; facts hold the ``code``.
    """
    text = _NO_NUMBER.sub(r"\1null", stdout.decode(errors="replace"))
    report, noise = _find_report(text)
    words = _own_words(stderr.decode(errors="replace"), noise)
    if report is None:
        raise _failed("printed no report", words, code)
    jobs = [job for job in report["jobs"] if isinstance(job, dict)]
    if code or any(job.get("error") for job in jobs):
        raise _failed("failed", words, code or jobs[0].get("error"))
    read = jobs[0].get("read") if jobs else None
    if not isinstance(read, dict):
        raise _failed("reported no reads", words, code)
    return _numbers(read, words, code)


def _numbers(read: Mapping[str, Any], words: str, code: int) -> Report:
    iops, milliseconds = _number(read, "iops"), _number(read, "runtime")
    bandwidth = _number(read, "bw_bytes")
    if bandwidth is None:
        kilobytes = _number(read, "bw")  # all that fio 2 prints
        bandwidth = None if kilobytes is None else kilobytes * 1024
    missing = [
        name
        for name, value in (("bw_bytes", bandwidth), ("iops", iops), ("runtime", milliseconds))
        if value is None
    ]
    if missing or bandwidth is None or iops is None or milliseconds is None:
        raise _failed(f"reported no read.{', read.'.join(missing)}", words, code)
    if not bandwidth or not iops:
        raise _failed("read nothing", words, code)
    return Report(
        bandwidth=bandwidth, iops=iops, latency=_latency(read), seconds=milliseconds / 1e3
    )


def _latency(read: Mapping[str, Any]) -> Latency:
    # lat counts from submission, clat from when the kernel had the request; fio 2 had microseconds.
    for name, unit in (("lat_ns", 1e-9), ("clat_ns", 1e-9), ("lat", 1e-6), ("clat", 1e-6)):
        times = read.get(name)
        listed = times.get("percentile") if isinstance(times, dict) else None
        if isinstance(times, dict) and isinstance(listed, dict) and listed:
            return Latency(
                mean=_seconds(times, "mean", unit),
                p50=_seconds(listed, "50.000000", unit),
                p95=_seconds(listed, "95.000000", unit),
                p99=_seconds(listed, "99.000000", unit),
            )
    return Latency()


def _seconds(values: Mapping[str, Any], key: str, unit: float) -> float | None:
    value = _number(values, key)
    return None if value is None else value * unit


def _find_report(text: str) -> tuple[dict[str, Any] | None, str]:
    """Return the first JSON object that has jobs, and the text before it."""
    at = text.find("{")
    while at >= 0:
        try:
            found, _ = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and isinstance(found.get("jobs"), list):
            return found, text[:at]
        at = text.find("{", at + 1)
    return None, text


def _own_words(*texts: str) -> str:
    """Return what fio complained of, in one line: its error lines, else the last line of all."""
    lines = [" ".join(line.split()) for text in texts for line in text.splitlines()]
    lines = [line for line in lines if line]
    marked = [line for line in lines if line.startswith("fio:") or "error" in line.lower()]
    words = "; ".join(dict.fromkeys(marked or lines[-1:]))
    printable = "".join(letter if letter.isprintable() else "?" for letter in words)
    return printable if len(printable) <= _LONGEST_WORDS else printable[:_LONGEST_WORDS] + "…"


def _failed(what: str, words: str, code: object) -> DeviceError:
    status = f" (exit {code})" if code else ""
    return DeviceError(f"fio {what}{status}: {words or 'it gave no reason'}", code=code)


def _number(values: Mapping[str, Any], key: str) -> float | None:
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
