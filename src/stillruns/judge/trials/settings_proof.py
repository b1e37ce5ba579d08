"""Whether the binary, its arguments and environment, and the server's own numbers are as asked.

llama.cpp refuses arguments that it does not know, so an argument that stands on the command line of a server that
became ready was accepted; where the server prints the value that it took, the printed one decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from stillruns.judge.trials.view import TrialView, file_name, no, unknown, yes
from stillruns.model.applied import FactorApplied
from stillruns.model.engine import Engine
from stillruns.model.evidence import Ref
from stillruns.model.exchange import Exchange

_PADS = (32, 256)
"""llama.cpp rounds the context up to a multiple of 256 (seen in b10068 and b10434: 300 becomes 512), older builds to
a multiple of 32 without flash attention (llama_kv_cache_get_padding)."""

_LEAST_BATCH = 64
"""Builds of 2024 and 2025 raise a smaller batch to this (GGML_KQ_MASK_PAD)."""

_ON = frozenset({"enabled", "on", "1", "true", "yes"})
_OFF = frozenset({"disabled", "off", "0", "false", "no"})


def prove(view: TrialView, engine: Engine | None) -> dict[str, FactorApplied]:
    """The factors `binary`, `arguments`, `env`, `model`, and the server's own numbers.

    An attached server has no command line of ours: there only what its log prints is judged.
    """
    factors: dict[str, FactorApplied] = {}
    if not view.attached:
        factors["binary"] = _binary(view, engine)
        factors["model"] = _model(view)
        if view.condition.args:
            factors["arguments"] = _arguments(view)
        if view.condition.env:
            factors["env"] = _env(view)
    for name, judge in _NUMBERS.items():
        factor = judge(view)
        if factor is not None:
            factors[name] = factor
    exchange = view.record.exchange
    if exchange is not None and exchange.status is not None and 400 <= exchange.status < 500:
        factors["request"] = _refused(exchange)
    return factors


def _refused(exchange: Exchange) -> FactorApplied:
    """A status of 4xx says that the asker is at fault (RFC 9110, 15.5): a prompt longer than the context, a key that
    is missing. Nothing was evaluated, so nothing failed."""
    status = f"HTTP {exchange.status}"
    said = exchange.error.removeprefix(f"{status}: ") or "it says no more"
    return no("one completion", status, f"the request was refused with {status}: {said}")


def _binary(view: TrialView, engine: Engine | None) -> FactorApplied:
    asked = view.condition.binary or "llama-server"
    if engine is None:
        return unknown(asked, "which binary ran is not known: its digest was not taken")
    if engine.binary not in view.record.argv:
        return no(asked, None, f"another program: {engine.binary} is not on the trial's command line")
    behind = f"started behind {view.condition.prefix[0]}" if view.condition.prefix else ""
    return yes(asked, engine.sha256, behind)


def _arguments(view: TrialView) -> FactorApplied:
    """Word by word, since an adapter may move some of them (`--rpc` has to stand before `--device`)."""
    asked = " ".join(view.condition.args)
    missing = Counter(view.condition.args) - Counter(view.record.argv)
    if not missing:
        return yes(asked, asked, "")
    return no(asked, None, f"arguments missing: {' '.join(missing)} is not on the trial's command line")


def _env(view: TrialView) -> FactorApplied:
    asked = view.condition.env
    text = " ".join(f"{name}={value}" for name, value in sorted(asked.items()))
    wrong = sorted(name for name, value in asked.items() if view.record.env.get(name) != value)
    if not wrong:
        return yes(text, text, "")
    got = " ".join(f"{name}={view.record.env[name]}" for name in wrong if name in view.record.env)
    return no(text, got or None, f"environment not set: {', '.join(wrong)} did not reach the server as asked")


def _model(view: TrialView) -> FactorApplied:
    """A name or a `synth:` recipe becomes a file before the trial; a file of the user's own must be that file."""
    asked = view.condition.model
    got = view.option("-m", "--model")
    refs = () if view.facts is None or view.facts.model_loaded is None else (view.facts.model_loaded,)
    if got is None:
        if view.option("-hf", "-hfr", "--hf-repo", "-mu", "--model-url") is not None:
            return yes(asked, asked, "", *refs)
        return no(asked, None, "no model: the command line has no -m")
    if asked.endswith(".gguf") and file_name(got) != file_name(asked):
        return no(asked, got, f"another model: {got} was loaded")
    return yes(asked, got, "", *refs)


def _printed(view: TrialView, name: str) -> tuple[str, Ref] | None:
    return None if view.facts is None else view.facts.settings.get(name)


