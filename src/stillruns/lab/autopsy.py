"""`stillruns autopsy`: any logs -> servers, requests, timeline, incidents.

Inputs are streamed: a block is cut into lines, the prefilter leaves out the lines that no rule can match,
the splitter pushes the rest into the readers. So memory depends on what is found, not on the size of the input.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec.structs import replace

from stillruns.catalogue import literals, load
from stillruns.collect import core_dump, logs, worklog
from stillruns.collect.no_logs import LeftOut
from stillruns.judge.incidents import fields as incident_fields
from stillruns.judge.incidents import incident
from stillruns.judge.incidents.incident import Knowledge
from stillruns.model.autopsy import Autopsy, Source
from stillruns.model.backend import Runtime
from stillruns.model.hint import hint
from stillruns.model.kernel_log import KernelEvent
from stillruns.model.server_log import Ending, Note, ServerLog
from stillruns.normalise.crash import signs
from stillruns.normalise.logs import fences, kernel, llama_cpp_server, seam
from stillruns.normalise.logs.prefilter import Prefilter, dense_from
from stillruns.normalise.logs.reader import CleanLine, visible
from stillruns.normalise.logs.streams import (
    OURS,
    RUNTIMES,
    Catalogue,
    SourceLogs,
    Splitter,
    SupervisorLine,
    default_openers,
)

NAMED = 8
"""So many of the files that were left out are named."""


@dataclass
class _Whole:
    """What all inputs have given so far."""

    sources: list[Source] = field(default_factory=list)
    found: list[SourceLogs] = field(default_factory=list)
    warnings: list[Note] = field(default_factory=list)
    ids: Iterator[int] = field(default_factory=itertools.count)


class TrialLog(Protocol):
    """A log of a trial in a store (stored_logs.py: loading that costs more than reading a page of a log)."""

    @property
    def entry(self) -> logs.LogInput:
        """The log itself."""

    def record_bytes(self) -> bytes | None:
        """The harness's record of the trial; None for a server that ran before."""

    def name(self) -> str:
        """The trial."""

    def with_ending(
        self, servers: tuple[ServerLog, ...], last: tuple[str, str] | None, ref: str, id: str
    ) -> tuple[ServerLog, ...]:
        """The log's servers with what the record at `ref` tells besides."""


Opener = Callable[[str], tuple[Sequence[TrialLog], list[Note]]]
"""A store's folder, or a run's or trial's id -> (its logs, what was left out)."""


def perform(paths: tuple[str, ...], stdin: BinaryIO, stored: Opener | None = None) -> Autopsy:
    """Read everything that the paths name (`-` is `stdin`; what `stored` opens: a store, a run, a trial). Raises
    UsageError for a path that is not there or cannot be read; whatever a readable file holds is read."""
    catalogue = Catalogue({runtime: load.grammar(runtime) for runtime in RUNTIMES}, load.patterns())
    whole = _Whole()
    for path in paths:
        if stored is not None and logs.in_store(path):
            _stored(stored(path), catalogue, whole)
            continue
        left = LeftOut()
        for entry in logs.inputs((path,), stdin, left):
            source = f"s{len(whole.sources)}"
            if entry.path != "-" and logs.is_core(Path(entry.path)):
                _core(entry, source, catalogue, whole)
            else:
                _log(entry, source, catalogue, whole)
        whole.warnings += [Note("input", text) for text in _passed(path, left)]
    return conclude(whole, catalogue)


def _passed(path: str, left: LeftOut) -> Iterator[str]:
    """What a folder holds besides logs, each kind in a sentence."""
    if left.documents:
        text = f"{len(left.documents)} JSON documents in {path} are no logs and were passed over"
        if any(name.rsplit("/", 1)[-1] == worklog.RESULT for name in left.documents):
            text += f"; `{hint('import', path)}` joins the requests of its {worklog.RESULT} with the journal"
        yield text
    if left.others:
        what = "are source code, settings, tables or prose and were left out"
        yield f"{len(left.others)} files in {path} {what}: {_some(left.others)}; name one to have it read"
    if left.markdown:
        what = f"of {len(left.markdown)} pages in Markdown in {path} only the code blocks were read"
        yield f"{what}: {_some(left.markdown)}; name one to have all of it read"
    if left.further:
        yield f"{left.further} further files in {path} were not read, after the first {logs.MAX_FILES}; name them"


def _some(names: list[str]) -> str:
    """The first of them, and how many more."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(name.rsplit("/", 1)[-1] for name in names[:NAMED]) + more


def _stored(opened: tuple[Sequence[TrialLog], list[Note]], catalogue: Catalogue, whole: _Whole) -> None:
    """Trials of a store: each log, and beside it what the harness recorded of the process."""
    found, notes = opened
    whole.warnings += notes
    for stored in found:
        source = f"s{len(whole.sources)}"
        last = _log(stored.entry, source, catalogue, whole)
        record, raw = f"s{len(whole.sources)}", stored.record_bytes()
        if raw is None:
            continue
        digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
        whole.sources.append(Source(record, f"{stored.name()} record", digest, len(raw), 1))
        log = whole.found[-1]
        servers = stored.with_ending(log.servers, last, f"{record}:L1", f"srv{next(whole.ids)}")
        whole.found[-1] = replace(log, servers=servers)


def names_a_store(paths: tuple[str, ...]) -> bool:
    """Whether one of the paths is a store's folder, or the id of a run or a trial."""
    return any(logs.in_store(path) for path in paths)


