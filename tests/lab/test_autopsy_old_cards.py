"""The promise: on a card that vendors dropped, the autopsy says what can be done with that card, and that the CPU did
the work where it did."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

import stillruns
from stillruns.catalogue import load
from stillruns.lab import autopsy
from stillruns.model.autopsy import Autopsy
from stillruns.model.backend import Backend
from stillruns.model.outcome import OutcomeKind
from stillruns.model.target import parse_target

DATA = Path(stillruns.__file__).parent / "catalogue" / "data"
GOLDEN = Path(__file__).parents[1] / "golden" / "autopsy"
ROCBLAS = "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: No such file or directory"


def pasted(text: str) -> Autopsy:
    """A text as standard input."""
    return autopsy.perform(("-",), io.BytesIO(text.encode()))


@pytest.mark.parametrize(
    ("target", "says", "never"),
    [
        ("gfx906", "ROCm 6.3", "HSA_OVERRIDE"),
        ("gfx900", "ROCm 6.3", "HSA_OVERRIDE"),
        ("gfx803", "Use the Vulkan build", "HSA_OVERRIDE"),
        ("gfx90c", "HSA_OVERRIDE_GFX_VERSION=9.0.0", "files of a release that had them"),
        ("gfx1036", "HSA_OVERRIDE_GFX_VERSION=10.3.0", "files of a release that had them"),
        ("gfx1103", "HSA_OVERRIDE_GFX_VERSION=11.0.2", "files of a release that had them"),
        ("gfx1010", "use the Vulkan build", "HSA_OVERRIDE"),
        ("gfx1151", "Use the Vulkan build", "HSA_OVERRIDE"),
    ],
)
def test_missing_kernel_files_have_a_remedy_for_each_card(target: str, says: str, never: str) -> None:
    """No card is told to take files that no release had, and none an override whose code it cannot run."""
    (incident,) = pasted(f"{ROCBLAS} for GPU arch : {target}\n").incidents
    assert incident.target == target
    assert says in incident.next_step
    assert never not in incident.next_step


def test_a_card_that_a_line_names_is_not_another_that_is_listed() -> None:
    """The integrated GPU that rocBLAS has no files for is not the card beside it."""
    beside = (
        'time=2026-02-11T07:08:09.900Z level=INFO source=types.go:42 msg="inference compute" id=0 library=ROCm '
        'compute=gfx1100 name=ROCm0 description="AMD Radeon RX 7900 XTX" total="24.0 GiB" available="23.5 GiB"\n'
    )
    (incident,) = pasted(f"{beside}{ROCBLAS} for GPU arch : gfx1036\n").incidents
    assert (incident.target, incident.device) == ("gfx1036", None)
    assert "7900" not in incident.explanation
    (incident,) = pasted(f"{beside}{ROCBLAS} for GPU arch : gfx1100\n").incidents
    assert incident.device == "ROCm0"


@pytest.mark.parametrize(
    ("compute", "says"),
    [
        ("6.1", "CUDA 13 compiles nothing for this card"),
        ("3.7", "CUDA 12 dropped Kepler"),
        ("3.0", "No CUDA from 11.0 on compiles for this card"),
        ("5.3", "It is a Jetson"),
        ("8.6", "Use a build for it"),
    ],
)
def test_a_missing_kernel_image_has_a_remedy_for_each_card(compute: str, says: str) -> None:
    """Which toolkit can still build for the card is part of the advice."""
    text = f"""ggml_cuda_init: found 1 CUDA devices:
  Device 0: Some Card, compute capability {compute}, VMM: no
ggml_cuda_compute_forward: SCALE failed
CUDA error: no kernel image is available for execution on the device
  current device: 0, in function ggml_cuda_compute_forward at /b/ggml/src/ggml-cuda/ggml-cuda.cu:2400
"""
    (incident,) = pasted(text).incidents
    assert incident.backend is Backend.CUDA
    assert says in incident.next_step


REFUSED = (
    "time=2025-05-06T07:08:09.100Z level=WARN source=amd_linux.go:378 "
    'msg="amdgpu is not supported (supported types:[gfx1030 gfx1100])" gpu_type=gfx803 gpu=0 library=/usr/lib/x\n'
)
NOTHING = 'time=2025-05-06T07:08:09.101Z level=INFO source=gpu.go:602 msg="no compatible GPUs were discovered"\n'
OTHER = (
    "time=2025-05-06T07:08:09.102Z level=INFO source=types.go:130 "
    'msg="inference compute" id=GPU-1 library=cuda variant=v12 compute=6.1 driver=12.2 name="Tesla P40" '
    'total="22.4 GiB" available="22.2 GiB"\n'
)


def test_several_refused_cards_get_no_advice_that_is_for_one() -> None:
    """An override for the integrated GPU would rename the card beside it too."""
    (incident,) = pasted(REFUSED + REFUSED.replace("gfx803 gpu=0", "gfx1036 gpu=1") + NOTHING).incidents
    assert incident.target is None
    assert "HSA_OVERRIDE" not in incident.next_step and "Vulkan" in incident.next_step
    (incident,) = pasted(REFUSED + NOTHING).incidents
    assert incident.target == "gfx803"


def test_a_refused_card_is_a_fallback_only_where_nothing_else_is_found() -> None:
    """A refused card beside a used one is a note; alone, and with the server's own word, it is the CPU's work."""
    (incident,) = pasted(REFUSED + NOTHING).incidents
    assert incident.outcome is OutcomeKind.OK
    assert incident.backend is Backend.CPU
    assert incident.target == "gfx803"
    assert "Vulkan" in incident.next_step
    for text in (REFUSED, REFUSED + OTHER):
        found = pasted(text)
        assert not found.incidents
        assert any(note.kind == "device" and "Vulkan" in note.text for note in found.warnings)


def test_cards_of_one_backend_keep_apart() -> None:
    """Discovery lists three cards; none takes another's memory, and equal names are two cards."""
    line = (
        "time=2025-05-06T07:08:09.102Z level=INFO source=types.go:130 "
        'msg="inference compute" id=GPU-{id} library=cuda variant=v12 compute={compute} driver=12.2 name="{name}" '
        'total="{total}" available="{total}"\n'
    )
    text = line.format(id="a", compute="6.1", name="Tesla P40", total="22.0 GiB")
    text += line.format(id="b", compute="6.0", name="Tesla P100", total="16.0 GiB")
    text += line.format(id="c", compute="6.0", name="Tesla P100", total="15.0 GiB")
    (server,) = pasted(text).servers
    seen = [(d.description, d.target, d.memory_mib) for d in server.devices]
    assert seen == [
        ("Tesla P40", "sm_61", 22 * 1024),
        ("Tesla P100", "sm_60", 16 * 1024),
        ("Tesla P100", "sm_60", 15 * 1024),
    ]


