"""The promise: a port is said to be somebody else's only when somebody else listens on it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading

from stillruns.act import ports


def test_ours_and_another() -> None:
    """A listener of ours, one of a process that is not below us, and none."""
    with socket.socket() as mine:
        mine.bind(("127.0.0.1", 0))
        mine.listen()
        port = int(mine.getsockname()[1])
        assert ports.owner_is(port, os.getpid()) is True
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
            assert ports.owner_is(port, stranger.pid) is False
            stranger.communicate(b"\n")
    assert ports.owner_is(port, os.getpid()) is None


def test_a_listener_that_closes_is_nobody_elses() -> None:
    """A server that gives up its load closes its socket while we look: that is no lost race for the port."""
    port, over = ports.free_port(), threading.Event()

    def flicker() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError), socket.socket() as mine:  # a busy moment of the port is no matter
                mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                mine.bind(("127.0.0.1", port))
                mine.listen()

    thread = threading.Thread(target=flicker)
    thread.start()
    try:
        answers = {ports.owner_is(port, os.getpid()) for _ in range(300)}
    finally:
        over.set()
        thread.join()
    assert False not in answers
