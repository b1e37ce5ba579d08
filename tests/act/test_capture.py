"""A stream of any length becomes a file of bounded length: head and tail exact, the middle counted."""

from __future__ import annotations

import os
import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from stillruns.act.capture import Pump, Spool


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 20), st.integers(1, 30))
def test_head_and_tail(tmp_path_factory: object, pieces: list[bytes], head: int, tail: int) -> None:
    """Whatever the pieces: the file is the stream, or its first `head` and last `tail` bytes."""
    spool = Spool(tmp_path_factory.mktemp("spool") / "x", head, tail)  # type: ignore[attr-defined]
    for piece in pieces:
        spool.write(piece)
    whole = b"".join(pieces)
    cut = spool.finish()
    if len(whole) <= head + tail:
        assert cut is None and spool.path.read_bytes() == whole
    else:
        assert cut is not None and (cut.head, cut.dropped) == (head, len(whole) - head - tail)
        assert spool.path.read_bytes() == whole[:head] + whole[-tail:]


def test_a_full_disk_is_told_not_raised() -> None:
    """Writing to /dev/full: one sentence, and the stream is still read."""
    spool = Spool(Path("/dev/full"))
    spool.write(b"first")
    spool.write(b"second")
    assert spool.problem == "full is incomplete from byte 0 on: No space left on device"
    assert spool.finish() is None


def test_pump_reads_two_pipes_and_echoes(tmp_path: Path) -> None:
    """Both streams arrive whole, and are heard while they come."""
    heard: list[tuple[str, bytes]] = []
    pump = Pump(lambda name, data: heard.append((name, data)))
    spools = {name: Spool(tmp_path / name) for name in ("stdout", "stderr")}
    ends = {name: pump.pipe(name, spool) for name, spool in spools.items()}
    pump.start()
    os.write(ends["stdout"], b"one")
    os.write(ends["stderr"], b"two")
    for end in ends.values():
        os.close(end)
    assert pump.stop(60.0) == []
    for spool in spools.values():
        spool.finish()
    assert ((tmp_path / "stdout").read_bytes(), (tmp_path / "stderr").read_bytes()) == (b"one", b"two")
    assert sorted(heard) == [("stderr", b"two"), ("stdout", b"one")]


def test_a_pipe_that_was_closed_is_not_held(tmp_path: Path) -> None:
    """Closed before the time was over, and read by us only after: nobody holds it, and nothing is lost."""
    for _ in range(20):
        pump = Pump()
        end = pump.pipe("stderr", Spool(tmp_path / "x"))
        os.write(end, b"last words")
        os.close(end)
        pump.start()
        assert pump.stop(0.0) == []
        assert (tmp_path / "x").read_bytes() == b"last words"


def test_a_held_pipe_is_given_up(tmp_path: Path) -> None:
    """A writer that never closes costs the patience asked for, not for ever, and is named."""
    pump = Pump()
    end = pump.pipe("stderr", Spool(tmp_path / "x"))
    pump.start()
    os.write(end, b"last words")
    began = time.monotonic()
    assert pump.stop(0.2) == ["stderr"]
    assert time.monotonic() - began < 60.0
    assert (tmp_path / "x").read_bytes() == b"last words"
    os.close(end)
