"""The environment of a server under trial: clean, small, and recorded whole.

A user's shell holds things that change a condition without a trace (`LLAMA_ARG_N_GPU_LAYERS`, `HTTP_PROXY`) and
things that nobody wants in a record (tokens). So a child gets what is listed here and what the spec says, no more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from stillruns.act.processes import pid_namespace, start_ticks

KEPT = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
"""Passed on by name."""

KEPT_PREFIXES = (
    "GGML_",
    "HSA_",
    "HIP_",
    "ROCR_",
    "ROCM_",
    "ROCBLAS_",
    "AMD_",
    "GPU_",
    "CUDA_",
    "NVIDIA_",
    "SYCL_",
    "ONEAPI_",
    "ZE_",
    "OLLAMA_",
    "LLAMA_",
    "VK_",
    "RADV_",
    "MESA_",
    "LP_",
    "GALLIVM_",
    "OMP_",
    "GOMP_",
    "XDG_",
)
"""Passed on by prefix: what GPU runtimes, drivers and thread libraries read."""

_DROPPED = re.compile(r"LLAMA_(ARG|LOG)_|.*(_KEY|TOKEN|SECRET|PASSWORD)")
"""Never passed on from the shell: settings that would compete with the pinned flags, and secrets."""

TRIAL = "STILLRUNS_TRIAL"
"""The marker: every process of a trial carries it, so that survivors can be found (act/orphans.py)."""

HARNESS = "STILLRUNS_HARNESS"
"""Whose trial it is: `PID:START:NAMESPACE`, see `harness_identity`."""


def build(
    environ: Mapping[str, str], found: Mapping[str, str] | None = None, spec: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The child's whole environment from the shell's (`environ`), what the binary needs, and what the spec asks.

    The spec wins over all; `LD_LIBRARY_PATH` of the binary goes before the shell's.
    """
    env = {
        name: value
        for name, value in environ.items()
        if (name in KEPT or name.startswith(KEPT_PREFIXES)) and not _DROPPED.match(name)
    }
    env.setdefault("PATH", os.defpath)
    env["LANG"] = "C.UTF-8"
    for name, value in (found or {}).items():
        before = env.get(name)
        env[name] = f"{value}:{before}" if name == "LD_LIBRARY_PATH" and before else value
    return env | dict(spec or {})


def marked(env: Mapping[str, str], trial: str) -> dict[str, str]:
    """The same with the marker of a trial of this process."""
    return {**env, TRIAL: trial, HARNESS: harness_identity()}


def harness_identity() -> str:
    """`PID:START:NAMESPACE` of this process: pid, start in clock ticks since boot, and pid namespace."""
    return f"{os.getpid()}:{start_ticks(os.getpid()) or 0}:{pid_namespace()}"
