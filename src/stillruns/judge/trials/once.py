"""A user's own command, judged: what was asked, what was applied, how it ended.

Unlike a trial it pins nothing, so only what the command itself asks is a factor, and a server that was asked for
offloaded layers and used no device is told so whatever it prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stillruns.judge.trials import applied, outcome
from stillruns.judge.trials.device_proof import used_devices
from stillruns.judge.trials.user_command import UserCommand
from stillruns.judge.trials.verdict import speed
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.applied import Answer, Applied, FactorApplied
from stillruns.model.backend import Backend, Runtime, backend_of_device, is_software
from stillruns.model.condition import Condition
from stillruns.model.evidence import Ref
from stillruns.model.exchange import Answered
from stillruns.model.once_result import OnceResult
from stillruns.model.outcome import OutcomeKind
from stillruns.model.server_facts import Offload, ServerFacts
from stillruns.model.trial import TrialRecord

ALWAYS = ("backend", "device", "gpu_layers")
OTHERS = "others sent it requests too, which its end and its speed may be about"
BENCH = "llama-bench"
SOFTWARE = "a software driver: it computes on the CPU"
_OFF = ("", "none")
_REFUSED = ("bad-flag", "bad-value")
"""Patterns of the lines with which a program refuses its arguments."""


def judge(
    command: UserCommand,
    record: TrialRecord,
    facts: ServerFacts | Absence,
    answered: Answered | Absence,
    started: Sequence[UserCommand] = (),
    tables: int = 0,
) -> OnceResult:
    """The verdict on one supervised command; `answered` is an absence when no request was sent, `started` the
    programs of llama.cpp's that were seen to run, `tables` how many llama-bench printed.

    Where several programs ran, no line of the one log is one program's for certain: none is judged."""
    known = facts if isinstance(facts, ServerFacts) else None
    programs = max(len(started), tables, known.builds if known else 0)
    if programs > 1:
        return _mixed(command, record, known, answered, started, programs)
    inner = started[0] if started and not command.program and started[0].program else None
    command = inner or command
    mine = replace(record, argv=inner.argv) if inner else record
    proof = _applied(command, mine, facts) if command.program else _nothing_known(command, known)
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
        next_step=_next_step(command, facts) if known and proof.status is not Answer.YES else "",
        notes=(*record.notes, *_others(record, known)),
        refs=tuple(dict.fromkeys(ref for ref in refs if ref)),
        started=inner.argv if inner else (),
        used=_used(known),
        answer=_answer(answered),
    )


def _mixed(
    command: UserCommand,
    record: TrialRecord,
    facts: ServerFacts | None,
    answered: Answered | Absence,
    started: Sequence[UserCommand],
    programs: int,
) -> OnceResult:
    """How the command itself ended and what came to our own request, and nothing that rests on the log."""
    why = f"at least {programs} llama.cpp programs ran, and no line of the log is one program's for certain"
    alone = judge(command, record, Absence(AbsenceReason.UNPARSABLE, why), answered)
    telling = [t for t in facts.troubles if t.outcome is not OutcomeKind.OK] if facts else []
    refs = tuple(t.ref for t in telling)
    told = f"lines of its log that tell of trouble, with one of these programs or another: {len(telling)}"
    router = command.is_server and "model" not in command.asked
    step = (
        "give the command a model (-m FILE): without one llama-server starts a server of its own for each model"
        if router
        else "put stillruns run -- before each llama.cpp program that it starts, so that each has a report of its own"
    )
    return replace(
        alone,
        applied=Applied.of({"backend": FactorApplied(Answer.UNKNOWN, "-", None, why)}),
        outcome=replace(alone.outcome, refs=refs, detail=alone.outcome.detail or "the command itself"),
        next_step=step,
        notes=(*record.notes, *((told,) if telling else ())),
        refs=refs,
        mixed=programs,
        programs=tuple(program.argv for program in started),
    )


def _others(record: TrialRecord, facts: ServerFacts | None) -> tuple[str, ...]:
    """A remark on requests that are not ours: one of them may be what ended it or slowed it down."""
    if facts is None or record.exchange is None or len(facts.timings) < 2:
        return ()
    return (f"{OTHERS}: its log has the times of {len(facts.timings)}, and stillruns sent one",)


def _used(facts: ServerFacts | None) -> tuple[str, ...]:
    """The devices in use, with what computes where that is the CPU behind a GPU's name."""
    if facts is None:
        return ()
    used = used_devices(facts)
    return tuple(d.name + (f" ({SOFTWARE})" if is_software(f"{d.description} {d.driver}") else "") for d in used)


def _answer(answered: Answered | Absence) -> str:
    """The text that came to our own request, or the server's words of why none did."""
    if isinstance(answered, Absence):
        return ""
    return answered.text or (answered.stop_reason if answered.stop_reason.startswith("error") else "")


