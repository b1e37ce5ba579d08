"""`stillruns run -- COMMAND`: the user's own command, once, under supervision."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

import msgspec

from stillruns.act import ports, trial
from stillruns.act.asking import Ask
from stillruns.act.runtimes.llama_cpp import NAME, LlamaCpp
from stillruns.catalogue import load
from stillruns.errors import EnvironmentLacks, UsageError
from stillruns.judge.incidents import words as incident_words
from stillruns.judge.trials import once as judge_once
from stillruns.judge.trials import once_words, user_command
from stillruns.judge.trials.user_command import UserCommand
from stillruns.lab.runs import once_told, reading, verdict_digest
from stillruns.lab.runs.shelving import shelf
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.once_result import STOPPED_BY, OnceResult
from stillruns.model.outcome import OutcomeKind
from stillruns.model.server_facts import ServerFacts
from stillruns.model.spec import DEFAULT_PROMPT, Timeouts
from stillruns.model.stops import STOPS
from stillruns.model.trial import TrialRecord
from stillruns.redact.environment import listed
from stillruns.store.ids import spec_digest
from stillruns.store.journal import Writer
from stillruns.store.store import Store
from stillruns.store.view import encode_trial

_LOOPBACK = {
    **dict.fromkeys(("127.0.0.1", "localhost", "0.0.0.0"), "127.0.0.1"),  # noqa: S104
    **dict.fromkeys(("::1", "::", "[::1]", "[::]"), "::1"),
}
"""Where a server answers on this machine, by the `--host` that it is given."""
LOAD_SECONDS = 3600.0
"""How long a user's own server may load: 40 GB from a slow disk are no hang, and Ctrl-C ends the wait."""
Tell = Callable[[str], None]
VERBOSITY = "LLAMA_ARG_LOG_VERBOSITY"
"""From b9246 on the load lines are printed at verbosity 4 only; older builds read no such variable."""


def run(
    argv: tuple[str, ...], store: Store, tell: Tell, *, keep_running: bool = False, as_is: bool = False
) -> OnceResult:
    """Start the command in the user's folder with the user's environment, wait, stop it, and judge what was seen.

    A llama-server gets one request once it is ready (unless `as_is` or `keep_running`) and is then stopped; anything
    else, and a kept server, runs until it ends or Ctrl-C. Its output is shown on stderr as it comes; `tell` gets a
    sentence when no request can be sent.
    Raises EnvironmentLacks when it cannot be started, UsageError when its port is taken.
    """
    env = dict(os.environ)
    command = user_command.read(argv, env)
    added: dict[str, str] = {}
    prints_more = command.program != judge_once.BENCH  # that one prints them with -v only
    if prints_more and not as_is and not command.verbose and "verbosity" not in command.asked:
        added[VERBOSITY] = "4"
    ask = None if as_is or keep_running else _ask(command, tell)
    body = {
        "form": "once",
        "name": command.program or argv[0].rsplit("/", 1)[-1],
        "argv": list(argv),
        "asked": command.asked,
        "program": command.program,
        "added": added,
        "env": listed(env),
        "host": once_told.described(),
    }
    spec = {"argv": list(argv), "added": added}
    with store.writer() as writer, store.new_run(spec_digest(spec)) as identity:
        name = f"{identity}.0001"
        with _until_stopped() as stop:  # from the first record to the trial's last: neither is left without the other
            writer.append("run_started", identity, {**body, "spec": spec, "spec_sha256": spec_digest(spec)})
            writer.append("trial_started", identity, {"trial": name, "cell": "once", "index": 0})
            try:
                record = trial.supervise(
                    argv,
                    {**env, **added},
                    store.spool(name),
                    shelf(store),
                    trial=name,
                    run=identity,
                    ask=ask,
                    timeouts=Timeouts(load=LOAD_SECONDS),
                    stop=stop.event,
                    echo=_echo,
                )
            except EnvironmentLacks as error:
                _not_started(writer, identity, {"trial": name, "cell": "once", "reason": str(error)})
                raise EnvironmentLacks(f"{error}{_elsewhere(argv, env)}") from error
            notes = (*record.notes, *(f"{STOPPED_BY}{name}" for name in stop.others[:1]))
            record = dataclasses.replace(record, cell="once", env=listed({**env, **added}), notes=notes)
            writer.append("trial_ended", identity, {"trial": name, "record": encode_trial(record)})
        result, facts = judged(store, record, body)
        verdicts = verdict_digest.record(verdict_digest.of_once([result]))
        writer.append("run_ended", identity, {"trials": 1, **verdicts})
    return explained(result, facts)


def _not_started(writer: Writer, run: str, lost: dict[str, object]) -> None:
    """The records of a command that could not be started at all."""
    writer.append("trial_interrupted", run, lost)
    writer.append("run_ended", run, {"trials": 0})


def _elsewhere(argv: tuple[str, ...], env: Mapping[str, str]) -> str:
    """Where the llama-server is that specs and the demo would take, for who names one that is not on PATH."""
    if argv[0] != NAME or shutil.which(NAME, path=env.get("PATH", os.defpath)):
        return ""
    try:
        found = LlamaCpp().find("", env)
    except EnvironmentLacks:
        return ""
    return f"; {shlex.quote(found.binary)} is here ({found.found_by})"


