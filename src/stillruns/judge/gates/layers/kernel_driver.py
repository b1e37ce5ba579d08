"""Kernel driver: which driver holds the card, whether the compute driver took it, and what the log says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.card import Card
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import Kernel, KernelSign, Kfd, Nvidia
from stillruns.model.raw import Cite

LAYER = Layer.KERNEL_DRIVER
DECIDES = (
    "the bound driver, the KFD topology (old format too), DRM nodes, resets, ring timeouts and page faults in the "
    "log; a driver of NVIDIA's that has dropped the card"
)

_ASIDE = ("vfio-pci", "pci-stub", "xen-pciback", "uio_pci_generic")
_RIGHT = {0x1002: ("amdgpu",), 0x10DE: ("nvidia",), 0x8086: ("i915", "xe")}
_RADV = Cite(
    "mesa src/amd/vulkan/radv_physical_device.c", at="radv_physical_device_try_create",
    excerpt="another DRM driver than amdgpu: VK_ERROR_INCOMPATIBLE_DRIVER",
)  # fmt: skip


def judge(view: PathView) -> Gate | None:
    """`allow` when the right driver holds the card and took it for this backend."""
    if view.target is None and view.card is None:
        return None
    card = view.card
    if card is None:
        return view.unknown(LAYER, f"no {view.processor} card is in this machine", AbsenceReason.NOT_INSTALLED)
    stop = [event for event in view.events(LAYER) if event.severity == "stop"]
    driver = card.pci.driver if card.pci else ""
    has_node = _taken(view, card)
    dropped = _dropped(view, card, stop) if not driver and not has_node else None
    if dropped is not None:
        return dropped
    if stop and not has_node:
        return view.gate(LAYER, GateStatus.BLOCK, stop[0].text, stop[0].cite, weight=76,
                         advice="read the kernel's log around that line: the driver did not start the "
                             "card")  # fmt: skip
    wrong = _wrong_driver(view, card, driver)
    if wrong is not None:
        return wrong
    if view.backend is Backend.ROCM and card.kfd is None:
        return _no_node(view, card)
    if view.backend is Backend.VULKAN and not card.render_node and card.vendor != 0x10DE:
        return view.gate(LAYER, GateStatus.BLOCK, "the card has no render node", card.cite, weight=75,
                         advice="load the card's graphics driver; in a container, pass /dev/dri")  # fmt: skip
    return _running(view, card, driver)


def _dropped(view: PathView, card: Card, stop: Sequence[KernelSign]) -> Gate | None:
    """NVIDIA's driver is here, and it is of a branch that came after the card's last one."""
    nvidia, last = view.machine.nvidia, view.last_nvidia_branch
    if card.vendor != 0x10DE or isinstance(nvidia, Absence) or not last:
        return None
    branch = nvidia.driver.partition(".")[0]
    if not branch.isdigit() or int(branch) <= int(last):
        return None
    text = (
        f"no driver holds the card: NVIDIA's {nvidia.driver} is installed, and {last} is the last branch that knows"
    )
    return view.gate(
        LAYER, GateStatus.BLOCK, f"{text} {view.processor}", *(event.cite for event in stop[:1]), nvidia.cite,
        weight=79, advice=f"install {view.nvidia_driver}",
    )  # fmt: skip


def _wrong_driver(view: PathView, card: Card, driver: str) -> Gate | None:
    cite = card.pci.cites.get("driver") or card.pci.cites.get("uevent") if card.pci else None
    if card.pci is None or driver in _RIGHT.get(card.vendor, ()):
        return None
    if not driver and card.kfd is None and not card.drm:
        return view.gate(
            LAYER, GateStatus.BLOCK, "no driver holds the card", cite or card.cite, weight=78,
            advice=f"load its driver ({', '.join(_RIGHT.get(card.vendor, ('?',)))}), and read why it did not start",
        )  # fmt: skip
    if driver in _ASIDE:
        return view.gate(LAYER, GateStatus.BLOCK, f"the card is set aside for a virtual machine ({driver})", cite,
                         weight=78,
                         advice="give the card back to its own driver")  # fmt: skip
    if driver in ("radeon", "nouveau") and view.backend in (Backend.ROCM, Backend.CUDA):
        other = _RIGHT[card.vendor][0]
        return view.gate(LAYER, GateStatus.BLOCK, f"{driver} holds the card; {view.backend.value} needs "
            f"{other}", cite,
                         weight=78, advice=f"bind the card to {other}" if view.target else "")  # fmt: skip
    if driver == "radeon":
        text = "radeon holds the card, and Mesa's Vulkan driver for AMD's cards (RADV) works with amdgpu alone"
        return view.gate(LAYER, GateStatus.BLOCK, text, cite, _RADV, weight=78,
                         advice="bind the card to amdgpu" if view.target else "")  # fmt: skip
    if driver == "nouveau":
        return view.gate(LAYER, GateStatus.PARTIAL, "nouveau holds the card: Vulkan through NVK only", cite)
    if driver and driver not in ("radeon", "nouveau"):
        text = f"a driver that is not known ({driver}) holds the card"
        return view.unknown(LAYER, text, AbsenceReason.UNPARSABLE, cite)
    return None


def _taken(view: PathView, card: Card) -> bool:
    """Whether the driver that the backend needs shows the card: then an old line about a failed start is old."""
    if view.backend is Backend.ROCM:
        return card.kfd is not None
    if view.backend is Backend.CUDA:
        return isinstance(view.machine.nvidia, Nvidia) and card.address in view.machine.nvidia.models
    return bool(card.render_node)


def _no_node(view: PathView, card: Card) -> Gate:
    kfd = view.machine.kfd
    if not isinstance(kfd, Kfd):
        return view.unknown(LAYER, kfd.detail, kfd.reason)
    if not kfd.present:
        text = "there is no /sys/class/kfd: the kernel has no compute driver, or this container does not show it"
        return view.gate(LAYER, GateStatus.BLOCK, text, kfd.cite, weight=77,
                         advice="use a kernel with CONFIG_HSA_AMD; in a container, pass --device "
                             "/dev/kfd")  # fmt: skip
    text = f"the compute driver (KFD) has no node for {card.address}: it did not take the card"
    return view.gate(LAYER, GateStatus.BLOCK, text, kfd.cite, card.cite, weight=76,
                     advice="look for `kfd kfd:` lines in the kernel's log")  # fmt: skip


def _running(view: PathView, card: Card, driver: str) -> Gate:
    warnings = [event for event in view.events(LAYER) if event.severity == "warn"]
    cite: Cite | None = card.kfd.cite if view.backend is Backend.ROCM and card.kfd else card.cite
    what = driver or "a driver"
    text = f"{what} holds the card"
    if view.backend is Backend.ROCM and card.kfd is not None:
        text += f"; KFD node {card.kfd.number} says {card.processor}"
        if card.kfd.version is None:
            text += " (by its PCI id: this kernel is too old to say it)"
    else:
        text += f" ({card.render_node})" if card.render_node else ""
    kernel = view.machine.kernel
    if isinstance(kernel, Kernel) and kernel.release:
        text += f", Linux {kernel.release}"
    if not warnings:
        return view.gate(LAYER, GateStatus.ALLOW, text, cite)
    counts = Counter(event.text for event in warnings)
    listed = "; ".join(f"{what} ({n}x)" for what, n in counts.most_common(3))
    return view.gate(
        LAYER, GateStatus.PARTIAL, f"{text}; the log says: "
            f"{listed}", cite, *(e.cite for e in warnings[:3]), weight=25,
        advice="read the kernel's log: the driver reports trouble with this card",
        workarounds=("check-hardware-faults", "disable-sdma"),
    )  # fmt: skip
