"""The promise: a core file gives its signal, and with gdb the frames of the thread that died."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest

from real_parts import need_core
from stillruns.lab import autopsy
from stillruns.model.outcome import OutcomeKind

SOURCE = """
#include <stddef.h>
__attribute__((noinline)) void ggml_vk_innermost(volatile int *p) { *p = 1; }
__attribute__((noinline)) void ggml_backend_vk_graph_compute(void) { ggml_vk_innermost(NULL); __asm__(""); }
int main(void) { ggml_backend_vk_graph_compute(); return 0; }
"""


@pytest.fixture
def core(tmp_path: Path) -> Path:
    """A real core of a small program, where this machine writes cores into the current folder."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here: apt install gcc libc6-dev")
    need_core()
    (tmp_path / "a.c").write_text(SOURCE)
    subprocess.run(["cc", "-g", "-O1", "-fno-inline", "-o", "llama-server", "a.c"], cwd=tmp_path, check=True)
    subprocess.run(["sh", "-c", "ulimit -S -c unlimited; exec ./llama-server"], cwd=tmp_path, check=False)
    (found,) = tmp_path.glob("core*")
    return found


def test_core_file(core: Path) -> None:
    """Signal and frames of a core."""
    found = autopsy.perform((str(core),), io.BytesIO())
    (incident,) = found.incidents
    assert (incident.outcome, incident.signal) == (OutcomeKind.CRASH, "SIGSEGV")
    if shutil.which("gdb") is None:
        assert any("gdb is not installed" in note.text for note in found.warnings)
    else:
        assert incident.frames[:2] == ("ggml_vk_innermost", "ggml_backend_vk_graph_compute")
        assert incident.backend.value == "vulkan"
