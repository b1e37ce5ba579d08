"""Whether the asked backend and device did the work, and with the asked layers, from llama.cpp's own lines.

A server without a usable device runs on the CPU, exits 0 and still prints `offloaded 5/5 layers to GPU`; its Vulkan
library is mapped even with `--device none`. So the proof is the line `using device X` together with a buffer on X: a
model buffer for one layer and more, a compute buffer for none (a healthy Vulkan server with 0 layers has no model
buffer there).
"""

from __future__ import annotations

from collections.abc import Iterable

from stillruns.judge.trials.view import LIBRARIES, TrialView, file_name, no, unknown, yes
from stillruns.model.applied import FactorApplied
from stillruns.model.backend import Backend, backend_of_device, on_host
from stillruns.model.evidence import Ref
from stillruns.model.placement import Placement
from stillruns.model.process import CoreNotes
from stillruns.model.server_facts import Buffer, Offload, SeenDevice, ServerFacts

ON_THE_CPU = "ran on the CPU"


def prove(view: TrialView) -> tuple[dict[str, FactorApplied], Placement | None]:
    """The factors `backend`, `device` (where one is asked), `gpu_layers` and `library`, and the placement seen."""
    factors: dict[str, FactorApplied] = {}
    if view.condition.backend is Backend.CPU:
        factors["backend"] = _cpu(view)
        factors["gpu_layers"] = _no_layers(view, factors["backend"])
    else:
        factors["backend"] = _backend(view)
        if view.condition.device:
            factors["device"] = _device(view)
        if view.condition.gpu_layers != "server":
            factors["gpu_layers"] = _layers(view)
    if view.condition.expect_library and view.record.sighting.mapped_libraries and view.ready:
        factors["library"] = _library(view)
    return factors, _placement(view, factors["backend"])


def used_devices(facts: ServerFacts) -> tuple[SeenDevice, ...]:
    """The devices with a line `using device X`."""
    return tuple(d for d in facts.devices if d.used is not None)


def device_name(name: str) -> str:
    """`RPC0[127.0.0.1:50052]` -> `RPC0`: what identifies a device in arguments, buffers and lists alike."""
    return name.split("[", 1)[0]


def buffers_on(facts: ServerFacts, devices: Iterable[str], purpose: str = "") -> tuple[Buffer, ...]:
    """Buffers on any of the named devices; a row-split buffer (`CUDA_Split`) lies on all devices of its backend."""
    names = {device_name(d) for d in devices}
    backends = {backend_of_device(d) for d in names}
    return tuple(
        b
        for b in facts.buffers
        if (not purpose or b.purpose == purpose)
        and not on_host(b.device)
        and (
            device_name(b.device) in names
            or (b.device.endswith("_Split") and backend_of_device(b.device) in backends)
        )
    )


def asked_devices(view: TrialView) -> tuple[str, ...]:
    """`Vulkan0,Vulkan1` -> both names; empty when no device is asked for by name."""
    return tuple(device_name(d.strip()) for d in view.condition.device.split(",") if d.strip())


def _mine(view: TrialView, facts: ServerFacts) -> tuple[SeenDevice, ...]:
    return tuple(d for d in used_devices(facts) if backend_of_device(d.name) is view.condition.backend)


def _refs(devices: Iterable[SeenDevice]) -> tuple[Ref, ...]:
    return tuple(d.used for d in devices if d.used is not None)


def _past_devices(facts: ServerFacts) -> bool:
    """Whether the log got beyond the place where `using device` lines stand."""
    return isinstance(facts.offload, Offload) or bool(facts.buffers)


def _backend(view: TrialView) -> FactorApplied:
    asked = view.condition.backend.value
    facts = view.facts
    if facts is None:
        return _early(view) if not view.ready else unknown(asked, f"nothing shows the backend: {view.why_no_log}")
    mine, used = _mine(view, facts), used_devices(facts)
    if used and not mine:
        names = ", ".join(d.name for d in used)
        return no(asked, names, f"ran on {names}: the asked backend is {asked}", *_refs(used))
    if not mine:
        if not view.ready and not _past_devices(facts):
            return _early(view)
        if view.hides("devices"):
            return unknown(
                asked, "nothing shows the backend: the log hides its device lines; raise its verbosity (-lv 4)"
            )
        claim = ""
        refs: tuple[Ref, ...] = ()
        if isinstance(facts.offload, Offload) and facts.offload.offloaded:
            claim = f", though it reports {facts.offload.offloaded}/{facts.offload.total} layers as offloaded"
            refs = (facts.offload.ref,)
        return no(asked, "cpu", f"{ON_THE_CPU}: no line 'using device' in its log{claim}", *refs)
    names = ", ".join(d.name for d in mine)
    strangers = [d for d in used if d not in mine]
    if strangers:
        others = ", ".join(d.name for d in strangers)
        return no(asked, f"{names}, {others}", f"also ran on {others}: the asked backend is {asked}", *_refs(used))
    return _buffer_proof(view, facts, mine, names)


