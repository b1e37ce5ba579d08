"""A server can end in any way and at any time: the record says how, and nothing of it is left."""

from __future__ import annotations

import json
import resource
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from act_helpers import PATIENT, SOON, Shelf

from real_parts import need_room, why_no_core
from stillruns.act import trial
from stillruns.act.ports import free_port
from stillruns.act.subreaper import is_subreaper
from stillruns.errors import EnvironmentLacks
from stillruns.model.absence import Absence
from stillruns.model.process import CoreNotes
from stillruns.model.spec import Timeouts
from stillruns.model.trial import TrialPlan, TrialRecord

Plans = Callable[..., TrialPlan]
# One short deadline each: those before it are never what ends the trial, however slow the machine is.
SHORT_LOAD = replace(PATIENT, load=1.0, teardown=0.5)
SHORT_FIRST = replace(PATIENT, first_token=0.6, teardown=0.5)
SHORT_TOKEN = replace(PATIENT, token=0.6, teardown=0.5)
SHORT_TEARDOWN = replace(PATIENT, teardown=0.5)


def run(plan: TrialPlan, tmp_path: Path, shelf: Shelf, **options: object) -> TrialRecord:
    return trial.execute(plan, tmp_path / "spool", shelf.put, **options)  # type: ignore[arg-type]


