"""The promise: any bytes are read as lines, with the right numbers, in linear time, without a traceback."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from stillruns.model.evidence import Cut
from stillruns.normalise.logs.prefix import strip
from stillruns.normalise.logs.reader import LONG_MARK, MAX_BYTES, MAX_EXCERPT, lines, visible


def texts(data: bytes) -> list[tuple[int, str]]:
    """Numbers and texts."""
    return [(line.number, line.text) for line in lines(data)]


@given(st.binary(max_size=2000))
def test_any_bytes(data: bytes) -> None:
    """Numbers rise by newline bytes only; no control character but tab comes through."""
    seen = list(lines(data))
    assert (seen[-1].number if seen else 0) == data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
    numbers = [line.number for line in seen]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(1, (numbers or [0])[-1] + 1))
    for line in seen:
        assert not any(ord(c) < 32 and c != "\t" for c in line.text)
        strip(line.text)


def test_what_terminals_show() -> None:
    """Colours go, NULs go, CRLF is a line end, broken UTF-8 is replaced, tabs stay."""
    assert texts(b"\x1b[1;31mred\x1b[0m\x00\tx\r\n\xff\xfe\n") == [(1, "red\tx"), (2, "��")]
    assert texts(b"\x1b]0;title\x07text") == [(1, "text")]


def test_rewritten_lines_keep_every_state() -> None:
    """A crash message behind a progress bar on the same line is not lost."""
    assert texts(b"10%\r20%\rCUDA error: x\nnext\n") == [(1, "10%"), (1, "20%"), (1, "CUDA error: x"), (2, "next")]
    assert texts(b"\r\r\r\n") == [(1, "")]
    assert len(texts(b"\r".join(b"%d" % n for n in range(100_000)))) == 16


def test_long_lines_keep_both_ends() -> None:
    """Of a line of megabytes its head and tail stay, and a mark in between."""
    (line,) = lines(b"head" + b"x" * 5_000_000 + b"tail\n")
    assert line.torn
    assert line.text.startswith("head")
    assert line.text.endswith("tail")
    assert LONG_MARK.strip() in line.text
    assert len(line.text) <= MAX_BYTES + len(LONG_MARK)


def test_the_cut_is_marked() -> None:
    """The line at which a bounded capture lost its middle is torn, no other."""
    data = b"one\ntw" + b"ree\nfour\n"
    assert [(x.number, x.torn) for x in lines(data, Cut(head=6, dropped=100))] == [(1, False), (2, True), (3, False)]


def test_excerpts_cannot_act() -> None:
    """Control characters and direction marks are shown as signs; excerpts are bounded."""
    assert visible("a\x1b[2Jb\tc") == "a␛[2Jb␉c"
    assert "\u202e" not in visible("abc\u202edef")
    assert len(visible("x" * 10_000)) == MAX_EXCERPT


def test_excerpts_are_the_same_with_every_python() -> None:
    """What the table does not name stays, printable or not: what is printable differs from release to release."""
    for code in (0x200B, 0x0378, 0xE000, 0xFEFF, 0x1FAEF):
        assert visible("\x1b" + chr(code)) == "␛" + chr(code)


def test_prefix_forms() -> None:
    """Each form of prefix comes off, and an unknown one stays part of the text."""
    new = strip("12.03.004.005 E srv  x: y")
    assert (new.text, new.seconds, new.level, new.form) == ("srv  x: y", 723.004005, "E", "stamp")
    old = strip('INFO [                    main] model loaded | tid="140301" timestamp=1724500003 n=1')
    assert (old.text, old.level, old.form) == ("main: model loaded | n=1", "I", "table")
    record = strip('{"tid":"1","timestamp":2,"level":"ERR","function":"main","line":3,"msg":"a","port":8080}')
    assert (record.text, record.level, record.form) == ("main: a | port=8080", "E", "json")
    assert strip('{"msg":').form == "plain"
    assert strip("[" * 100_000).form == "plain"
    assert strip('{"msg":' * 50_000).form == "plain"
    assert strip("Nov 30 08:00:00 host unit[1]: load_tensors: x").form == "plain"


def test_linear_time() -> None:
    """Four times the input costs about four times the time, whatever the input."""

    def cost(data: bytes) -> float:
        started = time.process_time()
        for line in lines(data):
            strip(line.text)
        return time.process_time() - started

    for unit in (b"\x1b[", b"\x1b]", b"\r", b"\n", b"\x00", b"x", b"0.00.000.000 I ", b'{"'):
        small, large = cost(unit * 50_000), cost(unit * 200_000)
        assert large < 12 * small + 0.2, unit
