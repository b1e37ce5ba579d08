"""HTTP with one server: is it ready, and one request with its answer as raw bytes.

One pool for one server's life (a pool that outlives a server on the same port fails once for no reason), no retries
(a request would be sent twice), no proxies (urllib3 pools know none). Deadlines are wall-clock and on tokens, not on
reads: a server may send keep-alive comments for ever. A guard thread enforces them by shutting the socket down, and
does the same when the server has died but a descendant still holds the connection.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from stillruns.act.broken import plain, timed_out
from stillruns.act.events import EventReader, plain_error
from stillruns.errors import UsageError

LONGEST_BODY = 64 << 20
"""Bytes of an answer that are kept; a server that sends more is cut off."""

SMALL = 1 << 20
"""Bytes of a small answer that are kept."""

_FAILURES = (urllib3.exceptions.HTTPError, OSError, ValueError)
"""What a broken, hung or lying peer makes urllib3 and http.client raise."""


@dataclass(frozen=True, slots=True)
class Told:
    """One exchange as seen on the wire; times on the monotonic clock in seconds."""

    sent_at: float
    first_token_at: float | None
    ended_at: float
    status: int | None
    error: str
    timed_out: str
    tokens_seen: int
    body: Path
    broken: bool
    """The connection ended before the answer did: the server may be dying."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A small answer, its body cut at SMALL bytes. `status` None when none came; `error` then says why, `timed_out`
    whether it was for lack of time."""

    status: int | None
    headers: dict[str, str]
    body: bytes
    error: str = ""
    timed_out: bool = False


class _Wires:
    """The open sockets of a pool, so that another thread can shut them down."""

    def __init__(self) -> None:
        self._open: list[socket.socket] = []

    def add(self, wire: socket.socket) -> None:
        """Remember an open socket, forget the closed ones."""
        self._open = [old for old in self._open if old.fileno() >= 0] + [wire]

    def shut(self) -> None:
        """End all reading and writing on them; whoever is blocked in one goes on."""
        for wire in self._open:
            with contextlib.suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)


def _remembering(wires: _Wires, scheme: str) -> type[HTTPConnection]:
    """A connection class that remembers its sockets in `wires`."""
    base: type[HTTPConnection] = HTTPSConnection if scheme == "https" else HTTPConnection

    class Connection(base):  # type: ignore[misc, valid-type]
        def connect(self) -> None:
            """Connect, and remember the socket."""
            super().connect()
            wires.add(self.sock)

    return Connection


class Peer:
    """A server at an address such as `http://127.0.0.1:8080`. Raises UsageError for anything but http and https."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{address!r} is no address of a server; write it as http://127.0.0.1:8080")
        self.address = f"{parts.scheme}://{parts.netloc}"
        self._prefix = parts.path.rstrip("/")
        self._wires = _Wires()
        self._scheme, self._host, self._port = parts.scheme, parts.hostname, parts.port
        self._pool = self._new_pool()

    def _new_pool(self) -> urllib3.HTTPConnectionPool:
        kind = urllib3.HTTPSConnectionPool if self._scheme == "https" else urllib3.HTTPConnectionPool
        pool = kind(self._host, self._port, maxsize=1, retries=False, block=False)
        pool.ConnectionCls = _remembering(self._wires, self._scheme)
        return pool

    def _renew(self) -> None:
        """Drop all connections; the next request makes a new one (a closed pool would refuse)."""
        self._pool.close()
        self._pool = self._new_pool()

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def get(self, path: str, timeout: float) -> Reply:
        """One small GET; never raises for what the server does."""
        return self._small("GET", path, None, timeout)

    def post(self, path: str, request: dict[str, object], timeout: float) -> Reply:
        """One small POST of JSON; never raises for what the server does."""
        return self._small("POST", path, json.dumps(request).encode(), timeout)

    def _small(self, method: str, path: str, body: bytes | None, timeout: float) -> Reply:
        wait = urllib3.Timeout(connect=min(timeout, 2.0), read=timeout)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            answer = self._pool.urlopen(
                method,
                self._prefix + path,
                body=body,
                headers=headers,
                timeout=wait,
                preload_content=False,
                redirect=False,
                decode_content=False,
            )
            with contextlib.closing(answer):
                reply = Reply(answer.status, dict(answer.headers), answer.read(SMALL))
                if len(reply.body) < SMALL:
                    answer.read(1)  # raises when the answer is shorter than it said it would be
                return reply
        except _FAILURES as error:
            self._renew()
            return Reply(None, {}, b"", plain(error), timed_out(error))

    def listening(self) -> bool:
        """Whether a TCP connection is accepted: far cheaper than a request while nobody listens."""
        with contextlib.suppress(OSError), socket.create_connection((self._host, self._port or 80), 1.0):
            return True
        return False

    def ask(
        self,
        path: str,
        request: dict[str, object],
        body: Path,
        *,
        first_token: float,
        token: float,
        died_at: Callable[[], float | None] = lambda: None,
    ) -> Told:
        """Post `request` and keep the raw body in the file `body`.

        `first_token` and `token` are seconds allowed until the first and each further token; `died_at` tells when the
        server's process has ended (monotonic clock).
        """
        self._renew()  # a kept connection that the server closes at this moment would look like a crash
        guard = _Guard(self._wires, died_at)
        reader = EventReader()
        exchange = _Exchange(time.monotonic(), guard, reader, body, token)
        guard.allow("first_token", first_token)
        with guard:
            wait = urllib3.Timeout(connect=5.0, read=first_token + 1.0)
            try:
                answer = self._pool.urlopen(
                    "POST",
                    self._prefix + path,
                    body=json.dumps(request).encode(),
                    headers={"Content-Type": "application/json", "Accept": "text/event-stream, application/json"},
                    timeout=wait,
                    preload_content=False,
                    redirect=False,
                    decode_content=False,
                )
                with contextlib.closing(answer):
                    exchange.read(answer)
            except _FAILURES as error:
                exchange.failed(error)
        self._renew()
        return exchange.told()


