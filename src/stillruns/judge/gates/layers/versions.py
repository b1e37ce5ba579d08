"""Versions: every piece that is installed, and which one each runtime really links."""

from __future__ import annotations

import dataclasses
import re

from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import BackendLibrary
from stillruns.model.raw import Cite
from stillruns.model.version import parse

LAYER = Layer.VERSIONS
DECIDES = (
    "packages (dpkg, rpm, pacman, pip), /opt/rocm*, and what the runtime's library needs resolved the way the "
    "loader does: its own RPATH and RUNPATH, the serving process's LD_LIBRARY_PATH, the loader's cache (or "
    "ld.so.conf), the default folders; what its HIP runtime opens later; containers, whose own ROCm is not "
    "seen from here"
)

_STACK = re.compile(r"lib(?:amdhip64|hsa-runtime64|rocblas|hipblas|hipblaslt|cudart|cublas|cublasLt|cuda|vulkan)\.so")


def judge(view: PathView) -> Gate | None:
    """`block` when a library that the backend needs is nowhere, `partial` when several releases are mixed, `unknown`
    when all that serves runs in containers, which bring their own."""
    if view.target is None or view.backend is Backend.CPU:
        return None
    gate = _here(view)
    running = [entry for entry in view.machine.environments if entry.serving and entry.pid is not None]
    inside = [entry for entry in running if entry.container]
    unseen = [
        f"{e.owner} runs in a {e.container} container, whose own libraries are not seen from here" for e in inside
    ]
    if not inside and view.machine.engines and view.backend is Backend.ROCM:
        engines = ", ".join(view.machine.engines)
        unseen = [f"containers of {engines} may bring a ROCm of their own, which was not looked at"]
    if gate is None or not unseen or (gate.status is GateStatus.BLOCK and not inside):
        return gate
    text = f"{'; '.join(dict.fromkeys(unseen))}; on the host: {gate.reason}"
    if inside and len(inside) == len(running):
        return view.unknown(LAYER, text, AbsenceReason.HIDDEN, *gate.evidence)
    return dataclasses.replace(gate, reason=f"{gate.reason}; {unseen[0]}")


def _here(view: PathView) -> Gate | None:
    """The verdict on what lies outside of containers."""
    if view.backend is Backend.CUDA:
        driver = view.machine.nvidia
        if isinstance(driver, Absence):
            return view.lacking(LAYER, driver.detail, weight=70, advice=f"install {view.nvidia_driver}")
        last, branch = view.last_nvidia_branch, driver.driver.partition(".")[0]
        if last and branch.isdecimal() and int(branch) > int(last):
            text = f"driver {driver.driver} has dropped {view.processor}: {last} is the last branch that knows it"
            return view.gate(
                LAYER, GateStatus.BLOCK, text, driver.cite, weight=80, advice=f"install {view.nvidia_driver}"
            )
    libraries = view.backend_libraries
    missing = [(library, soname) for _, library in libraries for soname in _unresolved(library)]
    found = _found(view)
    tail = f"; here: {found}" if found else ""
    if missing:
        library, soname = missing[0]
        place = library.uncached.get(soname, "")
        where = f" (it lies in {place}, which the loader's cache does not know yet)" if place else ""
        advice = f"install the release that brings {soname}, or point LD_LIBRARY_PATH of the server at it"
        advice = f"install {view.vulkan_loader}" if soname.startswith("libvulkan.") else advice
        advice = "run ldconfig as root, so that the loader knows of the folder" if place else advice
        text = f"{library.path} needs {soname}, which the loader would not find{where}"
        cite = Cite(library.path, excerpt=f"NEEDED {soname}")
        whole = [other.path for _, other in libraries if not _unresolved(other) and view.code(other.path) is not None]
        if whole:
            text += f"; {whole[0]} is whole{tail}"
            return view.gate(LAYER, GateStatus.PARTIAL, text, cite, weight=60, advice=advice)
        loader = view.backend is Backend.VULKAN  # the Vulkan layer says the same, and one of several ways
        return view.lacking(LAYER, text + tail, cite, weight=58 if loader else 82, advice=advice,
                            workarounds=() if loader else ("one-rocm-version",))  # fmt: skip
    if view.backend is Backend.VULKAN:
        return None
    if not libraries and not found:
        return view.unknown(
            LAYER, f"nothing of the {view.backend.value} stack was found", AbsenceReason.NOT_INSTALLED
        )
    unread = _unread(view)
    if unread:
        return view.unknown(LAYER, f"{unread}{tail}", AbsenceReason.NOT_COLLECTED)
    links = "; ".join(filter(None, dict.fromkeys(_links(library) for _, library in libraries[:3])))
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


def _unread(view: PathView) -> str:
    """Why no backend library's needs are known; empty where one's are."""
    dark = [library.path for _, library in view.backend_libraries if view.code(library.path) is None]
    if not dark or len(dark) < len(view.backend_libraries):
        return ""
    why = view.machine.code.get(dark[0])
    return f"what {dark[0]} links is not known: {why.detail if isinstance(why, Absence) else 'it was not read'}"


def _unresolved(library: BackendLibrary) -> list[str]:
    return [soname for soname, path in library.links.items() if not path and _STACK.match(soname)]


def _links(library: BackendLibrary) -> str:
    shown = [
        f"{soname} from {path.rpartition('/')[0]}" for soname, path in library.links.items() if _STACK.match(soname)
    ]
    text = f"{library.path} links {', '.join(shown[:3])}" if shown else ""
    for soname, path in library.opens.items():
        where = f"from {path.rpartition('/')[0]}" if path else "which the loader would not find"
        text += f"; its HIP runtime opens {soname}, {where}, when it needs it"
    return text


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
    for _, library in view.backend_libraries:
        torn = _torn(library)
        if torn:
            return torn
    if len(releases) > 1:
        return f"several ROCm releases: {', '.join(sorted(releases))}"
    return ""


def _torn(library: BackendLibrary) -> str:
    """A library that would load parts of two releases into one process: two HIP runtimes, or two folders of
    /opt/rocm-RELEASE."""
    runtimes = sorted(soname for soname in library.links if soname.startswith("libamdhip64.so."))
    if len(runtimes) > 1:
        return f"{library.path} would load {' and '.join(runtimes)} into one process"
    places: dict[str, str] = {}
    for soname, path in {**library.links, **library.opens}.items():
        release = re.match(r"/opt/rocm-(\d+\.\d+)", path)
        if release:
            places.setdefault(release[1], soname)
    if len(places) > 1:
        return f"{library.path} mixes {', '.join(f'{name} of ROCm {of}' for of, name in sorted(places.items()))}"
    return ""
