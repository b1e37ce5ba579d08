"""Broken connections in plain words, with real ones."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
import urllib3

from stillruns.act.broken import plain, timed_out
from stillruns.act.wire import Peer, Reply

pytestmark = pytest.mark.loopback

HEAD = b"HTTP/1.1 200 OK\r\n"


@contextlib.contextmanager
def saying(answer: bytes, *, linger: bool = False) -> Iterator[int]:
    """A server's port: whoever asks gets `answer`, and then the connection's end (a reset with `linger`)."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                peer.recv(65536)
                peer.sendall(answer)
                if linger:
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                peer.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def ask(port: int, seconds: float) -> Reply:
    with contextlib.closing(Peer(f"http://127.0.0.1:{port}")) as peer:
        return peer.get("/", seconds)


@pytest.mark.parametrize(
    ("answer", "linger", "words"),
    [
        (b"", False, "the connection was closed before an answer"),
        (b"", True, "the connection was reset"),
        (HEAD + b"Content-Length: 9\r\n\r\nabc", False, "the connection was closed in the middle of the answer"),
        (HEAD + b"Content-Length: 9\r\n\r\nabc", True, "the connection was reset"),
        (
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\nabc",
            False,
            "the connection was closed in the middle of the answer",
        ),
    ],
)
def test_ends(answer: bytes, linger: bool, words: str) -> None:
    """Each way in which a server can leave has its words; a reset is told from an end."""
    with saying(answer, linger=linger) as port:
        reply = ask(port, 60.0)
    assert (reply.error, reply.timed_out) == (words, False)


def test_nobody_and_nothing() -> None:
    """Nobody listens; somebody listens and says nothing; what has no words keeps its own."""
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        refused = ask(taken.getsockname()[1], 60.0)
    assert (refused.error, refused.timed_out) == ("the connection was refused", False)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        silent = ask(mute.getsockname()[1], 0.05)
    assert (silent.error, silent.timed_out) == ("no byte came in time", True)
    assert plain(ValueError("no\nsense")) == "ValueError: no sense"
    assert plain(PermissionError(13, "Permission denied")) == "the connection failed: Permission denied"


def test_causes_in_a_ring() -> None:
    """Errors that name each other end, and a wrapper says less than what it wraps."""
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert plain(one) == "ValueError: one" and not timed_out(one)
    wrapped = urllib3.exceptions.NewConnectionError(None, "x")  # type: ignore[arg-type]
    wrapped.__cause__ = ConnectionRefusedError(111, "Connection refused")
    assert plain(wrapped) == "the connection was refused" and not timed_out(wrapped)