def _unprinted(view: TrialView, asked: object, flags: tuple[str, ...], what: str) -> FactorApplied:
    """The server does not print the value: what its command line says, if it came far enough to refuse it."""
    if view.attached:
        return unknown(
            asked, f"nothing shows the {what}: {view.why_no_log if view.facts is None else 'it is not printed'}"
        )
    given = view.option(*flags)
    bare = asked == "on" and given is not None and given not in ("on", "off", "auto")  # -fa of 2024 has no value
    if given == str(asked) or bare:
        return yes(asked, None, "")
    if not view.ready:
        return yes(asked, None, "")
    return unknown(asked, f"nothing shows the {what}: it is neither printed nor on the command line")


def _number(view: TrialView, name: str) -> tuple[int, Ref] | None:
    printed = _printed(view, name)
    if printed is None:
        return None
    text, ref = printed
    return (int(text), ref) if text.isdecimal() else None


def _context(view: TrialView) -> FactorApplied | None:
    """Of one slot: llama.cpp shares what `-c` says out among them, and pads each share."""
    slots = view.condition.concurrency
    asked = view.condition.context
    seen = _number(view, "n_ctx")
    if seen is None:
        return _unprinted(view, asked * slots, ("-c", "--ctx-size"), "context")
    got, ref = seen[0] // slots, seen[1]
    if got == asked or asked == 0:
        return yes(asked, got, "", ref)
    for pad in _PADS:
        if got == -(-asked // pad) * pad:
            return yes(asked, got, f"context {asked} padded to {got} by the runtime", ref)
    return no(asked, got, f"other context: {got} tokens, {asked} were asked", ref)


def _printed_as(
    view: TrialView, name: str, what: str, flags: tuple[str, ...], asked: int, changed: Callable[[int], str]
) -> FactorApplied:
    """A number that the server prints; `changed` says why the runtime itself made another of it, or nothing."""
    seen = _number(view, name)
    if seen is None:
        return _unprinted(view, asked, flags, what)
    got, ref = seen
    why = changed(got)
    if got == asked or why:
        return yes(asked, got, "" if got == asked else why, ref)
    return no(asked, got, f"other {what}: {got}, {asked} was asked", ref)


def _batch(view: TrialView) -> FactorApplied | None:
    asked = view.condition.batch
    context = _number(view, "n_ctx")

    def changed(got: int) -> str:
        share = None if context is None else context[0] // view.condition.concurrency
        if context is not None and asked > got and got in (context[0], share, view.condition.context):
            return f"batch {asked} clipped to the context's {got} by the runtime"
        return f"batch {asked} raised to {got} by the runtime" if asked < _LEAST_BATCH == got else ""

    return _printed_as(view, "n_batch", "batch size", ("-b", "--batch-size"), asked, changed)


def _ubatch(view: TrialView) -> FactorApplied | None:
    asked = view.condition.ubatch
    batch = _number(view, "n_batch")

    def changed(got: int) -> str:
        clipped = batch is not None and asked > batch[0] and got == batch[0]
        return f"physical batch {asked} clipped to the batch's {got} by the runtime" if clipped else ""

    return _printed_as(view, "n_ubatch", "physical batch size", ("-ub", "--ubatch-size"), asked, changed)


def _threads(view: TrialView) -> FactorApplied | None:
    asked = view.condition.threads
    if asked < 1:
        return None
    return _printed_as(view, "n_threads", "number of threads", ("-t", "--threads"), asked, lambda _: "")


def _flash_attention(view: TrialView) -> FactorApplied | None:
    asked = view.condition.flash_attention
    if not asked:
        return None
    printed = _printed(view, "flash_attn")
    if printed is None:
        return _unprinted(view, asked, ("-fa", "--flash-attn"), "flash attention")
    got, ref = printed[0].lower(), printed[1]
    state = "on" if got in _ON else "off" if got in _OFF else ""
    if asked == "auto":
        return yes(asked, state or got, f"flash attention auto came out as {state}" if state else "", ref)
    if not state:
        if not view.ready:
            return yes(asked, None, "", ref)
        return unknown(asked, f"flash attention is printed as {got}, which does not say how it came out", ref)
    if state == asked:
        return yes(asked, state, "", ref)
    return no(asked, state, f"flash attention is {state}: {asked} was asked", ref)


_NUMBERS: dict[str, Callable[[TrialView], FactorApplied | None]] = {
    "context": _context,
    "batch": _batch,
    "ubatch": _ubatch,
    "threads": _threads,
    "flash_attention": _flash_attention,
}
