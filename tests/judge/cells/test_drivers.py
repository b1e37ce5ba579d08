"""The promise: a claim is for the drivers that the evidence names, and says where it names none."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

import pytest

from claim_samples import cell, claim
from stillruns.catalogue.stock_hypotheses import shipped_hypotheses as library
from stillruns.judge.cells import drivers
from stillruns.lab.runs import host
from stillruns.model.backend import Backend
from stillruns.model.claim import Claim, ClaimVerdict
from stillruns.report import claims_json, claims_text

SEEN = ("any(c.passed > 0 for c in cells)", "all(c.rate.low > 0.5 for c in cells)")


@pytest.mark.parametrize(
    ("backend", "description", "kernel", "driver"),
    [
        (Backend.VULKAN, "AMD Radeon RX 580 (RADV POLARIS10)", {"amdgpu": "6.8.0-31"}, "radv on amdgpu 6.8.0-31"),
        (Backend.VULKAN, "AMD Radeon RX 580 (RADV POLARIS10)", {}, "radv"),
        (Backend.VULKAN, "llvmpipe (LLVM 17.0.6, 256 bits)", {"amdgpu": "6.8"}, "llvmpipe"),
        (Backend.VULKAN, "NVIDIA GeForce GTX 960", {"nvidia": "550.54.14", "i915": "6.8"}, "nvidia 550.54.14"),
        (Backend.VULKAN, "Intel(R) Arc(tm) A770 Graphics (DG2)", {"nvidia": "550.54.14", "xe": "6.8"}, "xe 6.8"),
        (Backend.ROCM, "AMD Instinct MI60", {"amdgpu": "6.10.5"}, "amdgpu 6.10.5"),
        (Backend.CUDA, "Tesla P40", {"nvidia": "535.183.01"}, "nvidia 535.183.01"),
        (Backend.CUDA, "Tesla P40", {"amdgpu": "6.8"}, None),
        (Backend.VULKAN, "NVIDIA GTX 960 (NVK GM206)", {"nvidia": "5", "nouveau": "6.8"}, "nvk on nouveau 6.8"),
        (Backend.SYCL, "Intel(R) Arc(TM) A770", {"xe": "6.8", "i915": "6.8"}, "xe 6.8 or i915 6.8"),
        (Backend.VULKAN, None, {"amdgpu": "6.8"}, None),
        (Backend.VULKAN, "Some card", {"amdgpu": "6.8"}, None),
    ],
)  # fmt: skip
def test_drivers_of_a_device(backend: Backend, description: str | None, kernel: dict[str, str], driver: str) -> None:
    """The user-space driver by the device's own words, the kernel's by vendor; a software device has no kernel's."""
    assert drivers.of(backend, description, kernel) == driver


def test_loaded_modules(tmp_path: Path) -> None:
    """A module with a version of its own, one of the kernel's tree, and none that is not loaded."""
    (tmp_path / "nvidia").mkdir()
    (tmp_path / "nvidia" / "version").write_text("550.54.14\n")
    (tmp_path / "amdgpu").mkdir()
    (tmp_path / "amdgpu" / "initstate").write_text("live\n")
    assert host.drivers(tmp_path) == {"amdgpu": platform.release(), "nvidia": "550.54.14"}
    assert host.drivers(tmp_path / "nothing") == {}
    assert isinstance(host.describe()["drivers"], dict)


def printed(found: Claim) -> tuple[str, str, str | None]:
    """(the text's line, the JSON's scope, the JSON's driver)."""
    line = next(line for line in claims_text.claim_lines(found) if line.startswith("  only for"))
    document = claims_json.entry(found)
    return line, document["scope"], document["driver"]