def _next_step(command: UserCommand, facts: ServerFacts | Absence) -> str:
    """What to look at when the command ran on the CPU, or does not tell what it ran on; empty when it used a
    device, or ended before it could."""
    if not isinstance(facts, ServerFacts) or used_devices(facts):
        return ""
    if command.program == BENCH and not command.verbose:
        return (
            "run it once more with -v: without it llama-bench prints no load lines, and its table names the backends "
            "of the build, whether one was used or not"
        )
    if not isinstance(facts.offload, Offload):
        return ""
    listed = [d.name for d in facts.devices if d.backend is not Backend.CPU]
    if listed:
        return f"the server lists {', '.join(listed)} and used none; name one with --device {listed[0]}"
    return (
        "the server lists no GPU; see whether this build has the backend, a driver is installed, and this user may "
        "open /dev/dri/renderD*, /dev/kfd or /dev/nvidia* (a software Vulkan driver is listed only with "
        "GGML_VK_VISIBLE_DEVICES=0)"
    )


def _nothing_known(command: UserCommand, facts: ServerFacts | None) -> Applied:
    name = command.argv[0].rsplit("/", 1)[-1]
    if facts is None or not (facts.version or facts.devices):
        why = f"{name} is no llama.cpp program; only its end is judged"
        return Applied.of({"backend": FactorApplied(Answer.UNKNOWN, "-", None, why)})
    why = f"{name} printed a llama.cpp log, but what it started was not seen; put stillruns run -- inside it"
    used = used_devices(facts)
    refs = tuple(d.used for d in used if d.used is not None)
    return Applied.of(
        {"backend": FactorApplied(Answer.UNKNOWN, "-", ", ".join(d.name for d in used) or None, why, refs)}
    )


def _applied(command: UserCommand, record: TrialRecord, facts: ServerFacts | Absence) -> Applied:
    condition = _condition(command, facts)
    layers = command.layers
    proof, _ = applied.judge(condition, None, facts, record)
    asked = {"gpu_layers"} if layers is not None else set()
    wanted = {"backend", *asked, *(name for name in command.asked if name not in ALWAYS)}
    if command.asked.get("device", "") not in _OFF:
        wanted.add("device")
    factors = {name: factor for name, factor in proof.factors.items() if name in wanted}
    if layers is None and isinstance(facts, ServerFacts) and isinstance(facts.offload, Offload):
        where = f"{facts.offload.offloaded}/{facts.offload.total} layers offloaded, as the runtime chose"
        chosen = f"{facts.offload.offloaded}/{facts.offload.total}"
        if condition.backend is not Backend.CPU:
            factors["gpu_layers"] = FactorApplied(Answer.YES, "runtime's choice", chosen, where, (facts.offload.ref,))
    _say_what_was_asked(factors, command, record, facts)
    if isinstance(facts, ServerFacts) and _fell_back(command, facts):
        factors.update(_fallback(command, facts))
    return Applied.of(factors)


def _say_what_was_asked(
    factors: dict[str, FactorApplied], command: UserCommand, record: TrialRecord, facts: ServerFacts | Absence
) -> None:
    """The words of the command where the condition had to assume something, and no more than is known: a model that
    was named but not loaded is not said to be loaded."""
    known = facts if isinstance(facts, ServerFacts) else None
    backend = factors.get("backend")
    if backend and "device" not in command.asked:
        factors["backend"] = replace(backend, asked="-" if command.layers in (None, 0) else "a GPU")
    ended_well = record.end is not None and record.end.exit_status == 0 and record.end.stopped_by_us is None
    loaded = record.sighting.ready_at is not None or (known is not None and _loaded(known, ended_well=ended_well))
    model = factors.get("model")
    if model and model.status is Answer.YES and not loaded:
        factors["model"] = replace(
            model, got=None, why="named on the command line; its log does not say it was loaded"
        )
    elif model and model.status is Answer.YES and known is not None and known.file_type:
        factors["model"] = replace(model, got=f"{model.got} ({known.file_type})")
    refused = next((t for t in known.troubles if t.pattern in _REFUSED), None) if known else None
    in_order = record.end is not None and record.end.exit_status == 0
    for name, factor in factors.items():
        if refused is not None:
            why = "the program refused its arguments: none of them took effect"
            factors[name] = replace(factor, status=Answer.NO, got=None, why=why, refs=(refused.ref,))
        elif in_order and not loaded:
            factors[name] = replace(factor, status=Answer.UNKNOWN, got=None, why="its log does not tell")
        elif factor.status is Answer.UNKNOWN and name == "gpu_layers":
            factors[name] = replace(factor, got=None, why="its log does not tell the layers")
        elif factor.status is Answer.UNKNOWN and name == "backend" and not loaded:
            factors[name] = replace(factor, got=None, why="it ended before its log names a device in use")


def _loaded(facts: ServerFacts, *, ended_well: bool) -> bool:
    """Whether its log shows that the model was loaded. Only the server says so in words; a tool shows it by its times
    (llama-cli), or by the line of its layers where it then ended in order (llama-bench -v)."""
    if facts.model_loaded is not None or facts.timings:
        return True
    return ended_well and isinstance(facts.offload, Offload)


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


def _fell_back(command: UserCommand, facts: ServerFacts) -> bool:
    """Layers were asked for, device lines are not hidden, and none names a device in use, though the line of the
    layers, which comes after them, is there."""
    if command.layers == 0 or command.asked.get("device") == "none" or used_devices(facts):
        return False
    if command.layers is None and "gpu_layers" not in command.asked:
        return False  # nothing was asked, so nothing was refused
    return "devices" not in facts.hidden and isinstance(facts.offload, Offload)


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
