"""Code objects: does the backend's library hold code that this target can load?"""

from __future__ import annotations

from stillruns.judge.gates import override
from stillruns.judge.gates.loading import fitting, limits
from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.code_object import CodeObjects, CodeTarget
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import BackendLibrary
from stillruns.model.raw import Cite

LAYER = Layer.CODE_OBJECTS
DECIDES = (
    "the targets inside the backend's library: exact target, features, generic targets, targets that only some "
    "bundles hold; and whether the HIP runtime that it links knows their form (compressed bundles, generic targets, "
    "code object version)"
)


def judge(view: PathView) -> Gate | None:
    """`allow` when a runtime here holds the code, `partial` when only some bundles or runtimes do, else `block`."""
    if view.target is None or view.backend not in (Backend.ROCM, Backend.CUDA):
        return None
    return override.judged(view, _judge)


def _judge(view: PathView) -> Gate:
    libraries = view.backend_libraries
    if not libraries:
        text = f"no runtime with a {view.backend.value} backend was found here"
        return view.unknown(LAYER, text, AbsenceReason.NOT_INSTALLED)
    verdicts = [of_library(view, library) for _, library in libraries]
    good = [gate for gate in verdicts if gate.status is GateStatus.ALLOW]
    half = [gate for gate in verdicts if gate.status is GateStatus.PARTIAL]
    bad = [gate for gate in verdicts if gate.status is GateStatus.BLOCK]
    if good and bad:
        evidence = (*good[0].evidence, *bad[0].evidence)
        text = f"{good[0].reason}; but {bad[0].reason}"
        return view.gate(LAYER, GateStatus.PARTIAL, text, *evidence)
    dark = [gate for gate in verdicts if gate.status is GateStatus.UNKNOWN]
    if bad and dark and not half:
        text = f"{bad[0].reason}; and {dark[0].reason}"
        return view.unknown(LAYER, text, dark[0].absent or AbsenceReason.NOT_COLLECTED, *bad[0].evidence)
    return (good or half or bad or verdicts)[0]


def of_library(view: PathView, library: BackendLibrary) -> Gate:
    """The verdict on one library."""
    raw = view.machine.code.get(library.path)
    code = view.code(library.path)
    name = library.path.rpartition("/")[2]
    if code is None:
        why = raw.detail if isinstance(raw, Absence) else "it was not read"
        reason = raw.reason if isinstance(raw, Absence) else AbsenceReason.NOT_COLLECTED
        return view.unknown(LAYER, f"{library.path}: {why}", reason)
    found = fitting(view, code)
    if not found:
        return _none(view, library, code)
    first = found[0]
    entry, cite = first.entry, cite_of(code, first.entry)
    exact = entry.processor == view.processor and entry.target.startswith(view.processor)
    what = entry.target if exact else f"{entry.target}, which serves {view.processor}"
    if first.doubt:
        text = f"{name} holds {entry.target}; {first.doubt} is not decided"
        return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, cite)
    limited = list(limits(view, library, code, entry))
    problems = [first.condition] if first.condition else []
    problems += [limit.text for limit in limited if limit.firm]
    count = sum(
        f.entry.count for f in found if f.condition == first.condition
    )  # exact here, generic there: both count
    if code.bundles and count < code.bundles:
        problems.append(f"in {count} of {code.bundles} bundles only")
    if code.wrappers is not None and code.wrappers > code.bundles:
        problems.append(f"{code.wrappers - code.bundles} of {code.wrappers} registered bundles were not found")
    if any(fit.entry.mismatches for fit in found):
        problems.append("the code says another processor than its label")
    problems += code.problems[:1]
    doubts = [limit.text for limit in limited if not limit.firm]
    if problems:
        return view.gate(LAYER, GateStatus.PARTIAL, f"{name} holds {what}, {'; '.join(problems + doubts)}", cite)
    if doubts:
        return view.unknown(LAYER, f"{name} holds {what}; {'; '.join(doubts)}", AbsenceReason.NOT_COLLECTED, cite)
    version = f" (code object v{entry.code_object_version})" if entry.code_object_version else ""
    return view.gate(LAYER, GateStatus.ALLOW, f"{name} holds {what}{version}", cite)


def _none(view: PathView, library: BackendLibrary, code: CodeObjects) -> Gate:
    has = ", ".join(dict.fromkeys(entry.target for entry in code.targets))
    if code.kpack is not None:
        packed = code.kpack.targets
        if any(t.partition(":")[0] == view.processor for t in packed):
            return _packed(view, library, code, code.kpack.kernel_name)
        text = (
            f"{library.path} keeps its code in KPACK archives, which hold "
            f"{', '.join(packed) or 'nothing that was read'}"
        )
        return view.gate(LAYER, GateStatus.BLOCK if packed else GateStatus.UNKNOWN, text, cite_of(code, None))
    lost = code.problems[0] if code.problems else ""
    if not lost and code.wrappers is not None and code.wrappers > code.bundles:
        lost = f"{code.wrappers - code.bundles} of {code.wrappers} registered bundles were not found"
    if lost:
        text = (
            f"what could be read of {library.path} holds {has or 'no device code'}, not {view.processor}; but {lost}"
        )
        return view.unknown(LAYER, text, AbsenceReason.UNPARSABLE, cite_of(code, None))
    same = [e.target for e in code.targets if e.processor == view.processor]
    if same:
        text = f"{library.path} holds {', '.join(same)}, whose features are not those of {view.shown}"
    else:
        text = f"{library.path} holds no {view.processor}; it has {has or 'no device code'}"
    neighbour = override.advice(view, (entry.processor for entry in code.targets)) if not same else ""
    if neighbour:
        return view.gate(
            LAYER, GateStatus.BLOCK, text, cite_of(code, None), weight=75, advice=neighbour,
            workarounds=("override-gfx-neighbour", "override-apu-900", "build-llama-cpp-for-target"),
        )  # fmt: skip
    return view.gate(
        LAYER, GateStatus.BLOCK, text, cite_of(code, None), weight=60,
        advice=f"take or build a runtime whose library holds {view.processor}",
        workarounds=("pin-release-with-target", "debian-rocm-packages", "build-llama-cpp-for-target"),
    )  # fmt: skip


def _packed(view: PathView, library: BackendLibrary, code: CodeObjects, name: str) -> Gate:
    """Code in an archive beside the library: it counts where the HIP runtime reads such archives."""
    text, cite = f"{name} beside it holds {view.processor}", cite_of(code, None)
    for limit in limits(view, library, code, None):
        if limit.firm:
            return view.gate(LAYER, GateStatus.PARTIAL, f"{text}, but {limit.text}", cite)
        return view.unknown(LAYER, f"{text}; {limit.text}", AbsenceReason.NOT_COLLECTED, cite)
    return view.gate(LAYER, GateStatus.ALLOW, text, cite)


def cite_of(code: CodeObjects, entry: CodeTarget | None) -> Cite:
    """A file as evidence: the first place of an entry, and the digest of the range that was read there."""
    if entry is None:
        ranges = code.file.ranges[:1]
        return Cite(code.file.path, ranges[0].sha256 if ranges else "", "", ", ".join(e.target for e in code.targets))
    digest = next((r.sha256 for r in code.file.ranges if r.offset <= entry.offset < r.offset + r.length), "")
    shown = f"{entry.target}: {entry.count} of {code.bundles} bundles" if code.bundles else entry.target
    return Cite(code.file.path, digest, f"@{entry.offset:#x}+64", shown)