def judged(store: Store, record: TrialRecord, body: Mapping[str, object]) -> tuple[OnceResult, ServerFacts | Absence]:
    """Judge a supervised command from its record, for the first report and for every later one, and what its log
    said."""
    command = user_command.read(record.argv, {})
    asked = body.get("asked")
    if isinstance(asked, dict):
        command = dataclasses.replace(command, asked={str(k): str(v) for k, v in asked.items()})
    started = user_command.started(_commands(store, record))
    read = reading.read(store, record)
    tables = once_told.tables(store, record)
    result = judge_once.judge(command, record, read.facts, read.answered, started, tables)
    told = once_told.tell(result, store, read, started[0] if result.started else command, body)
    return told, Absence(AbsenceReason.UNPARSABLE, result.applied.why) if result.mixed else read.facts


def _commands(store: Store, record: TrialRecord) -> list[list[str]]:
    """The command lines of what it started, as far as they were seen."""
    kept = next((e for e in record.evidence if e.kind == "commands"), None)
    if kept is None:
        return []
    try:
        return msgspec.json.decode(store.read_blob(kept.sha256), type=list[list[str]])
    except msgspec.DecodeError:
        return []


def explained(result: OnceResult, facts: ServerFacts | Absence) -> OnceResult:
    """With what the catalogue says, which is no verdict: its wording may change without one."""
    why, advice = _said(result, facts)
    return dataclasses.replace(result, explanation=why, next_step=once_words.next_step(result, advice))


def _said(result: OnceResult, facts: ServerFacts | Absence) -> tuple[str, str]:
    """What the catalogue says of the line that decided how it ended, and what to try; empty where none did."""
    if isinstance(facts, Absence) or result.outcome.kind in (OutcomeKind.OK, OutcomeKind.INTERRUPTED):
        return "", ""
    telling = next((t.pattern for t in facts.troubles if t.ref == result.outcome.key_line), None)
    pattern = next((p for p in load.patterns() if p.id == telling), None)
    targets = {device.target for device in facts.devices if device.target}
    only = targets.pop() if len(targets) == 1 else None
    return incident_words.said(pattern, killed=False, traced=False, target=only)


def _ask(command: UserCommand, tell: Tell) -> Ask | None:
    """One small request to the user's server; None, and a sentence, where it would not be answered."""
    if not command.is_server:
        if not command.program:
            name = command.argv[0].rsplit("/", 1)[-1]
            tell(f"no request is sent, since {name} is no llama-server itself; its end, or Ctrl-C, brings the report")
        return None
    host = _LOOPBACK.get(command.asked.get("host", "127.0.0.1"))
    port = command.number("port") if "port" in command.asked else 8080
    why = ""
    if "api_key" in command.asked:
        why = "the server wants a key"
    elif host is None:
        why = f"it listens on {command.asked['host']} alone"
    elif not port:
        why = f"--port {command.asked['port']} does not tell where it listens"
    else:
        why = _closed(host, port)
    if why or host is None or not port:
        tell(f"no request is sent, since {why}: use the server as you like, and end it with Ctrl-C for the report")
        return None
    body: dict[str, object] = {
        "prompt": DEFAULT_PROMPT,
        "n_predict": 16,
        "temperature": 0,
        "seed": 1,
        "cache_prompt": False,
        "return_tokens": True,
        "n_probs": 1,  # NaN shows in the probabilities only
        "stream": True,
    }
    return Ask(port, "/health", "/completion", body, host)


def _echo(kind: str, data: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()


def _closed(host: str, port: int) -> str:
    """Why no server can be asked there; empty where one can. UsageError where another program listens."""
    try:
        refusal = ports.refused(host, port)
    except OverflowError:
        raise UsageError(f"--port {port} is no port; give one from 1 to 65535") from None
    if refusal is not None and refusal.errno == errno.EADDRINUSE:
        raise UsageError(
            f"port {port} is in use by another program, whose answers would be taken for this server's; "
            "stop it, or give the command another --port"
        ) from refusal
    if refusal is not None:
        return f"port {port} of {host} cannot be had here ({refusal.strerror})"
    unreachable = ports.cut_off(host)
    return f"nothing can be asked at {host} here ({unreachable})" if unreachable else ""


class _Stop:
    """Set by a signal; `others` are the names of those that were no Ctrl-C, in their order."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.others: list[str] = []

    def hear(self, number: int, frame: FrameType | None) -> None:
        """The handler."""
        if number != signal.SIGINT and not self.event.is_set():
            self.others.append(signal.Signals(number).name)
        self.event.set()


@contextlib.contextmanager
def _until_stopped() -> Iterator[_Stop]:
    """Ctrl-C, SIGTERM and SIGHUP end the user's command, not the report about it. One that our caller ignores (nohup)
    ends neither."""
    stop = _Stop()
    heard = [number for number in STOPS.values() if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop.hear) for number in heard}
    try:
        yield stop
    finally:
        for number, old in before.items():
            signal.signal(number, old)
