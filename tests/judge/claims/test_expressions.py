"""The promise: hypotheses are a small checked language; nothing else of Python gets through."""

from __future__ import annotations

import contextlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillruns.errors import SpecError
from stillruns.judge.claims import expressions

GOOD = [
    "all(c.rate.low > 0.5 for c in cells if c.gpu_layers != 0)",
    "any(c.passed > 0 for c in cells if c.backend == 'vulkan' and not c.applied == 0)",
    "count(c for c in cells if 'SIGSEGV' in c.outcome) >= 2",
    "0.6 <= sum(c.throughput for c in cells) / 2 <= 0.8",
    "pool(c for c in cells if c.backend == 'rocm').crash_rate < pool(c for c in cells if c.layers == 1).crash_rate",
    "all(a.throughput / b.throughput < 0.8 for a in cells for b in cells if a.layers == b.layers)",
    "any(c.axes['arg.--no-mmap'] == True for c in cells)",
    "all(c.outcome == 'ok' and c.divergence != 'wrong' for c in cells if c.model in ('a', 'b'))",
    "-1 < count(c.passed > 0 for c in cells)",
]

BAD = [
    ("", "not an expression"),
    ("1", "not a condition"),
    ("cells", "not known"),
    ("x > 1", "not known"),
    ("all(c.rate > 0 for c in rows)", "only `cells`"),
    ("all(c.__class__ == 'x' for c in cells)", "no field"),
    ("all(c.rate.__class__ == 'x' for c in cells)", "does not have"),
    ("__import__('os').system('true') == 0", "does not have|no call"),
    ("open('x') == 'y'", "no call"),
    ("all((lambda: True)() for c in cells)", "no call"),
    ("[c for c in cells] == 1", "ListComp"),
    ("any(c.passed > 0 for c in cells if (x := 1) > 0)", "NamedExpr"),
    ("any(c.passed ** 9 ** 9 > 0 for c in cells)", "operator"),
    ("any('a' * 9999999 == 'b' for c in cells)", "a number is needed"),
    ("any(c.passed > 'a' for c in cells)", "compares a number with a text"),
    ("any(c.passed for c in cells)", "a condition is needed"),
    ("any(c.passed > 1e999 for c in cells)", "reasonable size"),
    ("any(c is c for c in cells)", "operator"),
    ("any(f'{c}' == 'a' for c in cells)", "JoinedStr"),
    ("any(a.passed > 0 for a in cells for b in cells for c in cells)", "more than 2"),
    ("any(c.passed > 0 for cells in cells)", "taken"),
    ("any(c.axes[c.side] == 1 for c in cells)", "axes"),
    ("any([c.passed > 0])", "needs the form"),
    ("any(c.passed > 0 for c in cells, 1)", "not an expression|no call"),
    ("True", "not a condition"),
    ("pool(c for c in cells) == pool(c for c in cells)", "compares a cell with a cell"),
    ("await x", "not an expression|Await"),
    ("(" * 900 + ")" * 900, "not an expression"),
    ("not " * 300 + "(1 > 0)", "parts|deeply|condition"),
    ("1 > 0 and " * 300 + "1 > 0", "longer|parts"),
    ("all(c.passed > 0 for c in cells\0)", "not an expression"),
    ("é" * 3000, "longer"),
]


@pytest.mark.parametrize("text", GOOD)
def test_the_language(text: str) -> None:
    """What docs/hypotheses.md describes is accepted."""
    expressions.parse(text, "x")


@pytest.mark.parametrize(("text", "why"), BAD, ids=[t[:30] for t, _ in BAD])
def test_everything_else_is_refused(text: str, why: str) -> None:
    """With one sentence that names the place and the part."""
    with pytest.raises(SpecError, match=why) as caught:
        expressions.parse(text, "spec.toml: predicts of H1")
    assert str(caught.value).startswith("spec.toml: predicts of H1")


@given(st.text(max_size=300) | st.text(alphabet=string.printable, max_size=300))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Hostile text raises SpecError and nothing else."""
    with contextlib.suppress(SpecError):
        expressions.parse(text, "x")


WORDS = "c cells any all count sum pool ( ) [ ] for in if not and or > == < + / . rate low layers 'ok' 2".split()


@given(st.lists(st.sampled_from(WORDS), max_size=30))
def test_any_words_are_parsed_or_refused(words: list[str]) -> None:
    """Text that looks like the language does no harm either."""
    with contextlib.suppress(SpecError):
        expressions.parse(" ".join(words), "x")
