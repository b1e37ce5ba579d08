"""A user's own command, judged: what was asked, what was applied, how it ended.

Unlike a trial it pins nothing, so only what the command itself asks is a factor, and a server that was asked for
offloaded layers and used no device is told so whatever it prints.
"""

from __future__ import annotations

from dataclasses import replace

from stillruns.judge.trials import applied, outcome
from stillruns.judge.trials.device_proof import used_devices
from stillruns.judge.trials.user_command import UserCommand
from stillruns.judge.trials.verdict import speed
from stillruns.model.absence import Absence
from stillruns.model.applied import Answer, Applied, FactorApplied
from stillruns.model.backend import Backend, Runtime, backend_of_device
from stillruns.model.condition import Condition
from stillruns.model.evidence import Ref
from stillruns.model.exchange import Answered
from stillruns.model.once_result import OnceResult
from stillruns.model.server_facts import Offload, ServerFacts
from stillruns.model.trial import TrialRecord

ALWAYS = ("backend", "device", "gpu_layers")
_OFF = ("", "none")


def judge(
    command: UserCommand, record: TrialRecord, facts: ServerFacts | Absence, answered: Answered | Absence
) -> OnceResult:
    """The verdict on one supervised command; `answered` is an absence when no request was sent."""
    known = facts if isinstance(facts, ServerFacts) else None
    proof = _applied(command, record, facts) if command.program else _nothing_known(command)
    ended = outcome.judge(record, facts, answered)
    refs = [ended.key_line, *ended.refs, *(ref for f in proof.factors.values() for ref in f.refs)]
    return OnceResult(
        run=record.run,
        trial=record.trial,
        argv=record.argv,
        program=command.program,
        version=(known.version or "") if known else "",
        devices=tuple(f"{d.name}: {d.description}" for d in known.devices) if known else (),
        asked=dict(command.asked),
        applied=proof,
        outcome=ended,
        stopped_by_us=record.end is not None and record.end.stopped_by_us is not None,
        tokens_per_second=speed(facts, [answered] if isinstance(answered, Answered) else []),
        seconds=record.end.seconds if record.end else record.sighting.ended_at,
        next_step=_next_step(facts) if known and proof.status is Answer.NO else "",
        notes=record.notes,
        refs=tuple(dict.fromkeys(ref for ref in refs if ref)),
    )


def _next_step(facts: ServerFacts | Absence) -> str:
    """What to look at when the command ran on the CPU; empty when it used a device."""
    if not isinstance(facts, ServerFacts) or used_devices(facts):
        return ""
    listed = [d.name for d in facts.devices if d.backend is not Backend.CPU]
    if listed:
        return f"the server lists {', '.join(listed)} and used none; name one with --device {listed[0]}"
    return (
        "the server lists no GPU; see whether this build has the backend, a driver is installed, and this user may "
        "open /dev/dri/renderD*, /dev/kfd or /dev/nvidia* (a software Vulkan driver is listed only with "
        "GGML_VK_VISIBLE_DEVICES=0)"
    )


def _nothing_known(command: UserCommand) -> Applied:
    why = f"{command.argv[0].rsplit('/', 1)[-1]} is no llama.cpp program; only its end is judged"
    return Applied.of({"backend": FactorApplied(Answer.UNKNOWN, "-", None, why)})


def _applied(command: UserCommand, record: TrialRecord, facts: ServerFacts | Absence) -> Applied:
    condition = _condition(command, facts)
    layers = command.layers
    if isinstance(facts, ServerFacts) and _fell_back(command, record, facts):
        return Applied.of(_fallback(command, facts))
    proof, _ = applied.judge(condition, None, facts, record)
    asked = {"gpu_layers"} if layers is not None else set()
    wanted = {"backend", *asked, *(name for name in command.asked if name not in ALWAYS)}
    if command.asked.get("device", "") not in _OFF:
        wanted.add("device")
    factors = {name: factor for name, factor in proof.factors.items() if name in wanted}
    _say_what_was_asked(factors, command, record, facts)
    if layers is None and isinstance(facts, ServerFacts) and isinstance(facts.offload, Offload):
        where = f"{facts.offload.offloaded}/{facts.offload.total} layers offloaded, as the runtime chose"
        chosen = f"{facts.offload.offloaded}/{facts.offload.total}"
        if condition.backend is not Backend.CPU:
            factors["gpu_layers"] = FactorApplied(Answer.YES, "runtime's choice", chosen, where, (facts.offload.ref,))
    return Applied.of(factors)