def _buffer_proof(view: TrialView, facts: ServerFacts, mine: tuple[SeenDevice, ...], names: str) -> FactorApplied:
    """`using device X` is there; now the buffer on it that belongs to the number of layers."""
    asked = view.condition.backend.value
    offload = facts.offload
    layers = offload.offloaded if isinstance(offload, Offload) else None
    purpose = "compute" if layers == 0 else "model"
    held = buffers_on(facts, [d.name for d in mine], purpose)
    if layers is None and not held:
        held = buffers_on(facts, [d.name for d in mine])
    if held:
        text = f"{names} was used and held a {held[0].purpose} buffer of {held[0].mib:g} MiB"
        return yes(asked, names, text, *_refs(mine), held[0].ref)
    if view.hides("buffers"):
        return unknown(
            asked, f"nothing shows a buffer on {names}: the log hides its buffer lines; raise its verbosity (-lv 4)"
        )
    reached = any(b.purpose == purpose for b in facts.buffers)
    if not view.ready and not reached:
        return yes(asked, names, f"{names} was used; {view.died_in()}, before its buffer lines", *_refs(mine))
    if not facts.buffers:
        return unknown(asked, f"nothing shows a buffer on {names}: the log has no buffer lines", *_refs(mine))
    return no(asked, "cpu", f"{ON_THE_CPU}: no {purpose} buffer on {names}", *_refs(mine), facts.buffers[0].ref)


def _early(view: TrialView) -> FactorApplied:
    """A trial that failed before any device line: judged by what it reached."""
    backend = view.condition.backend
    asked = backend.value
    facts = view.facts
    if facts is not None:
        for device in facts.devices:
            if backend_of_device(device.name) is backend:
                return yes(
                    asked, device.name, f"{view.died_in()}, before the layer line; it lists {device.name}", device.ref
                )
        for device in facts.devices:
            if device.backend is Backend.CPU:  # it stands last in the server's list of all devices
                names = ", ".join(d.name for d in facts.devices)
                return no(asked, names, f"no {asked} device: the server lists {names} and no other", device.ref)
        for loaded, library, ref in facts.backends_loaded:
            if loaded is backend:
                return yes(
                    asked, file_name(library), f"{view.died_in()}, before the layer line; it loaded {library}", ref
                )
        for trouble in facts.troubles:
            if trouble.device and backend_of_device(trouble.device) is backend:
                return yes(asked, trouble.device, f"{view.died_in()}, on {trouble.device}", trouble.ref)
    wanted = (view.condition.expect_library,) if view.condition.expect_library else ()
    core = view.record.core.modules if isinstance(view.record.core, CoreNotes) else ()
    for path in (*view.record.sighting.mapped_libraries, *core):
        if file_name(path).startswith((*wanted, *LIBRARIES.get(backend, ()))):
            return yes(
                asked, file_name(path), f"{view.died_in()}, before the layer line; {file_name(path)} was mapped"
            )
    return unknown(asked, f"no sign of {asked}: {view.died_in()}, before any line or library of it")


def _device(view: TrialView) -> FactorApplied:
    asked = view.condition.device
    facts = view.facts
    mine = () if facts is None else used_devices(facts)
    if facts is None or not mine:
        if not view.ready and (facts is None or not _past_devices(facts)):
            return yes(asked, None, f"asked on the command line; {view.died_in()}, before the device line")
        if view.hides("devices") or facts is None:
            return unknown(asked, "nothing shows the device: the log hides or lacks its device lines")
        return no(asked, "none", f"{ON_THE_CPU}: no line 'using device' in its log")
    names = {device_name(d.name) for d in mine}
    wanted = set(asked_devices(view))
    got = ", ".join(sorted(names))
    if names != wanted:
        return no(asked, got, f"ran on {got}: the asked device is {asked}", *_refs(mine))
    idle = [n for n in sorted(wanted) if not buffers_on(facts, [n])]
    if view.ready and idle and facts.buffers and not view.hides("buffers"):
        return no(asked, got, f"left {', '.join(idle)} idle: no buffer of any kind on it", *_refs(mine))
    return yes(asked, got, f"used {got}", *_refs(mine))