def test_a_claim_names_its_drivers() -> None:
    """Recorded, recorded on one side only, recorded nowhere, and no device at all."""
    here = cell(passed=3, driver="radv on amdgpu 6.8")
    line, scope, driver = printed(claim(*SEEN, here))
    assert line.endswith("driver radv on amdgpu 6.8")
    assert scope.endswith("driver radv on amdgpu 6.8")
    assert driver == "radv on amdgpu 6.8"
    line, scope, driver = printed(claim(*SEEN, here, cell("rocm", passed=3)))
    assert line.endswith("driver radv on amdgpu 6.8, driver not recorded on rocm")
    line, scope, driver = printed(claim(*SEEN, cell(passed=3)))
    assert line.endswith(", driver not recorded")
    assert scope.endswith(", driver not recorded")
    assert driver is None
    line, _, driver = printed(claim(*SEEN, cell("cpu", "none", passed=3)))
    assert "driver" not in line
    assert driver is None


def test_sides_are_added_up() -> None:
    """Several cells of a backend as one line, a single one without; and what no speed shows is said."""
    slow = claim(*SEEN, cell(layers=1, passed=2), cell(layers=2, passed=1, failed=1), cell("rocm", failed=2))
    assert slow.sides[:2] == (
        "vulkan, 2 cells with layers on the device: applied 4, crashed 1, failed 1, passed 3, output unknown 0",
        "rocm, 1 cell with layers on the device: applied 2, crashed 2, failed 2, passed 0, output unknown 0",
    )
    assert slow.sides[2].endswith("of the cells with layers on it, none has a speed to compare")
    assert "  sides      vulkan, 2 cells" in "\n".join(claims_text.claim_lines(slow))
    same = claim(*SEEN, cell(layers=0, passed=3), cell(layers=2, passed=3))
    assert same.sides == (
        "no run shows the device computing faster than the CPU: of the cells with layers on it, 1 of 1 have a speed "
        "to compare, and none of these is faster",
    )
    assert claim(*SEEN, cell(layers=0, passed=3), cell(layers=2, passed=3, speed=30.0)).sides == ()
    assert claim(*SEEN, cell(failed=3)).sides == ()


def test_what_a_device_has_to_be_faster_than() -> None:
    """Than the CPU alone; than its own side without layers only where there is no such cell, whatever placement each
    shows."""
    bare = cell(layers=0, passed=3, speed=10.0, placement="0 repeating of 5")
    used = cell(layers=2, passed=3, speed=30.0, placement="1 repeating and output of 5")
    assert claim(*SEEN, bare, used).sides == ()
    for alone, said in ((20.0, ()), (40.0, ("1 of 1 have a speed to compare, and none of these is faster",))):
        sides = claim(*SEEN, bare, used, cell("cpu", "none", passed=3, speed=alone)).sides
        assert tuple(line.partition("layers on it, ")[2] for line in sides) == said


def test_times_to_a_crash() -> None:
    """A time that repeats is the fault's own; one that holds a wait, or that is not known, is not."""
    stock = next(h for h in library() if h.id == "crash-time-deterministic")
    posed = (stock.predicts, stock.refuted_if)

    def timed(*lives: tuple[float | None, float, float]) -> Claim:
        base = cell(failed=len(lives))
        trials = [
            replace(t, lived=lived, waited=waited, seconds=seconds)
            for t, (lived, waited, seconds) in zip(base.trials, lives, strict=True)
        ]
        return claim(*posed, replace(base, trials=tuple(trials)), cell("rocm", void=2))

    assert timed((2.0, 0.0, 2.1), (2.05, 0.0, 2.2)).verdict is ClaimVerdict.SUPPORTED
    waited = timed((2.0, 5.0, 7.6), (2.0, 5.1, 7.7))
    assert waited.verdict is ClaimVerdict.REFUTED
    assert "the client measured 7.60 to 7.70 s, of which 5.00 to 5.10 s are a wait" in waited.why
    assert timed((2.0, 0.0, 2.1), (4.0, 0.0, 4.1)).verdict is ClaimVerdict.REFUTED
    assert timed((2.0, 0.0, 2.1), (2.5, 0.0, 2.6)).verdict is ClaimVerdict.INCONCLUSIVE
    unknown = timed((None, 0.0, 2.1), (2.0, 0.0, 2.1))
    assert unknown.verdict is ClaimVerdict.INCONCLUSIVE
    assert "has no time of a death" in unknown.why
    assert claim(*posed, cell(passed=3)).verdict is not ClaimVerdict.SUPPORTED
