"""Every plugin keeps the promises of its kind: it is discovered here and really called.

Adapters of runtimes now; other kinds add a discovery and their promises below.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from real_parts import need_loopback
from stillruns.act import runtimes
from stillruns.act.runtimes.adapter import Adapter, FoundRuntime, Occasion, ProbeOutput
from stillruns.errors import EnvironmentLacks, StillrunsError
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend, Runtime
from stillruns.model.condition import Condition
from stillruns.model.engine import Engine
from stillruns.model.spec import Timeouts
from stillruns.proc import Finished


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """Every module of a package, imported."""
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        yield importlib.import_module(info.name)


ADAPTERS: list[Adapter] = [module.ADAPTER for module in modules(runtimes) if hasattr(module, "ADAPTER")]


class Server(BaseHTTPRequestHandler):
    """A server that an attaching adapter can probe: one model, completions with logprobs."""

    def do_GET(self) -> None:
        self._say(b'{"data":[{"id":"tiny"}]}' if self.path == "/v1/models" else b"{}")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._say(b'{"choices":[{"text":"x","logprobs":{"tokens":["x"]}}]}')

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the small server listens."""
    need_loopback()
    server = HTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that a spawning adapter can probe: it prints its arguments and its marker."""
    path = tmp_path_factory.mktemp("bin") / "server"
    path.write_text('#!/bin/sh\necho "$@"; echo "$STILLRUNS_TRIAL" >&2\n')
    path.chmod(0o755)
    return str(path)


def found(adapter: Adapter, program: str, address: str) -> FoundRuntime:
    """The adapter's own finding of a thing that exists, by a path or by an address."""
    for given in (program, address):
        try:
            return adapter.find(given, os.environ)
        except StillrunsError:
            continue
    raise AssertionError("the adapter finds neither a program nor an address")


def condition(layers: int | str, backend: Backend) -> Condition:
    """A condition with every field set."""
    return Condition(
        backend_id="side", backend=backend, runtime=Runtime.LLAMA_CPP, gpu_layers=layers, model="/models/x.gguf",
        prompt="The quick", seed=3, predict=8, context=256, batch=64, ubatch=32, threads=1, flash_attention="off",
        env={"SIDE": "1"},
    )  # fmt: skip


def engine(binary: str) -> Engine:
    """A binary that knows nothing but its name."""
    return Engine(binary, "sha256:0", {}, "unknown", frozenset(), {}, Absence(AbsenceReason.NOT_COLLECTED))


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: type(adapter).__name__)
class TestAdapter:
    """One promise a test; `Adapter` in act/runtimes/adapter.py states them."""

    def test_signatures(self, adapter: Adapter) -> None:
        """Same names, same parameters as the protocol, and a docstring on each."""
        assert isinstance(adapter.runtime, Runtime)
        for name in ("find", "probe", "plan"):
            own, wanted = getattr(type(adapter), name), getattr(Adapter, name)
            assert list(inspect.signature(own).parameters) == list(inspect.signature(wanted).parameters)
            assert inspect.getdoc(own)

    def test_find_says_what_is_missing(self, adapter: Adapter, tmp_path: Path) -> None:
        """Something that is not there is one sentence, not a traceback and not a guess."""
        for given in (str(tmp_path / "no-such-program"), "no-such-program"):
            with pytest.raises(StillrunsError, match=r"^[^\n]{20,}$"):
                adapter.find(given, {"PATH": str(tmp_path)})

    def test_find(self, adapter: Adapter, program: str, address: str) -> None:
        """What was found is named, with the place it came from."""
        it = found(adapter, program, address)
        assert it.binary in (program, address) and it.found_by == "spec"

    def test_probe(self, adapter: Adapter, program: str, address: str) -> None:
        """Four answers, each with the question that was asked, whatever the thing says."""
        output = adapter.probe(found(adapter, program, address), timeout=120.0)
        assert isinstance(output, ProbeOutput)
        for part in (output.help, output.devices, output.version, output.system):
            assert isinstance(part, Finished) and part.argv and not part.timed_out

    def test_probe_of_nothing(self, adapter: Adapter) -> None:
        """A program or an address that vanished since it was found is EnvironmentLacks."""
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            gone = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(EnvironmentLacks):
            adapter.probe(FoundRuntime(gone, "spec"), timeout=60.0)

    @pytest.mark.parametrize("layers", [0, 2, "all", "none"])
    @pytest.mark.parametrize("backend", [Backend.CPU, Backend.VULKAN, Backend.ROCM, Backend.UNKNOWN])
    def test_plan(self, adapter: Adapter, layers: int | str, backend: Backend, address: str) -> None:
        """A plan is complete, holds what the spec asks, carries its names, and is the same each time."""

        occasion = Occasion("t", "r", "c", 4, Timeouts(load=9.0), {"PATH": "/bin", "SECRET": "x"})
        plan = adapter.plan(condition(layers, backend), engine(address), occasion)
        assert plan == adapter.plan(condition(layers, backend), engine(address), occasion)
        assert (plan.trial, plan.run, plan.cell, plan.index, plan.timeouts.load) == ("t", "r", "c", 4, 9.0)
        assert plan.request["prompt"] == "The quick" and plan.request["seed"] == 3 and plan.request["stream"] is True
        assert "SECRET" not in plan.env
        if plan.argv:
            assert "{port}" in plan.argv and plan.argv[0] == address and plan.env["SIDE"] == "1"
            assert plan.ready_path.startswith("/") and plan.request_path.startswith("/")
        else:
            assert plan.ready_path.startswith(address) and plan.request_path.startswith(address)


def test_there_are_adapters() -> None:
    """The discovery finds what is there."""
    assert {adapter.runtime for adapter in ADAPTERS} >= {Runtime.LLAMA_CPP, Runtime.OPENAI}