class _Guard:
    """A thread that shuts the wires when a deadline has passed, or soon after the server's death."""

    AFTER_DEATH = 0.5
    """Seconds in which what a dead server had sent can still be read."""

    def __init__(self, wires: _Wires, died_at: Callable[[], float | None]) -> None:
        self.expired = ""
        self._name, self._deadline = "", float("inf")
        self._wires, self._died_at = wires, died_at
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, name="stillruns-guard", daemon=True)

    def allow(self, name: str, seconds: float) -> None:
        """From now on the deadline `name` is `seconds` away."""
        self._name, self._deadline = name, time.monotonic() + seconds

    def _work(self) -> None:
        while not self._done.wait(0.05):
            now = time.monotonic()
            death = self._died_at()
            if now > self._deadline:
                self.expired = self._name
            elif death is None or now < death + self.AFTER_DEATH:
                continue
            self._wires.shut()
            # goes on: a connection made after this must be shut too

    def __enter__(self) -> _Guard:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


class _Exchange:
    """The state of one request while its answer is read."""

    def __init__(self, sent_at: float, guard: _Guard, reader: EventReader, body: Path, token: float) -> None:
        self.sent_at, self.guard, self.reader, self.body, self.token = sent_at, guard, reader, body, token
        self.first_token_at: float | None = None
        self.status: int | None = None
        self.error = ""
        self.broken = False
        self.bytes = 0
        self.streams = False
        body.write_bytes(b"")

    def read(self, answer: urllib3.BaseHTTPResponse) -> None:
        """Read the body to its end into the file, moving the deadline on with each token."""
        self.status = answer.status
        self.streams = "event-stream" in answer.headers.get("Content-Type", "")
        with self.body.open("wb", buffering=0) as file:
            while piece := answer.read1(1 << 16):
                file.write(piece)
                self.bytes += len(piece)
                seen = self.reader.tokens
                self.reader.feed(piece)
                if self.reader.tokens > seen:
                    self.first_token_at = self.first_token_at or time.monotonic()
                    self.guard.allow("token", self.token)
                if self.bytes > LONGEST_BODY:
                    self.error = f"the answer was cut off at {LONGEST_BODY >> 20} MiB"
                    return
        self._judge_end()

    def _judge_end(self) -> None:
        """The stream has ended without an error of the connection: is that the end of the answer?"""
        after = f"after {self.reader.tokens} tokens"
        if self.reader.error:
            self.error = f"error in the stream {after}: {self.reader.error}"
        elif self.status is not None and self.status >= 400:
            self.error = f"HTTP {self.status}: {plain_error(self.body.read_bytes()[: 1 << 16])}"
        elif self.streams and not self.reader.finished:
            self.error = f"the stream ended {after} without its final event"
            self.broken = True
        elif not self.streams and not self.bytes:
            self.error = "the answer is empty"
            self.broken = True

    def failed(self, error: Exception) -> None:
        """The connection broke: one line for the record."""
        self.broken = True
        where = f" after {self.reader.tokens} tokens" if self.status is not None else ""
        self.error = f"{plain(error)}{where}"

    def told(self) -> Told:
        """What was seen, finished."""
        expired = self.guard.expired
        error = self.error
        if expired:
            error = f"no {expired.replace('_', ' ')} within its deadline, {self.reader.tokens} tokens before"
        return Told(
            sent_at=self.sent_at,
            first_token_at=self.first_token_at,
            ended_at=time.monotonic(),
            status=self.status,
            error=error,
            timed_out=expired,
            tokens_seen=self.reader.tokens,
            body=self.body,
            broken=self.broken and not expired,
        )