def test_a_server_without_any_video_memory_says_so() -> None:
    """`total vram="0 B"` is the CPU, whatever the release calls the line."""
    for words in (
        'msg="entering low vram mode" "total vram"="0 B"',
        'msg="vram-based default context" total_vram="0 B"',
    ):
        found = pasted(f"time=2026-05-06T07:08:09.100Z level=INFO source=routes.go:1700 {words} x=1\n")
        assert any(note.kind == "fallback" for note in found.warnings)


def test_a_load_that_is_cut_says_that_it_was_on_the_cpu() -> None:
    """A log that ends in mid load stays unknown, but the next step is about the missing GPU."""
    text = (GOLDEN / "ollama-planned-on-cpu.raw").read_text()
    (incident,) = pasted("\n".join(text.splitlines()[:3]) + "\n").incidents
    assert incident.outcome is None
    assert incident.backend is Backend.CPU
    assert incident.next_step.startswith("It was on the CPU by then.")


def test_the_start_line_alone_tells_no_engine() -> None:
    """`llama runner started` is printed for both engines."""
    said = 'level=INFO source=server.go:594 msg="llama runner started in 2.51 seconds"'
    (server,) = pasted(f"time=2025-01-12T10:11:12.013+01:00 {said}\n").servers
    assert [runner.engine for runner in server.runners] == [""]


def test_a_runner_for_the_cpu_under_a_plan_for_a_card() -> None:
    """Up to 0.5 the runner's path says what it was built for: the plan is no proof."""
    text = (
        'time=2024-11-12T01:02:03.004Z level=INFO source=memory.go:343 msg="offload to cuda" layers.requested=-1 '
        "layers.model=29 layers.offload=29\n"
        'time=2024-11-12T01:02:03.005Z level=INFO source=server.go:383 msg="starting llama server" '
        'cmd="/tmp/ollama77/runners/cpu_avx2/ollama_llama_server --model /m/blobs/sha256-0b --n-gpu-layers 29"\n'
    )
    found = pasted(text)
    (server,) = found.servers
    assert [(r.backend, r.applied_layers) for r in server.runners] == [(Backend.CPU, 0)]
    assert any("29 layers for cuda" in note.text for note in found.warnings)


def test_a_snap_s_log() -> None:
    """`snap logs` leaves the host out; the server's lines are read all the same."""
    at = "2026-03-26T20:21:22+01:00 model7.server[4711]: "
    lines = (
        "/src/ggml/src/ggml-cuda/ggml-cuda.cu:97: CUDA error",
        "ggml_cuda_compute_forward: SCALE failed",
        "CUDA error: no kernel image is available for execution on the device",
        "  current device: 0, in function ggml_cuda_compute_forward at /src/ggml/src/ggml-cuda/ggml-cuda.cu:2752",
    )
    (incident,) = pasted("".join(f"{at}{line}\n" for line in lines)).incidents
    assert (incident.outcome, incident.backend) == (OutcomeKind.ABORT, Backend.CUDA)
    assert incident.key_line is not None
    assert incident.key_line.text.endswith("no kernel image is available for execution on the device")


def test_every_override_that_is_advised_names_code_that_the_card_runs() -> None:
    """The values in the advice by target agree with the table of what runs whose code."""
    rows = csv.DictReader((DATA / "neighbours.csv").read_text().splitlines())
    runs = {row["target"]: row["runs_code_of"].split(";") for row in rows}
    seen = 0
    for pattern in load.patterns():
        for advice in pattern.next_for:
            for value in re.findall(r"HSA_OVERRIDE_GFX_VERSION=(\d+\.\d+\.\d+)", advice.text):
                named = "gfx" + value.replace(".", "")
                assert all(named in runs[target] for target in advice.targets), (pattern.id, value)
                seen += 1
    assert seen >= 5


def test_advice_for_a_target_is_found_by_its_name_and_is_one() -> None:
    """A misspelt target would never be met, and of two pieces of advice for one target only the first."""
    for pattern in load.patterns():
        targets = [target for advice in pattern.next_for for target in advice.targets]
        assert len(targets) == len(set(targets)), pattern.id
        for target in targets:
            parsed = parse_target(target)
            assert parsed is not None and parsed.processor == target, (pattern.id, target)
