"""A child's program: lists Vulkan devices with the features and limits that ggml-vulkan looks at, as vulkaninfo does.

Run by path in a process of its own (`python -I vulkan_query.py`), where vulkaninfo is not installed: a driver that
crashes takes this process with it and nothing else. Offsets and structure types are vulkan_core.h's (1.3.239), as a
compiler lays them out on a 64-bit machine.
"""

from __future__ import annotations

import ctypes
import struct
import sys

_INSTANCE, _FEATURES2, _PROPERTIES2 = 1, 1000059000, 1000059001
_V11, _V12, _V13, _P13 = 49, 51, 53, 54
_MAINTENANCE3, _DRIVER = 1000168000, 1000196000
_API = 4202496
"""VK_API_VERSION_1_2, which ggml-vulkan asks for, too."""

_KINDS = ("OTHER", "INTEGRATED_GPU", "DISCRETE_GPU", "VIRTUAL_GPU", "CPU")
_MOST = 64


def _chained(
    kind: int, size: int, following: ctypes.Array[ctypes.c_char] | None = None
) -> ctypes.Array[ctypes.c_char]:
    """A zeroed structure with its type and what follows it in the chain."""
    data = ctypes.create_string_buffer(size)
    struct.pack_into("<IxxxxQ", data, 0, kind, ctypes.addressof(following) if following is not None else 0)
    return data


def _flag(data: ctypes.Array[ctypes.c_char], offset: int) -> str:
    return "true" if struct.unpack_from("<I", data, offset)[0] else "false"


def _instance(vulkan: ctypes.CDLL) -> ctypes.c_void_p:
    app = ctypes.create_string_buffer(48)
    struct.pack_into("<I", app, 44, _API)
    info = _chained(_INSTANCE, 64)
    struct.pack_into("<Q", info, 24, ctypes.addressof(app))
    instance = ctypes.c_void_p()
    result = vulkan.vkCreateInstance(info, None, ctypes.byref(instance))
    if result:
        raise SystemExit(f"vkCreateInstance returned {result}")
    return instance


def _lines(vulkan: ctypes.CDLL, device: ctypes.c_void_p) -> list[str]:
    plain = ctypes.create_string_buffer(824)
    vulkan.vkGetPhysicalDeviceProperties(device, plain)
    api, version, vendor, number, kind = struct.unpack_from("<5I", plain, 0)
    name = plain.raw[20:276].split(b"\0", 1)[0].decode("utf-8", "replace")
    lines = [
        "VkPhysicalDeviceProperties:",
        f"\tapiVersion = {api >> 22 & 0x7F}.{api >> 12 & 0x3FF}.{api & 0xFFF}", f"\tdriverVersion = {version}",
        f"\tvendorID = {vendor:#06x}", f"\tdeviceID = {number:#06x}",
        f"\tdeviceType = PHYSICAL_DEVICE_TYPE_{_KINDS[kind] if kind < len(_KINDS) else 'OTHER'}",
        f"\tdeviceName = {' '.join(name.split())}",
        f"\tmaxStorageBufferRange = {struct.unpack_from('<I', plain, 324)[0]}",
    ]  # fmt: skip
    if api < _API:
        return lines
    newer = api >= _API + (1 << 12)  # 1.3
    v13 = _chained(_V13, 80) if newer else None
    v12 = _chained(_V12, 208, v13)
    v11 = _chained(_V11, 64, v12)
    vulkan.vkGetPhysicalDeviceFeatures2(device, _chained(_FEATURES2, 240, v11))
    p13 = _chained(_P13, 216) if newer else None
    driver = _chained(_DRIVER, 536, p13)
    sizes = _chained(_MAINTENANCE3, 32, driver)
    vulkan.vkGetPhysicalDeviceProperties2(device, _chained(_PROPERTIES2, 840, sizes))
    lines += [
        f"\tdriverName = {driver.raw[20:276].split(bytes(1), 1)[0].decode('utf-8', 'replace')}",
        f"\tmaxMemoryAllocationSize = {struct.unpack_from('<Q', sizes, 24)[0]:#x}",
        f"\tstorageBuffer16BitAccess = {_flag(v11, 16)}", f"\tshaderFloat16 = {_flag(v12, 44)}",
    ]  # fmt: skip
    if v13 is not None and p13 is not None:
        least, most = struct.unpack_from("<2I", p13, 16)
        lines += [
            f"\tsubgroupSizeControl = {_flag(v13, 44)}", f"\tshaderIntegerDotProduct = {_flag(v13, 68)}",
            f"\tminSubgroupSize = {least}", f"\tmaxSubgroupSize = {most}",
            f"\tintegerDotProduct4x8BitPackedSignedAccelerated = {_flag(p13, 72)}",
            f"\tmaxBufferSize = {struct.unpack_from('<Q', p13, 208)[0]:#x}",
        ]  # fmt: skip
    return lines


def main() -> int:
    """Print every device; 1 with a sentence where the loader or an instance cannot be had."""
    if struct.calcsize("P") != 8:
        raise SystemExit("only 64-bit machines are asked")
    try:
        vulkan = ctypes.CDLL("libvulkan.so.1")
    except OSError as error:
        raise SystemExit(str(error)) from error
    instance = _instance(vulkan)
    count = ctypes.c_uint32(_MOST)
    devices = (ctypes.c_void_p * _MOST)()
    vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), devices)
    for index in range(min(count.value, _MOST)):
        sys.stdout.write("\n".join([f"GPU{index}:", *_lines(vulkan, ctypes.c_void_p(devices[index]))]) + "\n")
    sys.stdout.flush()
    vulkan.vkDestroyInstance(instance, None)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
