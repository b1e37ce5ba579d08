"""The files of a foreign run folder -> what the client wrote down, and what its process listing shows.

The form is that of the vega-hbmx scripts: `result.json` with a list `records`, one entry a request, and `meta.json`
beside it. Fields came and went between the scripts' versions; a field that is missing is unknown, never a default.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.evidence import line_ref
from stillruns.model.server_log import Layers
from stillruns.model.worklog import ClientRecord, ClientRun, ProbedRunner, ServerProbe
from stillruns.normalise.logs.reader import lines, visible

MAX_RECORDS = 100_000
MAX_NOTED = 200
LARGEST = 1e15

_PROCESS = re.compile(
    r"^\S{1,64} {1,12}(?P<pid>\d{1,10}) {1,12}(?P<parent>\d{1,10}) .{0,80}?"
    r"(?P<command>/\S{1,300}) (?P<verb>serve|runner)\b"
)
_ZONE = re.compile(rb"(?:time=|^)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?P<zone>[+-]\d\d:\d\d|Z)", re.MULTILINE)
_DRIVER = re.compile(r"Driver version: (?P<version>\d[\w.+~-]{0,60})\s*$")
_VERSION = re.compile(r"ollama version is (?P<version>\d[\w.+-]{0,40})")
_STARTED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?\Z")


def read(name: str, result: bytes, meta: bytes, zone: str = "") -> ClientRun | Absence:
    """The run as its client wrote it. `name` is the folder's. An absence says why the files are no such run."""
    document = _object(result)
    if document is None:
        return Absence(AbsenceReason.UNPARSABLE, f"result.json of {name} is no JSON object")
    records = document.get("records")
    if not isinstance(records, list):
        return Absence(AbsenceReason.UNPARSABLE, f"result.json of {name} has no list of records")
    about = _object(meta) or {}
    shared = document.get("num_gpu", about.get("num_gpu"))
    read_records = tuple(
        _record(place, entry, shared)
        for place, entry in enumerate(records[:MAX_RECORDS], 1)
        if isinstance(entry, dict)
    )
    environment = about.get("environment")
    named = environment.items() if isinstance(environment, dict) else ()
    return ClientRun(
        name=name,
        started=_time(document.get("started_at")) or _time(about.get("timestamp")),
        model=_text(document.get("model"), 200),
        records=read_records,
        label=_text(document.get("backend_target", about.get("backend_target")), 40),
        host=_text(document.get("ollama_host", about.get("ollama_host")), 200),
        predict=_int(document.get("num_predict")),
        zone=zone,
        environment=tuple(sorted((str(key)[:100], _text(value, 200)) for key, value in named if value is not None)),
        noted=tuple((str(key)[:100], _line_of(meta, str(key)[:100])) for key, _ in [*named][:MAX_NOTED]),
    )


def version(text: bytes) -> tuple[str, int]:
    """The release that `ollama --version` printed for the server, and its line; empty where it printed none."""
    for line in lines(text):
        found = _VERSION.match(line.text)
        if found:
            return found["version"], line.number
    return "", 0


def kernel_driver(listing: bytes) -> str:
    """What rocm-smi calls `Driver version`: amdgpu's own, or the kernel's where the driver came with it."""
    for line in lines(listing):
        found = _DRIVER.match(line.text)
        if found:
            return found["version"]
    return ""


def server_environment(journal: bytes) -> int:
    """The line in which the server prints its own environment (`server config`); 0 where it does not."""
    at = journal.find(b'msg="server config" env=')
    return journal.count(b"\n", 0, at) + 1 if at >= 0 else 0


def _line_of(text: bytes, key: str) -> int:
    """The line of a key in a JSON text that has one member a line; 0 where it is not to be found."""
    place = text.find(json.dumps(key).encode())
    return text.count(b"\n", 0, place) + 1 if place >= 0 else 0


def zone(text: bytes) -> str:
    """The offset from UTC that a log or a listing shows in its times; empty when it shows none."""
    found = _ZONE.search(text[: 1 << 20])
    if not found:
        return ""
    shown = found["zone"].decode()
    return "+00:00" if shown == "Z" else shown


def probe(listing: bytes, source: str) -> ServerProbe:
    """The Ollama servers and runners in a listing of processes (`ps -ef`), with the places of the runners."""
    servers, runners = [], []
    for line in lines(listing):
        found = _PROCESS.match(line.text)
        if not found or "ollama" not in found["command"]:
            continue
        if found["verb"] == "serve":
            servers.append(int(found["pid"]))
        elif " --model " in line.text:
            runners.append(ProbedRunner(int(found["pid"]), int(found["parent"]), line_ref(source, line.number)))
    return ServerProbe(tuple(servers), tuple(runners))


def lists_a_model(listing: bytes) -> bool | None:
    """Whether `ollama ps` named a loaded model; None when this is no such listing."""
    rows = [line.text for line in lines(listing) if line.text.strip()]
    if not rows or not rows[0].startswith("NAME"):
        return None
    return len(rows) > 1


def _record(place: int, entry: dict[str, Any], shared: Any) -> ClientRecord:
    asked = entry.get("num_gpu", shared)
    error = _text(entry.get("error"), 500)
    characters = entry.get("response_chars")
    return ClientRecord(
        epoch=_int(entry.get("epoch")) or place,
        asked=layers(asked),
        status=_text(entry.get("status"), 40) or "unknown",
        started=_time(entry.get("started_at")),
        seconds=_seconds(entry.get("elapsed_sec")),
        tokens=_int(entry.get("eval_count")),
        rate=_rate(entry.get("eval_count"), entry.get("eval_duration")),
        prompt_tokens=_int(entry.get("prompt_eval_count")),
        prompt_rate=_rate(entry.get("prompt_eval_count"), entry.get("prompt_eval_duration")),
        characters=_int(characters),
        http_status=_int(entry.get("http_status")) or _status(error),
        error=error,
        response_file=_text(entry.get("response_file"), 200),
        ps_after_file=_text(entry.get("ollama_ps_after_file"), 200),
    )


def layers(asked: Any) -> Layers:
    """num_gpu as layers: a negative number leaves it to the server; what is no number is not known."""
    number = _int(asked)
    return None if number is None else number if number >= 0 else "auto"


def _seconds(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and 0 <= number < 1e8 else None


def _status(error: str) -> int | None:
    found = re.match(r"(?:HTTP )?(\d{3}) (?:Server Error|Client Error|from )", error)
    return int(found[1]) if found else None


def _rate(count: Any, nanoseconds: Any) -> float | None:
    number, duration = _number(count), _number(nanoseconds)
    return round(number / (duration / 1e9), 6) if number and duration else None


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _text(value: Any, limit: int) -> str:
    return "" if value is None else visible(str(value), limit)


def _time(value: Any) -> str:
    if not isinstance(value, str) or not _STARTED.match(value):
        return ""
    try:
        datetime.fromisoformat(value[:19])
    except ValueError:
        return ""
    return value


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST else None


def _number(value: Any) -> float | None:
    """A number that a duration or a count can be: finite, and not beyond what any run could reach."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -LARGEST < value < LARGEST:
        return None
    return float(value)
