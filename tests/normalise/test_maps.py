"""The promise: the libraries that a process has mapped are named, each once."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stillruns.normalise.maps import libraries

MAPS = b"""\
55d000000000-55d000001000 r--p 00000000 fe:00 131 /opt/llama/bin/llama-server
7f0000000000-7f0000001000 r--p 00000000 fe:00 132 /opt/llama/bin/libggml-vulkan.so.0.17.0
7f0000001000-7f0000002000 r-xp 00001000 fe:00 132 /opt/llama/bin/libggml-vulkan.so.0.17.0
7f0000003000-7f0000004000 r--p 00000000 fe:00 133 /opt/my libs/libcuda.so.1 (deleted)
7f0000005000-7f0000006000 rw-s 00000000 00:05 134 /dev/dri/renderD128
7f0000007000-7f0000008000 r--p 00000000 fe:00 135 /models/model.solo.gguf
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]
"""


def test_libraries() -> None:
    """Shared objects only, once, spaces and `(deleted)` handled."""
    assert libraries(MAPS) == ("/opt/llama/bin/libggml-vulkan.so.0.17.0", "/opt/my libs/libcuda.so.1")


def test_own_process() -> None:
    """This very process has libc mapped."""
    assert any("libc.so" in path or "ld-" in path for path in libraries(Path("/proc/self/maps").read_bytes()))


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    """A snapshot that is no snapshot names nothing, or what it names; never a traceback."""
    libraries(data)
    assert libraries(b"") == ()
