"""A regular expression that costs nothing until a line needs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING


class Expression:
    """Compiled at its first use. For expressions behind a test that most lines fail (a literal, a first character):
    a reader of logs knows hundreds, a log of some pages meets a few, and each costs a tenth of a millisecond and
    more. Used like `re.Pattern`; a faulty one raises re.error at its first use, so tests use them all."""

    if TYPE_CHECKING:
        search: Callable[[str], re.Match[str] | None]
        match: Callable[[str], re.Match[str] | None]
        fullmatch: Callable[[str], re.Match[str] | None]
        sub: Callable[[str, str], str]
        finditer: Callable[[str], Iterator[re.Match[str]]]

    def __init__(self, regex: str) -> None:
        self.pattern = regex

    def __getattr__(self, name: str) -> object:
        compiled = re.compile(self.pattern)
        self.search, self.match = compiled.search, compiled.match
        self.fullmatch, self.sub, self.finditer = compiled.fullmatch, compiled.sub, compiled.finditer
        return getattr(compiled, name)
