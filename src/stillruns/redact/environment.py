"""Redaction of an environment: by allow-list, since nobody knows what else stands in one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from stillruns.redact.redactor import TAG, Redactor
from stillruns.redact.text import redact

PREFIXES = (
    "AMD_",
    "AMDGPU_",
    "CUDA_",
    "DRI_",
    "GGML_",
    "GPU_",
    "HIP_",
    "HIPBLASLT_",
    "HSA_",
    "KMP_",
    "LD_",
    "LIBGL_",
    "LLAMA_",
    "MESA_",
    "MIOPEN_",
    "NVIDIA_",
    "OLLAMA_",
    "OMP_",
    "ONEAPI_",
    "RADV_",
    "ROCBLAS_",
    "ROCM_",
    "ROCR_",
    "STILLRUNS_",
    "SYCL_",
    "TENSILE_",
    "VK_",
    "VLLM_",
)
"""Variables of the layers between a model and a card: these decide whether a path opens."""

NAMES = frozenset(("GODEBUG", "GOTRACEBACK", "LANG", "LC_ALL", "PATH", "TZ", "ZES_ENABLE_SYSMAN"))

_SECRET_NAME = re.compile(r"TOKEN|KEY(?!S?_?MAP)|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_SPEAKS_OF_TOKENS = re.compile(r"TOKENS|N_TOKEN|TOKENIZER", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RedactedEnvironment:
    """`kept` is sorted by name, its values redacted; `dropped` counts the variables that are not told, not even by
    name, since a name can be private too."""

    kept: dict[str, str]
    dropped: int


def redact_environment(environment: Mapping[str, str], redactor: Redactor) -> RedactedEnvironment:
    """Keep what the stack reads, with values redacted; a variable that is named like a secret keeps its name only."""
    kept: dict[str, str] = {}
    for name in sorted(environment):
        if not (name.startswith(PREFIXES) or name in NAMES):
            continue
        value = environment[name]
        if secret_name(name):
            text = redact(value, redactor).text
            kept[name] = text if not text or TAG.fullmatch(text) else redactor.tag("secret", value)
        else:
            kept[name] = redact(value, redactor).text
    return RedactedEnvironment(kept, len(environment) - len(kept))


def listed(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that the stack reads, as they are, for a record that stays on this machine; variables that are
    named like a secret are left out."""
    return {
        name: environment[name]
        for name in sorted(environment)
        if (name.startswith(PREFIXES) or name in NAMES) and not secret_name(name)
    }


def secret_name(name: str) -> bool:
    """Whether a variable is named like a secret: `HF_TOKEN`, but not `MAX_TOKENS`."""
    return bool(_SECRET_NAME.search(name)) and not _SPEAKS_OF_TOKENS.search(name)
