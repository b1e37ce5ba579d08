"""What the tests of the fault library share: a real server, a tiny model."""

from __future__ import annotations

import os
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest
from dying_server import servers

from stillruns.act.models import synthetic


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that asks for a server runs once with each build that is there."""
    if "server" in metafunc.fixturenames:
        found = servers()
        if found:
            metafunc.parametrize("server", found, ids=[f"server{i}" for i in range(len(found))])
        else:
            skip = pytest.mark.skip(
                reason="no llama-server: install the extra `engine`, or set STILLRUNS_LLAMA_SERVER"
            )
            metafunc.parametrize("server", [pytest.param(None, marks=skip)], ids=["none"])


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default synthetic llama."""
    return synthetic.ensure(synthetic.parse("synth:llama"), tmp_path_factory.mktemp("models"))


@pytest.fixture
def vulkan(server: Path, shader_cache: Path) -> dict[str, str]:
    """The environment in which this server sees a Vulkan device (lavapipe), with a shader cache that is kept."""
    env = {"GGML_VK_VISIBLE_DEVICES": "0", "MESA_SHADER_CACHE_DIR": str(shader_cache)}
    status, told = _listed(server, shader_cache)
    if "Vulkan0" not in told:
        pytest.skip(
            "no Vulkan device: `apt install mesa-vulkan-drivers` brings one that runs on the CPU; "
            f"--list-devices ended with {status}: {told[-200:]!r}"
        )
    return env


@lru_cache(maxsize=8)
def _listed(server: Path, shader_cache: Path) -> tuple[int, str]:
    """How the listing of devices ended, and what it said."""
    env = {**os.environ, "GGML_VK_VISIBLE_DEVICES": "0", "MESA_SHADER_CACHE_DIR": str(shader_cache)}
    listed = subprocess.run([str(server), "--list-devices"], env=env, capture_output=True, text=True, timeout=240)
    return listed.returncode, (listed.stdout + listed.stderr).strip()
