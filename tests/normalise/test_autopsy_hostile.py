"""The promise: no input makes it fail, take long, or name a line that is not there."""

from __future__ import annotations

import io
import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stillruns.lab import autopsy
from stillruns.model.autopsy import Autopsy
from stillruns.report import autopsy_json, autopsy_text

GOLDEN = {path.stem: path.read_bytes() for path in (Path(__file__).parents[1] / "golden" / "autopsy").glob("*.raw")}
PATTERNS = [path.read_bytes() for path in (Path(__file__).parents[1] / "golden" / "patterns").glob("*.raw")]


def survive(data: bytes) -> Autopsy:
    """Read bytes, report them both ways, and check every line number."""
    found = autopsy.perform(("-",), io.BytesIO(data))
    document = autopsy_json.document(found)
    count = data.count(b"\n") + 1
    text = autopsy_text.text(found)
    assert all(char.isprintable() or char == "\n" for char in text)
    refs = [e["ref"] for i in document["incidents"] for e in i["evidence"]]
    refs += [ref for r in document["requests"] for ref in r["refs"]]
    refs += [span[end] for span in document["timeline"] for end in ("from", "to")]
    assert all(1 <= int(ref.rpartition("L")[2]) <= count for ref in refs)
    return found


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_truncated_anywhere(name: str) -> None:
    """A head or a tail of a golden log, cut at any of 40 bytes, is read."""
    data = GOLDEN[name]
    for place in range(0, len(data), max(1, len(data) // 40)):
        survive(data[:place])
        survive(data[place:])


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_shuffled_lines(name: str) -> None:
    """Lines in any order are read."""
    rows = GOLDEN[name].splitlines(keepends=True)
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        survive(b"".join(rows))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_mutated_lines(data: st.DataObject) -> None:
    """Golden lines with bytes put in, taken out and doubled are read."""
    rows = [row for text in GOLDEN.values() for row in text.splitlines(keepends=True)] + PATTERNS
    chosen = data.draw(st.lists(st.sampled_from(rows), max_size=12))
    whole = bytearray(b"".join(chosen))
    for _ in range(data.draw(st.integers(0, 6))):
        place = data.draw(st.integers(0, len(whole)))
        whole[place:place] = data.draw(st.binary(max_size=6))
    survive(bytes(whole))


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=3000))
def test_any_bytes(noise: bytes) -> None:
    """Any bytes are read."""
    survive(noise)


ADVERSARIAL = [
    b"(" * 500_000,
    b"GGML_ASSERT(" * 40_000,
    b"#0  0x0 in " + b"a<" * 250_000,
    b'time=2026 level=INFO source=a.go:1 msg="' + b'\\"' * 250_000,
    b"A=1 " * 120_000 + b"llama-server -m x",
    (b"SIGSEGV: segmentation violation\n" * 15_000),
    (b"slot launch_slot_: id  0 | task 0 | processing task\n" * 9_000),
    (b"Mar 07 01:00:00 h u[1]: " * 20_000),
    b"\r".join([b"progress"] * 60_000),
    b"github.com/a/b." + b"c/" * 200_000 + b"d(0x1)",
    b"\n".join(b"Mar 07 01:00:00 h u%d[%d]: Aborted" % (n, n) for n in range(15_000)),
]


@pytest.mark.parametrize("number", range(len(ADVERSARIAL)))
def test_adversarial_input_is_linear(number: int) -> None:
    """Half a megabyte of the worst for each form costs less than a second of CPU time per megabyte (and a floor)."""
    data = ADVERSARIAL[number]
    survive(b"warm up\n")
    began = time.process_time()
    survive(data)
    assert time.process_time() - began < 1.5 + 3.0 * len(data) / 1e6
