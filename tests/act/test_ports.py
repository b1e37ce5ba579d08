"""The promise: a server that is dying is not taken for somebody else's, whose port it would have lost."""

from __future__ import annotations

import errno
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from act_helpers import EXIT, FIRST_THREAD_ENDS

from stillruns.act.launcher import state_and_parent
from stillruns.act.ports import cut_off, free_port, owner_is, refused

pytestmark = pytest.mark.loopback

LISTEN = """
import os, socket, sys, threading, time
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
"""


@contextmanager
def listening(more: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A child that listens, and its port."""
    with subprocess.Popen([sys.executable, "-c", LISTEN + more], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield child, int(child.stdout.readline())
        finally:
            child.kill()


def test_whose_it_is() -> None:
    """A child's, this process's own, and one that is neither."""
    with listening("time.sleep(600)") as (child, port), socket.socket() as mine:
        mine.bind(("127.0.0.1", 0))
        mine.listen()
        assert owner_is(port, child.pid) is owner_is(port, os.getpid()) is True
        assert owner_is(mine.getsockname()[1], child.pid) is False
        child.kill()
        child.wait()
        assert owner_is(port, os.getpid()) is None


def test_what_another_holds() -> None:
    """A port that somebody listens on is refused for that reason, a free one is not; the loopback is in reach."""
    with socket.socket() as mine:
        mine.bind(("127.0.0.1", 0))
        mine.listen()
        taken = refused("127.0.0.1", mine.getsockname()[1])
    assert taken is not None and taken.errno == errno.EADDRINUSE
    assert refused("127.0.0.1", free_port()) is None
    assert cut_off("127.0.0.1") == "" and cut_off("no address: ") != ""
    with pytest.raises(OverflowError):
        refused("127.0.0.1", 65536)


@pytest.mark.skipif(os.uname().machine not in EXIT, reason="the number of exit(2) is not known here")
def test_a_server_on_its_way_out() -> None:
    """Its first thread has ended, another lives on and holds the socket, which nobody can see any more."""
    with listening(FIRST_THREAD_ENDS.format(exit=EXIT[os.uname().machine])) as (child, port):
        while (state_and_parent(child.pid) or ("", 0))[0] != "Z":
            assert child.poll() is None
        assert owner_is(port, os.getpid()) is None


def test_killed_while_we_look() -> None:
    """At any moment: ours as long as it listens, and then nobody's; never another's."""
    moments = random.Random(1)
    for _ in range(20):
        with listening("time.sleep(600)") as (child, port):
            killer = threading.Timer(moments.random() * 0.02, child.kill)
            killer.start()
            while (owner := owner_is(port, os.getpid())) is not None:
                assert owner
            killer.join()
