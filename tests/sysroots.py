"""Fake machines as folders: what the kernel, the package manager and a runtime's installer leave on a disk.

Formats are those of a 6.x kernel (and of an older one, where a test says so); every value is our own. The real
rocm_agent_enumerator and rocm-smi read such trees when they are bind-mounted over /sys.
"""

from __future__ import annotations

from pathlib import Path

TOPOLOGY = "sys/devices/virtual/kfd/kfd/topology"
SRAM_ECC = 1 << 26


def write(root: Path, path: str, text: str | bytes = "") -> Path:
    """One file under the root; text gets its newline."""
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(text, bytes):
        place.write_bytes(text)
    else:
        place.write_text(text if text.endswith("\n") or not text else text + "\n")
    return place


def link(root: Path, path: str, target: str) -> None:
    """One symbolic link under the root."""
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.is_symlink():
        place.symlink_to(target)


def node(root: Path, number: int, *, memory: int = 0, **facts: int) -> None:
    """A KFD node; a CPU when there is no simd_count."""
    base = f"{TOPOLOGY}/nodes/{number}"
    values = {"cpu_cores_count": 0 if facts.get("simd_count") else 16, "simd_count": 0, "mem_banks_count": 1}
    values |= {
        "vendor_id": 0,
        "device_id": 0,
        "location_id": 0,
        "domain": 0,
        "drm_render_minor": 0,
        "fw_version": 480,
    }
    if facts.get("simd_count"):  # what AMD's own tools want to find as well
        values |= {
            "hive_id": 0, "io_links_count": 1, "wave_front_size": 64, "array_count": 4, "simd_arrays_per_engine": 1,
            "cu_per_simd_array": 16, "simd_per_cu": 4, "max_slots_scratch_cu": 32, "num_sdma_engines": 2,
            "max_engine_clk_fcompute": 1700, "max_engine_clk_ccompute": 3000, "unique_id": 4242 + number,
        }  # fmt: skip
    values |= facts
    write(root, f"{base}/properties", "\n".join(f"{key} {value}" for key, value in values.items()))
    write(root, f"{base}/name", "vega20" if values["simd_count"] else "")
    write(root, f"{base}/gpu_id", "0" if not values["simd_count"] else str(1000 + number))
    link_to = (
        f"type 2\nversion_major 0\nversion_minor 0\nnode_from {number}\nnode_to 0\nweight 20\nmin_latency 0\n"
        "max_latency 0\nmin_bandwidth 312\nmax_bandwidth 16000\nrecommended_transfer_size 0\nflags 1"
    )
    write(root, f"{base}/io_links/0/properties", link_to)
    (root / base / "p2p_links").mkdir(exist_ok=True)
    if memory:
        write(root, f"{base}/mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {memory}\nflags 0")
    link(root, "sys/class/kfd/kfd", "../../devices/virtual/kfd/kfd")


def card(
    root: Path,
    address: str = "0000:04:00.0",
    device: int = 0x66A1,
    *,
    vendor: int = 0x1002,
    driver: str = "amdgpu",
    minor: int = 128,
    vram: int = 16 << 30,
    visible: int = 0,
    width: int = 16,
    kind: str = "0x038000",
    **files: str,
) -> None:
    """A PCI function with its driver's files and DRM nodes (none where `driver` is empty)."""
    real = f"sys/devices/pci0000:00/0000:00:03.1/{address}"
    facts = {
        "vendor": f"{vendor:#06x}", "device": f"{device:#06x}", "class": kind, "revision": "0x01", "numa_node": "0",
        "subsystem_vendor": "0x1002", "subsystem_device": "0x0834", "current_link_speed": "8.0 GT/s PCIe",
        "current_link_width": str(width), "max_link_speed": "8.0 GT/s PCIe", "max_link_width": "16",
        "resource": f"0x0000380000000000 0x{0x380000000000 + (visible or vram) - 1:016x} 0x000000000014220c",
    }  # fmt: skip
    if driver == "amdgpu":
        facts |= {
            "mem_info_vram_total": str(vram), "mem_info_vis_vram_total": str(visible or vram),
            "vbios_version": "113-TEST-001", "power_dpm_force_performance_level": "auto", "gpu_busy_percent": "0",
            "pp_dpm_sclk": "0: 925Mhz *\n1: 1700Mhz", "hwmon/hwmon1/power1_cap": "225000000",
            "hwmon/hwmon1/power1_cap_default": "225000000", "hwmon/hwmon1/temp1_input": "41000",
            "hwmon/hwmon1/temp1_label": "edge", "hwmon/hwmon1/temp1_crit": "100000",
            "ras/umc_err_count": "ue: 0\nce: 0",
        }  # fmt: skip
    for name, value in {**facts, **files}.items():
        write(root, f"{real}/{name}", value)
    link(root, f"sys/bus/pci/devices/{address}", f"../../../devices/pci0000:00/0000:00:03.1/{address}")
    if driver:
        (root / f"sys/bus/pci/drivers/{driver}").mkdir(parents=True, exist_ok=True)
        link(root, f"{real}/driver", f"../../../../bus/pci/drivers/{driver}")
    if driver and driver != "vfio-pci":
        for name, number in ((f"card{minor - 128}", minor - 128), (f"renderD{minor}", minor)):
            write(root, f"{real}/drm/{name}/dev", f"226:{number}")
            link(root, f"sys/class/drm/{name}", f"../../devices/pci0000:00/0000:00:03.1/{address}/drm/{name}")


def mi50(root: Path, number: int = 1, address: str = "0000:04:00.0", minor: int = 128, *, ecc: bool = True) -> None:
    """An MI50 that the compute driver took."""
    if not (root / TOPOLOGY / "nodes/0").exists():
        node(root, 0)
    bus = int(address[5:7], 16)
    capability = 0x2A801280 | (SRAM_ECC if ecc else 0)
    node(
        root, number, memory=16 << 30, simd_count=240, gfx_target_version=90006, vendor_id=0x1002, device_id=0x66A1,
        location_id=bus << 8, drm_render_minor=minor, capability=capability,
    )  # fmt: skip
    card(root, address, minor=minor)


def nodes(root: Path, *paths: str, mode: int = 0o660) -> None:
    """Device nodes: regular files stand for them in a folder, where only root could make real ones."""
    for path in paths:
        write(root, path, "").chmod(mode)


def host(root: Path, flags: str = "sse4_2 avx f16c fma avx2 bmi2") -> None:
    """A CPU, a kernel, and the C library that tells a whole system from a part of one."""
    write(root, "usr/lib/x86_64-linux-gnu/libc.so.6", b"\x7fELF")
    write(root, "proc/cpuinfo", f"processor\t: 0\nmodel name\t: Test CPU\nflags\t\t: {flags}")
    write(root, "proc/sys/kernel/osrelease", "6.12.48")
    write(root, "proc/cmdline", "root=/dev/sda1 iommu=pt")


def vulkan(root: Path, name: str = "radeon_icd", library: str = "libvulkan_radeon.so", *, there: bool = True) -> None:
    """A loader and one driver."""
    write(root, "usr/lib/x86_64-linux-gnu/libvulkan.so.1", b"\x7fELF")
    manifest = f'{{"ICD": {{"api_version": "1.4.305", "library_path": "{library}"}}, "file_format_version": "1.0.0"}}'
    write(root, f"usr/share/vulkan/icd.d/{name}.json", manifest)
    if there:
        write(root, f"usr/lib/x86_64-linux-gnu/{library}", b"\x7fELF")
