"""Commands of this program that a message tells its reader to type.

Each works when it is pasted where it was printed: it calls the program as the reader did, names the store that the
reader named, and is quoted for a shell.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

NO_STORE = frozenset(("check", "lint", "snapshot", "trace", "workarounds"))
"""Verbs that need none (`check` reads one where there is one)."""


@dataclass(slots=True)
class Caller:
    """How the program was called: the words that start it, as a shell reads them, and what `--store` named (empty:
    nothing, so that the environment holds for the next command as well)."""

    program: str = "stillruns"
    store: str = ""


CALLER = Caller()
"""There is one in a process; `cli` fills it in when it reads the command line."""


def hint(verb: str, *words: str, options: Iterable[str] = ()) -> str:
    """`stillruns VERB OPTIONS --store DIR WORDS`."""
    named = CALLER.store
    place = () if not named or verb in NO_STORE else (f"--store={named}",) if named[0] == "-" else ("--store", named)
    end = ("--",) if any(word.startswith("-") for word in words) and "--" not in words else ()
    return f"{CALLER.program} {quoted((verb, *options, *place, *end, *words))}"


def quoted(words: Iterable[str]) -> str:
    """The words as a shell reads them, on one line and without a character that a terminal would act on."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    inner = "".join(c if c.isprintable() and c not in "\\'" else _hexadecimal(c) for c in word)
    return f"$'{inner}'"


def _hexadecimal(character: str) -> str:
    """Byte by byte; also of one that is no UTF-8, which Python holds as a lone surrogate."""
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
