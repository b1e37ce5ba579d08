"""The promise: what vulkaninfo says at length decides with its list: features, limits, drivers, and those named."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import machines
import sysroots
from stillruns.model.absence import Absence
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import Vulkan, VulkanDevice
from stillruns.model.raw import Cite, RawCommand
from stillruns.normalise import vulkan_limits

ALLOW, BLOCK, UNKNOWN = GateStatus.ALLOW, GateStatus.BLOCK, GateStatus.UNKNOWN


def block(number: int, driver: str = "radv", storage: str = "true", **facts: str) -> str:
    """One device of vulkaninfo's long text, in its form."""
    values = {"shaderFloat16": "true", "shaderIntegerDotProduct": "true", "subgroupSizeControl": "true"} | facts
    lines = "\n".join(f"\t{name:<24} = {value}" for name, value in values.items())
    return f"""GPU{number}:
VkPhysicalDeviceProperties:
---------------------------
\tapiVersion        = 1.4.305 (4210993)
\tvendorID          = 0x1002
\tdeviceID          = 0x66a1
\tdeviceName        = AMD TEST 20 (RADV VEGA20)
VkPhysicalDeviceLimits:
\tmaxStorageBufferRange                           = 4294967295
\tmaxMemoryAllocationSize = 0x80000000
\tmaxBufferSize = 0xffffffff
\tdriverName      = {driver}
\tminSubgroupSize              = 64
\tmaxSubgroupSize              = 64
\tintegerDotProduct4x8BitPackedSignedAccelerated                                = false
memoryHeaps: count = 1
\tmemoryHeaps[0]:
\t\tsize   = 17163091968 (0x3ff000000) (15.98 GiB)
VkPhysicalDeviceVulkan11Features:
\tstorageBuffer16BitAccess           = {storage}
{lines}
"""


def verdict(root: Path, text: str, **variables: str) -> Gate:
    """The gate of an MI50 for which vulkaninfo prints this."""
    sysroots.mi50(root)
    sysroots.vulkan(root)
    machine = machines.of(root)
    assert isinstance(machine.vulkan, Vulkan)
    limits = vulkan_limits.parse(RawCommand(("vulkaninfo",), 0, text.encode()))
    device = VulkanDevice("AMD TEST 20", "DISCRETE_GPU", "radv", "1.4.305", 0x1002, 0x66A1, False, Cite("x"))
    facts = dataclasses.replace(machine.vulkan, devices=(device,), limits=limits)
    if variables:
        machine = machines.with_environment(machine, **variables)
    return machines.gate(machines.judged(dataclasses.replace(machine, vulkan=facts)), Layer.VULKAN, "vulkan")


def test_features_and_limits(tmp_path: Path) -> None:
    """A device with all that is needed: its features and the smaller of two sizes are told."""
    found = verdict(tmp_path, block(0))
    assert found.status is ALLOW
    for words in ("16-bit storage", "shader float16", "8-bit dot products not accelerated", "subgroups of 64",
                  "4.0 GiB at most in one binding", "2.0 GiB in one allocation"):  # fmt: skip
        assert words in found.reason


def test_no_16_bit_storage(tmp_path: Path) -> None:
    """llama.cpp refuses such a device: blocked, with the line of its source."""
    found = verdict(tmp_path, block(0, storage="false"))
    assert found.status is BLOCK and "16-bit storage" in found.reason
    assert any("ggml-vulkan.cpp" in cite.source for cite in found.evidence)


def test_optional_features(tmp_path: Path) -> None:
    """Missing float16 makes it slower and blocks nothing; what is not printed is not told."""
    found = verdict(tmp_path, block(0, shaderFloat16="false"))
    assert found.status is ALLOW and "no shader float16" in found.reason
    short = block(0).replace("storageBuffer16BitAccess", "somethingElse")
    assert "16-bit storage" not in verdict(tmp_path, short).reason


def test_two_drivers_for_one_card(tmp_path: Path) -> None:
    """RADV and AMDVLK both show it: which one llama.cpp takes is said."""
    found = verdict(tmp_path, block(0) + block(1, driver="AMD open-source driver"))
    assert "2 drivers show the card" in found.reason and "takes RADV" in found.reason
    good = verdict(tmp_path, block(0, storage="false", driver="old") + block(1))
    assert good.status is ALLOW


def test_named_drivers(tmp_path: Path) -> None:
    """VK_DRIVER_FILES leaves what it names; files that were not read decide nothing."""
    here = "/usr/share/vulkan/icd.d/radeon_icd.json"
    assert verdict(tmp_path, block(0), VK_DRIVER_FILES=here).status is ALLOW
    found = verdict(tmp_path, block(0), VK_ICD_FILENAMES="/home/x/my_icd.json")
    assert found.status is UNKNOWN and "/home/x/my_icd.json" in found.reason


@pytest.mark.parametrize("text", ["", "GPU0:\n", "ERROR: [Loader Message] Code 0", "GPU0:\n\tdeviceName = x\n"])
def test_no_device(text: str) -> None:
    """Texts without a device are an absence."""
    assert isinstance(vulkan_limits.parse(RawCommand(("vulkaninfo",), 1, text.encode())), Absence)
