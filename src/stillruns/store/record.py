"""One record of the journal and its line form.

A line is one JSON object in ASCII, in this order:

    {"seq":7,"prev_sha256":"sha256:..","writer":"w000003-1a2b3c4d","at":"2026-11-30T09:15:00.123456Z",
     "kind":"trial_ended","run":"20261130T091500Z-1a2b3c4d","body":{..},"sha256":"sha256:.."}

`sha256` is the digest of the line's bytes before `,"sha256":`, so a line proves itself: any byte changed anywhere in
it shows. `prev_sha256` is the `sha256` of the writer's record before it (64 zeros for its first, seq 0). The first
record of a writer carries `after`, the heads of the other writers' chains that no journal had named yet: so the loss
of the tail of an older journal shows too.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone

import msgspec

from stillruns.errors import StoreDamaged

ZERO = "sha256:" + "0" * 64
"""What the first record of a writer follows."""

LINE_LIMIT = 4 * 1024 * 1024
"""A record is at most this long, in bytes; what is bigger belongs into a blob."""

_SEAL = re.compile(rb',"sha256":"(sha256:[0-9a-f]{64})"\}\Z')
_SEAL_BYTES = len(f',"sha256":"{ZERO}"}}')


@dataclass(frozen=True, slots=True)
class Record:
    """`seq` counts from 0 within `writer`; `at` is UTC, ISO 8601 with microseconds; `body` is JSON-able."""

    seq: int
    kind: str
    run: str
    at: str
    body: dict[str, object]
    sha256: str
    prev_sha256: str
    writer: str


class ChainHead(msgspec.Struct, frozen=True):
    """The last record of a chain."""

    seq: int
    sha256: str


class RecordLine(msgspec.Struct, frozen=True):
    """A line whose digest is right; the body is left as bytes until somebody wants it."""

    seq: int
    prev_sha256: str
    writer: str
    at: str
    kind: str
    run: str
    body: msgspec.Raw
    sha256: str
    after: dict[str, ChainHead] = {}

    def record(self) -> Record:
        """The record with its body decoded."""
        return Record(
            self.seq, self.kind, self.run, self.at, self.decode(), self.sha256, self.prev_sha256, self.writer
        )

    def decode(self) -> dict[str, object]:
        """The body. Unknown keys are the reader's to tolerate; StoreDamaged when it is no object."""
        body = _loads(bytes(self.body))
        if not isinstance(body, dict):
            raise StoreDamaged(f"record {self.seq} of {self.writer} has no object as its body")
        return body


_decoder = msgspec.json.Decoder(RecordLine)


def _loads(data: bytes) -> object:
    """msgspec is fast and refuses half a surrogate pair, which a file name that is no UTF-8 brings; json takes it."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return json.loads(data)
    except RecursionError as error:
        raise StoreDamaged("a record's body is nested too deeply to be read") from error


def _dumps(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def now() -> str:
    """UTC, ISO 8601, microseconds: `2026-11-30T09:15:00.123456Z`."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def encode(
    seq: int, prev_sha256: str, writer: str, kind: str, run: str, body: dict[str, object], after: dict[str, ChainHead]
) -> bytes:
    """The whole line with its newline. Dataclasses, enums and tuples in the body are written as JSON.

    Raises ValueError for NaN or infinity, TypeError for what JSON cannot hold.
    """
    line: dict[str, object] = {"seq": seq, "prev_sha256": prev_sha256, "writer": writer, "at": now()}
    line |= {"kind": kind, "run": run}
    if after:
        line["after"] = after
    line["body"] = body
    sealed = _dumps(msgspec.to_builtins(line, str_keys=True))[:-1]
    return b'%s,"sha256":"sha256:%s"}\n' % (sealed, hashlib.sha256(sealed).hexdigest().encode())


def decode(line: bytes) -> RecordLine:
    """A line without its newline. Raises StoreDamaged with what is wrong with it (no place: the caller knows it)."""
    seal = _SEAL.match(line, max(0, len(line) - _SEAL_BYTES))
    if not seal:
        raise StoreDamaged("this is no record: it does not end with its own digest")
    claimed = seal.group(1).decode()
    derived = f"sha256:{hashlib.sha256(memoryview(line)[: seal.start()]).hexdigest()}"
    if derived != claimed:
        raise StoreDamaged(f"the record's bytes give {derived}, but it says {claimed}")
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        found = _decode_slowly(line)
        if found is None:
            raise StoreDamaged(f"the record's digest is right, but it cannot be read: {error}") from error
        return found


def _decode_slowly(line: bytes) -> RecordLine | None:
    try:
        fields = json.loads(line)
        return msgspec.convert({**fields, "body": msgspec.Raw(_dumps(fields["body"]))}, RecordLine)
    except (ValueError, KeyError, TypeError, RecursionError, msgspec.MsgspecError):
        return None
