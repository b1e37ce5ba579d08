"""The devices that a llama.cpp log lists, in all generations of the list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from stillruns.model.backend import Backend, backend_of_device
from stillruns.model.evidence import Ref
from stillruns.model.expression import Expression
from stillruns.model.server_facts import Event, SeenDevice

_MAX_DEVICES = 256
_AMD = Expression(r"(?:AMD|Radeon|gfx[0-9a-f]{3,4}\b)")
_RADV_TARGET = Expression(r"\(RADV (GFX\d{3,4})\)")
"""RADV names chips by code name up to RDNA 2, and by their target from then on."""
_VRAM = Expression(r", VRAM: (?P<total>\d{1,9}) MiB")
_MTL = Expression(r"(?P<name>MTL\d{1,3}) \((?P<description>.+)\)$")

UNTOLD = Backend.UNKNOWN
"""Until a device is added: its name tells its backend."""


@dataclass
class SeenDevices:
    """Devices by ggml's name for them, in the order of their first line."""

    kind: str = "CUDA"
    """What the last `found N CUDA|ROCm devices` line called them: the lines below it have only an index."""
    _by_name: dict[str, SeenDevice] = field(default_factory=dict)

    def all(self) -> tuple[SeenDevice, ...]:
        """Every device so far."""
        return tuple(self._by_name.values())

    def any_used(self) -> bool:
        """Whether any device is in use."""
        return any(device.used for device in self._by_name.values())

    def found(self, event: Event) -> None:
        """`ggml_cuda_init: found 1 ROCm devices:`"""
        kind = event.fields.get("kind") or event.fields.get("kind2")
        if kind in ("CUDA", "ROCm", "MUSA"):
            self.kind = kind

    def cuda(self, event: Event) -> None:
        """`  Device 0: AMD Radeon RX Vega, gfx900:xnack- (0x900), ...` or `..., compute capability 6.1`"""
        target = event.fields.get("target", "")
        if _AMD.match(event.fields["description"]):
            self.kind = "ROCm"  # the line above, which says so, may be missing; NVIDIA's names never begin like this
        if target.startswith("compute capability "):
            # ROCm builds of 2024 print the gfx version as a compute capability: no target can be read from that.
            target = (
                "" if self.kind == "ROCm" else "sm_" + target.removeprefix("compute capability ").replace(".", "")
            )
        name = f"{self.kind}{event.fields['index']}"
        vram = _VRAM.search(event.text)
        memory = float(vram["total"]) if vram else None
        self._add(SeenDevice(name, UNTOLD, event.fields["description"], event.ref, None, target or None, memory))

    def vulkan(self, event: Event) -> None:
        """`ggml_vulkan: 0 = AMD Radeon RX Vega (RADV VEGA10) (radv) | uma: 0 | ...`"""
        name = f"Vulkan{event.fields.get('index', '0')}"
        printed = _RADV_TARGET.search(event.fields["description"])
        target = printed[1].lower() if printed else None
        self._add(SeenDevice(name, UNTOLD, event.fields["description"], event.ref, target=target))

    def listed(self, event: Event) -> None:
        """`  - Vulkan0 : NVIDIA H200 (143771 MiB, 143139 MiB free)`"""
        total, free = float(event.fields["total"][:9]), float(event.fields["free"][:9])
        name, description = event.fields["device"], event.fields["description"]
        self._add(SeenDevice(name, UNTOLD, description, event.ref, memory_mib=total, free_mib=free))

    def sycl(self, event: Event) -> None:
        """`| 0| [level_zero:gpu:0]| Intel Arc A770 Graphics| 1.6| 512| 1024| 32| 16225M| 1.3.29735|` (millions; the
        first builds: `|      16225243136|`, bytes, and no driver)"""
        printed = event.fields.get("bytes")
        total = float(printed or event.fields["total"][:9]) * (1 if printed else 1e6) / 1048576
        name, description = f"SYCL{event.fields['index']}", event.fields["description"]
        self._add(
            SeenDevice(name, UNTOLD, description, event.ref, memory_mib=total, driver=event.fields.get("driver", ""))
        )

    def metal(self, event: Event) -> None:
        """`GPU name:   Apple M2 Pro`, or `MTL0 (Apple M2 Pro)` in newer builds"""
        found = _MTL.match(event.fields["description"])
        name, description = (found["name"], found["description"]) if found else ("Metal", event.fields["description"])
        self._add(SeenDevice(name, UNTOLD, description, event.ref))

    def metal_memory(self, event: Event) -> None:
        """`recommendedMaxWorkingSetSize  = 11453.25 MB`: what the GPU may use of the shared memory (millions)."""
        mine = [name for name, device in self._by_name.items() if device.backend is Backend.METAL]
        if mine:
            total = float(event.fields["mb"][:16]) * 1e6 / 1048576
            self._by_name[mine[-1]] = replace(self._by_name[mine[-1]], memory_mib=total)

    def memory(self, backend: Backend, total: float, free: float) -> None:
        """Total and free MiB of the only device of a backend (of several, the line does not say which)."""
        mine = [name for name, device in self._by_name.items() if device.backend is backend]
        if len(mine) == 1 and self._by_name[mine[0]].memory_mib is None:
            self._by_name[mine[0]] = replace(self._by_name[mine[0]], memory_mib=total, free_mib=free)

    def used(self, event: Event) -> None:
        """`using device Vulkan0 (NVIDIA H200) (0000:00:06.0) - 143139 MiB free`"""
        name, description = event.fields["device"], _without_id(event.fields["description"])
        free = float(event.fields["free"][:9]) if "free" in event.fields else None
        self._add(SeenDevice(name, UNTOLD, description, event.ref, free_mib=free))
        self._use(name, event.ref)

    def main(self, event: Event) -> None:
        """`using device 0 (Tesla P40) as main device` (b1500)"""
        name = f"{self.kind}{event.fields['index']}"
        self._add(SeenDevice(name, UNTOLD, event.fields["description"], event.ref))
        self._use(name, event.ref)

    def backend_used(self, event: Event) -> None:
        """`using CUDA for GPU acceleration` (b1500): every device of that backend."""
        for name in list(self._by_name):
            if name.startswith(event.fields["kind"]):
                self._use(name, event.ref)

    def forget_used(self) -> None:
        """A new load: what the one before used does not count."""
        self._by_name = {name: replace(device, used=None) for name, device in self._by_name.items()}

    def _add(self, seen: SeenDevice) -> None:
        """The first line of a device names it; later ones add what it did not tell."""
        known = self._by_name.get(seen.name)
        if known is None:
            if len(self._by_name) < _MAX_DEVICES:
                backend = backend_of_device(seen.name)
                self._by_name[seen.name] = replace(seen, backend=backend, description=seen.description.strip())
            return
        self._by_name[seen.name] = replace(
            known,
            target=known.target or seen.target,
            memory_mib=known.memory_mib if known.memory_mib is not None else seen.memory_mib,
            free_mib=known.free_mib if known.free_mib is not None else seen.free_mib,
        )

    def _use(self, name: str, ref: Ref) -> None:
        if name in self._by_name:
            self._by_name[name] = replace(self._by_name[name], used=ref)


LISTING: dict[str, Callable[[SeenDevices, Event], None]] = {
    "devices_found": SeenDevices.found,
    "devices_none": SeenDevices.found,
    "cuda_device": SeenDevices.cuda,
    "vulkan_device": SeenDevices.vulkan,
    "listed_device": SeenDevices.listed,
    "sycl_device": SeenDevices.sycl,
    "metal_device": SeenDevices.metal,
    "metal_memory": SeenDevices.metal_memory,
}
"""Kind of event -> what takes it: the lines that list devices, in every program that ggml prints them in."""


def _without_id(text: str) -> str:
    """`NVIDIA H200) (0000:00:06.0` -> `NVIDIA H200`; names that hold parentheses themselves stay whole."""
    name, bracket, _ = text.rpartition(") (")
    return name if bracket and name.count("(") == name.count(")") else text
