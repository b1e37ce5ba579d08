"""Machines as people describe them in public threads: a description in TOML to a folder that `check --sysroot` reads.

The descriptions are tests/data/blind_machines.toml, one table a case. Files are as small as the readers allow, but of
the real kind: libraries are ELF files with bundles of device code and the names that they link, kernel folders have
their index and what it leads to.

A file's content in `files` is `KIND ARGUMENTS`: `elf`; `text WORDS`; `vulkan`; `hip TARGETS ROCM [RUNPATH]`;
`cuda ARCHITECTURES CUDA [RUNPATH]`; `rocblas TARGETS ROCM` (with its kernels beside it); `amdhip` (the version stands
in its name). TARGETS and ARCHITECTURES are separated by commas, or the name of a list.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import device_code
import sysroots

FLAGS = {
    "avx2": "fpu sse sse2 ssse3 sse4_1 sse4_2 popcnt avx f16c fma avx2 bmi1 bmi2",
    "sse42": "fpu sse sse2 ssse3 sse4_1 sse4_2 popcnt",
    "ssse3": "fpu sse sse2 ssse3",
}
HIPBLAS = {5: "libhipblas.so.1", 6: "libhipblas.so.2", 7: "libhipblas.so.3"}
ROCBLAS = {3: "librocblas.so.0", 5: "librocblas.so.3", 6: "librocblas.so.4", 7: "librocblas.so.5"}
VARIANTS = ("x64", "sse42", "sandybridge", "haswell", "skylakex", "icelake", "alderlake")
XNACK = ("gfx900", "gfx902", "gfx906", "gfx908", "gfx90a", "gfx90c", "gfx940", "gfx941", "gfx942", "gfx950", "gfx101")
SRAMECC = ("gfx906", "gfx908", "gfx90a", "gfx94", "gfx950")
RENDER, VIDEO, SERVICE, NOBODY = 109, 44, 990, 65534
USER = next(number for number in (1000, 1001, 1002) if number not in (os.getuid(), os.getgid()))
"""The person `u` (1000 in a description): never who owns the files that stand for nodes where that is not root."""


def needs_root(facts: dict[str, Any]) -> bool:
    """Whether only root can make the machine: another's files stand for its nodes."""
    return bool(facts.get("nobody"))


def build(root: Path, facts: dict[str, Any], lists: dict[str, str]) -> None:
    """The machine below `root`."""
    machine = _Machine(root, facts, lists)
    machine.system()
    machine.cards()
    machine.files()
    machine.ollama()
    machine.vulkan()
    machine.people()


