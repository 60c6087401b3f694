"""The GPUs of this machine through NVML, where its library and a driver are there; else none."""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One look at one GPU; None where it does not tell, as a partition of one may not."""

    utilisation: float | None
    """Share of the last moments during which a kernel ran, 0 to 1."""
    memory_bytes: int | None
    """In use by everyone."""


class Gpus:
    """An open NVML session. Empty without the library, without a driver, or without a GPU."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: list[Any] = []
        try:
            nvml: Any = importlib.import_module("pynvml")
        except ImportError:
            return
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlInit()
            self._nvml = nvml
            count = range(nvml.nvmlDeviceGetCount())
            self._handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in count]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def names(self) -> tuple[str, ...]:
        """Return the model of each GPU."""
        return tuple(str(self._ask("nvmlDeviceGetName", gpu) or "GPU") for gpu in self._handles)

    def read(self) -> list[GpuReading]:
        """Return a reading of each GPU, in the order of ``names``."""
        readings = []
        for gpu in self._handles:
            rates = self._ask("nvmlDeviceGetUtilizationRates", gpu)
            memory = self._ask("nvmlDeviceGetMemoryInfo", gpu)
            readings.append(
                GpuReading(
                    None if rates is None else rates.gpu / 100,
                    None if memory is None else int(memory.used),
                )
            )
        return readings

    def close(self) -> None:
        """End the session; there are no GPUs to read any more."""
        if self._nvml is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
        self._nvml, self._handles = None, []

    def _ask(self, question: str, gpu: Any) -> Any:
        try:
            return getattr(self._nvml, question)(gpu)
        except self._nvml.NVMLError:
            return None
