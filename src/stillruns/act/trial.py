"""One trial, from plan to record: every way in which a server can end is a result."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from stillruns.act import attached_log, core_file, ports
from stillruns.act.asking import Ask, Asked, Asking, Heard
from stillruns.act.capture import Echo, Spool
from stillruns.act.environment import marked
from stillruns.act.life import Job, Life, Seen, utc_now
from stillruns.act.sampling import Sampler, readers
from stillruns.act.subreaper import subreaper
from stillruns.act.wire import Peer
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.evidence import Cut, Evidence
from stillruns.model.exchange import Exchange
from stillruns.model.spec import Timeouts
from stillruns.model.trial import Sighting, TrialPlan, TrialRecord

Put = Callable[[str, "Path | bytes", str], Evidence]
"""`put(kind, content, source)` stores a blob (a file may be moved away) and describes it."""


@dataclass(slots=True)
class _Shelf:
    """Evidence of one trial, numbered s0, s1, ... in the order in which it is put."""

    put: Put
    evidence: list[Evidence] = field(default_factory=list)

    def add(self, kind: str, content: Path | bytes, source: str, cut: Cut | None = None, at: str = "") -> str:
        """Store one piece; returns its id."""
        item = self.put(kind, content, source)
        name = f"s{len(self.evidence)}"
        self.evidence.append(replace(item, id=name, cut=cut, at=item.at or at or utc_now()))
        return name


def execute(plan: TrialPlan, spool: Path, put: Put, *, pick_port: Callable[[], int] = ports.free_port) -> TrialRecord:
    """Run a plan to its record. `spool` is a private folder for what is captured while it runs.

    A server that loses the race for its port is started again on another, at most `ports.RETRIES` times. A plan
    without arguments is a request to a server that runs already: its paths are whole addresses. Raises
    EnvironmentLacks when the server cannot be started at all; when an exception (Ctrl-C too) leaves this function, no
    process of the trial is left.
    """
    if not plan.argv:
        return _attached(plan, spool, put)
    env = marked(plan.env, plan.trial)
    with subreaper():
        for retry in range(ports.RETRIES + 1):
            port = pick_port()
            argv = tuple(word.replace("{port}", str(port)) for word in plan.argv)
            ask = _ask(plan, port)
            job = Job(argv, env, plan.timeouts, ask, plan.keep_core, plan.sample_devices)
            life = Life(job, _folder(spool, f"start{retry}"))
            seen = life.run()
            if not seen.lost_port:
                break
            if retry < ports.RETRIES:
                shutil.rmtree(life.folder, ignore_errors=True)
    blank = TrialRecord(
        plan.trial, plan.run, plan.cell, plan.index, "", "", argv, env, Sighting(None, None, 0.0), None, None,
        Absence(AbsenceReason.NOT_COLLECTED), (),
    )  # fmt: skip
    return _record(blank, life, put, retry)


def supervise(
    argv: Sequence[str],
    env: Mapping[str, str],
    spool: Path,
    put: Put,
    *,
    trial: str = "supervised",
    run: str = "",
    cwd: Path | None = None,
    ask: Ask | None = None,
    timeouts: Timeouts | None = None,
    stop: threading.Event | None = None,
    seconds: float | None = None,
    echo: Echo | None = None,
    sample_devices: tuple[str, ...] = (),
) -> TrialRecord:
    """Run the user's own command once, in the user's folder (`cwd`, default ours), and record it like a trial.

    Without `ask` it runs until it ends, `stop` is set, or `seconds` are over; with it, one request is made once it is
    ready, and then it is stopped. `env` is its whole environment; the marker is added. `echo` gets its output live.
    """
    folder = cwd or Path.cwd()
    env = marked(env, trial)
    job = Job(
        _absolute(argv, folder), env, timeouts or Timeouts(), ask, True, sample_devices, folder, stop, seconds, echo,
        keep_commands=True,
    )  # fmt: skip
    with subreaper():
        life = Life(job, _folder(spool, "start0"))
        life.run()
    blank = TrialRecord(
        trial, run, "", 0, "", "", tuple(argv), env, Sighting(None, None, 0.0), None, None,
        Absence(AbsenceReason.NOT_COLLECTED), (),
    )  # fmt: skip
    return _record(blank, life, put, 0)


def _absolute(argv: Sequence[str], folder: Path) -> tuple[str, ...]:
    """A program given by a relative path is meant from the user's folder."""
    program = argv[0]
    return (str(folder / program) if "/" in program else program, *argv[1:])


def _ask(plan: TrialPlan, port: int) -> Ask:
    return Ask(
        port,
        plan.ready_path,
        plan.request_path,
        plan.request,
        more=plan.more,
        lanes=plan.lanes,
        seconds=plan.seconds,
        texts=plan.texts,
    )


def _folder(spool: Path, name: str) -> Path:
    folder = spool / name
    folder.mkdir(parents=True)
    return folder