def anchors() -> tuple[str, ...]:
    """A literal of every way in which a rule or a pattern can match, and those of deaths and of the kernel."""
    entries = [(p.regex, p.anchor) for p in load.patterns()]
    entries += [(rule.regex, rule.anchor) for runtime in RUNTIMES for rule in load.grammar(runtime)]
    found = {text for regex, anchor in entries for text in literals.of_regex(regex, anchor)}
    return literals.smallest((*found, *signs.ANCHORS, *kernel.ANCHORS))


def knowledge(servers: tuple[ServerLog, ...] = ()) -> Knowledge:
    """The catalogue, as the judge wants it; without the parts that these servers have no use for."""
    patterns = {p.id: p for p in load.patterns()}
    met = [patterns[t.pattern] for s in servers for t in s.troubles if t.pattern in patterns]
    died = bool(met) or any(s.endings or any(n.kind == "discovery" for n in s.notes) for s in servers)
    return Knowledge(
        patterns=patterns,
        workarounds={w.id: w for w in load.workarounds()} if any(p.workarounds for p in met) else {},
        issues=load.known_issues() if died else (),
        cards=load.card_names(),
    )


def conclude(whole: _Whole, catalogue: Catalogue) -> Autopsy:
    """Number the servers, tie systemd's lines to them, and judge."""
    servers = [server for found in whole.found for server in found.servers]
    servers = [replace(server, id=f"srv{number}") for number, server in enumerate(servers)]
    supervisor = [entry for found in whole.found for entry in found.supervisor]
    servers = [incident_fields.with_targets(server, load.card_names()) for server in _supervised(servers, supervisor)]
    events: tuple[KernelEvent, ...] = tuple(event for found in whole.found for event in found.kernel)
    incidents, notes = incident.judge(tuple(servers), events, knowledge(tuple(servers)))
    warnings = [*whole.warnings, *(n for found in whole.found for n in found.notes)]
    warnings += [replace(n, text=f"{s.id}: {n.text}") for s in servers for n in s.notes]
    return Autopsy(tuple(whole.sources), tuple(servers), incidents, (*warnings, *notes))


def _log(entry: logs.LogInput, source: str, catalogue: Catalogue, whole: _Whole) -> tuple[str, str] | None:
    """Read one log into `whole`; returns its last line that has text (ref, excerpt), as far as lines were parsed."""
    line: CleanLine | None = None
    splitter = Splitter(source, catalogue, default_openers(), lambda: f"srv{next(whole.ids)}")
    prefilter = Prefilter()
    for block in entry.blocks() if not entry.page else (fences.quoted(b"".join(entry.blocks())),):
        place = dense_from(block) if prefilter.whole else None
        for piece in (block,) if place is None else (block[:place], block[place:]):
            if entry.size > prefilter.whole and not prefilter.literals:
                prefilter.literals = anchors()
            for line in prefilter.feed(piece):
                splitter.take(line)
            if place is not None:
                prefilter.whole = 0
    for line in prefilter.end():
        splitter.take(line)
    whole.found.append(splitter.close())
    whole.sources.append(Source(source, entry.path, entry.sha256, entry.size, prefilter.lines, entry.note))
    if entry.note:
        whole.warnings.append(Note("input", f"{entry.path}: {entry.note}"))
    if entry.size == 0:
        whole.warnings.append(Note("input", f"{entry.path} is empty"))
    return (f"{source}:L{line.number}", visible(line.text)) if line else None


def _core(entry: logs.LogInput, source: str, catalogue: Catalogue, whole: _Whole) -> None:
    """A core file: gdb's text is read like any other log."""
    text, note, size, digest = core_dump.read(Path(entry.path))
    grammar = catalogue.grammars[Runtime.LLAMA_CPP]
    reader = llama_cpp_server.Reader(f"srv{next(whole.ids)}", entry.path, source, grammar, catalogue.patterns)
    prefilter = Prefilter()
    kept = itertools.chain(prefilter.feed(text), prefilter.end())
    servers = seam.read_all(reader, (core_dump.log_line(line.number, line.text) for line in kept))
    whole.found.append(SourceLogs(servers, (), ()))
    whole.sources.append(Source(source, entry.path, digest, size, prefilter.lines, note))
    if note:
        whole.warnings.append(Note("core", f"{entry.path}: {note}"))


def _supervised(servers: list[ServerLog], entries: list[SupervisorLine]) -> list[ServerLog]:
    """systemd's lines about a unit or a pid become endings of the server that they name, or of the only server there
    is where the unit is called like one."""
    for entry in entries:
        index = _owner(servers, entry.name, entry.sign.pid)
        if index is None:
            continue
        ending = Ending(
            kind=entry.sign.kind,
            ref=f"{entry.source}:L{entry.line.number}",
            text=visible(entry.line.text),
            signal=entry.sign.signal,
            exit_status=entry.sign.exit_status,
            phase=servers[index].last_phase,
            at=entry.line.at,
            pid=entry.sign.pid,
            secondary=bool(servers[index].endings),
        )
        servers[index] = replace(servers[index], endings=(*servers[index].endings, ending))
    return servers


def _owner(servers: list[ServerLog], name: str, pid: int | None) -> int | None:
    for index, server in enumerate(servers):
        unit = server.name.split("[", 1)[0]
        if (pid is not None and f"[{pid}]" in server.name) or (name and unit and unit == name):
            return index
    return 0 if len(servers) == 1 and OURS.search(name) else None
