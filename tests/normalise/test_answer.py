"""The promise: an answer is read as far as it came, and an early end is never taken for the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.exchange import Answered
from stillruns.normalise import answer

GOLDEN = Path(__file__).parents[1] / "golden" / "answer"
CASES = sorted(path.name.removesuffix(".expect.json") for path in GOLDEN.glob("*.expect.json"))
BODIES = sorted(GOLDEN.glob("*.raw"))
STREAM = (GOLDEN / "stream-b10068.raw").read_bytes()


@pytest.mark.parametrize("case", CASES)
def test_golden_answer(case: str) -> None:
    """Bodies of three builds, good and bad, give what stands beside them."""
    expect = json.loads((GOLDEN / f"{case}.expect.json").read_text())
    if "stop_reason" not in expect:
        pytest.skip("an expectation of another test")
    assert expect.pop("origin") in ("real", "composed")
    found = answer.read(200, (GOLDEN / f"{case}.raw").read_bytes())
    assert isinstance(found, Answered)
    counts = {
        "tokens": len(found.tokens),
        "probs": len(found.probs),
        "nan": sum(p.logprob is None for p in found.probs),
        "top": max((len(p.top) for p in found.probs), default=0),
    }
    assert {key: counts.get(key, getattr(found, key, None)) for key in expect} == expect


@pytest.mark.parametrize("path", BODIES, ids=lambda p: p.stem)
def test_every_golden_body_is_read(path: Path) -> None:
    """Whatever body any part of this program keeps as a sample is read, or named with the reason."""
    found = answer.read(200, path.read_bytes())
    assert isinstance(found, Answered) or found.detail


def test_a_stream_without_its_last_event_is_not_finished() -> None:
    """Cut at any byte before the last event's end, a stream is unfinished, and what came stays readable."""
    whole = answer.read(200, STREAM)
    assert isinstance(whole, Answered)
    assert whole.finished
    last = STREAM.rindex(b"data: ")
    for end in [*range(1, last + 1, 37), last, len(STREAM) - 200]:
        part = answer.read(200, STREAM[:end])
        if isinstance(part, Answered):
            assert not part.finished
            assert part.tokens == whole.tokens[: len(part.tokens)]


def test_openai_stream_needs_a_reason_and_done() -> None:
    """`[DONE]` without a finish reason, and a finish reason without `[DONE]`, are no end."""
    body = (GOLDEN / "openai-stream-b10092.raw").read_bytes()
    assert b"[DONE]" in body
    no_done = answer.read(200, body.replace(b"data: [DONE]", b""))
    no_reason = answer.read(200, b'data: {"choices":[{"text":"a","finish_reason":null}]}\n\ndata: [DONE]\n\n')
    assert isinstance(no_done, Answered)
    assert isinstance(no_reason, Answered)
    assert not no_done.finished
    assert not no_reason.finished


def test_plain_json_that_is_cut_off() -> None:
    """Half a JSON object is an absence with the reason, not an answer."""
    found = answer.read(200, b'{"content": "abc')
    assert isinstance(found, Absence)
    assert found.reason is AbsenceReason.UNPARSABLE
    assert "cut off" in found.detail


def test_nothing_and_nonsense() -> None:
    """An empty body was not collected; HTML is no answer."""
    empty = answer.read(None, b"")
    page = answer.read(502, b"<html>Bad Gateway</html>")
    assert isinstance(empty, Absence)
    assert empty.reason is AbsenceReason.NOT_COLLECTED
    assert isinstance(page, Absence)
    assert page.reason is AbsenceReason.UNPARSABLE


def test_nan_is_none() -> None:
    """A logprob of null is NaN, and rivals without a number are left out."""
    found = answer.read(200, (GOLDEN / "stream-nan-b10434.raw").read_bytes())
    assert isinstance(found, Answered)
    assert [p.logprob for p in found.probs] == [None] * 6
    assert all(p.top == () for p in found.probs)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=600), st.integers(0, len(STREAM)))
def test_any_bytes(noise: bytes, at: int) -> None:
    """Noise, alone or in the middle of a stream, is read or named, without a traceback."""
    answer.read(200, noise)
    answer.read(200, STREAM[:at] + noise + STREAM[at:])
    answer.read(200, b"data: " + noise)


NAMES = [
    "content",
    "tokens",
    "stop",
    "choices",
    "text",
    "delta",
    "message",
    "logprobs",
    "completion_probabilities",
    "error",
    "timings",
    "top_logprobs",
    "id",
    "logprob",
    "usage",
    "finish_reason",
    "probs",
    "prompt_per_second",
]
JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(JSONISH)
def test_any_json(document: object) -> None:
    """JSON of the right names and the wrong types is read without a traceback."""
    body = json.dumps(document).encode()
    answer.read(200, body)
    answer.read(200, b"data: " + body + b"\n\n")
