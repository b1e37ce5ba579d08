"""The promise: what stands in an array of bash is read where the array is used, with its own places."""

from __future__ import annotations

import pytest

from stillruns.model.recipe import Recipe
from stillruns.normalise.recipe.draft import KnownNames
from stillruns.normalise.recipe.reading import read

NAMES = KnownNames(
    frozenset({"llama-server", "llama-bench"}), frozenset(), {"ghcr.io/ggml-org/llama.cpp:full": "llama.cpp tools"}
)


def flags(recipe: Recipe) -> list[tuple[str, str | None, int]]:
    """(name, value, line) of the flags."""
    return [(i.name, i.value, i.line) for i in recipe.items if i.kind.value == "flag"]


def test_array() -> None:
    """Words, comments and appended words; each stands where it was written."""
    text = 'ARGS=(\n  -ngl 9  # all\n  -fa on\n)\nif x; then ARGS+=(-c 1); fi\nexec llama-server "${ARGS[@]}" -m y\n'
    recipe = read("x.sh", text, NAMES)
    assert flags(recipe) == [("-ngl", "9", 2), ("-fa", "on", 3), ("-c", "1", 5), ("-m", "y", 6)]
    assert all(recipe.text[i.name_start : i.name_end] == i.name for i in recipe.items)


@pytest.mark.parametrize(
    "text",
    [
        "ARGS=(-ngl 9\nllama-server -m x\n",  # never closed
        'llama-server "${NOT_HERE[@]}" -m x\n',
        "f() { llama-server -m x; }\nf\n",
        'A=(-ngl 9)\nllama-server "${A[0]}" -m x\n',  # one word of it
    ],
)
def test_what_is_no_array_is_left_alone(text: str) -> None:
    """No word of an array is invented; nothing raises."""
    assert ("-ngl", "9") not in [(name, value) for name, value, _ in flags(read("x.sh", text, NAMES))]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('"${BIN:-$HOME/llama.cpp/build/bin/llama-server}" -m x', ["-m"]),
        ('"$BIN/llama-server" -m x', ["-m"]),
        ('"${BIN:-$HOME/other}" -m x', []),
        ("docker run ghcr.io/ggml-org/llama.cpp:full --bench -m x", ["-m"]),
        ("docker run ghcr.io/ggml-org/llama.cpp:full -b -m x", ["-m"]),
        ("llama-server --opt='a b' -m x", ["--opt", "-m"]),
    ],
)
def test_program_behind_a_variable(line: str, expected: list[str]) -> None:
    """A default that ends in one of our programs names it; so does the first word of the image with all tools."""
    assert [name for name, _, _ in flags(read("x.sh", line, NAMES))] == expected