def _record(blank: TrialRecord, life: Life, put: Put, retries: int) -> TrialRecord:
    """Put all evidence away and write the record."""
    seen, shelf, notes = life.seen, _Shelf(put), list(life.seen.notes)
    command = " ".join(blank.argv)
    for kind, spool in (("stdout", life.stdout), ("stderr", life.stderr)):
        notes += _keep_stream(shelf, kind, spool, command)
    exchange: Exchange | None = None
    others: list[Exchange] = []
    heard = seen.heard or Heard()
    if heard.asked and life.job.ask is not None:
        *others, exchange = _keep_exchanges(shelf, heard, life.job.ask.address, seen.zero)
    if seen.maps:
        shelf.add("maps", seen.maps, f"/proc/PID/maps {seen.maps_at or 0.0:.3f} s after the start")
    if seen.commands:
        shelf.add("commands", json.dumps(seen.commands).encode(), "/proc/PID/cmdline of what was started")
    _keep_core(shelf, seen, command)
    if seen.samples:
        shelf.add("samples", seen.samples, ", ".join(life.job.sample_devices))
    sighting = Sighting(
        ready_at=seen.ready_at,
        stop_sent_at=seen.stop_sent_at,
        ended_at=seen.ended_at,
        timed_out=seen.timed_out,
        port_retries=retries,
        mapped_libraries=tuple(sorted(seen.libraries)),
    )
    if seen.lost_port:
        notes.append(f"the port was taken {retries + 1} times in a row by somebody else")
    return replace(
        blank,
        started=seen.started_utc,
        ended=utc_now(),
        sighting=sighting,
        end=seen.end,
        exchange=exchange,
        more=tuple(others),
        unkept=heard.unkept,
        unkept_tokens=heard.unkept_tokens,
        core=seen.core,
        evidence=tuple(shelf.evidence),
        boot_id=boot_id(),
        load_average=load_average(),
        notes=tuple(notes),
    )


def _keep_stream(shelf: _Shelf, kind: str, spool: Spool, command: str) -> list[str]:
    cut = spool.finish()
    shelf.add(kind, spool.path, command, cut)
    return [spool.problem] if spool.problem else []


def _keep_exchanges(shelf: _Shelf, heard: Heard, address: str, zero: float) -> list[Exchange]:
    """All of them, each with its own request; what was asked about tokens is evidence beside them."""
    for asked in heard.tokenised:
        shelf.add("tokens", asked.told.body, f"{address}{asked.path}")
    return [_keep_exchange(shelf, asked, address, zero) for asked in heard.asked]


def _keep_exchange(shelf: _Shelf, asked: Asked, address: str, zero: float) -> Exchange:
    told, place = asked.told, f"{address}{asked.path}"
    shelf.add("request", json.dumps(asked.request, sort_keys=True).encode(), f"POST {place}")
    evidence = None
    if told.status is not None:
        evidence = shelf.add("response", told.body, place)
    return Exchange(
        sent_at=told.sent_at - zero,
        first_token_at=None if told.first_token_at is None else told.first_token_at - zero,
        ended_at=told.ended_at - zero,
        status=told.status,
        error=told.error,
        timed_out=told.timed_out,
        evidence=evidence,
        tokens_seen=told.tokens_seen,
        lane=asked.lane,
    )


def _keep_core(shelf: _Shelf, seen: Seen, command: str) -> None:
    path = seen.core_path
    if path is None:
        return
    if path.stat().st_size <= core_file.LARGEST_KEPT:
        shelf.add("core", path, command)
    else:
        seen.notes.append(f"the core of {path.stat().st_size >> 20} MiB was read but not kept")
    path.unlink(missing_ok=True)


def _attached(plan: TrialPlan, spool: Path, put: Put) -> TrialRecord:
    """A request to a server that is not ours: no process, no log, only what it answers."""
    zero, started = time.monotonic(), utc_now()
    before = attached_log.lines(plan.log)
    sampler = Sampler(readers(plan.sample_devices))
    sampler.start()
    ready = Peer(plan.ready_path)
    timed_out, ready_at = "load", None
    while time.monotonic() < zero + plan.timeouts.load:
        status = ready.get("", 5.0).status
        if status is not None and status < 500:
            timed_out, ready_at = "", time.monotonic() - zero
            break
        time.sleep(0.25)
    ready.close()
    shelf, exchanges, heard = _Shelf(put), [], Heard()
    if ready_at is not None:
        ask = replace(_ask(plan, 0), request_path="")
        heard = Asking(ask, plan.request_path, _folder(spool, "start0"), plan.timeouts, lambda: None).run()
        timed_out = heard.asked[-1].told.timed_out if heard.asked else ""
        exchanges = _keep_exchanges(shelf, heard, plan.request_path, zero)
    samples, note = sampler.stop()
    if samples:
        shelf.add("samples", samples, ", ".join(plan.sample_devices))
    notes = [note] if note else []
    if plan.log:
        log, cut, problem = attached_log.read(plan.log)
        notes += [problem] if problem else []
        if log:
            shelf.add("log", log, plan.log, cut)
    reason = Absence(AbsenceReason.NOT_COLLECTED, "the server was not started by us")
    return TrialRecord(
        plan.trial, plan.run, plan.cell, plan.index, started, utc_now(), (), dict(plan.env),
        Sighting(ready_at, None, time.monotonic() - zero, timed_out), None,
        exchanges[-1] if exchanges else None, reason, tuple(shelf.evidence), boot_id(), load_average(),
        tuple(notes), before, tuple(exchanges[:-1]), heard.unkept, heard.unkept_tokens,
    )  # fmt: skip


def boot_id() -> str:
    """The kernel's id of this boot; empty where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def load_average() -> float | None:
    """Runnable processes, mean of the last minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None
