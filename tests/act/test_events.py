"""Tokens of a stream are counted right wherever its pieces are torn, and hostile bytes never raise."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillruns.act.events import EventReader, plain_error

GOLDEN = Path(__file__).parents[1] / "golden" / "answer"
EXPECTED = {
    "llama_cpp-b10068-stream-ok": (3, True, ""),
    "llama_cpp-b10068-openai-stream-ok": (3, True, ""),
    "llama_cpp-b10068-stream-error-after-2-tokens": (2, False, "Compute error. (500)"),
}


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("step", [1, 7, 4096])
def test_golden_streams(name: str, step: int) -> None:
    """Real bodies, in pieces of any size."""
    body = (GOLDEN / f"{name}.raw").read_bytes()
    reader = EventReader()
    for place in range(0, len(body), step):
        reader.feed(body[place : place + step])
    assert (reader.tokens, reader.finished, reader.error) == EXPECTED[name]


def test_golden_errors() -> None:
    """The two plain error bodies that a living llama-server sends."""
    text = plain_error((GOLDEN / "llama_cpp-b10068-plain-500.raw").read_bytes())
    assert text == "Compute error. (500)"
    text = plain_error((GOLDEN / "llama_cpp-b10068-400-prompt-too-long.raw").read_bytes())
    assert text.startswith("request (480 tokens) exceeds the available context size")


@given(st.lists(st.binary() | st.binary().map(lambda b: b"data: " + b + b"\n"), max_size=20))
def test_any_bytes(pieces: list[bytes]) -> None:
    """No byte string raises or makes a negative count."""
    reader = EventReader()
    for piece in pieces:
        reader.feed(piece)
        plain_error(piece)
    assert reader.tokens >= 0


NAMES = st.sampled_from(["error", "stop", "tokens", "content", "choices", "delta", "text", "message", "code"])
LEAVES = st.none() | st.booleans() | st.integers() | st.text()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner), max_leaves=20))
def test_any_json(value: object) -> None:
    """Events of the right names and wrong shapes are survived."""
    EventReader().feed(b"data: " + json.dumps(value).encode() + b"\n")
    plain_error(json.dumps(value).encode())


def test_a_line_without_end_costs_no_memory() -> None:
    """A body of one endless line is skipped; the next line counts again."""
    reader = EventReader()
    for _ in range(8):
        reader.feed(os.urandom(1 << 20).replace(b"\n", b""))
    assert len(reader._pending) < 6 << 20
    reader.feed(b'\ndata: {"tokens":[1,2]}\n')
    assert reader.tokens == 2
