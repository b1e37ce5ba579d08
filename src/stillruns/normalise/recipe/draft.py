"""The recipe while it is being read: items, commands and notes are added here and frozen at the end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stillruns.model.recipe import (
    UNEXPORTED,
    Command,
    Comment,
    Item,
    ItemKind,
    Recipe,
    RecipeForm,
    RecipeNote,
    Scope,
    Word,
)
from stillruns.normalise.recipe.words import cut

ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)", re.S)
"""`NAME=` at the start of a word."""

_CMAKE = re.compile(r"-D([A-Za-z_][\w.-]*)(?::[A-Z]+)?(?:=(.*))?\Z", re.S)
_NUMBER = re.compile(r"-\d+(\.\d+)?(,-?\d+(\.\d+)?)*\Z")
_BUILD_ARGUMENTS = ("CMAKE_ARGS", "CMAKE_FLAGS", "CMAKE_EXTRA_ARGS", "SKBUILD_CMAKE_ARGS")
"""Variables through which Python builds of llama.cpp get their CMake options (scikit-build-core reads CMAKE_ARGS)."""


@dataclass(frozen=True, slots=True)
class KnownNames:
    """What the reader must know to tell our programs from others: names that are certain, names that are so only
    with a path or with one of our flags (`main`, `server`), and images with the program that they start."""

    programs: frozenset[str]
    old: frozenset[str]
    images: Mapping[str, str]

    def image_program(self, image: str) -> str:
        """The program that an image starts, by its longest known prefix; empty when unknown."""
        known = [prefix for prefix in self.images if image.startswith(prefix)]
        return self.images[max(known, key=len)] if known else ""


@dataclass(slots=True)
class Draft:
    """Offsets are into `text`, the whole file."""

    path: str
    text: str
    form: RecipeForm
    names: KnownNames
    items: list[Item] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    notes: list[RecipeNote] = field(default_factory=list)
    unexported: list[Item] = field(default_factory=list)
    without: frozenset[str] = frozenset()
    """Variables that what runs next does not see; `*` for all."""

    def frozen(self) -> Recipe:
        """What was read, in the order of the file."""
        return Recipe(
            self.path,
            self.form,
            self.text,
            tuple(self.items),
            tuple(self.commands),
            tuple(self.comments),
            tuple(self.notes),
            tuple(self.unexported),
        )

    def note(self, text: str, line: int) -> None:
        """Remember a part that was not understood."""
        self.notes.append(RecipeNote(text, line))

    def setting(
        self,
        word: Word,
        scope: Scope,
        how: str,
        *,
        command: int = -1,
        start: int | None = None,
        end: int | None = None,
        style: str = "shell",
        shift: int = 0,
    ) -> None:
        """Add `NAME=value`; `shift` is where NAME begins inside the raw word (a quote, `-e`)."""
        found = ASSIGNMENT.match(word.text)
        if not found:
            return
        name, value = found.group(1), word.text[found.end() :]
        at = word.start + shift
        begins = self.text.find(name, at, word.end)
        begins = at if begins < 0 else begins
        self.without -= {name} if command == -1 and how != UNEXPORTED else set()
        (self.unexported if how == UNEXPORTED else self.items).append(
            Item(
                kind=ItemKind.ENV,
                name=name,
                value=None if word.dynamic else value,
                line=word.line,
                start=word.start if start is None else start,
                end=word.end if end is None else end,
                name_start=begins,
                name_end=begins + len(name),
                command=command,
                scope=scope,
                how=how,
                dynamic=word.dynamic,
                style=style,
            )
        )
        if name in _BUILD_ARGUMENTS and how != UNEXPORTED:
            self._nested_cmake(begins + len(name) + 1, word, command)

    def _nested_cmake(self, start: int, word: Word, command: int) -> None:
        stop = word.end
        if self.text[start : start + 1] in "'\"":
            start, stop = start + 1, stop - 1
        elif self.text[stop - 1 : stop] in "'\"":
            stop -= 1
        self.cmake_words(cut(self.text, start, stop, word.line, self.notes), command, "cmake")

    def cmake_words(self, words: Sequence[Word], command: int, how: str) -> None:
        """`-DNAME=VALUE` and `-D NAME=VALUE`."""
        for index, word in enumerate(words):
            text, name_at, end = word.text, word.start + 2, word.end
            if text == "-D" and index + 1 < len(words):
                following = words[index + 1]
                text, name_at, end = "-D" + following.text, following.start, following.end
            found = _CMAKE.match(text)
            if not found:
                continue
            name = found.group(1)
            begins = max(self.text.find(name, word.start, end), name_at if name_at < end else word.start)
            self.items.append(
                Item(
                    kind=ItemKind.CMAKE,
                    name=name,
                    value=None if word.dynamic else found.group(2),
                    line=word.line,
                    start=word.start,
                    end=end,
                    name_start=begins,
                    name_end=begins + len(name),
                    command=command,
                    scope=Scope.BUILD,
                    how=how,
                    dynamic=word.dynamic,
                )
            )

    def make_words(self, words: Sequence[Word], command: int) -> None:
        """`make NAME=VALUE`: a variable of the Makefile."""
        for word in words:
            found = ASSIGNMENT.match(word.text)
            if found:
                name = found.group(1)
                self.items.append(
                    Item(
                        kind=ItemKind.CMAKE,
                        name=name,
                        value=None if word.dynamic else word.text[found.end() :],
                        line=word.line,
                        start=word.start,
                        end=word.end,
                        name_start=word.start,
                        name_end=word.start + len(name),
                        command=command,
                        scope=Scope.BUILD,
                        how="make",
                        dynamic=word.dynamic,
                    )
                )

    def is_ours(self, written: str, arguments: Sequence[Word]) -> str:
        """The base name of a program of ours, or empty. `main` and `server` need a path or one of our flags."""
        base = written.rsplit("/", 1)[-1]
        if base.endswith(".exe"):
            base = base[:-4]
        if base in self.names.programs:
            return base
        tells = {"-m", "--model", "-ngl", "--n-gpu-layers", "--gpu-layers", "-hf"}
        if base in self.names.old and ("/" in written or any(word.text in tells for word in arguments)):
            return base
        return ""

    def run(
        self,
        program: str,
        written: Word,
        arguments: Sequence[Word],
        scope: Scope,
        style: str = "shell",
        *,
        named: bool = True,
    ) -> int:
        """Add a command with its flags; returns its index. `named` false: an image names the program, not a word."""
        index = len(self.commands)
        client = program == "ollama" and bool(arguments) and arguments[0].text not in ("serve", "start")
        hidden = tuple(sorted(self.without))
        self.commands.append(
            Command(program, written, tuple(arguments), written.line, scope, style, client and named, hidden)
        )
        if program in self.names.programs or program in self.names.old:
            if named:
                base = written.start + max(self.text[written.start : written.end].rfind(program), 0)
                self.items.append(
                    Item(
                        kind=ItemKind.PROGRAM,
                        name=written.text,
                        value=None,
                        line=written.line,
                        start=written.start,
                        end=written.end,
                        name_start=base,
                        name_end=base + len(program),
                        command=index,
                        scope=scope,
                        how="command",
                        style=style,
                    )
                )
            self._flags(arguments, index, scope, style)
        return index

    def _flags(self, words: Sequence[Word], index: int, scope: Scope, style: str) -> None:
        taken = -1
        for at, word in enumerate(words):
            if at == taken or not is_flag(word):
                continue
            name, equals, joined = word.text.partition("=")
            following = words[at + 1] if at + 1 < len(words) else None
            value: str | None = joined if equals else None
            dynamic = bool(equals) and word.dynamic
            if not equals and following is not None and not is_flag(following):
                value, dynamic, taken = following.text, following.dynamic, at + 1
            self.items.append(
                Item(
                    kind=ItemKind.FLAG,
                    name=name,
                    value=None if dynamic else value,
                    line=word.line,
                    start=word.start,
                    end=word.end,
                    name_start=word.start + (1 if style == "json" or word.literal else 0),
                    name_end=word.start + (1 if style == "json" or word.literal else 0) + len(name),
                    command=index,
                    scope=scope,
                    how="argument",
                    dynamic=dynamic,
                    joined=bool(equals),
                    follows=following,
                    style=style,
                )
            )


def is_flag(word: Word) -> bool:
    """`-x`, `--long` and `--long='a b'`, but not `-`, `-1` or a quoted text with blanks in its name."""
    text = word.text
    if len(text) < 2 or text[0] != "-" or _NUMBER.match(text):
        return False
    return not (word.literal and any(blank in text.partition("=")[0] for blank in " \n\t"))
