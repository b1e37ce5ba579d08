"""The promise: an environment is told by allow-list, and nothing that opens a door is told at all."""

from __future__ import annotations

import re

from stillruns.redact.environment import redact_environment
from stillruns.redact.redactor import Redactor

REDACTOR = Redactor(b"k" * 32, users=("alice",))


def test_allow_list() -> None:
    """What the stack reads stays; what it does not read is counted and not named."""
    environment = {
        "HSA_OVERRIDE_GFX_VERSION": "9.0.0",
        "GGML_VK_VISIBLE_DEVICES": "0",
        "LD_LIBRARY_PATH": "/home/alice/rocm/lib:/opt/rocm/lib",
        "SECRET_PROJECT_NAME": "x",
        "EDITOR": "vi",
        "SSH_CONNECTION": "10.1.2.3 5 10.1.2.4 22",
    }
    done = redact_environment(environment, REDACTOR)
    assert done.dropped == 3
    assert list(done.kept) == ["GGML_VK_VISIBLE_DEVICES", "HSA_OVERRIDE_GFX_VERSION", "LD_LIBRARY_PATH"]
    assert done.kept["HSA_OVERRIDE_GFX_VERSION"] == "9.0.0"
    assert re.fullmatch(r"/home/<user:\w{6}>/rocm/lib:/opt/rocm/lib", done.kept["LD_LIBRARY_PATH"])


def test_secrets_keep_only_their_names() -> None:
    """That a key was set is a fact; the key is not. Names that merely speak of tokens are no secrets."""
    environment = {"LLAMA_API_KEY": "a", "VLLM_API_KEY": "", "LLAMA_ARG_N_TOKENS": "5", "OLLAMA_AUTH": "x y"}
    done = redact_environment(environment, REDACTOR)
    assert re.fullmatch(r"<secret:\w{6}>", done.kept["LLAMA_API_KEY"])
    assert re.fullmatch(r"<secret:\w{6}>", done.kept["OLLAMA_AUTH"])
    assert done.kept["VLLM_API_KEY"] == "" and done.kept["LLAMA_ARG_N_TOKENS"] == "5"
    assert redact_environment(done.kept, REDACTOR).kept == done.kept
