"""Kernel libraries: are the ready-made kernels of rocBLAS there, whole, and for this target?"""

from __future__ import annotations

from stillruns.judge.gates import override
from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.kernel_library import KernelLibrary, LibraryState, TargetFiles
from stillruns.model.raw import Cite

LAYER = Layer.KERNEL_LIBRARIES
DECIDES = (
    "the folder that belongs to the rocBLAS which the runtime's own library links (another folder proves "
    "nothing): index, "
    "files that the index leads to, mixtures; and rocBLAS's own code objects"
)

_ADVICE = {
    LibraryState.ABSENT: "add the target's rocBLAS kernels, or take packages that carry them",
    LibraryState.FILES_MISSING: "install the library's package again: its index leads to files that are gone",
    LibraryState.INDEX_DAMAGED: "install the library's package again: its index is damaged",
    LibraryState.INDEX_MISSING: "install the library's package again: kernel files are there without their index",
}


def judge(view: PathView) -> Gate | None:
    """`allow` complete, `partial` fallback only or mixed, `block` absent or damaged."""
    if view.target is None or view.backend is not Backend.ROCM:
        return None
    return override.judged(view, _judge)


def _judge(view: PathView) -> Gate:
    folder, how = chosen(view)
    if folder is None:
        return view.unknown(LAYER, how, AbsenceReason.NOT_INSTALLED)
    if not view.backend_libraries:
        states = {f.folder: f.of(view.processor).state for f in view.machine.libraries if f.library == "rocBLAS"}
        if len(set(states.values())) > 1:
            shown = ", ".join(f"{place}: {state.value}" for place, state in list(states.items())[:3])
            text = f"no runtime here says which folder it uses, and they differ ({shown})"
            return view.unknown(LAYER, text, AbsenceReason.NOT_INSTALLED)
    entry = folder.of(view.processor)
    gate = _of(view, folder, entry, how)
    if gate.status is GateStatus.ALLOW:
        return _own_code(view, gate)
    return gate


def chosen(view: PathView, library: str = "rocBLAS") -> tuple[KernelLibrary | None, str]:
    """The folder that the runtime uses, and a remark on how it was found (or why there is none)."""
    for runtime, backend in view.backend_libraries:
        folder = view.folder_of(backend, library)
        if folder is not None:
            return folder, f"used by {runtime.runtime} in {runtime.folder}"
    folders = [entry for entry in view.machine.libraries if entry.library == library]
    if not folders:
        return None, f"no kernel folder of {library} was found"
    if view.backend_libraries:
        return None, (
            f"the runtime's {library} could not be resolved to a folder; {', '.join(f.folder for f in folders[:3])} "
            "is there and proves nothing"
        )
    return folders[0], "no runtime here says which folder it uses" + ("; the first of several" if folders[1:] else "")


def _of(view: PathView, folder: KernelLibrary, entry: TargetFiles, how: str) -> Gate:
    cite = _cite(folder, entry)
    where = f"{folder.folder} ({folder.layout} layout, {how})"
    if entry.state is LibraryState.COMPLETE:
        text = f"complete: {entry.own} own and {entry.fallback} fallback kernel groups in {where}"
        return view.gate(LAYER, GateStatus.ALLOW, text, cite)
    if entry.state is LibraryState.FALLBACK_ONLY:
        text = f"fallback kernels only ({entry.fallback} groups), slower and not broken, in {where}"
        return view.gate(LAYER, GateStatus.PARTIAL, text, cite)
    names = _names(entry)
    text = {
        LibraryState.ABSENT: f"no {view.processor} in {where}",
        LibraryState.FILES_MISSING: f"the index of {view.processor} leads to missing files: {names}, in {where}",
        LibraryState.INDEX_DAMAGED: f"the index of {view.processor} is damaged: {names or entry.detail}, in {where}",
        LibraryState.INDEX_MISSING: f"{entry.files} {view.processor} files without an index: {names}, in {where}",
        LibraryState.MIXED: f"{view.processor} files of another release: {names or entry.detail}, in {where}",
    }[entry.state]
    if entry.detail and entry.detail not in text:
        text += f" ({entry.detail})"
    if entry.state is LibraryState.MIXED:
        return view.gate(
            LAYER, GateStatus.PARTIAL, text, cite, weight=35,
            advice="compare the outputs with the CPU before you trust copied kernels",
            workarounds=("rocblas-private-library-path",),
        )  # fmt: skip
    usable = (LibraryState.COMPLETE, LibraryState.FALLBACK_ONLY)
    whole = [other.target for other in folder.targets if other.state in usable]
    neighbour = override.advice(view, whole) if entry.state is LibraryState.ABSENT else ""
    if neighbour:
        build = () if neighbour.startswith("set ") else ("build-llama-cpp-for-target",)
        return view.gate(
            LAYER, GateStatus.BLOCK, text, cite, weight=75, advice=neighbour,
            workarounds=("override-gfx-neighbour", "override-apu-900", *build, "rocblas-private-library-path"),
        )  # fmt: skip
    copy = {"gfx906": "copy-gfx906-tensile-files", "gfx900": "copy-gfx900-tensile-files"}.get(view.processor, "")
    return view.gate(
        LAYER, GateStatus.BLOCK, text, cite,
        weight=50 if override.code_holds(view, view.processor) is False else 65, advice=_ADVICE[entry.state],
        workarounds=(copy, "rocblas-private-library-path", "debian-rocm-packages", "therock-packages"),
    )  # fmt: skip


def _own_code(view: PathView, gate: Gate) -> Gate:
    """rocBLAS's own code objects are a second condition: kernels beside Tensile's live in the library itself."""
    for _, backend in view.backend_libraries:
        for soname, path in backend.links.items():
            code = view.code(path) if soname.startswith("librocblas.") else None
            if code is None or not code.targets:
                continue
            generic = view.info.generic if view.info else ""
            if not any(entry.processor in (view.processor, generic or view.processor) for entry in code.targets):
                text = f"{gate.reason}; but {path} itself holds no {view.processor} code"
                return view.gate(
                    LAYER, GateStatus.PARTIAL, text, *gate.evidence, Cite(path, excerpt="own code objects"),
                    weight=40,
                    advice="take rocBLAS itself, not only its kernel files, from packages that carry the target",
                    workarounds=("debian-rocm-packages", "therock-packages"),
                )  # fmt: skip
    return gate


def _names(entry: TargetFiles) -> str:
    files = entry.missing or entry.suspect
    shown = ", ".join(files[:3])
    return f"{shown} and {len(files) - 3} more" if len(files) > 3 else shown


def _cite(folder: KernelLibrary, entry: TargetFiles) -> Cite:
    index = next((ref for ref in folder.evidence if entry.target in ref.path), None)
    index = index or (folder.evidence[0] if folder.evidence else None)
    if index is None:
        return Cite(folder.folder, excerpt=f"{entry.files} files named after {entry.target}")
    digest = index.ranges[0].sha256 if index.ranges else ""
    return Cite(index.path, digest, "", "; ".join(entry.missing[:20]) or f"{entry.files} files: {entry.state.value}")
