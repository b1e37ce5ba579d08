"""All requests of one trial to one server: one, one after the other, for a time, and in parallel.

Lanes ask at the same time, each over connections of its own; all begin together. The first request that fails ends
all lanes: what is in flight may end, nothing new is asked. Of very many answers to one request the first and the last
are kept.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from stillruns.act.templates import fill
from stillruns.act.wire import Peer, Told
from stillruns.model.spec import Timeouts

KEPT = 32
"""Answers to one request asked again and again whose bodies are kept, half from the beginning and half from the end:
one of 512 tokens with their log-probabilities is a megabyte, and all are read at once to judge the trial. A trial of
more different requests than that (a check) keeps an answer to each."""

TOKENIZE = "/tokenize"
SURE = 0.001
"""Seconds on top of a duration, so that what is written down, in rounded numbers, is never shorter than was asked."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What to ask once the server is ready; `port` is where it listens, `host` an address of this machine.

    Each of `lanes` sends `request` and then `more`, one after the other; with `seconds`, again and again until so
    many are over since the first was sent, the last one to its end. `texts` are tokenised first, for requests that
    name their tokens.
    """

    port: int
    ready_path: str
    request_path: str
    request: dict[str, object]
    host: str = "127.0.0.1"
    more: tuple[dict[str, object], ...] = ()
    lanes: int = 1
    seconds: float = 0.0
    texts: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """`http://127.0.0.1:8080`, `http://[::1]:8080`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it was sent, on which lane, and what came."""

    told: Told
    request: dict[str, object]
    path: str
    lane: int = 0

    @property
    def failed(self) -> bool:
        """Whether there is no sense in asking on."""
        return bool(self.told.broken or self.told.error or self.told.timed_out)


@dataclass(slots=True)
class Heard:
    """The outcome of it all. `asked` is in the order of the answers, the first that failed (else the last) at the
    end; `tokenised` holds the answers about texts; of `unkept` requests with so many tokens no answer was kept."""

    asked: list[Asked] = field(default_factory=list)
    tokenised: list[Asked] = field(default_factory=list)
    unkept: int = 0
    unkept_tokens: int = 0


class Asking:
    """Asks one server at `address`; bodies go into `folder`. `over` tells when there is nobody left to answer, on the
    monotonic clock, None while there is."""

    def __init__(
        self, ask: Ask, address: str, folder: Path, limits: Timeouts, over: Callable[[], float | None]
    ) -> None:
        self.ask, self.address, self.folder, self.limits = ask, address, folder, limits
        self.heard = Heard()
        self._over = over
        self._stop, self._abort = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._failed: Asked | None = None
        self._first_sent = float("inf")
        self._kept = KEPT

    def run(self) -> Heard:
        """All of it. An exception (Ctrl-C too) leaves no thread behind."""
        requests = self._requests()
        if requests:
            different = any(request != requests[0] for request in requests)
            self._kept = max(KEPT, len(requests)) if different else KEPT
            if self.ask.lanes == 1:
                self._lane(0, requests, None)
            else:
                self._lanes(requests)
        if self._failed is not None:
            self.heard.asked.append(self._failed)
        return self.heard

    def _requests(self) -> list[dict[str, object]]:
        """What a lane sends; empty when the server could not tokenise a text."""
        wanted = [self.ask.request, *self.ask.more]
        if not self.ask.texts:
            return wanted
        ids: list[list[int]] = []
        with contextlib.closing(Peer(self.address)) as peer:
            for number, text in enumerate(self.ask.texts):
                question: dict[str, object] = {"content": text, "add_special": True}
                asked = self._send(peer, TOKENIZE, question, f"tokens{number}", 0)
                found = _ids(asked.told.body)
                if asked.failed or found is None:
                    error = asked.told.error or "the server's answer holds no tokens"
                    self._failed = replace(asked, told=replace(asked.told, error=f"{TOKENIZE}: {error}"))
                    return []
                self.heard.tokenised.append(asked)
                ids.append(found)
        return [filled for request in wanted if (filled := fill(request, ids)) is not None]

    def _lanes(self, requests: list[dict[str, object]]) -> None:
        together = threading.Barrier(self.ask.lanes)
        threads = [
            threading.Thread(
                target=self._lane, args=(lane, requests, together), name=f"stillruns-lane-{lane}", daemon=True
            )
            for lane in range(self.ask.lanes)
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.1)
        finally:
            if any(thread.is_alive() for thread in threads):  # Ctrl-C
                self._abort.set()
                together.abort()
                for thread in threads:
                    if thread.ident is not None:
                        thread.join()

    def _lane(self, lane: int, requests: list[dict[str, object]], together: threading.Barrier | None) -> None:
        with contextlib.closing(Peer(self.address)) as peer:
            if together is not None:
                with contextlib.suppress(threading.BrokenBarrierError):
                    together.wait(10.0)
            for number, request in enumerate(self._turns(requests)):
                body = f"response{lane}.{number}" if lane or number else "response"
                asked = self._send(peer, self.ask.request_path, request, body, lane)
                self._take(asked)
                if asked.failed or self._dead() is not None:
                    self._stop.set()
                if self._stop.is_set() or self._long_enough(asked):
                    return

    def _turns(self, requests: list[dict[str, object]]) -> Iterable[dict[str, object]]:
        return itertools.cycle(requests) if self.ask.seconds else requests

    def _long_enough(self, last: Asked) -> bool:
        """Whether a duration is over with this answer: measured as it will be judged, from the first request sent,
        not from when the lanes were made, which takes a while on a busy machine."""
        return self.ask.seconds > 0 and last.told.ended_at - self._first_sent >= self.ask.seconds + SURE

    def _send(self, peer: Peer, path: str, request: dict[str, object], body: str, lane: int) -> Asked:
        told = peer.ask(
            path,
            request,
            self.folder / body,
            first_token=self.limits.first_token,
            token=self.limits.token,
            died_at=self._dead,
        )
        return Asked(told, request, path, lane)

    def _dead(self) -> float | None:
        return 0.0 if self._abort.is_set() else self._over()

    def _take(self, asked: Asked) -> None:
        with self._lock:
            self._first_sent = min(self._first_sent, asked.told.sent_at)
            if asked.failed and self._failed is None:
                self._failed = asked
                return
            heard = self.heard
            heard.asked.append(asked)
            if len(heard.asked) > self._kept:
                gone = heard.asked.pop(self._kept // 2)
                heard.unkept += 1
                heard.unkept_tokens += gone.told.tokens_seen
                gone.told.body.unlink(missing_ok=True)


def _ids(body: Path) -> list[int] | None:
    """The ids in an answer of /tokenize; None when it is none."""
    try:
        answer = json.loads(body.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    ids = answer.get("tokens") if isinstance(answer, dict) else None
    if not isinstance(ids, list) or not all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
        return None
    return ids
