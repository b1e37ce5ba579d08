"""The promise: who may be at fault is taken from the lines that tell it."""

from __future__ import annotations

import pytest

from stillruns.judge.incidents.fields import components
from stillruns.model.backend import Backend
from stillruns.model.component import Component
from stillruns.model.kernel_log import KernelEvent, KernelEventKind
from stillruns.model.outcome import OutcomeKind
from stillruns.model.pattern import CrashPattern
from stillruns.model.server_log import Frame

BOTH = CrashPattern(
    id="both",
    regex="CUDA error",
    anchor="CUDA error",
    outcome=OutcomeKind.ABORT,
    components=(Component.HIP, Component.CUDA),
    phase=None,
    rank=60,
    origin="real",
    explanation="",
    next_step="",
    source="",
)


@pytest.mark.parametrize("module", ["libamdhip64.so.6", "librocblas.so.4"])
def test_an_address_in_a_library_is_believed_on_any_backend(module: str) -> None:
    """A server on Vulkan whose crash lies in a library of AMD's stack has that stack loaded: the frame, or the
    kernel's line, says more than the list of what the backend uses. A trial's core is read in the same way."""
    frames = (Frame("strlen", "libc.so.6", "s0:L8"), Frame("", module, "s0:L9"))
    event = KernelEvent(KernelEventKind.SEGFAULT, "s0:L9", "", module=module)
    part = Component.HIP if "hip" in module else Component.ROCBLAS
    assert components(None, OutcomeKind.CRASH, frames, Backend.VULKAN, (), "") == (part,)
    assert components(None, None, (), Backend.VULKAN, (event,), "")[0] is part


def test_a_pattern_names_the_parts_of_every_backend_that_prints_its_line() -> None:
    """Of these the backend's own are left, and none where it is none of them."""
    found = {on: components(BOTH, OutcomeKind.ABORT, (), on, (), "") for on in (Backend.CUDA, Backend.ROCM)}
    assert found == {Backend.CUDA: (Component.CUDA,), Backend.ROCM: (Component.HIP,)}
    assert components(BOTH, OutcomeKind.ABORT, (), Backend.VULKAN, (), "") == (Component.UNKNOWN,)
