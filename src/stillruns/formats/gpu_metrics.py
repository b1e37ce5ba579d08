"""amdgpu's gpu_metrics file: what slows the card down at this moment.

A binary table whose header says its size and format. Offsets are those that a compiler gives to the structures of
linux 7.2.13 drivers/gpu/drm/amd/include/kgd_pp_interface.h; formats that are not listed are not read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from stillruns.errors import FormatError

_SIZES = {
    (1, 0): 80, (1, 1): 96, (1, 2): 104, (1, 3): 120, (2, 0): 120, (2, 1): 120, (2, 2): 128, (2, 3): 152, (2, 4): 168,
}  # fmt: skip
_OWN = {
    (1, 0): 68,
    (1, 1): 68,
    (1, 2): 68,
    (1, 3): 68,
    (2, 0): 112,
    (2, 1): 108,
    (2, 2): 108,
    (2, 3): 108,
    (2, 4): 108,
}
_COMMON = {(1, 3): 112, (2, 2): 120, (2, 3): 120, (2, 4): 120}
_BITS = {
    0: "power limit", 1: "power limit", 2: "power limit", 3: "power limit", 4: "power limit", 5: "power limit",
    6: "power limit", 7: "power limit", 16: "current of the GPU core", 17: "current of the SoC",
    18: "current of the memory", 19: "current", 20: "current", 21: "current of the CPU",
    22: "current of the GPU core", 23: "APCC",
    32: "heat of the GPU", 33: "heat of the CPU cores", 34: "heat of the memory", 35: "heat (edge)",
    36: "heat (junction)", 37: "heat of the SoC", 38: "heat of the GPU core's regulator",
    39: "heat of the SoC's regulator", 40: "heat of the memory's regulator", 41: "heat of the memory's regulator",
    42: "heat of the liquid", 43: "heat of the liquid", 44: "a hot regulator (VRHOT)", 45: "a hot regulator (VRHOT)",
    46: "PROCHOT of the CPU", 47: "PROCHOT of the GPU", 56: "PPM", 57: "FIT",
}  # fmt: skip
"""SMU_THROTTLER_*_BIT of drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h, linux 7.2.13."""

_VEGA20 = {
    1: 35, 2: 36, 3: 34, 4: 38, 5: 39, 6: 40, 7: 41, 8: 42, 9: 37, 10: 32, 11: 16, 12: 17, 13: 0, 14: 57, 15: 56,
}  # fmt: skip
"""THROTTLER_STATUS_*_BIT of pm/powerplay/inc/smu11_driver_if.h (Vega 20) to the common bits."""


@dataclass(frozen=True, slots=True)
class GpuMetrics:
    """`format` is `1.3`; `throttled` what slows the card down, None where the table does not say it in bits that are
    the same for all chips; `raw` the chip's own status, None where the firmware gives none."""

    format: str
    throttled: tuple[str, ...] | None
    raw: int | None


def read(data: bytes, processor: str = "") -> GpuMetrics:
    """The table; `processor` decodes the status of chips whose bits are known (gfx906). FormatError for what is no
    table, or none of a known format."""
    if len(data) < 4:
        raise FormatError(f"gpu_metrics has {len(data)} bytes", 0)
    size, major, minor = struct.unpack_from("<HBB", data)
    form = (major, minor)
    if form not in _SIZES:
        raise FormatError(f"the format {major}.{minor} of gpu_metrics is not known", 2)
    if size != _SIZES[form] or len(data) < size:
        raise FormatError(f"gpu_metrics {major}.{minor} has {len(data)} bytes and says {size}", 0)
    (raw,) = struct.unpack_from("<I", data, _OWN[form])
    status = None if raw == 0xFFFFFFFF else raw
    bits: set[int] | None = None
    if form in _COMMON:
        (common,) = struct.unpack_from("<Q", data, _COMMON[form])
        bits = None if common == 0xFFFFFFFFFFFFFFFF else {n for n in range(64) if common >> n & 1}
    elif status is not None and (processor == "gfx906" or not status):
        bits = {_VEGA20.get(n, 63) for n in range(32) if status >> n & 1}
    words = None if bits is None else tuple(dict.fromkeys(_BITS.get(n, f"bit {n}") for n in sorted(bits)))
    return GpuMetrics(f"{major}.{minor}", words, status)
