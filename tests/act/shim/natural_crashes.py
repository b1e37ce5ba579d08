"""Crashes that need no injection: Vulkan drivers in Debian's chromium-common that a real llama-server dies of.

`scripts/fetch_icds.sh FOLDER` unpacks the package (31 MB). Seen with b10068, b10092 and b10434 on Debian 12; each
takes some 0.05 s.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase

CHROMIUM = Path("usr/lib/chromium")
"""Where the drivers are in the unpacked package."""


@dataclass(frozen=True, slots=True)
class NaturalCrash:
    """A recipe: run llama-server with `args` and this driver. `ends` are the signals seen, by build.

    `api` is the version that the driver's manifest claims; `device` and `says` are in the server's log.
    """

    id: str
    title: str
    library: str
    api: str
    env: dict[str, str]
    args: tuple[str, ...]
    device: str
    says: str
    outcome: OutcomeKind
    phase: Phase
    ends: tuple[str, ...]


NATURAL: tuple[NaturalCrash, ...] = (
    NaturalCrash(
        id="mock-icd",
        title="Khronos' mock driver: a device that takes every call and does nothing",
        library="libVkICD_mock_icd.so",
        api="1.1.0",
        env={},
        args=("-ngl", "99"),
        device="Vulkan Mock Device",
        says="loading model tensors",
        outcome=OutcomeKind.CRASH,
        phase=Phase.LOAD,
        # b10068 and b10092 divide by a limit that is 0; b10434 notices it, and the driver then crashes at exit
        ends=("SIGFPE", "SIGSEGV"),
    ),
    NaturalCrash(
        id="swiftshader",
        title="SwiftShader: a device without what ggml needs; the refusal in order ends in an abort at exit",
        library="libvk_swiftshader.so",
        api="1.0.5",  # as shipped; with a newer one the loader offers a version that the driver refuses: no device
        env={"GGML_VK_VISIBLE_DEVICES": "0"},  # ggml skips devices of type CPU unless they are named
        args=("-ngl", "99"),
        device="SwiftShader Device",
        says="error loading model: Unsupported device",
        outcome=OutcomeKind.ABORT,
        phase=Phase.LOAD,
        ends=("SIGABRT",),
    ),
)


def environment(crash: NaturalCrash, root: Path, folder: Path) -> dict[str, str]:
    """What the server's environment needs to see that driver and no other.

    `root` is where chromium-common was unpacked; the driver's manifest is written into `folder` (the package carries
    one of the two only, with a path that is relative to it).
    """
    library = (root / CHROMIUM / crash.library).resolve()
    manifest = folder / f"{crash.id}_icd.json"
    icd = {"file_format_version": "1.0.0", "ICD": {"library_path": str(library), "api_version": crash.api}}
    manifest.write_text(json.dumps(icd))
    # the older name too: loaders before 1.3.207 do not know the newer one
    return {**crash.env, "VK_DRIVER_FILES": str(manifest), "VK_ICD_FILENAMES": str(manifest)}
