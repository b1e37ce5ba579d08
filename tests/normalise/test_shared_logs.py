"""The promise: real logs of other people's machines are read right. They lie beside the repository, where present."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stillruns.catalogue import load
from stillruns.model.absence import Absence
from stillruns.model.backend import Runtime
from stillruns.model.phase import Phase
from stillruns.model.server_facts import Offload, ServerFacts
from stillruns.normalise.logs import llama_cpp

SHARED = next(
    (folder / "shared" / "data" for folder in Path(__file__).parents if (folder / "shared" / "data").is_dir()),
    Path("shared"),
)
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared/data beside the repository")

H200 = sorted((SHARED / "h200").glob("*.log"))
INCIDENTS = {
    "011": {"troubles": ["hsa-hw-exception"], "targets": ["gfx1151"]},
    "013": {"troubles": ["oom-vulkan-size", "oom-vulkan-limit", "oom-buffer", "oom-unable-buffer"], "phase": "load"},
    "016": {"offload": [95, 95, 94, True], "used": ["ROCm0"], "troubles": []},
    "017": {"offload": [44, 44, 43, True], "troubles": []},
    "018": {"offload": [29, 29, 28, True], "troubles": ["oom-vulkan-size", "oom-vulkan-device", "oom-kv-cache"]},
    "019": {"offload": [33, 33, 32, True], "troubles": []},
    "020": {"offload": [29, 29, 28, True], "troubles": []},
    "021": {"offload": [0, 29, 0, False], "troubles": []},
    "036": {"troubles": ["vulkan-device-lost-type", "vulkan-error-device-lost"], "phase": "prompt"},
    "037": {"troubles": ["vulkan-device-lost", "vulkan-device-lost-type", "vulkan-error-device-lost"]},
    "041": {"troubles": ["oom-vulkan-size", "oom-buffer", "oom-compute-buffers"]},
    "052": {"troubles": ["rocblas-files-missing"]},
    "064": {"troubles": ["gpu-invalid-device-function"]},
    "088": {"phase": "load", "troubles": []},
    "094": {"troubles": ["gpu-op-failed", "gpu-capture"], "phase": "warmup"},
    "098": {"troubles": ["ggml-assert"]},
    "100": {"troubles": ["ggml-assert-old"]},
    "104": {"offload": [0, 33, 0, False], "troubles": []},
}
"""Case -> what its log says, read by eye: troubles in order (those of rank 40 and below and repeats left out)."""


def facts(path: Path) -> ServerFacts:
    """Read with the shipped catalogue."""
    return llama_cpp.read(path.read_bytes(), "s0", load.grammar(Runtime.LLAMA_CPP), load.patterns())


@pytest.mark.parametrize("path", H200, ids=lambda p: p.stem)
def test_h200_log(path: Path) -> None:
    """The name of each log says what was asked: backend and layers are found as they were applied."""
    match = re.match(r"\w+-(cuda|vulkan)-ngl(\d+)", path.stem)
    assert match
    backend, asked = match[1], int(match[2])
    found = facts(path)
    assert isinstance(found.offload, Offload)
    assert found.offload.offloaded == min(asked, found.offload.total)
    assert found.offload.output == (asked > 0)
    assert found.offload.repeating == max(found.offload.offloaded - 1, 0)
    (used,) = [device for device in found.devices if device.used]
    assert used.backend.value == backend
    assert "H200" in used.description
    on_device = {b.purpose for b in found.buffers if b.device == used.name}
    assert ("model" in on_device) == (asked > 0)
    assert "compute" in on_device
    assert (found.last_phase, found.troubles) == (Phase.TEARDOWN, ())
    assert found.timings[-1].predicted_tokens == 64
    assert found.clean_end


@pytest.mark.parametrize("case", sorted(INCIDENTS))
def test_incident(case: str) -> None:
    """Logs of public reports: outcome lines, layers and phases as a reader finds them."""
    path = SHARED / "incidents" / f"{case}.log"
    expect = INCIDENTS[case]
    found = facts(path)
    ids: list[str] = []
    for trouble in found.troubles:
        if trouble.rank > 55 and (not ids or ids[-1] != trouble.pattern):
            ids.append(trouble.pattern)
    assert ids == expect.get("troubles", ids)
    if "offload" in expect:
        o = found.offload
        assert not isinstance(o, Absence)
        assert [o.offloaded, o.total, o.repeating, o.output] == expect["offload"]
    if "used" in expect:
        assert [d.name for d in found.devices if d.used] == expect["used"]
    if "targets" in expect:
        assert [d.target for d in found.devices] == expect["targets"]
    if "phase" in expect:
        assert found.last_phase.value == expect["phase"]


def test_no_healthy_incident_is_in_trouble() -> None:
    """Logs whose reporter says that all is well hold no line of rank above 40 (`-inf`, `abort` and the like)."""
    for path in sorted((SHARED / "incidents").glob("*.json")):
        case = json.loads(path.read_text())
        if case["expect"]["outcome"] == "ok" and case["kind"] == "real":
            found = facts(path.with_suffix(".log"))
            assert [t.pattern for t in found.troubles if t.rank > 40] == [], path.stem
