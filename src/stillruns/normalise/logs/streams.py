"""Mixed input -> the streams of single processes, each pushed into the reader of its runtime.

A journal names its processes (unit and pid), Compose its containers; everything else is one plain stream. Which
runtime a stream belongs to, its own lines tell: Ollama by slog and GIN lines, vLLM by its logger, llama.cpp by its
own prefixes. Lines are held back until one decides (at most HOLD of them); ggml's lines alone decide nothing, since
Ollama's runners print them too. A plain stream may change its runtime where a new program clearly starts: a file
into which several logs were pasted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from stillruns.model.backend import Runtime
from stillruns.model.expression import Expression
from stillruns.model.kernel_log import KernelEvent
from stillruns.model.pattern import CrashPattern, GrammarRule
from stillruns.model.server_log import LogLine, Note, ServerLog
from stillruns.normalise.crash import signs
from stillruns.normalise.logs import kernel, llama_cpp_server, ollama, vllm
from stillruns.normalise.logs.envelope import KERNEL, Opened, open_line
from stillruns.normalise.logs.reader import CleanLine
from stillruns.normalise.logs.seam import LogReader, Opener

HOLD = 3000
"""Lines of an undecided stream that are held back."""
MAX_STREAMS = 200
"""Further units of a journal are left out, with a note."""

_OLLAMA = re.compile(
    r"level=[A-Z]+ source=\S+\.go:\d+ |^\[GIN\] |\bmsg=\"|^ollama\S* serve|"
    r"^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \w{1,40}\.go:\d{1,5}: [A-Z]{4,5} |^github\.com/(?:ollama|jmorganca)/ollama/"
)
_VLLM = re.compile(
    r"^\((?:EngineCore|APIServer|VllmWorker|Worker|RayWorker)\S{0,30}|^(?:INFO|WARNING|ERROR) "
    r"\d\d-\d\d \d\d:\d\d:\d\d |"
    r"\bvllm[/.]|^\[rank\d+\]:|vLLM"
)
_LLAMA = re.compile(
    r"^(?:\d+\.\d\d\.\d{3}\.\d{3} [IWEDTC] )?(?:main: build = |build: \d+ \(|Log start$|srv  |slot \w|"
    r"main: server is |"
    r"cmn  common_param|main: llama backend init|llama_print_timings|llama_perf_context_print|\| model  |"
    r"\{\"tid\"|INFO \[ *main\] build info)|llama-(?:server|cli|bench)\S* -|common_init_from_params"
)
_LLAMA_START = re.compile(
    r"^(?:[$>#❯] ?)\S*llama-(?:server|cli|bench)\S* -|^main: build = \d|^build: \d+ \([0-9a-f]+\) with |^Log start$"
)
OURS = re.compile(r"llama|vllm|ggml|koboldcpp", re.IGNORECASE)
"""Names of units, containers and processes that may be a model server."""
_SPOKEN = Expression(r"\bggml_|\bllama_|/ggml\b|/ggml-")
"""Errors that only ggml and llama.cpp print."""
_CHILD = 'msg="starting llama-server"'

RUNTIMES: tuple[Runtime, ...] = (Runtime.OLLAMA, Runtime.VLLM, Runtime.LLAMA_CPP)


class Catalogue(msgspec.Struct, frozen=True):
    """What the readers need: grammars by runtime, and the patterns; loaded by `lab`."""

    grammars: Mapping[Runtime, tuple[GrammarRule, ...]]
    patterns: tuple[CrashPattern, ...]


@dataclass
class _Stream:
    name: str
    held: list[LogLine] = field(default_factory=list)
    leaning: Runtime | None = None
    runtime: Runtime | None = None
    readers: dict[Runtime, LogReader] = field(default_factory=dict)
    has_children: bool = False
    plain: bool = True


class SupervisorLine(msgspec.Struct, frozen=True):
    """A line of systemd or systemd-coredump about an end: `name` is the unit's or the process's."""

    source: str
    name: str
    sign: signs.Sign
    line: LogLine


class SourceLogs(msgspec.Struct, frozen=True):
    """Everything in one source: servers in the order of their first lines, kernel events, signs of systemd's about
    units, and what a reader of the report should know."""

    servers: tuple[ServerLog, ...]
    kernel: tuple[KernelEvent, ...]
    supervisor: tuple[SupervisorLine, ...]
    notes: tuple[Note, ...] = ()


@dataclass
class Splitter:
    """One source's lines, in order. `openers` maps a runtime to its Reader class."""

    source: str
    catalogue: Catalogue
    openers: Mapping[Runtime, Opener]
    new_id: Callable[[], str]
    kernel: kernel.Reader = field(init=False)
    _streams: dict[str, _Stream] = field(default_factory=dict)
    _supervisor: list[SupervisorLine] = field(default_factory=list)
    _left_out: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Open the kernel's reader: its lines may stand anywhere."""
        self.kernel = kernel.Reader(self.source)

    def take(self, line: CleanLine) -> None:
        """The next line of the source (reader.lines: clean, numbered)."""
        opened = open_line(line.text)
        if not opened.unit and " exited with code " in opened.text[:200]:
            opened = self._container(opened)
        entry = LogLine(line.number, opened.text, opened.at, line.torn)
        if opened.unit == KERNEL:
            self.kernel.take(entry)
            return
        if opened.unit in ("systemd", "systemd-coredump") and opened.journal:
            self._supervise(opened, entry)
            return
        key = f"{opened.unit}[{opened.pid}]" if opened.pid is not None else opened.unit
        stream = self._streams.get(key)
        if stream is None:
            if line.beside:
                return  # another program's line that stands near a death
            if len(self._streams) >= MAX_STREAMS:
                self._left_out.add(key[:60]) if len(self._left_out) < 1000 else None
                return
            stream = self._streams[key] = _Stream(key, plain=not opened.unit)
            if opened.unit.startswith("ollama"):
                stream.leaning = Runtime.OLLAMA
        self._push(stream, entry)

    def _container(self, opened: Opened) -> Opened:
        """Compose's `llama-1 exited with code 139` belongs to the container that it names."""
        name, _, rest = opened.text.partition(" exited with code ")
        if name in self._streams:
            return Opened(f"exited with code {rest}", name, None, opened.at, True)
        return opened

    def _supervise(self, opened: Opened, line: LogLine) -> None:
        sign = signs.read(line.text)
        if sign is not None and len(self._supervisor) < 500:
            name = sign.unit.removesuffix(".service") or sign.process
            self._supervisor.append(SupervisorLine(self.source, name, sign, line))

    def _push(self, stream: _Stream, line: LogLine) -> None:
        if stream.runtime is None:
            stream.held.append(line)
            decided = self._lean(stream, line.text)
            if decided or len(stream.held) >= HOLD:
                self._decide(stream)
            return
        if stream.plain:
            self._maybe_switch(stream, line.text)
        stream.readers[stream.runtime].take(line)

    @staticmethod
    def _lean(stream: _Stream, text: str) -> bool:
        """Whether the line decides at once; llama.cpp's lines only lean, since an Ollama line may follow."""
        if _is_ollama(text):
            if stream.leaning is not Runtime.LLAMA_CPP or _CHILD in text:
                stream.leaning = Runtime.OLLAMA
            return True
        if _is_vllm(text):
            stream.leaning = Runtime.VLLM
            return True
        if stream.leaning is None and _LLAMA.search(text):
            stream.leaning = Runtime.LLAMA_CPP
        return False

    def _decide(self, stream: _Stream) -> None:
        held, stream.held = stream.held, []
        stream.runtime = stream.leaning or Runtime.LLAMA_CPP
        self._reader(stream, stream.runtime)
        for line in held:
            self._push(stream, line)

    def _reader(self, stream: _Stream, runtime: Runtime) -> LogReader:
        if runtime not in stream.readers:
            opener = self.openers.get(runtime, self.openers[Runtime.LLAMA_CPP])
            rules = self.catalogue.grammars.get(runtime, ())
            stream.readers[runtime] = opener(self.new_id(), stream.name, self.source, rules, self.catalogue.patterns)
        return stream.readers[runtime]

    def _maybe_switch(self, stream: _Stream, text: str) -> None:
        stream.has_children = stream.has_children or _CHILD in text
        goal = stream.runtime
        if stream.runtime is not Runtime.OLLAMA and _is_ollama(text):
            goal = Runtime.OLLAMA
        elif stream.runtime is not Runtime.VLLM and text[:1] == "(" and _VLLM.match(text):
            goal = Runtime.VLLM
        elif stream.runtime is not Runtime.LLAMA_CPP and not stream.has_children and _LLAMA_START.match(text):
            goal = Runtime.LLAMA_CPP
        if goal is not None and goal is not stream.runtime:
            self._reader(stream, goal)
            stream.runtime = goal

    def close(self) -> SourceLogs:
        """The source has ended."""
        servers: list[ServerLog] = []
        for stream in self._streams.values():
            if stream.runtime is None:
                self._decide(stream)
            for reader in stream.readers.values():
                servers += [s for s in reader.close() if not _empty(s)]
        notes = []
        if self._left_out:
            notes.append(Note("left out", f"{len(self._left_out)} further units of the journal were not read"))
        if self.kernel.left_out:
            notes.append(Note("left out", f"{self.kernel.left_out} further kernel lines of trouble are not shown"))
        return SourceLogs(tuple(servers), self.kernel.close(), tuple(self._supervisor), tuple(notes))