class _Machine:
    def __init__(self, root: Path, facts: dict[str, Any], lists: dict[str, str]) -> None:
        self.root, self.facts, self.lists = root, facts, lists
        self.os, _, self.release = str(facts["os"]).partition(" ")
        folder = {"ubuntu": "usr/lib/x86_64-linux-gnu", "debian": "usr/lib/x86_64-linux-gnu", "fedora": "usr/lib64"}
        self.library_folder = folder.get(self.os, "usr/lib")
        if "multiarch" in facts.get("vulkan", {}):
            self.library_folder = f"usr/lib/{facts['vulkan']['multiarch']}"

    def write(self, path: str, text: str | bytes = "") -> None:
        """One file."""
        sysroots.write(self.root, path, text)

    def system(self) -> None:
        """Distribution, kernel, CPU, packages, container, firmware, the kernel's log."""
        facts = self.facts
        self.write("etc/os-release", f'ID={self.os}\nVERSION_ID="{self.release}"')
        if "kernel" in facts:
            self.write("proc/sys/kernel/osrelease", facts["kernel"])
        self.write(f"{self.library_folder}/libc.so.6", b"\x7fELF")
        self.write("proc/cmdline", "root=/dev/sda1 ro quiet")
        name = facts.get("cpu", "avx2")
        flags = f"flags\t\t: {FLAGS[name]}" if name in FLAGS else "Features\t: fp asimd evtstrm crc32 asimddp"
        self.write("proc/cpuinfo", f"processor\t: 0\nmodel name\t: CPU of case\n{flags}")
        for package in facts.get("pacman", ()):
            (self.root / "var/lib/pacman/local" / package).mkdir(parents=True)
        if facts.get("container") == "docker":
            self.write(".dockerenv")
        elif facts.get("container") == "podman":
            self.write("run/.containerenv", "rootless=1")
        if "log" in facts:
            self.write("var/log/kern.log", "\n".join(facts["log"]))
        firmware = facts.get("firmware", {})
        for stem in firmware.get("has", "").split():
            self.write(f"lib/firmware/amdgpu/{stem}.bin.zst", b"x")
        if firmware:
            module = f"lib/modules/{facts['kernel']}/kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko"
            names = [*firmware["needs"].split(), *firmware["has"].split()]
            self.write(module, b"\0" + b"".join(f"firmware=amdgpu/{name}.bin\0".encode() for name in names))
        for rocm in facts.get("rocm", ()):
            self._rocm(**rocm)

    def _rocm(self, home: str, hip: str, blas: str) -> None:
        self.write(f"{home}/.info/version", home.partition("-")[2] or hip.rpartition(".")[0])
        major = int(hip.partition(".")[0])
        self.content(f"{home}/lib/libamdhip64.so.{hip}", "amdhip")
        self.content(f"{home}/lib/{ROCBLAS[major]}", f"rocblas {blas} {major}")
        self.write(f"{home}/lib/{HIPBLAS.get(major, 'libhipblas.so.0')}", device_code.library())
        self.write("etc/ld.so.conf.d/rocm.conf", f"{home}/lib")

    def cards(self) -> None:
        """PCI functions, KFD nodes, device nodes, the NVIDIA driver."""
        facts = self.facts
        cards = facts.get("cards", ())
        if facts.get("kfd") or any("gfx" in card and card.get("kfd", True) for card in cards):
            sysroots.node(self.root, 0)
            self.device("dev/kfd")
        for index, card in enumerate(cards):
            vendor, device = (int(part, 16) for part in card["id"].split(":"))
            address = card.get("address", "0000:04:00.0")
            driver = card.get("driver", {0x1002: "amdgpu", 0x10DE: "nvidia"}.get(vendor, ""))
            memory = card["gib"] << 30
            sysroots.card(
                self.root, address, device, vendor=vendor, driver=driver, minor=128 + index, vram=memory,
                width=card.get("width", 16), kind="0x030000",
            )  # fmt: skip
            if driver:
                self.write(f"sys/module/{driver}/initstate", "live")
                self.device(f"dev/dri/renderD{128 + index}")
            if ("gfx" in card and card.get("kfd", True)) or card.get("node"):
                version = {"gfx_target_version": card["gfx"]} if "gfx" in card else {}
                sysroots.node(
                    self.root, index + 1, memory=memory, simd_count=64, vendor_id=vendor, device_id=device,
                    location_id=int(address[5:7], 16) << 8, drm_render_minor=128 + index, **version,
                )  # fmt: skip
            if driver == "nvidia":
                self.write(f"proc/driver/nvidia/gpus/{address}/information", f"Model: \t\t {card['model']}")
                self.device(f"dev/nvidia{index}", 0o666)
        if "nvidia" in facts:
            self._nvidia(facts["nvidia"], any(card.get("driver") != "" for card in cards))

    def _nvidia(self, version: str, loaded: bool) -> None:
        self.write(f"{self.library_folder}/libcuda.so.{version}", device_code.library())
        sysroots.link(self.root, f"{self.library_folder}/libcuda.so.1", f"libcuda.so.{version}")
        if loaded:
            self.write("sys/module/nvidia/version", version)
            said = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Sep  2 12:00:00 UTC 2025"
            self.write("proc/driver/nvidia/version", said)
            for name in ("dev/nvidiactl", "dev/nvidia-uvm"):
                self.device(name, 0o666)

    def device(self, path: str, mode: int = 0o660) -> None:
        """A node of the group render (of nobody, where a container does not know its owner)."""
        place = sysroots.write(self.root, path)
        place.chmod(mode)
        if os.getuid() == 0:
            owner = (NOBODY, NOBODY) if self.facts.get("nobody") else (0, RENDER)
            os.chown(place, *owner)

    def files(self) -> None:
        """Whatever else the description names."""
        for path, content in self.facts.get("files", {}).items():
            self.content(path, content)

    def content(self, path: str, words: str) -> None:
        """A file of the kind that `words` begin with."""
        kind, *rest = words.split()
        folder, _, name = path.rpartition("/")
        if kind == "text":
            self.write(path, " ".join(rest))
        elif kind == "vulkan":
            self.write(path, device_code.library(needed=("libvulkan.so.1",)))
        elif kind == "hip":
            major = int(rest[1])
            names = [f"libamdhip64.so.{major}", HIPBLAS[major], ROCBLAS[major]]
            code = device_code.padded([_bundle(self.listed(rest[0]), major)] * 2)
            sections = [(".hip_fatbin", code), (".hipFatBinSegment", device_code.wrappers(2))]
            self.write(path, device_code.library(sections, names, " ".join(rest[2:])))
        elif kind == "cuda":
            names = [f"libcudart.so.{rest[1]}", f"libcublas.so.{rest[1]}", "libcuda.so.1"]
            sections = [(".nv_fatbin", _fatbin(self.listed(rest[0])))]
            self.write(path, device_code.library(sections, names, " ".join(rest[2:])))
        elif kind == "rocblas":
            targets = self.listed(rest[0])
            code = device_code.padded([_bundle(targets, int(rest[1]))])
            sections = [(".hip_fatbin", code), (".hipFatBinSegment", device_code.wrappers(1))]
            self.write(path, device_code.library(sections, [f"libamdhip64.so.{rest[1]}"], "$ORIGIN"))
            self._kernels(f"{folder}/rocblas/library", targets)
        elif kind == "amdhip":
            version = name.partition(".so.")[2]
            self.write(path, _amdhip(version))
            sysroots.link(self.root, f"{folder}/libamdhip64.so.{version.partition('.')[0]}", name)
        else:
            self.write(path, device_code.library())

    def listed(self, name: str) -> list[str]:
        """The members of a list, or the words themselves."""
        return self.lists.get(name, name).replace(",", " ").split()

    def _kernels(self, folder: str, targets: list[str]) -> None:
        """A lazy folder: each target's index, one group of its own, and the fallback group."""
        fields = ("name", "index", "ideals")
        self.write(f"{folder}/T_fallback.dat", device_code.solutions(fields, source=True))
        for target in targets:
            index = device_code.lazy_index(target, [f"T_{target}"], ["T_fallback"])
            self.write(f"{folder}/TensileLibrary_lazy_{target}.dat", index)
            self.write(f"{folder}/T_{target}.dat", device_code.solutions(fields))
            self.write(f"{folder}/T_{target}.co", device_code.code(target, version=4))
            marks = ("-xnack+", "-xnack-") if target == "gfx90a" else ("",)
            for stem in (f"Kernels.so-000-{target}", f"T_fallback_{target}"):
                for mark in marks:
                    self.write(f"{folder}/{stem}{mark}.hsaco", device_code.code(target))

    def ollama(self) -> None:
        """Ollama's folder as its releases from 0.5.8 on lay it out."""
        facts = self.facts.get("ollama")
        if not facts:
            return
        home = facts["home"]
        self.write(home.replace("lib/ollama", "bin/ollama"), device_code.library())
        for name in ("libggml-base.so", *(f"libggml-cpu-{variant}.so" for variant in VARIANTS)):
            self.write(f"{home}/{name}", device_code.library())
        if int(facts["version"].split(".")[1]) >= 30:
            for name in ("llama-server", "libllama.so.0"):
                self.write(f"{home}/{name}", device_code.library())
        for folder in ("rocm", "rocm_v7_2"):
            if folder not in facts:
                continue
            major = facts.get("system") or int(facts["hip"].partition(".")[0])
            runpath = "" if "system" in facts else " $ORIGIN"
            listed = ",".join(self.listed(facts[folder]))
            self.content(f"{home}/{folder}/libggml-hip.so", f"hip {listed} {major}{runpath}")
            if "system" not in facts:
                self.content(f"{home}/{folder}/libamdhip64.so.{facts['hip']}", "amdhip")
                self.content(f"{home}/{folder}/{ROCBLAS[major]}", f"rocblas {facts['blas']} {major}")
                self.write(f"{home}/{folder}/{HIPBLAS[major]}", device_code.library())
        for folder in (name for name in facts if name.startswith("cuda_v")):
            major = folder.removeprefix("cuda_v")
            listed = ",".join(self.listed(facts[folder]))
            self.content(f"{home}/{folder}/libggml-cuda.so", f"cuda {listed} {major} $ORIGIN")
            soname = {"11": "11.0"}.get(major, major)
            for name in (f"libcudart.so.{soname}", f"libcudart.so.{major}", f"libcublas.so.{major}"):
                self.write(f"{home}/{folder}/{name}", device_code.library())
        if facts.get("vulkan"):
            self.content(f"{home}/vulkan/libggml-vulkan.so", "vulkan")

    def vulkan(self) -> None:
        """The loader and the drivers of Mesa (each of them, as its package brings them) or of NVIDIA."""
        facts = self.facts.get("vulkan")
        if not facts:
            return
        arch = facts.get("multiarch", "x86_64-linux-gnu").partition("-")[0]
        mesa = {f"{name}_icd.{arch}": f"libvulkan_{lib}.so" for name, lib in
                (("radeon", "radeon"), ("intel", "intel"), ("lvp", "lvp"))}  # fmt: skip
        drivers = {"nvidia_icd": "libGLX_nvidia.so.0"} if facts["icd"] == "nvidia" else mesa
        for name, library in drivers.items():
            sysroots.vulkan(self.root, name, library, there=False)
            self.write(f"{self.library_folder}/{library}", device_code.library())
        self.write(f"{self.library_folder}/libvulkan.so.1", device_code.library())
        if "mesa" in facts and self.os in ("ubuntu", "debian"):
            stanza = f"Package: mesa-vulkan-drivers\nStatus: install ok installed\nVersion: {facts['mesa']}\n"
            self.write("var/lib/dpkg/status", stanza)
        elif "mesa" in facts and self.os == "arch":
            (self.root / f"var/lib/pacman/local/vulkan-radeon-1:{facts['mesa']}-1").mkdir(parents=True)

    def people(self) -> None:
        """Accounts, groups, the unit and the process that serve."""
        service, process = self.facts.get("service"), self.facts.get("process")
        render = RENDER if os.getuid() == 0 else os.getgid()
        members = {"render": [], "video": []}  # type: dict[str, list[str]]
        person = process is not None and process["uid"] == 1000
        if not person:
            members["render"].append("u")
        for user, words in (("ollama", service), ("u" if person else "", process)):
            for group in (words or {}).get("groups", "").split() if user else ():
                members[group].append(user)
        passwd = f"root:x:0:0::/root:/bin/sh\nollama:x:{SERVICE}:{SERVICE}::/usr/share/ollama:/bin/false"
        self.write("etc/passwd", f"{passwd}\nu:x:{USER}:{USER}::/home/u:/bin/bash")
        groups = f"render:x:{render}:{','.join(members['render'])}\nvideo:x:{VIDEO}:{','.join(members['video'])}"
        self.write("etc/group", f"{groups}\nollama:x:{SERVICE}:\nu:x:{USER}:\nnogroup:x:{NOBODY}:")
        if service:
            program = self.facts.get("ollama", {}).get("home", "/usr/lib/ollama").replace("lib/ollama", "bin/ollama")
            lines = [f"ExecStart={program} serve", f"User={service['user']}", f"Group={service['user']}"]
            lines += [f'Environment="{name}={value}"' for name, value in service.get("env", {}).items()]
            self.write("etc/systemd/system/ollama.service", "[Service]\n" + "\n".join(lines))
        if process:
            self._process(process, render)

    def _process(self, facts: dict[str, Any], render: int) -> None:
        program = facts["program"]
        name = program.rpartition("/")[2]
        self.write("proc/7/comm", name)
        self.write("proc/7/cmdline", f"{program}\0serve\0".encode())
        self.write("proc/7/environ", "".join(f"{k}={v}\0" for k, v in facts.get("env", {}).items()).encode())
        uid = USER if facts["uid"] == 1000 else facts["uid"]
        groups = render if facts.get("groups") or (uid == 0 and not self.facts.get("nobody")) else ""
        own = "\t".join([str(uid)] * 4)
        self.write("proc/7/status", f"Name:\t{name}\nUid:\t{own}\nGid:\t{own}\nGroups:\t{groups}")
        sysroots.link(self.root, "proc/7/exe", program)
        if not (self.root / program.lstrip("/")).exists():
            self.write(program, device_code.library())


