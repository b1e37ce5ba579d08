"""Versions: every piece that is installed, and which one each runtime really links."""

from __future__ import annotations

import re

from stillruns.judge.path_view import PathView
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import BackendLibrary
from stillruns.model.raw import Cite
from stillruns.model.version import parse

LAYER = Layer.VERSIONS
DECIDES = (
    "packages (dpkg, rpm, pacman, pip), /opt/rocm*, and what the runtime's library needs resolved the way the "
    "loader does: "
    "its own RPATH and RUNPATH, the serving process's LD_LIBRARY_PATH, ld.so.conf, the default folders"
)

_STACK = re.compile(r"lib(?:amdhip64|hsa-runtime64|rocblas|hipblas|hipblaslt|cudart|cublas|cublasLt|cuda|vulkan)\.so")


def judge(view: PathView) -> Gate | None:
    """`block` when a library that the backend needs is nowhere, `partial` when several releases are mixed."""
    if view.target is None or view.backend is Backend.CPU:
        return None
    if view.backend is Backend.CUDA:
        driver = view.machine.nvidia
        if isinstance(driver, Absence):
            return view.lacking(LAYER, driver.detail, weight=70, advice="install NVIDIA's driver")
    libraries = view.backend_libraries
    missing = [(library, soname) for _, library in libraries for soname in _unresolved(library)]
    found = _found(view)
    tail = f"; here: {found}" if found else ""
    if missing:
        library, soname = missing[0]
        return view.lacking(
            LAYER, f"{library.path} needs {soname}, which the loader would not find{tail}",
            Cite(library.path, excerpt=f"NEEDED {soname}"), weight=82,
            advice=f"install the release that brings {soname}, or point LD_LIBRARY_PATH of the server at it",
            workarounds=("one-rocm-version",),
        )  # fmt: skip
    if view.backend is Backend.VULKAN:
        return None
    if not libraries and not found:
        return view.unknown(
            LAYER, f"nothing of the {view.backend.value} stack was found", AbsenceReason.NOT_INSTALLED
        )
    links = _links(libraries[0][1]) if libraries else ""
    mixed = _mixed(view)
    text = "; ".join(filter(None, (links, found and f"here: {found}"))) or "the runtime brings its own libraries"
    evidence = [piece.cite for piece in view.machine.rocm if piece.name == "rocm"][:3]
    if mixed:
        return view.gate(
            LAYER, GateStatus.PARTIAL, f"{mixed}; {text}", *evidence, weight=28,
            advice="keep one ROCm release, or make sure which one the server "
                "links", workarounds=("one-rocm-version",),
        )  # fmt: skip
    return view.gate(LAYER, GateStatus.ALLOW, text, *evidence)


def _unresolved(library: BackendLibrary) -> list[str]:
    return [soname for soname, path in library.links.items() if not path and _STACK.match(soname)]


def _links(library: BackendLibrary) -> str:
    shown = [
        f"{soname} from {path.rpartition('/')[0]}" for soname, path in library.links.items() if _STACK.match(soname)
    ]
    return f"{library.path.rpartition('/')[2]} links {', '.join(shown[:3])}" if shown else ""


def _found(view: PathView) -> str:
    if view.backend is Backend.CUDA:
        driver = view.machine.nvidia
        return "" if isinstance(driver, Absence) else f"driver {driver.driver}"
    wanted = ("rocm", "librocblas", "libamdhip64", "libhsa-runtime64", "rocblas", "rocm-core", "hip-runtime-amd")
    pieces = [p for p in view.machine.rocm if p.name.startswith(wanted) and parse(p.version) and "smi" not in p.name]
    shown = dict.fromkeys(f"{p.name} {p.version} ({p.told_by})" for p in pieces)
    return ", ".join(list(shown)[:4])


def _mixed(view: PathView) -> str:
    """Several ROCm releases under /opt, or a runtime that links parts from two places of different releases."""
    if view.backend is not Backend.ROCM:
        return ""
    broken = [p for p in view.machine.rocm if p.name == "rocm" and not p.version]
    if broken:
        return broken[0].cite.excerpt
    releases = {p.version.partition("-")[0] for p in view.machine.rocm if p.name == "rocm" and p.version}
    if len(releases) > 1:
        return f"several ROCm releases: {', '.join(sorted(releases))}"
    return ""
