"""Which adapter runs which runtime."""

from __future__ import annotations

from stillruns.act.runtimes import llama_cpp, openai
from stillruns.act.runtimes.adapter import Adapter
from stillruns.errors import UsageError
from stillruns.model.backend import Runtime

ADAPTERS: tuple[Adapter, ...] = (llama_cpp.ADAPTER, openai.ADAPTER)


def of(runtime: Runtime) -> Adapter:
    """The adapter of a runtime. Raises UsageError for a runtime that has none."""
    for adapter in ADAPTERS:
        if adapter.runtime is runtime:
            return adapter
    raise UsageError(f"this version cannot run {runtime.value}; it has adapters for llama.cpp and openai")
