"""The promise: any text is cut into words like a shell would, with exact places, and never raises."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillruns.model.recipe import RecipeNote
from stillruns.normalise.recipe.words import Lexer, cut

HOSTILE = st.text(alphabet=st.sampled_from("ab -=\"'\\$(){}`#\n<>|&;*.[]\t\r0é\x1b"), max_size=80)


def words(text: str, **variables: str) -> list[tuple[str, bool]]:
    """(text, dynamic) of every word."""
    lexer = Lexer(text, 0, len(text), 1, variables)
    return [(token.word.text, token.word.dynamic) for token in lexer.tokens() if token.kind == "w"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a 'b c' \"d e\" f\\ g", [("a", False), ("b c", False), ("d e", False), ("f g", False)]),
        ("a \\\n  b # c d", [("a", False), ("b", False)]),
        ('x=$(rm -rf "/ )") y', [('x=$(rm -rf "/ )")', True), ("y", False)]),
        ("-ngl $N ${M:-7} ${Z} `id`", [("-ngl", False), ("9", False), ("7", False), ("${Z}", True), ("`id`", True)]),
        ("a#b 'x'\"y\"z", [("a#b", False), ("xyz", False)]),
        ("$((1 + 2)) $? $", [("$((1 + 2))", True), ("$?", True), ("$", False)]),
    ],
)
def test_words(text: str, expected: list[tuple[str, bool]]) -> None:
    """Quotes, escapes, continuations, comments, variables; substitutions are stepped over and marked."""
    assert words(text, N="9") == expected


@given(HOSTILE)
def test_hostile_text(text: str) -> None:
    """Every word lies inside the text, in order, on the line that it says; nothing raises."""
    notes: list[RecipeNote] = []
    lexer = Lexer(text, 0, len(text), 1, {}, notes=notes)
    at = 0
    for token in lexer.tokens():
        assert at <= token.word.start <= token.word.end <= len(text)
        assert token.raw == text[token.word.start : token.word.end]
        if token.kind == "w":
            assert token.word.line == text.count("\n", 0, token.word.start) + 1
        at = token.word.end
    cut(text, 0, len(text), 1, notes)


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0\n"), min_size=1), max_size=6))
def test_as_shlex_quotes(arguments: list[str]) -> None:
    """What shlex.join writes is read back word for word."""
    assert words(shlex.join(arguments)) == [(argument, False) for argument in arguments]


def test_unclosed_quote() -> None:
    """A quote that never closes is said with its line, and no error."""
    notes: list[RecipeNote] = []
    lexer = Lexer("a\nb 'c d", 0, 8, 1, {}, notes=notes)
    assert [t.word.text for t in lexer.tokens() if t.kind == "w"] == ["a", "b", "c d"]
    assert notes[0].line == 2
    assert "never closes" in notes[0].text


def test_unquoted_variable_falls_into_words() -> None:
    """`$ARGS` is as many words as its value has; quoted, or in an assignment, it stays one."""
    given = {"A": "-m x  -fa", "N": ""}
    text = 'p $A "$A" B=$A $N ${A}z'
    words = [token.word for token in Lexer(text, 0, len(text), 1, given).tokens()]
    assert [word.text for word in words] == ["p", "-m", "x", "-fa", "-m x  -fa", "B=-m x  -fa", "-m", "x", "-faz"]
    assert {text[word.start : word.end] for word in words[1:4]} == {"$A"}
