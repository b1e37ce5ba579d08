"""The promise: the prefilter changes the cost, never the answer; line numbers stay those of the file."""

from __future__ import annotations

import io
import random
import time
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stillruns.lab import autopsy
from stillruns.model.autopsy import Autopsy
from stillruns.normalise.crash import signs
from stillruns.normalise.logs.prefilter import Prefilter, dense_from, scanner
from stillruns.normalise.logs.reader import lines

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "autopsy").glob("*.raw"))
NOISE = b"Mar 07 01:00:00 box nginx[811]: 10.0.0.1 - - GET /index.html 200 512\n"


@lru_cache(maxsize=1)
def journal() -> bytes:
    """Three megabytes of another program's lines, some of them long: lines cost time, their number shows nothing."""
    chance = random.Random(1)
    lines = (
        NOISE.replace(b"10.0.0.1", b"10.0.0.%d" % chance.randrange(250)).replace(
            b"index", b"/".join([b"a-page-of-them"] * chance.choice((1, 1, 8, 40, 80)))
        )
        for _ in range(7_000)
    )
    return b"".join(lines)


needs_search = pytest.mark.skipif(scanner(("x y z",)) is None, reason="hyperscan is not installed")


def numbered(data: bytes, block: int, literals: tuple[str, ...]) -> dict[int, str]:
    """The lines that the prefilter lets through, by number."""
    prefilter = Prefilter(literals, whole=0)
    found = [line for i in range(0, len(data), block) for line in prefilter.feed(data[i : i + block])]
    found += prefilter.end()
    assert prefilter.lines == data.count(b"\n") + (0 if data.endswith(b"\n") or not data else 1)
    return {line.number: line.text for line in found}


@needs_search
@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from([b"plain", b"GGML_ASSERT(x) failed", b"x y z here", b"", b"a\rb", b"tail \xff"]), max_size=60
    ),
    st.integers(1, 40),
)
def test_numbers_are_those_of_the_file(parts: list[bytes], block: int) -> None:
    """Whatever the block size, a delivered line has the number and the text that it has in the whole file, and no
    line with a literal is left out."""
    data = b"\n".join(parts)
    every = {line.number: line.text for line in lines(data)}
    some = numbered(data, block, ("x y z",))
    assert all(every[number] == text for number, text in some.items())
    assert all(number in some for number, text in every.items() if "x y z" in text or "GGML_ASSERT" in text)


@needs_search
@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_same_answer_in_a_big_journal(path: Path, tmp_path: Path) -> None:
    """A golden log behind three megabytes of another program's lines gives the same incidents and requests."""
    own, noise = path.read_bytes(), journal()
    assert len(noise) > 3_000_000
    big = tmp_path / "journal.log"
    big.write_bytes(noise + own + noise[:200_000])
    small = tmp_path / "small.log"
    small.write_bytes(own)
    shift = noise.count(b"\n")
    assert _told(autopsy.perform((str(big),), io.BytesIO()), shift) == _told(
        autopsy.perform((str(small),), io.BytesIO()), 0
    )


DEATHS = (
    "Killed",
    "Segmentation fault",
    "Aborted (コアダンプ)",
    "zsh: abort  ./x",
    "Exception code: 0xc0000005",
    "OSError: exception: access violation reading 0x0000000000000000",
    "error code 3221225477",
    "exit code -529697949",
    "exit status 139",
)


@needs_search
@pytest.mark.parametrize("line", DEATHS)
def test_a_death_is_seen_however_long_the_log_is(line: str) -> None:
    """A line that tells a death, and nothing else that the search knows, is delivered from beyond a megabyte too."""
    assert signs.read(line) is not None
    data = NOISE * 10 + line.encode() + b"\n" + NOISE
    assert numbered(data, 1 << 20, autopsy.anchors())[11] == line


def _told(found: Autopsy, shift: int) -> list[tuple[object, ...]]:
    told: list[tuple[object, ...]] = []
    for incident in found.incidents:
        key = incident.key_line
        number = int(key.ref.rpartition("L")[2]) - shift if key else 0
        told.append(
            (incident.outcome, incident.signal, incident.phase, incident.backend, incident.components, number)
        )
        told.append((incident.frames, incident.signature, incident.applied_layers, incident.target))
    told += [
        (replace(r, first="", last="", refs=(), id="", runner=None),)
        for server in found.servers
        for r in server.requests
    ]
    return told


@needs_search
@pytest.mark.parametrize("unit", [b"", b"a", b"\0", b"\r", b"Aborted", b"SIGSEGV: segmentation violation"])
def test_a_megabyte_of_short_lines_is_soon_read(unit: bytes) -> None:
    """Lines without a word that counts are not read one by one, lines that repeat themselves not for ever; the
    number of lines is right, and an incident behind them is found at its line."""
    flood = (unit + b"\n") * (1_000_000 // (len(unit) + 1))
    golden = (Path(__file__).parents[1] / "golden" / "autopsy" / "ollama-engine-vulkan-segv.raw").read_bytes()
    began = time.process_time()
    found = autopsy.perform(("-",), io.BytesIO(flood + golden))
    assert time.process_time() - began < 15.0  # half a second here; a line after the other takes a minute
    assert found.sources[0].lines == flood.count(b"\n") + golden.count(b"\n")
    alone = autopsy.perform(("-",), io.BytesIO(golden)).incidents[-1].key_line
    last = found.incidents[-1].key_line
    assert alone is not None and last is not None
    if len(unit) < 2:  # the others are ends of their own
        assert int(last.ref.rpartition("L")[2]) - flood.count(b"\n") == int(alone.ref.rpartition("L")[2])


def test_dense_is_only_what_no_log_is() -> None:
    """A log of ordinary lines, and a short one of short lines, are delivered whole."""
    assert dense_from(b"a\n" * 16_384) is None
    assert dense_from(b"2026 level=INFO source=routes.go:1 msg=x\n" * 20_000) is None
    assert dense_from(b"a\n" * 20_000) == 2 * 16_384


def test_a_repeated_line_counts_on() -> None:
    """Repeats are left out, their numbers are not."""
    read = list(Prefilter().feed(b"a\n" * 5000 + b"b\n"))
    assert [line.number for line in read[-2:]] == [2001, 5001]
    assert len(read) == 2002


def test_a_flood_of_starts_keeps_the_first() -> None:
    """And says how many are missing."""
    found = autopsy.perform(("-",), io.BytesIO(b"$ llama-server -m x.gguf\n" * 3 * 1000))
    assert len(found.servers) == 1000
    (note,) = [n for n in found.warnings if n.kind == "left out"]
    assert "further starts" in note.text