def _bundle(targets: list[str], major: int) -> bytes:
    """Code for each target, with the features that its id promises."""
    entries = []
    for text in targets:
        processor = text.partition(":")[0]
        flags = 0x100 if processor.startswith(XNACK) else 0
        flags = {"-": 0x200, "+": 0x300}[text[-1]] if "xnack" in text else flags
        flags |= 0x400 if processor.startswith(SRAMECC) else 0
        entries.append((text, device_code.code(processor, version=5 if major > 5 else 4, features=flags)))
    return device_code.bundle(entries)


def _fatbin(architectures: list[str]) -> bytes:
    """Machine code and PTX of each architecture; PTX alone of a virtual one."""
    entries = []
    for text in architectures:
        number = int(text.partition("-")[0].rstrip("a"))
        entries += [] if text.endswith("-virtual") else [(2, number, b"c" * 64)]
        entries.append((1, number, b"p" * 64))
    return device_code.fatbin(entries)


def _amdhip(version: str) -> bytes:
    """A HIP runtime: what its release can load stands in its read-only data."""
    texts = [b"", b"gfx906", b"__CLANG_OFFLOAD_BUNDLE__"]
    release = tuple(int(part) for part in version.split(".")[:2])
    texts += [b"comgr %zu.%zu cannot support compressed mode"] if release >= (6, 2) else []
    texts += [b"gfx9-generic", b"gfx10-3-generic", b"gfx11-generic"] if release >= (6, 4) else []
    return device_code.library([(".rodata", b"\0".join((*texts, b""))), (".x", struct.pack("<I", 0))])
