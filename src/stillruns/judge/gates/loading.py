"""Which device code fits a target, and whether the HIP runtime that would load it knows its form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from stillruns.judge.gates.path_view import PathView, matches
from stillruns.model.absence import Absence
from stillruns.model.backend import Backend
from stillruns.model.code_object import CodeObjects, CodeTarget
from stillruns.model.hip_runtime import HipRuntime
from stillruns.model.machine import BackendLibrary
from stillruns.model.version import older

_FAMILIES = ((100, 103), (110,), (120, 121))
"""Compute capabilities of one family (NVIDIA's blog on family-specific features, CUDA 12.9; the list of targets that
ptxas 13.0.88 prints)."""

_JETSON = frozenset({53, 62, 72, 87, 110})
"""Capabilities that developer.nvidia.com/cuda-gpus (and its page of legacy GPUs) lists under Jetson alone."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Code that may run on a target. `condition` says under which condition it does (empty: none), `doubt` why it is
    not known whether it does."""

    entry: CodeTarget
    condition: str = ""
    doubt: str = ""


class CudaFit(NamedTuple):
    """Under which condition code runs on a capability, and why it is not known whether it does (empty: none)."""

    condition: str = ""
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """What the HIP runtime does not know: `firm` where a source or its own bytes say so, else it is not decided."""

    text: str
    firm: bool


def fitting(view: PathView, code: CodeObjects) -> list[Fit]:
    """Entries that run on the target: the certain, unconditional and exact ones first."""
    assert view.target is not None
    if view.backend is Backend.CUDA:
        found = [Fit(e, *fit) for e in code.targets if (fit := cuda_fit(e.target, view.processor)) is not None]
        return sorted(found, key=lambda fit: (bool(fit.doubt), bool(fit.condition)))
    found = []
    for entry in code.targets:
        fits, condition = matches(entry, view.target, view.info)
        if fits:
            found.append(Fit(entry, condition))
    return sorted(found, key=lambda fit: (bool(fit.condition), fit.entry.processor != view.processor))


def cuda_fit(built_for: str, processor: str) -> CudaFit | None:
    """Machine code runs on its own major with an equal or higher minor, PTX on anything newer; `a` binds code to that
    very capability, `f` to its family (the words of `ptxas --help`, CUDA 13.0.88). None where it does not run."""
    kind, _, number = built_for.partition(":")[0].partition("_")
    letter = number[-1:] if number[-1:].isalpha() else ""
    mine = processor.partition("_")[2].rstrip("af")
    number = number.removesuffix(letter)
    if kind not in ("sm", "compute") or not number.isdigit() or not mine.isdigit():
        return CudaFit() if built_for == processor else None
    built, has = int(number), int(mine)
    note = "as PTX, compiled at the first start" if kind == "compute" else ""
    if built == has:
        return CudaFit(note)
    if letter == "a" or built > has:
        return None
    if letter == "f":
        if built // 10 != has // 10:
            return None
        family = next((f for f in _FAMILIES if built in f), ())
        return CudaFit(note) if has in family else CudaFit(note, f"whether sm_{has} is of sm_{built}'s family")
    if kind == "compute":
        return CudaFit(note)
    if built // 10 != has // 10:
        return None
    if _JETSON & {built, has}:
        return CudaFit(doubt=f"whether code for sm_{built} runs on sm_{has} (one of them is Jetson's)")
    return CudaFit()


def limits(view: PathView, library: BackendLibrary, code: CodeObjects, entry: CodeTarget | None) -> Iterator[Limit]:
    """What stands between this code and the HIP runtime that the library links."""
    soname, path = next(((s, p) for s, p in library.links.items() if s.startswith("libamdhip64.so.")), ("", ""))
    if view.backend is not Backend.ROCM or not soname:
        return
    found = view.machine.hip.get(path)
    runtime = found if isinstance(found, HipRuntime) else None
    version = (runtime.version if runtime else "") or soname.rpartition(".so.")[2]
    name = f"libamdhip64 {version}"
    if code.kpack is not None and not (runtime and runtime.kpack):
        old = older(version, "7.0.0") is True  # rocm-kpack's integration into clr began in late 2025
        known = "does not know" if old else "is not known to read"
        yield Limit(f"its code lies in KPACK archives, which {name} {known}", firm=old)
    if entry is None:
        return
    yield from _compressed(name, version, runtime, found, tuple(code.compressed))
    for opened, place in library.opens.items():
        if code.compressed and not place:
            yield Limit(f"{name} decompresses with {opened}, which the loader would not find", firm=True)
    if entry.processor.endswith("-generic"):
        yield from _generic(name, version, runtime, entry.processor)
    elif not (runtime and runtime.generic):
        yield from _object_version(name, version, entry)


def _compressed(
    name: str, version: str, runtime: HipRuntime | None, found: HipRuntime | Absence | None, forms: tuple[str, ...]
) -> Iterator[Limit]:
    """Compressed bundles: since ROCm 6.2 (no such code in ROCm/clr up to rocm-6.1.2), version 1 never (it has no
    total size: ROCm/clr issue 99), version 3 since LLVM's pull request 122307 of January 2025, written by default
    since August 2025 (152600)."""
    if not forms:
        return
    major = _number(version)
    if not (runtime and runtime.compressed):
        if older(version, "6.0.0") or ("." in version and older(version, "6.2.0")):
            yield Limit(f"its bundles are compressed ({', '.join(forms)}), which {name} does not know", firm=True)
            return
        if major is None or major < 7:
            why = found.detail if isinstance(found, Absence) else f"{name} does not say whether it can"
            yield Limit(f"its bundles are compressed ({', '.join(forms)}), and {why}", firm=False)
            return
    if any(form.startswith("v1/") for form in forms):
        yield Limit("some bundles are compressed in version 1, which the HIP runtime reads past its end", firm=False)
    if any(form.startswith("v3/") for form in forms) and "." in version:
        if older(version, "6.4.0"):
            yield Limit(f"its bundles are of version 3, which is younger than {name}", firm=True)
        elif older(version, "7.1.0"):
            yield Limit(f"its bundles are of version 3; whether {name} knows that is in no source read", firm=False)


def _generic(name: str, version: str, runtime: HipRuntime | None, processor: str) -> Iterator[Limit]:
    """The HIP runtime looks a generic target up in a table of its own."""
    if runtime is None:
        if older(version, "6.0.0"):
            yield Limit(f"and {name} is older than generic targets", firm=True)
        else:
            yield Limit(f"whether {name} knows {processor} was not read", firm=False)
    elif processor not in runtime.generic:
        known = ", ".join(runtime.generic) or "no generic target"
        yield Limit(
            f"{name} names {known}, not {processor}", firm=bool(runtime.generic) or _number(version) in (4, 5)
        )


def _object_version(name: str, version: str, entry: CodeTarget) -> Iterator[Limit]:
    """Code object version 6 came with LLVM 19 (2024), so HIP 5 and before are older; AMD's own compiler writes it at
    ROCm 6.4."""
    if entry.code_object_version is not None and entry.code_object_version < 6:
        return
    if older(version, "6.0.0"):
        if entry.code_object_version is None:
            yield Limit(f"its code object version was not read, and {name} is older than version 6", firm=False)
        else:
            yield Limit(f"and {name} is older than such code objects (inferred)", firm=True)
    elif entry.code_object_version is not None and "." in version and older(version, "6.4.0"):
        yield Limit(f"whether {name} loads code objects of version 6 is in no source read", firm=False)


def _number(version: str) -> int | None:
    head = version.partition(".")[0]
    return int(head) if head.isdigit() else None
