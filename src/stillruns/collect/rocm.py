"""Every piece of ROCm that is installed, whoever installed it."""

from __future__ import annotations

import re

from stillruns.collect.gathering import Commands, gather
from stillruns.collect.tree import Tree
from stillruns.model.absence import Absence
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected, RawFile

PROBE = Probe(
    id="rocm",
    applies="any machine; ROCm comes from a distribution, AMD's packages, wheels or a runtime's own folder",
    reads=(
        "/opt/rocm",
        "/opt/rocm*/.info/version",
        "/var/lib/dpkg/status (the stanzas of ROCm's packages)",
        "/var/lib/pacman/local/* (names)",
        "/usr/lib/python3*/site-packages/*.dist-info, /usr/local/lib/python3*/dist-packages/*.dist-info (names)",
    ),
    commands=(("rpm", "-qa"),),
    limit=64 << 20,
)

NAMES = re.compile(
    r"(?:lib)?(?:rocm|rocblas|hipblas|hipblaslt|amdhip64|hsa-runtime64|hsa-rocr|hip-runtime|rocminfo|rocsolver|miopen|"
    r"amd-smi|amdgpu-dkms|ggml0|llama\.cpp|ollama|torch|rocsparse|comgr|mesa-vulkan-drivers|firmware-amd-graphics|"
    r"linux-firmware)",
    re.IGNORECASE,
)
_FOLDERS = (
    "/var/lib/pacman/local",
    *(f"/usr/lib/python3.{n}/site-packages" for n in range(8, 16)),
    *(f"/usr/local/lib/python3.{n}/dist-packages" for n in range(8, 16)),
)


def collect(tree: Tree, commands: Commands) -> Collected:
    """Version files, and the lines of package databases that speak of this stack."""
    plain = Probe(PROBE.id, PROBE.applies, ("/opt/rocm", "/opt/rocm*/.info/version"), (), 4096)
    files = list(gather(tree, plain, commands).files)
    files.append(_dpkg(tree))
    for folder in _FOLDERS:
        names = tree.names(folder)
        if not isinstance(names, Absence):
            kept = [name for name in names if NAMES.match(name)]
            files.append(RawFile(folder, folder, "folder", "\n".join(kept).encode()))
    has_rpm = not isinstance(tree.names("/var/lib/rpm"), Absence) or not isinstance(
        tree.names("/usr/lib/sysimage/rpm"), Absence
    )
    return Collected(tuple(files), tuple(commands.run(argv) for argv in PROBE.commands) if has_rpm else ())


def _dpkg(tree: Tree) -> RawFile:
    """`package version` lines of the packages of this stack that are installed."""
    path = "/var/lib/dpkg/status"
    data = tree.read(path, PROBE.limit)
    if isinstance(data, Absence):
        return RawFile(path, absence=data)
    lines = []
    for found in re.finditer(rb"^Package: (\S+)\n((?:.+\n)*)", data, re.MULTILINE):
        if NAMES.match(found[1].decode("utf-8", "replace")) and b"\nStatus: install ok installed" in b"\n" + found[2]:
            version = re.search(rb"^Version: (\S+)", found[2], re.MULTILINE)
            lines.append(found[1] + b" " + (version[1] if version else b"?"))
    return RawFile(path, path, "file", b"\n".join(lines))
