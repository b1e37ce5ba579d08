"""Text to words, the way a shell would cut it, without doing anything that a shell does.

`$(...)` and backticks are stepped over and mark their word as dynamic. Broken quoting is no error: the rest is one
word and a note says where the quote opened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stillruns.model.recipe import RecipeNote, Word

OPERATORS = (
    "&&",
    "||",
    ";;",
    "|&",
    "&>>",
    "&>",
    ">>",
    "<<-",
    "<<<",
    "<<",
    ">&",
    "<&",
    ";",
    "&",
    "|",
    ">",
    "<",
    "(",
    ")",
)
"""POSIX shell operators and bash's, longest first."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEFAULT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-=])(.*))?\Z", re.S)


_CUT = "\0"
"""Where the value of an unquoted variable falls apart into words (field splitting, POSIX shell 2.6.5)."""
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


@dataclass(frozen=True, slots=True)
class Token:
    """A word, an operator, a comment or a line end (`kind` w, o, c, n); `raw` as in the file."""

    kind: str
    raw: str
    word: Word


@dataclass(slots=True)
class Lexer:
    """Cuts `text[start:end]`; lines are counted from `line`. `shell` false: no operators or comments (units)."""

    text: str
    start: int
    end: int
    line: int
    variables: Mapping[str, str]
    shell: bool = True
    notes: list[RecipeNote] = field(default_factory=list)

    def words(self) -> list[Word]:
        """The words alone."""
        return [token.word for token in self.tokens() if token.kind == "w"]

    def tokens(self) -> list[Token]:
        """All tokens in order; heredoc bodies are left to the caller (they look like lines of words)."""
        found: list[Token] = []
        at = self.start
        while at < self.end:
            char = self.text[at]
            if char == "\n":
                found.append(self._token("n", at, at + 1, "\n"))
                at += 1
                self.line += 1
            elif char in " \t\r":
                at += 1
            elif char == "\\" and self.text[at + 1 : at + 2] == "\n":
                at += 2
                self.line += 1
            elif char == "\\" and self.text[at + 1 : at + 3] == "\r\n":
                at += 3
                self.line += 1
            elif self.shell and char == "#":
                stop = self._line_end(at)
                found.append(self._token("c", at, stop, self.text[at + 1 : stop].strip()))
                at = stop
            elif self.shell and (operator := self._operator(at)):
                found.append(self._token("o", at, at + len(operator), operator))
                at += len(operator)
            else:
                token, at = self._word(at)
                found += _split(token)
        return found

    def _token(self, kind: str, start: int, stop: int, text: str) -> Token:
        return Token(kind, self.text[start:stop], Word(text, start, stop, self.line))

    def _line_end(self, at: int) -> int:
        stop = self.text.find("\n", at, self.end)
        return self.end if stop < 0 else stop

    def _operator(self, at: int) -> str:
        return next((o for o in OPERATORS if self.text.startswith(o, at)), "")

    def _word(self, at: int) -> tuple[Token, int]:
        """One word from `at`: quotes, escapes, variables; ends at a blank, a line end or an operator."""
        start, first_line = at, self.line
        parts: list[str] = []
        dynamic = literal = False
        while at < self.end:
            char = self.text[at]
            if char in " \t\r\n" or (self.shell and self._operator(at)):
                break
            if char == "\\":
                following = self.text[at + 1 : at + 2]
                if following == "\n":
                    self.line += 1
                else:
                    parts.append(following)
                at += 2
            elif char == "'":
                at = self._single(at, parts)
                literal = True
            elif char == '"':
                at, unknown = self._double(at, parts)
                literal = True
                dynamic = dynamic or unknown
            elif char in "$`":
                assigned = bool(_ASSIGNED.match("".join(parts)))
                at, unknown = self._dollar(at, parts)
                dynamic = dynamic or unknown
                if not unknown and not assigned:
                    parts[-1] = re.sub(r"[ \t\n]+", _CUT, parts[-1]) or _CUT
            else:
                parts.append(char)
                at += 1
        stop = min(at, self.end)
        word = Word("".join(parts), start, stop, first_line, dynamic, literal)
        return Token("w", self.text[start:stop], word), stop

    def _unclosed(self, what: str) -> None:
        self.notes.append(RecipeNote(f"{what} opens here and never closes: the rest was read as one word", self.line))

    def _single(self, at: int, parts: list[str]) -> int:
        stop = self.text.find("'", at + 1, self.end)
        if stop < 0:
            self._unclosed("a single quote")
            stop = self.end
        inside = self.text[at + 1 : stop]
        self.line += inside.count("\n")
        parts.append(inside)
        return stop + 1

    def _double(self, at: int, parts: list[str]) -> tuple[int, bool]:
        opened, dynamic = self.line, False
        at += 1
        while at < self.end and self.text[at] != '"':
            char = self.text[at]
            if char == "\\" and self.text[at + 1 : at + 2] in ('"', "\\", "$", "`", "\n"):
                if self.text[at + 1] == "\n":
                    self.line += 1
                else:
                    parts.append(self.text[at + 1])
                at += 2
            elif char in "$`":
                at, unknown = self._dollar(at, parts)
                dynamic = dynamic or unknown
            else:
                self.line += char == "\n"
                parts.append(char)
                at += 1
        if at >= self.end:
            self.notes.append(
                RecipeNote("a double quote opens here and never closes: the rest was read as one word", opened)
            )
        return at + 1, dynamic

    def _dollar(self, at: int, parts: list[str]) -> tuple[int, bool]:
        """A variable, or a substitution that is stepped over. Returns (next, dynamic)."""
        text = self.text
        if text[at] == "`":
            stop = text.find("`", at + 1, self.end)
            return self._opaque(at, self.end if stop < 0 else stop + 1, parts)
        if text.startswith("$(", at):
            return self._opaque(at, self._balanced(at + 1, "(", ")"), parts)
        if text.startswith("${", at):
            stop = self._balanced(at + 1, "{", "}")
            inner = _DEFAULT.match(text[at + 2 : stop - 1])
            if not inner:
                return self._opaque(at, stop, parts)
            value = self.variables.get(inner.group(1))
            if value is None and inner.group(2):
                value = inner.group(3)
                if "$" in value:  # a default with a variable in it: its last part may name a program all the same
                    parts.append(value)
                    return stop, True
            if value is None:
                return self._opaque(at, stop, parts)
            parts.append(value)
            return stop, False
        name = _NAME.match(text, at + 1, self.end)
        if not name:
            stop = at + (2 if text[at + 1 : at + 2] in tuple("@*#?$!0123456789-") and at + 1 < self.end else 1)
            return self._opaque(at, stop, parts) if stop == at + 2 else (self._literal(at, parts), False)
        value = self.variables.get(name.group())
        if value is None:
            return self._opaque(at, name.end(), parts)
        parts.append(value)
        return name.end(), False

    def _literal(self, at: int, parts: list[str]) -> int:
        parts.append(self.text[at])
        return at + 1

    def _opaque(self, at: int, stop: int, parts: list[str]) -> tuple[int, bool]:
        stop = min(stop, self.end)
        parts.append(self.text[at:stop])
        self.line += self.text.count("\n", at, stop)
        return stop, True

    def _balanced(self, at: int, left: str, right: str) -> int:
        """The offset after the bracket that closes the one at `at`; quotes inside count as quotes."""
        depth, quote = 0, ""
        for position in range(at, self.end):
            char = self.text[position]
            if quote:
                quote = "" if char == quote and self.text[position - 1] != "\\" else quote
            elif char in "'\"" and self.text[position - 1] != "\\":
                quote = char
            elif char == left:
                depth += 1
            elif char == right:
                depth -= 1
                if depth == 0:
                    return position + 1
        self._unclosed(f"`${left}`")
        return self.end


def _split(token: Token) -> list[Token]:
    """`$ARGS` with `-m x -fa` in it is three words; all have the place of the variable."""
    if _CUT not in token.word.text:
        return [token]
    return [Token(token.kind, token.raw, replace(token.word, text=t)) for t in token.word.text.split(_CUT) if t]


def cut(text: str, start: int, end: int, line: int, notes: list[RecipeNote]) -> list[Word]:
    """Words of a slice without operators or comments: unit files, quoted sub-commands."""
    lexer = Lexer(text, start, end, line, {}, shell=False, notes=notes)
    return lexer.words()
