"""A llama.cpp program's stream -> ServerLogs: llama-server, llama-cli, llama-bench, and ggml lines of anything else.

The grammar is `llama_cpp.step`'s; here is what it does not need for trials: restarts within one stream, the command
line that a paste begins with, llama-bench's table, requests, and how the process ended.
"""

from __future__ import annotations

from msgspec.structs import replace

from stillruns.model.evidence import Ref, line_of, line_ref
from stillruns.model.expression import Expression
from stillruns.model.pattern import CrashPattern, GrammarRule
from stillruns.model.phase import Phase
from stillruns.model.server_facts import Event
from stillruns.model.server_log import LogLine, ServerLog
from stillruns.normalise.logs import command_lines, llama_cpp, llama_cpp_summary
from stillruns.normalise.logs.command_lines import Command
from stillruns.normalise.logs.deaths import Deaths, Where
from stillruns.normalise.logs.llama_cpp_life import Life
from stillruns.normalise.logs.llama_cpp_state import State
from stillruns.normalise.logs.matcher import pattern_table, rule_table
from stillruns.normalise.logs.seam import AFTER
from stillruns.normalise.logs.starts import Starts

_USER_LAYERS = Expression(r"n_gpu_layers already set by user to (?P<layers>-?\d{1,6})\b")
_PASSED_LAYERS = Expression(r"--n-gpu-layers (?P<layers>\d{1,6}) was passed but no ")
_FRONT_LAYERS = Expression(
    r"^Namespace\(.*\bgpulayers=(?P<layers>-?\d{1,6})\b|\bUsing gpu_layers=(?P<web>-?\d{1,6}|auto) \| "
)
"""Programs in front of llama.cpp that print their own arguments: KoboldCpp, text-generation-webui."""
_COUNTED = Expression(r"^(?:Processing Prompt(?: \[\w{1,20}\])?|Generating) \(\d{1,7} / \d{1,7} tokens\)(?=[^\s(])")
FRAME = 12
"""A notice that stands in a frame of one character has fewer lines."""
_BENCH_HEAD = Expression(r"^\| model\s{1,80}\|.*\|\s{0,40}t/s \|$")
_BENCH_ROW = Expression(r"^\| .{1,200} \| .*\d (?:±|\+/?-|_) \d")
"""Pastes lose the sign between a mean and its spread."""
_BENCH_BUILD = Expression(r"^build: (?P<commit>[0-9a-f]{6,40}) \((?P<build>\d{1,8})\)$")
_VERSION = Expression(
    r"^version: (?:\d[\w.-]{0,30} \(build )?\d{1,8}(?:, commit [0-9a-f]{6,40}\)| \([0-9a-f]{6,40}\))$"
)
_OVERRIDE = Expression(r"HSA_OVERRIDE_GFX_VERSION\s{0,3}[:=]\s{0,3}\"?(?P<value>\d{1,2}\.\d{1,2}\.\d{1,2})")
_NAME = Expression(r"^\s{0,8}Name:\s{1,40}(?P<target>gfx[0-9a-f]{3,5})\b")
_START = Expression(
    r"main: build = \d|(?:^| )build: \d{1,8} \([0-9a-f]+\) with |"
    r"print_info: build \d|build info \| build="
)
_REPEATS = Expression(r"^\s{0,4}(?:[!@G0]|\?){24,}\s{0,4}$")