def _is_ollama(text: str) -> bool:
    """A line in Ollama's own form. The literals are cheap, and most lines have none."""
    likely = "level=" in text or "[GIN]" in text or 'msg="' in text or ".go:" in text or "ollama" in text
    return likely and _OLLAMA.search(text) is not None


def _is_vllm(text: str) -> bool:
    """A line in vLLM's own form."""
    likely = "vllm" in text or "vLLM" in text or text.startswith(("(", "INFO ", "WARNING ", "ERROR ", "[rank"))
    return likely and _VLLM.search(text) is not None


def _empty(server: ServerLog) -> bool:
    """A stream that is no server at all: another unit of the journal, prose around a paste. Of a named process that
    is neither called like a model server nor speaks like one, an exit status alone is none of our business."""
    if server.runtime in (Runtime.LLAMA_CPP, Runtime.OLLAMA):
        return False  # it spoke in its own words
    if server.name and server.runtime is Runtime.UNKNOWN and not OURS.search(server.name):
        spoke = any(_SPOKEN.search(trouble.text) for trouble in server.troubles)
        return not (spoke or server.runners or server.devices or server.phases or server.backends_loaded)
    return not (
        server.runners
        or server.requests
        or server.troubles
        or server.endings
        or server.devices
        or server.phases
        or server.backends_loaded
        or server.version.low
    )


def default_openers() -> dict[Runtime, Opener]:
    """Runtime -> Reader."""
    return {
        Runtime.LLAMA_CPP: llama_cpp_server.Reader,
        Runtime.OLLAMA: ollama.Reader,
        Runtime.VLLM: vllm.Reader,
    }
