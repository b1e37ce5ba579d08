"""A server that runs already and speaks the OpenAI protocol: vLLM, Ollama, llama-server, any other.

There is no child, no log and no flag: only what it answers. So what was applied stays unknown, and the record says
nothing about its process. The address is the one that the spec gives; nothing else is ever contacted.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping

from stillruns.act.runtimes.adapter import FoundRuntime, Occasion, ProbeOutput
from stillruns.act.wire import Peer, Reply
from stillruns.errors import EnvironmentLacks
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Runtime
from stillruns.model.condition import Condition
from stillruns.model.engine import Engine
from stillruns.model.trial import TrialPlan
from stillruns.proc import Finished

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"
MODELS = "/v1/models"
PROBS = 5
"""The protocol's largest `logprobs` of a completion."""


class OpenAI:
    """The adapter; it has no state."""

    runtime = Runtime.OPENAI

    def find(self, binary: str, environ: Mapping[str, str]) -> FoundRuntime:
        """`binary` is the spec's address. Raises UsageError for what is no address, EnvironmentLacks for none."""
        if not binary:
            raise EnvironmentLacks("no server to attach to: give its address as `url` in the spec's [[backend]]")
        peer = Peer(binary)
        peer.close()
        address = binary.rstrip("/")
        return FoundRuntime(address.removesuffix("/v1"), "spec")

    def probe(
        self,
        found: FoundRuntime,
        prefix: tuple[str, ...] = (),
        *,
        environ: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        args: tuple[str, ...] = (),
        timeout: float = 60.0,
    ) -> ProbeOutput:
        """HTTP answers in the place of runs: `help` is a completion of one token with logprobs (when exactly one
        model is served: asking a server with many would load one of them), `devices` is GET /props, `version` GET
        /v1/models, `system` GET /version. `status` is the HTTP status, `stdout` the body, `stderr` the `Server`
        header or the error. Raises EnvironmentLacks when nobody answers."""
        peer = Peer(found.binary)
        try:
            listed = _asked(peer, "GET", MODELS, timeout)
            if listed.status is None:
                text = listed.stderr.decode("utf-8", "replace")
                raise EnvironmentLacks(f"no server answers at {found.binary}: {text}; start it, or correct `url`")
            models = model_names(listed.stdout)
            completion = _nothing(COMPLETIONS)
            if len(models) == 1:
                body: dict[str, object] = {"model": models[0], "prompt": "1", "max_tokens": 1, "logprobs": 1}
                completion = _asked(peer, "POST", COMPLETIONS, timeout, body)
            return ProbeOutput(
                help=completion,
                devices=_asked(peer, "GET", "/props", timeout),
                version=listed,
                system=_asked(peer, "GET", "/version", timeout),
            )
        finally:
            peer.close()

    def plan(self, condition: Condition, engine: Engine, occasion: Occasion) -> TrialPlan:
        """A plan without arguments: its two paths are whole addresses. Chat where completions were refused."""
        path = CHAT if engine.accepts(CHAT) and not engine.accepts(COMPLETIONS) else COMPLETIONS
        address = (condition.url or engine.binary).rstrip("/").removesuffix("/v1")
        asked = request(condition, chat=path == CHAT, logprobs=engine.accepts("logprobs"))
        return TrialPlan(
            trial=occasion.trial,
            run=occasion.run,
            cell=occasion.cell,
            index=occasion.index,
            argv=(),
            env={},
            ready_path=address + MODELS,
            request_path=address + path,
            request=asked,
            more=(asked,) * (condition.epochs - 1),
            lanes=condition.concurrency,
            seconds=condition.duration,
            timeouts=occasion.timeouts,
            sample_devices=occasion.sample_devices,
            keep_core=False,
            log=condition.log,
        )

    def engine(self, found: FoundRuntime, output: ProbeOutput) -> Engine:
        """What the server says about itself. `flags` are the paths and fields that it accepted; the digest is of its
        own words, since nobody can see its binary."""
        flags = set()
        if output.help.status == 200:
            flags.add(COMPLETIONS)
            if _has_logprobs(output.help.stdout):
                flags.add("logprobs")
        elif output.help.status is not None:
            flags.add(CHAT)
        else:
            flags.add(COMPLETIONS)
        said = b"\0".join((output.version.stderr, output.system.stdout, output.devices.stdout[:65536]))
        version = output.version.stderr.decode("utf-8", "replace").strip()
        return Engine(
            binary=found.binary,
            sha256=f"sha256:{hashlib.sha256(said).hexdigest()}",
            libraries={},
            version=version or "unknown",
            flags=frozenset(flags),
            values={"model": model_names(output.version.stdout)},
            devices=Absence(AbsenceReason.NOT_COLLECTED, "the server was not started by us and lists no devices"),
            found_by=found.found_by,
        )


def model_names(body: bytes) -> tuple[str, ...]:
    """The ids in an answer of /v1/models; empty when there is nothing readable."""
    try:
        listed = json.loads(body)
    except (ValueError, RecursionError):
        return ()
    data = listed.get("data") if isinstance(listed, dict) else None
    entries = data if isinstance(data, list) else []
    return tuple(str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry)


def request(condition: Condition, *, chat: bool, logprobs: bool) -> dict[str, object]:
    """Greedy, streamed, with usage; log-probabilities where they are accepted."""
    body: dict[str, object] = {
        "model": condition.model,
        "max_tokens": condition.predict,
        "temperature": 0,
        "seed": condition.seed,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if chat:
        body["messages"] = [{"role": "user", "content": condition.prompt}]
        if logprobs:
            body |= {"logprobs": True, "top_logprobs": PROBS}
    else:
        body["prompt"] = condition.prompt
        if logprobs:
            body["logprobs"] = PROBS
    return body


def _has_logprobs(body: bytes) -> bool:
    try:
        choices = json.loads(body)["choices"]
        return choices[0].get("logprobs") is not None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return False


def _asked(peer: Peer, method: str, path: str, timeout: float, body: dict[str, object] | None = None) -> Finished:
    """One HTTP exchange in the form of a run."""
    began = time.monotonic()
    reply: Reply = peer.get(path, timeout) if body is None else peer.post(path, body, timeout)
    server = reply.headers.get("Server", "")
    return Finished(
        argv=(method, peer.address + path),
        status=reply.status,
        signal=None,
        stdout=reply.body,
        stderr=(reply.error or server).encode("utf-8", "replace"),
        timed_out=reply.timed_out,
        seconds=time.monotonic() - began,
    )


def _nothing(path: str) -> Finished:
    """A question that was not asked."""
    return Finished(("POST", path), None, None, b"", b"not asked: not exactly one model is served", False, 0.0)


ADAPTER = OpenAI()