class Reader:
    """A LogReader for llama.cpp; see `seam`."""

    def __init__(
        self,
        id: str,
        name: str,
        source: str,
        rules: tuple[GrammarRule, ...],
        patterns: tuple[CrashPattern, ...],
    ) -> None:
        """`rules` is llama.cpp's grammar; `id` names the first server, restarts get `id.2`, `id.3`."""
        self._name, self._source = name, source
        self._table = rule_table(rules).matcher()
        self._crashes = pattern_table(patterns).matcher()
        self._phased = frozenset(p.id for p in patterns if p.phase is not None)
        self._starts = Starts(id)
        self._life = self._new()

    def _new(self) -> Life:
        return Life(State(self._source), Deaths(self._source), phased=self._phased)

    def take(self, line: LogLine) -> None:
        """The next line. What stands behind a count that KoboldCpp renews without ending its line is a line, too."""
        counted = _COUNTED.match(line.text) if " tokens)" in line.text else None
        if counted:
            self._take(replace(line, text=counted[0]))
            line = replace(line, text=line.text[counted.end() :])
        self._take(line)

    def _take(self, line: LogLine) -> None:
        life = self._life
        follows = command_lines.more(line.text, life.unended_command) if life.after_command == line.number else None
        if follows:
            self._continued(line)
            return
        life.unended_command = False
        command = command_lines.read(line.text)
        starts = command or ("build" in line.text and _START.search(line.text))
        if starts and life.decisive and (_has_lived(life) or (command and life.program)):
            life = self._restart()
        if life.first == 0:
            life.first = line.number
        life.last = line.number
        ref = line_ref(self._source, line.number)
        if command:
            _command(life, command, ref, line.text)
            return
        stripped, events, pattern = llama_cpp.step(life.state, self._table, self._crashes, line.number, line.text)
        for event in events:
            _event(life, event, line.at)
        if life.state.phases.spans and life.state.phases.spans[-1].last == ref:
            life.phase_line = (ref, stripped.text)
        if pattern is not None:
            life.state.stamp_trouble(ref, line.at)
            life.keep(ref, stripped.text)
            life.keep(*life.phase_line)
            life.after = AFTER
        elif life.after:
            life.after -= 1
            life.keep(ref, stripped.text)
        if not events or "already set by user to" in stripped.text:
            _loose(life, stripped.text, ref, line.at)
        sign = life.deaths.see(line.number, stripped.text, _where(life, line.at))
        if sign is not None:
            life.ended = life.ended or sign.kind in ("signal", "exit", "terminate", "assert")
            life.keep(ref, stripped.text)
            life.keep(*life.phase_line)
            if sign.pid:
                life.pids.add(sign.pid)

    def _continued(self, line: LogLine) -> None:
        """A further line of a command that a shell reads on after a backslash."""
        life, ref = self._life, line_ref(self._source, line.number)
        life.last, life.unended_command = line.number, line.text.endswith("\\")
        life.after_command = line.number + 1
        found = command_lines.layers(f" {line.text.strip()}")
        if found is not None:
            life.asked, life.asked_ref = found, ref
            life.keep(ref, line.text)

    def _restart(self) -> Life:
        self._finish()
        self._life = self._new()
        return self._life

    def _finish(self) -> None:
        life = self._life
        if life.first:
            self._starts.ended(lambda name: llama_cpp_summary.summary(life, name, self._name))

    def close(self) -> tuple[ServerLog, ...]:
        """The stream has ended."""
        self._finish()
        self._life = self._new()
        return self._starts.close()


def _has_lived(life: Life) -> bool:
    """Whether this process has gone beyond its own first lines, so that another first line means another process."""
    return life.state.loads > 0 or life.ended or life.state.version is not None


def _where(life: Life, at: str) -> Where:
    spans = life.state.phases.spans
    phase = life.state.phase()
    ref = spans[-1].last if spans and phase is not Phase.UNKNOWN else None
    runner = "load" if life.state.loads or life.state.load.offloaded else None
    return Where(phase, ref, runner, life.requests.current, at)


def _command(life: Life, command: Command, ref: Ref, text: str) -> None:
    front = command.program.startswith("koboldcpp")
    life.decisive = life.decisive or not front
    life.program = "koboldcpp" if front else command.program
    life.unended_command = text.endswith("\\")
    life.after_command = line_of(ref) + 1
    life.keep(ref, text)
    if command.layers is not None:
        life.asked, life.asked_ref = command.layers, ref


_TEACHES = ("offloaded", "device_used", "backend_loaded", "cuda_device", "vulkan_device", "devices_found", "fit")
_DECISIVE = (
    "build",
    "verbosity",
    "slots",
    "listening",
    "request_start",
    "prompt",
    "timing_prompt",
    "idle",
    "cleanup",
    "init",
    "loading",
)