def _layers(view: TrialView) -> FactorApplied:
    asked = view.condition.gpu_layers
    facts = view.facts
    if facts is None:
        if not view.ready:
            return yes(asked, None, f"asked on the command line; {view.died_in()}, before the layer line")
        return unknown(asked, f"nothing shows the layers: {view.why_no_log}")
    offload = facts.offload
    if not isinstance(offload, Offload):
        if not view.ready:
            return yes(asked, None, f"asked on the command line; {view.died_in()}, before the layer line")
        detail = offload.detail or "the log hides or lacks the line 'offloaded N/M layers'"
        return unknown(asked, f"nothing shows the layers: {detail}")
    if view.ready and not used_devices(facts) and not view.hides("devices"):
        text = f"{ON_THE_CPU}: {offload.offloaded}/{offload.total} layers are reported as offloaded, to no device"
        return no(asked, "0", text, offload.ref)
    expected = offload.total if isinstance(asked, str) else min(asked, offload.total)
    got = f"{offload.offloaded}/{offload.total}"
    if offload.offloaded != expected:
        return no(asked, got, f"other placement: {got} layers were offloaded, {asked} were asked", offload.ref)
    if offload.overflowing:
        text = f"not wholly offloaded: {offload.overflowing} of {got} layers are only partly on the device"
        return no(asked, got, text, offload.ref)
    clipped = not isinstance(asked, str) and asked > offload.total
    said = f" ({asked} asked, the model has no more)" if clipped else ""
    if view.moves_tensors:
        said += f", less the tensors that {view.moves_tensors} keeps elsewhere"
    return yes(asked, got, f"{got} layers offloaded{said}", offload.ref)


def _cpu(view: TrialView) -> FactorApplied:
    asked = Backend.CPU.value
    facts = view.facts
    device_none = view.option("--device", "-dev") == "none"
    if facts is None:
        if not view.ready and device_none:
            return yes(asked, None, f"asked with --device none; {view.died_in()}, before any line")
        return unknown(asked, f"nothing shows the backend: {view.why_no_log}")
    used = used_devices(facts)
    if used:
        names = ", ".join(d.name for d in used)
        return no(asked, names, f"ran on {names}: the asked backend is cpu", *_refs(used))
    elsewhere = [b for b in facts.buffers if not on_host(b.device)]
    if elsewhere:
        name = elsewhere[0].device
        return no(asked, name, f"ran on {name}: it holds a {elsewhere[0].purpose} buffer", elsewhere[0].ref)
    if not view.ready:
        if device_none or facts.buffers:
            return yes(asked, asked, f"no device in use; {view.died_in()}")
        return unknown(asked, f"no sign of the cpu backend: {view.died_in()}, and --device none was not asked")
    if view.hides("devices", "buffers"):
        return unknown(
            asked, "nothing shows the backend: the log hides its device or buffer lines; raise its verbosity"
        )
    if not facts.buffers:
        return unknown(asked, "nothing shows the backend: the log has no buffer lines")
    return yes(asked, asked, "no device in use, all buffers in the host's memory", facts.buffers[0].ref)


def _no_layers(view: TrialView, backend: FactorApplied) -> FactorApplied:
    """For a cpu cell the layers follow from the backend: the line `offloaded 5/5` says nothing without a device."""
    if backend.got in (None, Backend.CPU.value):
        return FactorApplied(
            backend.status, str(view.condition.gpu_layers), "0", "no device, no layer on one", backend.refs
        )
    return FactorApplied(backend.status, str(view.condition.gpu_layers), None, backend.why, backend.refs)


def _library(view: TrialView) -> FactorApplied:
    """A necessary sign only: missing from a living server it refutes; present it proves nothing."""
    asked = view.condition.expect_library
    for path in view.record.sighting.mapped_libraries:
        if file_name(path).startswith(asked):
            return yes(asked, file_name(path), "")
    return no(asked, None, f"{asked} was not mapped: the server ran without it")


def _placement(view: TrialView, backend: FactorApplied) -> Placement | None:
    """The placement that the log shows; {0, false} where the CPU did the work, whatever the layer line says."""
    if view.facts is None or not isinstance(view.facts.offload, Offload):
        return None
    offload = view.facts.offload
    if not used_devices(view.facts):
        return None if view.hides("devices") else Placement(0, False, offload.total)
    if offload.offloaded == 0:
        return Placement(0, False, offload.total)
    if view.moves_tensors:
        return None
    if offload.offloaded >= offload.total:
        return Placement(offload.total - 1, True, offload.total)
    if offload.repeating is None:
        return None
    output = offload.output if offload.output is not None else offload.offloaded > offload.repeating
    return Placement(offload.repeating, output, offload.total)