def test_a_good_server(plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """A clean trial: ready, answered, stopped by our SIGTERM; all evidence is numbered and complete."""
    before = is_subreaper()
    record = run(plan(), tmp_path, shelf)
    assert record.end is not None and record.exchange is not None
    assert (record.end.signal, record.end.stopped_by_us, record.end.orphans_killed) == ("SIGTERM", "SIGTERM", 0)
    assert record.exchange.status == 200 and record.exchange.error == "" and record.exchange.tokens_seen == 2
    assert record.sighting.ready_at is not None and record.sighting.timed_out == ""
    assert record.exchange.first_token_at is not None
    assert record.sighting.ready_at <= record.exchange.sent_at <= record.exchange.first_token_at
    assert shelf.read(record, "response").endswith(b'"stop":true}\n\n')
    assert shelf.read(record, "request") == b'{"prompt": "x", "stream": true}'
    assert [item.id for item in record.evidence] == [f"s{n}" for n in range(len(record.evidence))]
    assert record.exchange.evidence == next(e.id for e in record.evidence if e.kind == "response")
    assert any("libc" in path for path in record.sighting.mapped_libraries)
    assert b"libc" in shelf.read(record, "maps")
    assert "{port}" not in record.argv and record.env["STILLRUNS_TRIAL"] == record.trial
    assert record.started.endswith("Z") and record.started <= record.ended and record.boot_id
    assert isinstance(record.core, Absence)
    assert is_subreaper() == before, "the harness went on catching orphans after the trial"


def test_the_program_is_missing(plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """A server that cannot be started is no trial: one sentence says what is missing."""
    with pytest.raises(EnvironmentLacks, match="no-such-server is not installed"):
        run(replace(plan(), argv=("no-such-server", "{port}")), tmp_path, shelf)


def test_crash_in_load(plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """A real SIGSEGV before readiness: signal, fault address and the library at fault come from the core."""
    record = run(plan("crash_load"), tmp_path, shelf)
    assert record.end is not None and record.exchange is None
    assert (record.end.signal, record.end.stopped_by_us, record.sighting.ready_at) == ("SIGSEGV", None, None)
    if why := why_no_core():
        assert isinstance(record.core, Absence) and record.core.detail
        pytest.skip(why)
    assert isinstance(record.core, CoreNotes)
    assert record.core.signal == "SIGSEGV" and record.core.fault_address == 8
    assert record.core.module is not None and ".so" in record.core.module and record.core.threads == 1
    assert record.end.core_dumped
    assert len(shelf.read(record, "core")) < 4 << 20, "a core must stay tiny"
    assert not list((tmp_path / "spool").rglob("core*"))


def test_crash_between_tokens(plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """Tokens before a crash are counted, the signal is the server's own, and the connection's end is no answer."""
    record = run(plan("crash_token"), tmp_path, shelf)
    assert record.end is not None and record.exchange is not None
    assert record.end.signal == "SIGSEGV" and record.end.stopped_by_us is None
    assert record.exchange.tokens_seen == 2 and "after 2 tokens" in record.exchange.error
    assert shelf.read(record, "response").count(b"data:") == 2


def test_killed_in_an_unframed_stream(plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """A SIGKILLed server whose stream just ends is not taken for a server that finished."""
    record = run(plan("unframed", "killed"), tmp_path, shelf)
    assert record.end is not None and record.exchange is not None
    assert record.end.signal == "SIGKILL" and record.end.stopped_by_us is None
    assert record.exchange.error == "the stream ended after 2 tokens without its final event"
    reset = run(plan("unframed", "reset", "killed"), tmp_path / "reset", shelf)
    assert reset.exchange is not None and reset.exchange.error == "the connection was reset after 2 tokens"
    good = run(replace(plan("unframed")), tmp_path / "again", shelf)
    assert good.exchange is not None and good.exchange.error == ""


@pytest.mark.parametrize(
    ("manner", "error"),
    [
        ("error_event", "error in the stream after 2 tokens: Compute error. (500)"),
        ("no_final", "the stream ended after 2 tokens without its final event"),
        ("fail", "HTTP 500: it is broken"),
    ],
)
def test_errors_of_a_living_server(manner: str, error: str, plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """An error in the stream, a missing final event and an HTTP error are told apart; the server lived on."""
    record = run(plan(manner), tmp_path, shelf)
    assert record.exchange is not None and record.exchange.error.startswith(error)
    assert record.end is not None and record.end.stopped_by_us == "SIGTERM"


def test_health_that_fails_at_first(plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """Connections that are dropped or time out while it starts do not keep a server from being seen as ready."""
    record = run(plan("rude_health"), tmp_path, shelf)
    assert record.sighting.timed_out == "" and record.exchange is not None and record.exchange.error == ""


def test_exit_in_load(plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """A server that gives up: its exit status and its last words."""
    record = run(plan("exit_load"), tmp_path, shelf)
    assert record.end is not None and (record.end.exit_status, record.end.stopped_by_us) == (1, None)
    assert shelf.read(record, "stderr") == b"error loading model\n"


@pytest.mark.parametrize(
    ("manners", "deadline", "timeouts"),
    [
        (("hang_load",), "load", SHORT_LOAD),
        (("never_ready",), "load", SHORT_LOAD),
        (("mute_health", "never_ready"), "load", SHORT_LOAD),
        (("stop",), "load", SHORT_LOAD),
        (("hang_first",), "first_token", SHORT_FIRST),
        (("drip_headers",), "first_token", SHORT_FIRST),
        (("hang_token",), "token", SHORT_TOKEN),
    ],
)
def test_deadlines(
    manners: tuple[str, ...], deadline: str, timeouts: Timeouts, plan: Plans, tmp_path: Path, shelf: Shelf
) -> None:
    """Each phase has its deadline, also for a server that is stopped, that drips, or that sends only keep-alives."""
    began = time.monotonic()
    record = run(plan(*manners, timeouts=timeouts), tmp_path, shelf)
    assert record.sighting.timed_out == deadline
    assert record.end is not None and record.end.stopped_by_us in ("SIGTERM", "SIGKILL")
    if deadline != "load":
        assert record.exchange is not None and record.exchange.timed_out == deadline
    assert time.monotonic() - began < SOON


def test_sigterm_is_ignored(plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """After the teardown deadline comes SIGKILL, and the record says so."""
    record = run(plan("ignore_term", timeouts=SHORT_TEARDOWN), tmp_path, shelf)
    assert record.end is not None
    assert (record.sighting.timed_out, record.end.signal, record.end.stopped_by_us) == (
        "teardown",
        "SIGKILL",
        "SIGKILL",
    )


@pytest.mark.parametrize("manner", ["early_daemon", "clean_daemon", "forks"])
def test_forks_are_swept(manner: str, plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """Children that ignore SIGTERM, forked twice, called setsid or cleared their environment do not outlive it."""
    record = run(plan(manner), tmp_path, shelf)
    assert record.end is not None and record.end.orphans_killed >= 1
    assert record.exchange is not None and record.exchange.error == ""


def test_dead_server_with_a_held_connection(plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """The server dies, a grandchild keeps its connection and pipes: neither the wire nor the capture waits."""
    began = time.monotonic()
    record = run(plan("die_held"), tmp_path, shelf)
    assert time.monotonic() - began < SOON
    assert record.end is not None and record.end.exit_status == 3 and record.end.orphans_killed == 1
    assert record.exchange is not None and "after 2 tokens" in record.exchange.error


def test_log_flood(plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """96 MiB of log: the first 16 and the last 48 MiB are kept, the cut is marked, memory stays small."""
    need_room(tmp_path, 256)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    record = run(plan("flood"), tmp_path, shelf)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    (item,) = [item for item in record.evidence if item.kind == "stdout"]
    assert item.cut is not None and item.bytes == 64 << 20
    assert item.cut.head == 16 << 20 and item.cut.dropped == (32 << 20) + len(b"the last line\n")
    kept = shelf.folder / item.sha256.removeprefix("sha256:")
    with kept.open("rb") as file:
        file.seek(-len(b"abcde\nthe last line\n"), 2)
        assert file.read() == b"abcde\nthe last line\n"
    assert record.exchange is not None and record.exchange.error == ""
    assert grown < 100 << 10, f"the harness grew by {grown} KiB"  # reading the blob back for its digest included


@pytest.mark.parametrize("manner", ["binary", "close_streams"])
def test_odd_streams(manner: str, plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """Binary output is kept as it is; a server that closes its streams runs on."""
    record = run(plan(manner), tmp_path, shelf)
    assert record.exchange is not None and record.exchange.error == ""
    expected = bytes(range(256)) * 16 + b"\n\xff\xfe no end of line" if manner == "binary" else b""
    assert shelf.read(record, "stderr") == expected


def test_a_lost_race_for_a_port_is_run_again(plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """A taken port costs a new start on another one; answers of the stranger there are not ours."""
    with socket.socket() as stranger, socket.socket() as free:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen(8)
        free.bind(("127.0.0.1", 0))
        taken, good = stranger.getsockname()[1], free.getsockname()[1]
        free.close()
        ports = iter([taken, taken, good])
        picked: list[int] = []

        def pick() -> int:  # anybody on this machine may take the good one before our server does: then one more
            picked.append(next(ports, None) or free_port())
            return picked[-1]

        record = run(plan(), tmp_path, shelf, pick_port=pick)
    assert picked[:2] == [taken, taken] and record.sighting.port_retries == len(picked) - 1 >= 2
    assert record.exchange is not None and record.exchange.error == ""
    assert str(picked[-1]) in record.argv


def test_a_stranger_that_answers_is_not_measured(plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """Our server lost the port silently, and somebody else says `ready` on it: that is a lost race too."""
    record = None
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen(8)
        port = stranger.getsockname()[1]
        stop = threading.Event()
        thread = threading.Thread(target=_always_ready, args=(stranger, stop), daemon=True)
        thread.start()
        ports = iter([port])
        record = run(plan("hang_load"), tmp_path, shelf, pick_port=lambda: next(ports, port))
        stop.set()
    assert record.exchange is None and record.sighting.port_retries == 5
    assert any("taken 6 times" in note for note in record.notes)


def _always_ready(listener: socket.socket, stop: threading.Event) -> None:
    listener.settimeout(0.2)
    while not stop.is_set():
        try:
            peer, _ = listener.accept()
        except OSError:
            continue
        with peer:
            peer.settimeout(1.0)
            try:
                if peer.recv(65536):
                    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            except OSError:
                pass


def test_an_exception_leaves_nothing(plan: Plans, tmp_path: Path, shelf: Shelf) -> None:
    """When put fails (a full disk), or Ctrl-C comes, the error passes and no process is left."""

    def full(kind: str, content: Path | bytes, source: str) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        trial.execute(plan("early_daemon"), tmp_path / "spool", full)  # type: ignore[arg-type]


def test_the_users_own_command(tmp_path: Path, shelf: Shelf) -> None:
    """`supervise` runs a command in the user's folder to its own end, and shows its output while it runs."""
    heard: list[tuple[str, bytes]] = []
    (tmp_path / "here").mkdir()
    (tmp_path / "here/tool").write_text("#!/bin/sh\necho out; pwd >&2; exit 5\n")
    (tmp_path / "here/tool").chmod(0o755)
    record = trial.supervise(
        ["./tool"],
        {"PATH": "/usr/bin:/bin"},
        tmp_path / "spool",
        shelf.put,
        cwd=tmp_path / "here",
        echo=lambda name, data: heard.append((name, data)),
    )
    assert record.end is not None and (record.end.exit_status, record.end.stopped_by_us) == (5, None)
    assert sorted(heard) == [("stderr", f"{tmp_path}/here\n".encode()), ("stdout", b"out\n")]
    assert record.argv == ("./tool",)


def test_the_users_own_command_is_stopped(tmp_path: Path, shelf: Shelf) -> None:
    """`stop` ends a command that would run for ever."""
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    record = trial.supervise(["sleep", "600"], {"PATH": "/usr/bin:/bin"}, tmp_path / "spool", shelf.put, stop=stop)
    assert record.end is not None and (record.end.signal, record.end.stopped_by_us) == ("SIGTERM", "SIGTERM")


@pytest.mark.parametrize(("times", "fork", "kept"), [(1, "os.fork(); ", 1), (2, "", 2), (3, "", 2)])
def test_the_command_lines_of_what_it_started(times: int, fork: str, kept: int, tmp_path: Path, shelf: Shelf) -> None:
    """One that several processes were started with is kept twice; a fork of one is no second."""
    code = f"import os, time; {fork}os.write(1, b'up\\n'); time.sleep(600)"
    words = [sys.executable, "-I", "-S", "-c", code]
    script = f"{shlex.join(words)} & " * times + "wait"
    stop, said = threading.Event(), bytearray()

    def hear(name: str, data: bytes) -> None:
        said.extend(data)
        if said.count(b"up\n") == times + bool(fork):
            stop.set()

    record = trial.supervise(
        ["sh", "-c", script], {"PATH": "/usr/bin:/bin"}, tmp_path / "spool", shelf.put, stop=stop, echo=hear
    )
    seen = json.loads(shelf.read(record, "commands"))
    assert (seen.count(words), seen.count(["sh", "-c", script])) == (kept, 1)