def _event(life: Life, event: Event, at: str) -> None:
    kind, text, ref = event.kind, event.text, event.ref
    if kind.startswith("client_"):
        life.program = life.program or ("LM Studio" if event.rule.startswith("lmstudio") else "koboldcpp")
    if kind in _DECISIVE:
        life.decisive = True
    if kind in _TEACHES or kind in (
        "build",
        "model_loaded",
        "cleanup",
        "listening",
        "warmup",
        "gguf",
        "gpu_error_where",
    ):
        life.keep(ref, text)
    if kind in ("context", "warmup") or life.state.stamped:
        life.announces_warmup = True
    if kind == "request_start":
        life.requests.start(text, ref, at, "load")
        life.keep(ref, text)
    elif kind == "prompt":
        life.requests.prompt(text, ref, at, "load")
    elif kind in ("timing_prompt", "timing_decode"):
        tokens, ms = int(event.fields["tokens"][:9]), float(event.fields["ms"][:24])
        life.requests.timing(text, ref, tokens, ms, kind == "timing_prompt")
    elif kind == "request_end":
        life.requests.release(text, ref, at)
    elif kind == "idle":
        life.requests.current = None


def _loose(life: Life, text: str, ref: Ref, at: str) -> None:
    """Lines that no grammar rule knows: access lines, llama-bench's table, what pastes carry besides."""
    if "request: " in text or "log_server_request" in text:
        life.requests.access(text, ref, at)
        life.decisive = True
    elif "already set by user to" in text or "--n-gpu-layers " in text:
        found = _USER_LAYERS.search(text) or _PASSED_LAYERS.search(text)
        if found and life.asked is None:
            life.asked, life.asked_ref = int(found["layers"]), ref
            life.keep(ref, text)
    elif text.startswith("| "):
        _bench(life, text, ref)
    elif text.startswith("build: "):
        found = _BENCH_BUILD.match(text)
        if found and life.state.version is None:
            life.state.version = f"{found['build']} ({found['commit']})"
            life.decisive = True
    elif "gpulayers=" in text or "gpu_layers=" in text:
        found = _FRONT_LAYERS.search(text)
        if found:
            life.asked, life.asked_ref = command_lines.number(found["layers"] or found["web"]), ref
            life.keep(ref, text)
    elif text.startswith("Welcome to KoboldCpp"):
        life.program = life.program or "koboldcpp"
    elif "[lmstudio-llama-cpp]" in text or "[LM Studio]" in text:
        life.program = life.program or "LM Studio"
    elif text.startswith("version: ") and _VERSION.match(text):
        life.state.phases.idle()  # `--version` ends here: what follows is another run
    elif "HSA_OVERRIDE_GFX_VERSION" in text:
        found = _OVERRIDE.search(text)
        if found:
            life.override = ref
            life.keep(ref, text)
    elif "Name:" in text[:16]:
        found = _NAME.match(text)
        if found and life.named_target is None:
            life.named_target = (found["target"], ref)
            life.keep(ref, text)
    elif len(text) >= 24 and _REPEATS.match(text):
        _repeated(life, text, ref)


def _repeated(life: Life, text: str, ref: Ref) -> None:
    """One character over and over: an answer, unless it is one edge of a frame around a notice (rpc-server's)."""
    if life.garbage is None:
        life.garbage, life.garbage_edge = ref, (text.strip(), ref)
        life.keep(ref, text)
        return
    edge, first = life.garbage_edge
    apart = line_of(ref) - line_of(first)
    if life.garbage == first and text.strip() == edge and 2 <= apart <= FRAME:
        life.garbage = None


def _bench(life: Life, text: str, ref: Ref) -> None:
    if _BENCH_HEAD.match(text):
        life.bench = [cell.strip() for cell in text.strip("| \n").split("|")]
        life.program = life.program or "llama-bench"
        life.decisive = True
        life.keep(ref, text)
    elif life.bench and _BENCH_ROW.match(text) and len(life.bench_rows) < 1000:
        cells = [cell.strip() for cell in text.strip("| \n").split("|")]
        if len(cells) == len(life.bench):
            life.bench_rows.append((ref, dict(zip(life.bench, cells, strict=True))))
            life.keep(ref, text)
