"""Requests that name tokens which only the server knows: filled in once it has tokenised the texts.

A `TokensOf` in a list stands for so many tokens of a text, a `TokenAt` for one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokensOf:
    """The first `count` tokens of the text with this number."""

    text: int
    count: int


@dataclass(frozen=True, slots=True)
class TokenAt:
    """The token at `place`, from 0."""

    text: int
    place: int


def fill(request: dict[str, object], texts: Sequence[Sequence[int]]) -> dict[str, object] | None:
    """The request with its tokens; None when a text is too short for it."""
    try:
        filled = _fill(request, texts)
    except IndexError:
        return None
    assert isinstance(filled, dict)
    return filled


def _fill(value: object, texts: Sequence[Sequence[int]]) -> object:
    if isinstance(value, TokensOf):
        return _tokens(value, texts[value.text])
    if isinstance(value, TokenAt):
        return texts[value.text][value.place]
    if isinstance(value, dict):
        return {key: _fill(item, texts) for key, item in value.items()}
    if isinstance(value, list):
        filled: list[object] = []
        for item in value:
            new = _fill(item, texts)
            filled += new if isinstance(item, TokensOf) and isinstance(new, list) else [new]
        return filled
    return value


def _tokens(wanted: TokensOf, ids: Sequence[int]) -> list[int]:
    """Raises IndexError when there are too few."""
    if len(ids) < wanted.count:
        raise IndexError(wanted.count)
    return list(ids[: wanted.count])
