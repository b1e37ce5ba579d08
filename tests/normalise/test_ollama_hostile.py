"""The promise: no bytes break the reader of Ollama's logs, none make it slow, and every place it names is real."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stillruns.catalogue import load
from stillruns.model.applied import Answer
from stillruns.model.backend import Runtime
from stillruns.model.evidence import parse_ref
from stillruns.model.server_log import LogLine, ServerLog
from stillruns.normalise.logs import ollama, seam, slog
from stillruns.normalise.logs.envelope import open_line
from stillruns.normalise.logs.ollama_noun import refs_of
from stillruns.normalise.logs.ollama_requests import seconds
from stillruns.normalise.logs.reader import lines

GOLDEN = Path(__file__).parents[1] / "golden" / "ollama"
LOGS = [path.read_bytes() for path in sorted(GOLDEN.glob("*.raw"))]
RULES, PATTERNS = load.grammar(Runtime.OLLAMA), load.patterns()


def read(data: bytes) -> tuple[ServerLog, ...]:
    """All lines as one stream, whatever unit they name: the hardest mix."""
    entries = [LogLine(line.number, open_line(line.text).text, "", line.torn) for line in lines(data)]
    return seam.read_all(ollama.Reader("srv0", "", "s0", RULES, PATTERNS), entries)


def check(data: bytes) -> None:
    """Read, and check what must hold of any input."""
    last = data.count(b"\n") + 1
    for server in read(data):
        runners = {runner.id for runner in server.runners}
        for ref in refs_of(server):
            number = parse_ref(ref)[1]
            assert number is not None and 1 <= number <= last
        for request in server.requests:
            assert request.runner is None or request.runner in runners
            assert request.why
            if request.applied is not Answer.UNKNOWN:
                assert request.applied_layers is not None
            if request.reused:
                assert request.requested_layers is None and request.applied is Answer.UNKNOWN
        for ending in server.endings:
            assert ending.runner is None or ending.runner in runners


@pytest.mark.parametrize("data", LOGS, ids=range(len(LOGS)))
def test_truncated_anywhere(data: bytes) -> None:
    """A log may begin and end at any byte."""
    step = max(1, len(data) // 150)
    for cut in range(0, len(data), step):
        check(data[:cut])
        check(data[cut:])


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_shuffled_and_mutated(data: st.DataObject) -> None:
    """Lines in any order, of several logs, with bytes changed."""
    rows = [row for log in LOGS for row in log.split(b"\n")]
    chosen = data.draw(st.lists(st.sampled_from(rows), max_size=120))
    blob = bytearray(b"\n".join(chosen))
    for place in data.draw(st.lists(st.integers(0, max(0, len(blob) - 1)), max_size=40)):
        if blob:
            blob[place] = data.draw(st.integers(0, 255))
    check(bytes(blob))


@given(st.binary(max_size=3000))
@settings(max_examples=80, deadline=None)
def test_noise(blob: bytes) -> None:
    """Binary noise is no server."""
    check(blob)


@given(st.text(max_size=300))
@settings(max_examples=150, deadline=None)
def test_slog_takes_any_text(text: str) -> None:
    """Heads, attributes and values of any text, without an error."""
    for start in ("", "time=", "level=INFO msg=", 'time=2026-01-01T00:00:00Z level=INFO source=a.go:1 msg="'):
        head = slog.head(start + text)
        assert head is None or isinstance(head.message, str)
        slog.attributes(start + text)
        slog.value(text)
        slog.local_seconds(text)
        seconds(text)


def test_durations() -> None:
    """Go's durations, in all their units; anything else is none."""
    assert seconds("1m2.5s") == 62.5 and seconds("40.821µs") == 4.0821e-05 and seconds("1h0m1s") == 3601.0
    assert seconds("350ms") == 0.35
    assert seconds("") is None and seconds("5 apples") is None and seconds("1.2.3s") is None


FLOODS = {
    "one line of a megabyte": b'time=2026-05-02T10:00:00Z level=INFO source=a.go:1 msg="' + b"x=" * 500_000 + b"\n",
    "quotes": b'time=2026-05-02T10:00:00Z level=INFO source=a.go:1 msg="loading model" '
    + b'a="\\"' * 150_000
    + b"\n",
    "access lines": b'[GIN] 2026/05/02 - 10:00:00 | 200 |  1.5s |  127.0.0.1 | POST  "/api/chat"\n' * 12_000,
    "runner starts": b'time=2026-05-02T10:00:00Z level=INFO source=server.go:431 msg="starting runner" '
    b'cmd="/o runner --ollama-engine --model /m --port 1"\n' * 7_000,
    "deaths": b"SIGSEGV: segmentation violation\nPC=0x1 m=1 sigcode=1 addr=0x2\ngoroutine 1 [syscall]:\n" * 10_000,
    "stacks": b"github.com/ollama/ollama/x.(*Server).computeBatch(0x1, {0x0, {0x1, 0x2}, {0x1, 0x2}})\n" * 11_000,
    "blanks": b" " * 1_000_000,
    "braces": b'msg=load request="{Operation:fit ' + b"{" * 999_000 + b"\n",
}


@pytest.mark.parametrize("name", FLOODS)
def test_no_flood_is_slow(name: str) -> None:
    """A megabyte of the same takes about as long as a megabyte of a log: below the second that is promised, with a
    margin for slow machines, and nowhere near the minutes of what grows with the square."""
    data = FLOODS[name]
    started = time.process_time()
    check(data)
    assert time.process_time() - started < 8.0 * len(data) / 1e6, name


def test_many_requests_are_bounded() -> None:
    """Of very many requests and runners a part is kept, and a note says how many are not."""
    start = (
        'time=2026-05-02T10:00:00Z level=INFO source=x.go:1 msg="starting runner" cmd="/o runner --model /m --port 1"'
    )
    entries = (LogLine(number, start) for number in range(1, 2_502))
    (server,) = seam.read_all(ollama.Reader("srv0", "", "s0", RULES, PATTERNS), entries)
    assert len(server.runners) == 2_000
    assert [note.text for note in server.notes if note.kind == "cut"] == ["501 further runners are left out"]


def test_real_journals_shuffled_blocks(shared: Path) -> None:
    """Real journals, torn into blocks and mixed: still no error, every place real."""
    chooser = random.Random(5)
    for path in sorted((shared / "data" / "vega-hbmx").glob("run_*/ollama_journal_since_start.txt"))[:4]:
        rows = path.read_bytes().split(b"\n")[:700]
        blocks = [rows[i : i + 40] for i in range(0, len(rows), 40)]
        chooser.shuffle(blocks)
        check(b"\n".join(row for block in blocks for row in block))
