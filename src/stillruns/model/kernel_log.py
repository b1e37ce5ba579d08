"""What the kernel's log says about GPUs and about processes that died."""

from __future__ import annotations

from enum import Enum

import msgspec

from stillruns.model.evidence import Ref


class KernelEventKind(str, Enum):
    """What kind of line it is."""

    RING_TIMEOUT = "ring timeout"
    PAGE_FAULT = "page fault"
    GPU_RESET = "gpu reset"
    FENCE_TIMEOUT = "fence timeout"
    GPU_HANG = "gpu hang"
    QUEUE_HANG = "queue preemption"
    OOPS = "oops"
    FIRMWARE = "firmware"
    ATOMICS = "pci atomics"
    RAS = "ras"
    EEPROM = "eeprom"
    XID = "xid"
    OOM_KILL = "oom kill"
    SEGFAULT = "segfault"
    TRAP = "trap"


class KernelEvent(msgspec.Struct, frozen=True):
    """One line of the kernel; of an oops that of the driver's function that failed. `process` and `pid` belong to
    whoever it names, `module` is the library of a segfault, `device` a PCI address, `what` the ring, the reason, the
    function or the Xid number. `at` as written, or empty."""

    kind: KernelEventKind
    ref: Ref
    text: str
    at: str = ""
    process: str = ""
    pid: int | None = None
    module: str = ""
    device: str = ""
    what: str = ""
