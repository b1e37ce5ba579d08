"""The promise: lanes ask together, the first failure ends them all, and nothing of them is left behind."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stillruns.act import asking
from stillruns.act.asking import Ask, Asking
from stillruns.act.templates import TokenAt, TokensOf, fill
from stillruns.model.spec import Timeouts

pytestmark = pytest.mark.loopback

LIMITS = Timeouts(first_token=120.0, token=120.0)


class Server(ThreadingHTTPServer):
    """Answers one token after `pause` seconds. The request with the number `fails_at` gets an error, and those after
    it get their answer once `told` says that the client has heard of it."""

    daemon_threads = True
    pause = 0.0
    fails_at = 0
    seen = 0
    counting = threading.Lock()
    told = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """llama-server's /completion and /tokenize, as far as they are asked here."""

    server: Server

    def do_POST(self) -> None:
        """One answer."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            self._send(200, "application/json", json.dumps({"tokens": [ord(c) for c in body["content"]]}).encode())
            return
        with self.server.counting:  # lanes ask at the same time
            self.server.seen += 1
            number = self.server.seen
        if number == self.server.fails_at:
            self._send(500, "application/json", b'{"error": {"message": "Compute error.", "code": 500}}')
            return
        if 0 < self.server.fails_at < number:
            self.server.told.wait(120)
        time.sleep(self.server.pause)
        event = {"content": "x", "tokens": [1], "stop": False, "asked": body}
        end = {"content": "", "tokens": [], "stop": True}
        text = "".join(f"data: {json.dumps(e)}\n\n" for e in (event, end))
        self._send(200, "text/event-stream", text.encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def server() -> Iterator[Server]:
    """It, on a free port."""
    made = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def ask(server: Server, folder: Path, **changes: object) -> Asking:
    """Ready to run."""
    port = server.server_address[1]
    wanted = Ask(port, "/health", "/completion", {"prompt": "x"}, **changes)  # type: ignore[arg-type]
    return Asking(wanted, wanted.address, folder, LIMITS, lambda: None)


def lanes() -> list[str]:
    """Threads of ours that live."""
    return [t.name for t in threading.enumerate() if t.name.startswith("stillruns-lane")]


def test_lanes_ask_together(server: Server, tmp_path: Path) -> None:
    """Four lanes, two requests each: all answered, at most four at once, every body of its own."""
    server.pause = 0.1
    heard = ask(server, tmp_path, lanes=4, more=({"prompt": "y"},)).run()
    assert sorted((a.lane, str(a.request["prompt"])) for a in heard.asked) == [
        (lane, prompt) for lane in range(4) for prompt in ("x", "y")
    ]
    assert len({a.told.body for a in heard.asked}) == 8
    assert lanes() == []


def test_the_first_failure_ends_all(server: Server, tmp_path: Path) -> None:
    """It stands last, whatever the others brought; what was under way may end, nothing new is asked."""
    server.fails_at = 6
    wanted = ask(server, tmp_path, lanes=2, seconds=300.0)
    server.told = wanted._stop  # the other lane gets no answer before this one's failure was heard
    heard = wanted.run()
    assert heard.asked[-1].told.status == 500
    assert not any(a.failed for a in heard.asked[:-1])
    assert server.seen <= server.fails_at + 1


def test_asked_for_a_time(server: Server, tmp_path: Path) -> None:
    """Again and again until the time is over; beyond a number of answers the middle is counted, not kept."""
    began = time.monotonic()
    heard = ask(server, tmp_path, seconds=0.5).run()
    assert time.monotonic() - began >= 0.5
    assert len(heard.asked) + heard.unkept == server.seen
    assert heard.unkept == heard.unkept_tokens == max(0, server.seen - asking.KEPT)
    assert len(list(tmp_path.iterdir())) == len(heard.asked)


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_time_is_never_cut_short(server: Server, tmp_path: Path, lanes: int) -> None:
    """From the first request sent to the last answer's end, which is what proves it, however late the lanes begin."""
    for turn in range(10):
        (tmp_path / str(turn)).mkdir()
        asked = [a.told for a in ask(server, tmp_path / str(turn), lanes=lanes, seconds=0.05).run().asked]
        assert max(told.ended_at for told in asked) - min(told.sent_at for told in asked) >= 0.05


def test_tokens_are_the_servers(server: Server, tmp_path: Path) -> None:
    """A request that names tokens gets those that the server tokenised; one that asks for too many is left out."""
    request = {"prompt": [TokensOf(0, 3), 7], "logit_bias": [[TokenAt(0, 3), 100]]}
    wanted = Ask(
        server.server_address[1], "/health", "/completion", request, texts=("abcd",), more=({"p": TokenAt(0, 4)},)
    )
    heard = Asking(wanted, wanted.address, tmp_path, LIMITS, lambda: None).run()
    assert len(heard.tokenised) == len(heard.asked) == 1
    assert heard.asked[0].request == {"prompt": [97, 98, 99, 7], "logit_bias": [[100, 100]]}


def test_filling() -> None:
    """Tokens alone are a list, in a list they are its elements; too few are None."""
    assert fill({"prompt": TokensOf(0, 2)}, [[5, 6, 7]]) == {"prompt": [5, 6]}
    assert fill({"prompt": [TokensOf(0, 2), 9]}, [[5, 6, 7]]) == {"prompt": [5, 6, 9]}
    assert fill({"prompt": TokensOf(0, 4)}, [[5, 6, 7]]) is None
    assert fill({"prompt": TokensOf(1, 1)}, [[5]]) is None
