"""What a Vulkan device can do, as far as it bears on ggml."""

from __future__ import annotations

from dataclasses import dataclass

from stillruns.model.raw import Cite


@dataclass(frozen=True, slots=True)
class VulkanLimits:
    """Features and limits of one device; None where vulkaninfo does not print them.

    `storage16` is storageBuffer16BitAccess, `float16` shaderFloat16, `dot` shaderIntegerDotProduct and `dot_fast`
    whether packed 8-bit products are accelerated; sizes in bytes; `subgroup` the smallest and the largest one.
    """

    name: str
    vendor: int
    device: int
    driver: str
    storage16: bool | None
    float16: bool | None
    dot: bool | None
    dot_fast: bool | None
    subgroup_control: bool | None
    subgroup: tuple[int, int] | None
    max_storage_range: int | None
    max_allocation: int | None
    heaps: tuple[int, ...]
    cite: Cite
