"""What the report on a supervised command tells beside the verdict: the host, the environment, the lines to read."""

from __future__ import annotations

import os
import platform
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from stillruns.judge.trials.once import BENCH
from stillruns.judge.trials.user_command import UserCommand
from stillruns.lab.runs import host, reading
from stillruns.model.evidence import Evidence, Ref, line_of, line_ref
from stillruns.model.once_result import OnceResult
from stillruns.model.outcome import OutcomeKind
from stillruns.model.trial import TrialRecord
from stillruns.normalise.logs.prefix import strip
from stillruns.normalise.logs.reader import lines, visible
from stillruns.store.store import Store

DECIDING = 12
"""At most so many of the lines that the verdict rests on."""
TABLE = 10
"""So many lines of llama-bench's table."""
TAIL = 10
"""So many of the last lines of a log that ends badly."""
_CHATS = ("llama-cli", "llama-run", "llama-simple")
"""Programs whose output holds what the user and the model said."""
_DEBUG = 5
"""From this verbosity on llama-server prints the requests themselves."""
_TOLD_LEVELS = ("I", "W", "E")
_TABLE_END = re.compile(rb"^build: [0-9a-f]{6,40} \(\d{1,8}\)\r?$", re.MULTILINE)
_EVERYBODYS = ("LANG", "LC_ALL", "PATH", "TZ")
_OURS = "STILLRUNS_"


def tell(
    result: OnceResult, store: Store, read: reading.Reading, command: UserCommand, body: Mapping[str, object]
) -> OnceResult:
    """The result with what belongs beside it. `body` is the record `run_started`, from which a later report reads the
    host as well; `command` the llama.cpp program's own command line."""
    added = _texts(body.get("added"))
    shown = {k: v for k, v in _texts(body.get("env")).items() if k not in (*_EVERYBODYS, *added)}
    return replace(
        result,
        added=added,
        excerpts=_excerpts(read, result, command) | _table(store, read, result),
        system=system(body.get("host")),
        environment={k: v for k, v in shown.items() if not k.startswith(_OURS)},
    )


def described() -> dict[str, object]:
    """The host as `run_started` keeps it: what a maintainer asks for first."""
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = ""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        memory = 0
    return {**host.describe(), "os": name, "memory_bytes": memory}


def system(told: object) -> str:
    """The host in one line; empty for a run that did not record it."""
    if not isinstance(told, dict):
        return ""
    drivers = told.get("drivers")
    memory = told.get("memory_bytes")
    parts = [
        str(told.get("os") or ""),
        f"kernel {told.get('kernel')} {told.get('machine')}",
        f"{told.get('cpu') or 'unknown CPU'}, {told.get('processors')} processors",
        f"{memory / 2**30:.0f} GiB" if isinstance(memory, int) and memory else "",
        *(f"{name} {version}".strip() for name, version in (drivers.items() if isinstance(drivers, dict) else ())),
    ]
    return "; ".join(part for part in parts if part)


def _texts(told: object) -> dict[str, str]:
    return {str(k): str(v) for k, v in told.items()} if isinstance(told, dict) else {}


def _excerpts(read: reading.Reading, result: OnceResult, command: UserCommand) -> dict[Ref, str]:
    """The lines of its log that the verdict rests on and, where it ended badly, its last ones, from the top down. A
    line that was printed before but for its time is left out: a load that is tried twice fails twice."""
    log = reading.log_of(read.record)
    if log is None:
        return {}
    mine = sorted((ref for ref in result.refs if ref.startswith(f"{log.id}:L")), key=line_of)
    key = result.outcome.key_line
    deciding = _told_apart(reading.quoted(read.log, log, mine), key)
    kept = list(deciding)[:DECIDING]
    if key in deciding and key not in kept:
        kept[-1:] = [key]
    told = {ref: deciding[ref] for ref in kept} | _tail(read.log, log, result, command)
    return dict(sorted(_told_apart(told, key).items(), key=lambda item: line_of(item[0])))


def tables(store: Store, record: TrialRecord) -> int:
    """How many tables of llama-bench stand on its standard output, by their last lines."""
    printed = next((e for e in record.evidence if e.kind == "stdout"), None)
    return len(_TABLE_END.findall(store.read_blob(printed.sha256))) if printed is not None and printed.bytes else 0


def _table(store: Store, read: reading.Reading, result: OnceResult) -> dict[Ref, str]:
    """llama-bench's own result, which it prints on its standard output."""
    printed = next((e for e in read.record.evidence if e.kind == "stdout"), None)
    if result.program != BENCH or printed is None:
        return {}
    found = {}
    for line in lines(store.read_blob(printed.sha256), printed.cut):
        if line.text.startswith(("| ", "build: ")) and not line.text.startswith("| --"):
            found[line_ref(printed.id, line.number)] = visible(line.text)
    return dict(list(found.items())[-TABLE:])


def _told_apart(texts: Mapping[Ref, str], key: Ref | None) -> dict[Ref, str]:
    """Without repeats, of which the deciding line stays."""
    first: dict[str, Ref] = {}
    for ref, text in texts.items():
        words = strip(text).text
        if ref == key or words not in first:
            first[words] = ref
    kept = set(first.values())
    return {ref: text for ref, text in texts.items() if ref in kept}


def _tail(data: bytes, log: Evidence, result: OnceResult, command: UserCommand) -> dict[Ref, str]:
    """The last lines of a llama.cpp log that ended badly: what a maintainer reads first. Nothing that may hold what
    the user asked: no chat, and of a log with debug lines only those that say they are none."""
    if result.mixed:
        return {}  # one of the programs may be a chat
    well = result.outcome.kind in (OutcomeKind.OK, OutcomeKind.INTERRUPTED)
    speaks = bool(result.program or result.version or result.devices)
    if well or not speaks or result.program in _CHATS:
        return {}
    number = command.number("verbosity")
    debug = command.verbose or (number or 0) >= _DEBUG
    last: deque[tuple[Ref, str]] = deque(maxlen=TAIL)
    for line in lines(data, log.cut):
        level = strip(line.text).level
        if line.text.strip() and (level in _TOLD_LEVELS or (not level and not debug)):
            last.append((line_ref(log.id, line.number), visible(line.text)))
    return dict(last)
