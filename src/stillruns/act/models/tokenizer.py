"""The byte-level tokenizer of synthetic models: it can write every text, and it costs next to nothing.

One token for each byte (in GPT-2's printable alphabet), one merge (llama.cpp refuses a vocabulary without any), and
an end-of-text token: 258 in all.
"""

from __future__ import annotations

from dataclasses import dataclass

NORMAL, CONTROL = 1, 3
"""llama.cpp's token types (`enum llama_token_type`)."""

END_OF_TEXT = "<|endoftext|>"


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """`tokens[i]` is token i's text in GPT-2's alphabet, `types[i]` its type; `printable` the ids whose text is one
    printable ASCII character: whatever is generated from those is valid UTF-8."""

    tokens: tuple[str, ...]
    types: tuple[int, ...]
    merges: tuple[str, ...]
    end: int
    printable: frozenset[int]


def alphabet() -> tuple[str, ...]:
    """GPT-2's alphabet: byte -> printable character. Bytes that are not printable in Latin-1 become U+0100 and up."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    shifted = iter(range(256, 512))
    return tuple(chr(byte) if byte in plain else chr(next(shifted)) for byte in range(256))


def byte_level() -> Tokenizer:
    """The one tokenizer that synthetic models use."""
    letters = alphabet()
    merge = (letters[ord(" ")], "t")
    tokens = (*letters, "".join(merge), END_OF_TEXT)
    end = len(tokens) - 1
    return Tokenizer(
        tokens=tokens,
        types=(*[NORMAL] * end, CONTROL),
        merges=(" ".join(merge),),
        end=end,
        printable=frozenset(range(33, 127)),
    )
