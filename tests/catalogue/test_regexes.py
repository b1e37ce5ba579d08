"""The promise: an accepted expression needs linear time, and its anchor is in every match."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillruns.catalogue import load
from stillruns.catalogue.regexes import RegexRefused, check
from stillruns.model.backend import Runtime


@pytest.mark.parametrize(
    ("regex", "anchor"),
    [
        (r"^\w+: using device (\S+) \((.*)\) - (\d+) MiB free", ": using device "),
        (r"a(?:b|c)d .*", "d "),
        (r"(?<!prompt )eval time\s*=\s*(\d+)", "eval time"),
        (r"foo (\d{1,4})x", "foo "),
        (r"^x.*$", "x"),
    ],
)
def test_accepted(regex: str, anchor: str) -> None:
    """Usual line forms pass."""
    check(regex, anchor)


@pytest.mark.parametrize(
    ("regex", "anchor"),
    [
        (r"(a+)+b", "b"),
        (r"x(?:a|aa)*(?:a|b)*y", "x"),
        (r"x\d+\d+y", "x"),
        (r"x.*y.*z", "x"),
        (r"\w+=\w*x", "="),
        (r"a.*b", "a"),
        (r"x(\w+)\1", "x"),
        (r"x(?=.*y)", "x"),
        (r"a|b", "a"),
        (r"(?:ab)?c", "ab"),
        (r"a\Sb", "ab"),
        (r"(?s)x.", "x"),
        (r"x(?:ab){2}", "x"),
        (r"[^ ]+: done", ": done"),
    ],
)
def test_refused(regex: str, anchor: str) -> None:
    """Nested and competing repeats, back-references, flags and false anchors do not."""
    with pytest.raises(RegexRefused):
        check(regex, anchor)


RULES = [*load.grammar(Runtime.LLAMA_CPP), *load.patterns()]


@given(st.sampled_from(RULES), st.data())
def test_anchor_is_in_every_match(entry: object, data: st.DataObject) -> None:
    """Strings made from the shipped expressions contain the anchor of their entry."""
    regex, anchor = entry.regex, entry.anchor  # type: ignore[attr-defined]
    text = data.draw(st.from_regex(re.compile(regex), fullmatch=False))
    assert anchor in text