def _say_what_was_asked(
    factors: dict[str, FactorApplied], command: UserCommand, record: TrialRecord, facts: ServerFacts | Absence
) -> None:
    """The words of the command where the condition had to assume something; a model that was named but not loaded is
    not said to be loaded."""
    backend, layers = factors.get("backend"), command.layers
    if backend and "device" not in command.asked and layers not in (None, 0) and backend.asked == "cpu":
        why = "it ended before its log names a device in use" if backend.status is Answer.UNKNOWN else backend.why
        factors["backend"] = replace(backend, asked="a GPU", why=why)
    offload = factors.get("gpu_layers")
    if offload and offload.status is Answer.UNKNOWN:
        factors["gpu_layers"] = replace(offload, got=None, why="its log does not tell the layers")
    model = factors.get("model")
    loaded = record.sighting.ready_at is not None or (
        isinstance(facts, ServerFacts) and facts.model_loaded is not None
    )
    if model and model.status is Answer.YES and not loaded:
        factors["model"] = replace(model, got="as on the command line; its log does not say that it was loaded")


def _condition(command: UserCommand, facts: ServerFacts | Absence) -> Condition:
    """The command as a condition; what it does not ask stays at values that are not judged."""
    device = command.asked.get("device", "")
    return Condition(
        backend_id="once",
        backend=_backend(device, facts),
        runtime=Runtime.LLAMA_CPP,
        gpu_layers="all" if command.layers is None else command.layers,
        model=command.asked.get("model", ""),
        prompt="",
        seed=0,
        predict=0,
        context=command.number("context") or 0,
        batch=command.number("batch") or 0,
        ubatch=command.number("ubatch") or 0,
        threads=command.number("threads") or 0,
        flash_attention=command.asked.get("flash_attention", "auto"),
        device=device,
    )


def _backend(device: str, facts: ServerFacts | Absence) -> Backend:
    """The backend of the asked device; without one, that of the device which the log says was used."""
    if device == "none":
        return Backend.CPU
    if device:
        return backend_of_device(device.split(",")[0].strip())
    if isinstance(facts, Absence):
        return Backend.UNKNOWN
    used = used_devices(facts)
    if used:
        return backend_of_device(used[0].name)
    listed = [d for d in facts.devices if d.backend is not Backend.CPU]
    return listed[0].backend if listed else Backend.CPU


def _fell_back(command: UserCommand, record: TrialRecord, facts: ServerFacts) -> bool:
    """Layers were asked for, the model was loaded, device lines are not hidden, and none names a device in use."""
    if command.layers == 0 or command.asked.get("device") == "none" or used_devices(facts):
        return False
    if command.layers is None and "gpu_layers" not in command.asked:
        return False  # nothing was asked, so nothing was refused
    loaded = facts.model_loaded is not None or record.sighting.ready_at is not None
    return loaded and "devices" not in facts.hidden and isinstance(facts.offload, Offload)


def _fallback(command: UserCommand, facts: ServerFacts) -> dict[str, FactorApplied]:
    assert isinstance(facts.offload, Offload)
    printed = f"{facts.offload.offloaded}/{facts.offload.total}"
    why = f"ran on the CPU: no line 'using device' in its log, though it prints 'offloaded {printed} layers to GPU'"
    ref: tuple[Ref, ...] = (facts.offload.ref,)
    asked = command.asked.get("gpu_layers", "-")
    return {
        "backend": FactorApplied(Answer.NO, command.asked.get("device", "a GPU"), "cpu", why, ref),
        "gpu_layers": FactorApplied(Answer.NO, asked, "0", why, ref),
    }
