"""Shell scripts and single command lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from stillruns.model.recipe import UNEXPORTED, Comment, Scope, Word
from stillruns.normalise.recipe import arrays
from stillruns.normalise.recipe.draft import ASSIGNMENT, Draft
from stillruns.normalise.recipe.programs import Unwrapper
from stillruns.normalise.recipe.words import Lexer, Token

Other = Callable[[Draft, int, int, int, str], bool]
"""Reads a slice that a script writes to a file, by the file's name; false when the name tells no form."""

LOGIN_FILES = re.compile(r"(^|/)\.?(bashrc|bash_profile|profile|zshrc|zprofile|zshenv|bash\.bashrc)$|/profile\.d/")
"""Files that a login or interactive shell reads (bash(1) INVOCATION); systemd reads none of them."""

_HEREDOC = re.compile(r"(?<!<)<<(-?)[ \t]*(['\"\\]?)([A-Za-z_][\w.-]*)\2")
_KEYWORDS = frozenset({"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "{", "}", "!", "esac"})
_HEADS = frozenset({"for", "case", "select", "function"})
_CUTS = frozenset({"&&", "||", ";", ";;", "&", "|", "|&", "(", ")"})


@dataclass(frozen=True, slots=True)
class _Body:
    start: int
    end: int
    line: int
    target: str


@dataclass(slots=True)
class Script:
    """One script or slice of one; `variables` are what it set so far, `pending` the words that set them."""

    draft: Draft
    scope: Scope
    other: Other | None = None
    variables: dict[str, str] = field(default_factory=dict)
    pending: dict[str, Word] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    export_all: bool = False

    def read(self, start: int, end: int, line: int) -> None:
        """Read `text[start:end]` whose first line has number `line`."""
        bodies, text = self._heredocs(start, end, line)
        lexer = Lexer(text, start, end, line, self.variables, notes=self.draft.notes)
        words: list[Word] = []
        redirect: list[str] = []
        pipeline: list[list[Word]] = []
        for token in self._tokens(lexer):
            if token.kind == "c":
                self.draft.comments.append(Comment(token.word.text, token.word.line))
            elif token.kind == "w":
                words.append(token.word)
            elif token.kind == "o" and token.raw not in _CUTS:
                redirect.append(token.raw)
                words.append(Word("\0" + token.raw, token.word.start, token.word.end, token.word.line))
            else:
                if words:
                    pipeline.append(words)
                words = []
                if token.raw != "|":
                    self._pipeline(pipeline)
                    pipeline = []
        if words:
            pipeline.append(words)
        self._pipeline(pipeline)
        for body in bodies:
            self._body(body)
        for name, word in self.pending.items():
            if name not in self.exported:
                self.draft.setting(word, self.scope, UNEXPORTED)

    def _unset(self, names: list[str]) -> None:
        self.draft.without |= set(names)
        for name in names:
            self.pending.pop(name, None)
            self.exported.discard(name)

    def _tokens(self, lexer: Lexer) -> list[Token]:
        """Two passes: the variables that a script sets are known before its words are filled in, in order."""
        tokens: list[Token] = []
        at_start = True
        stop = lexer.end
        while lexer.start < stop:
            line_end = self._logical_line(lexer.text, lexer.start, stop)
            part = Lexer(lexer.text, lexer.start, line_end, lexer.line, self.variables, notes=lexer.notes)
            row = part.tokens()
            for token in row:
                found = ASSIGNMENT.match(token.word.text) if token.kind == "w" and at_start else None
                if found and (not token.word.dynamic or self._names_program(token.word.text[found.end() :])):
                    self.variables[found.group(1)] = token.word.text[found.end() :]
                if token.kind == "w":
                    at_start = bool(found) or (at_start and token.word.text in ("export", "declare", "local", "-x"))
                else:
                    at_start = True
            tokens += row
            tokens.append(Token("n", "\n", Word("\n", line_end, line_end, part.line)))
            lexer.line = part.line
            lexer.start = line_end
        return arrays.unfolded(tokens)

    def _names_program(self, path: str) -> bool:
        """`$HERE/build/bin/llama-server`: the folder is only known when the script runs, the program is certain."""
        folder, slash, base = path.rpartition("/")
        return bool(slash and folder) and base in self.draft.names.programs

    def _logical_line(self, text: str, start: int, stop: int) -> int:
        """The offset after the line that starts at `start`: continuations and open quotes belong to it."""
        quote, comment, at = "", False, start
        while at < stop:
            char = text[at]
            if comment:
                comment = char != "\n"
            elif quote:
                if char == "\\" and quote == '"':
                    at += 1
                elif char == quote:
                    quote = ""
            elif char == "\\":
                at += 1
            elif char in "'\"":
                quote = char
            elif char == "#" and (at == start or text[at - 1] in " \t\n;"):
                comment = True
            if at < stop and text[at] == "\n" and not quote and char == "\n":
                return at + 1
            at += 1
        return stop

    def _pipeline(self, commands: list[list[Word]]) -> None:
        target = ""
        for words in reversed(commands):
            if words and words[0].text.rsplit("/", 1)[-1] in ("sudo", "tee"):
                plain = [word.text for word in words if not word.text.startswith("-")]
                if "tee" in [text.rsplit("/", 1)[-1] for text in plain[:2]]:
                    target = next((text for text in reversed(plain) if text not in ("tee", "sudo", "\0>")), "")
        for words in commands:
            self._simple(words, target)

    def _simple(self, words: list[Word], target: str) -> None:
        words, redirected = _redirections(words)
        target = redirected or target
        while words and words[0].text in _KEYWORDS and not words[0].literal:
            words = words[1:]
        if not words or words[0].text in _HEADS:
            return
        settings: list[Word] = []
        rest = list(words)
        while rest and _plain_assignment(self.draft.text, rest[0]):
            settings.append(rest.pop(0))
        if not rest:
            self._assign(settings)
            return
        head = rest[0].text
        if head in ("export", "declare", "typeset", "readonly", "local"):
            self._export(rest)
        elif head.startswith("$env:") or (head.lower() in ("set", "setx") and any(map(_sets, rest[1:]))):
            shown = self.draft.text[rest[0].start : rest[-1].end][:60]
            self.draft.note(f"`{shown}` sets a variable in Windows only, so it was not judged", rest[0].line)
        elif head == "set":
            self.export_all = self.export_all or any(word.text in ("-a", "allexport") for word in rest[1:])
        elif head == "unset":
            self._unset([word.text for word in rest[1:] if not word.text.startswith("-")])
        elif head in ("echo", "printf") and target:
            self._written(rest[1:], target)
        else:
            Unwrapper(self.draft, self._nested, self.scope).command(rest, settings)

    def _nested(self, start: int, end: int, line: int, scope: Scope) -> None:
        Script(self.draft, scope, self.other, dict(self.variables)).read(start, end, line)

    def _assign(self, settings: list[Word]) -> None:
        for word in settings:
            found = ASSIGNMENT.match(word.text)
            assert found
            self.pending[found.group(1)] = word
            if self.export_all or found.group(1) in self.exported:
                self.exported.add(found.group(1))
                self.draft.setting(word, self.scope, "export")

    def _export(self, words: list[Word]) -> None:
        keyword, names = words[0], [word for word in words[1:] if not word.text.startswith("-")]
        if keyword.text != "export" and not any("x" in word.text for word in words[1:] if word.text.startswith("-")):
            self._assign([word for word in names if ASSIGNMENT.match(word.text)])
            return
        alone = len(names) == 1
        for word in names:
            if found := ASSIGNMENT.match(word.text):
                self.exported.add(found.group(1))
                self.draft.setting(word, self.scope, "export", start=keyword.start if alone else None)
            else:
                self.exported.add(word.text)
                if word.text in self.pending:
                    self.draft.setting(self.pending[word.text], self.scope, "export")

    def _written(self, words: list[Word], target: str) -> None:
        """`echo 'export A=1' >> ~/.bashrc`: the text is a recipe of its own."""
        for word in words:
            if word.literal and word.end - word.start > 2:
                self._body(_Body(word.start + 1, word.end - 1, word.line, target))
            elif ASSIGNMENT.match(word.text):
                self._body(_Body(word.start, word.end, word.line, target))

    def _body(self, body: _Body) -> None:
        if LOGIN_FILES.search(body.target):
            Script(self.draft, Scope.LOGIN, self.other).read(body.start, body.end, body.line)
        elif body.target.endswith("/etc/environment") or body.target.endswith(".env"):
            Script(self.draft, Scope.LOGIN, self.other, export_all=True).read(body.start, body.end, body.line)
        elif self.other is not None and self.other(self.draft, body.start, body.end, body.line, body.target):
            return
        elif body.target == "" or body.target.endswith(".sh"):
            self._nested(body.start, body.end, body.line, self.scope)

    def _heredocs(self, start: int, end: int, line: int) -> tuple[list[_Body], str]:
        """Bodies of here-documents, and the text with each body blanked (offsets stay)."""
        text, bodies, at = self.draft.text, [], start
        if "<<" not in text[start:end]:
            return [], text
        pieces: list[str] = [text[:start]]
        while at < end:
            stop = text.find("\n", at, end)
            stop = end if stop < 0 else stop + 1
            row = text[at:stop]
            pieces.append(row)
            found = _HEREDOC.search(row) if not row.lstrip().startswith("#") else None
            at, line = stop, line + 1
            if not found:
                continue
            close = re.compile(rf"^[ \t]*{re.escape(found.group(3))}[ \t]*\r?$", re.M)
            ends = close.search(text, at, end)
            body_end = ends.start() if ends else end
            if not ends:
                self.draft.note(f"the here-document that ends with {found.group(3)} is never closed", line - 1)
            bodies.append(_Body(at, body_end, line, _target(row)))
            after = ends.end() if ends else end
            pieces.append(re.sub(r"[^\n]", " ", text[at:after]))
            line += text.count("\n", at, after)
            at = after
        return bodies, "".join(pieces) + text[end:]


def _sets(word: Word) -> bool:
    """`set A=1` gives a Unix shell a positional parameter, and Windows a variable."""
    return bool(ASSIGNMENT.match(word.text))


def _target(row: str) -> str:
    found = re.search(r"(?:>>?|\btee(?:\s+-a)?)\s*[\"']?([^\s\"'<>|;]+)", re.sub(r"<<-?\s*\S+", " ", row))
    if found:
        return found.group(1)
    return "" if re.search(r"\b(bash|sh|ssh|zsh)\b", row) else "-"


def _redirections(words: list[Word]) -> tuple[list[Word], str]:
    """The words without redirections, and the file that standard output goes to."""
    kept: list[Word] = []
    target, skip = "", False
    for word in words:
        if word.text.startswith("\0"):
            skip = word.text[1:] in (">", ">>", "<", "&>", "&>>", ">&", "<&", "<<", "<<-", "<<<")
            writes = word.text[1:] in (">", ">>")
            if kept and kept[-1].text.isdigit() and kept[-1].end == word.start:
                kept.pop()
            continue
        if skip:
            skip = False
            target = word.text if writes else target
            continue
        kept.append(word)
    return kept, target


def _plain_assignment(text: str, word: Word) -> bool:
    """`A="b c"` is an assignment, `"A=b"` is not: the name must stand outside the quotes."""
    found = ASSIGNMENT.match(word.text)
    return bool(found) and text.startswith(found.group(0) if found else "\0", word.start)
