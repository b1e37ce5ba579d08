"""The door: any recipe text to a Recipe."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from stillruns.model.recipe import Recipe, RecipeForm, Scope
from stillruns.normalise.recipe import compose, config, dockerfile, page, unit
from stillruns.normalise.recipe.draft import Draft, KnownNames
from stillruns.normalise.recipe.shell import LOGIN_FILES, Script

LARGEST = 1 << 20
"""Characters of a recipe that are read; nobody was told to paste more."""

_LANGUAGES = {
    "dockerfile": RecipeForm.DOCKERFILE,
    "docker": RecipeForm.DOCKERFILE,
    "containerfile": RecipeForm.DOCKERFILE,
    "yaml": RecipeForm.COMPOSE,
    "yml": RecipeForm.COMPOSE,
    "systemd": RecipeForm.UNIT,
    "ini": RecipeForm.UNIT,
    "service": RecipeForm.UNIT,
}
_NO_RECIPE = frozenset(
    {"json", "python", "py", "c", "cpp", "go", "diff", "html", "xml", "toml", "js", "rust", "sql", "log", "output"}
)
_WINDOWS = frozenset({"bat", "batch", "cmd", "dos", "powershell", "pwsh", "ps1", "posh"})
"""Shells of Windows, by a fence's word or a file's ending: nothing here reads their syntax."""
_UNIT = re.compile(r"^\s*\[(Unit|Service|Install)\]\s*$", re.M)
_SETTING_LINE = re.compile(r"^\s*(Environment|ExecStart)\s*=", re.M)
_FROM = re.compile(r"^\s*FROM\s+\S+", re.M)
_SERVICES = re.compile(r"^services\s*:", re.M)
_ASSIGNMENTS = re.compile(r"(?:[ \t]*(?:#[^\n]*|(?:export[ \t]+)?[A-Za-z_]\w*=[^\n]*)?(?:\n|\Z))+")
"""A file that only sets variables (EnvironmentFile=, env_file:): whoever reads it gives them all to a program."""
_FENCED = re.compile(r"^[ \t>]*(```|~~~)", re.M)
_SECTION = re.compile(r"^\s*\[[^\]]+\]\s*$", re.M)


def detect(path: str, text: str) -> RecipeForm:
    """By the file's name, then by what only that form has."""
    name = path.rsplit("/", 1)[-1].lower()
    if name.endswith((".md", ".markdown", ".mdx")):
        return RecipeForm.MARKDOWN
    if name.endswith((".service", ".socket", ".timer", ".conf")) and (
        _UNIT.search(text) or name.endswith(".service")
    ):
        return RecipeForm.UNIT
    if name.startswith(("dockerfile", "containerfile")) or name.endswith(".dockerfile"):
        return RecipeForm.DOCKERFILE
    if name.endswith((".yml", ".yaml")):
        return RecipeForm.COMPOSE
    if name.endswith(".ini"):
        return RecipeForm.CONFIG
    if name.endswith((".sh", ".bash", ".env")) or text.startswith("#!") or LOGIN_FILES.search(path):
        return RecipeForm.SHELL
    return _by_text(text)


def _by_text(text: str) -> RecipeForm:
    if _FENCED.search(text):
        return RecipeForm.MARKDOWN
    if _UNIT.search(text):
        return RecipeForm.UNIT
    if _SERVICES.search(text):
        return RecipeForm.COMPOSE
    if _FROM.search(text):
        return RecipeForm.DOCKERFILE
    return RecipeForm.SHELL


def read(path: str, text: str, names: KnownNames, form: RecipeForm | None = None) -> Recipe:
    """A recipe from a file's text; `form` None: detected. Never raises on what the text holds."""
    draft = Draft(path, text, form or detect(path, text), names)
    end = len(text)
    if end > LARGEST:
        draft.note(f"only the first {LARGEST >> 20} Mi characters were read", text.count("\n", 0, LARGEST))
        end = LARGEST
    if "\0" in text[:end]:
        draft.note("this file holds NUL bytes: it is no text, so nothing in it was judged", 1)
        return draft.frozen()
    if path.rsplit(".", 1)[-1].lower() in _WINDOWS:
        draft.note("this is a script of Windows: nothing in it was judged", 1)
        return draft.frozen()
    _slice(draft, draft.form, 0, end, 1, login=bool(LOGIN_FILES.search(path)))
    return draft.frozen()


def command_line(words: Sequence[str], names: KnownNames) -> Recipe:
    """A recipe from words that a shell has already cut."""
    text = shlex.join(words)
    draft = Draft("command line", text, RecipeForm.COMMAND, names)
    Script(draft, Scope.COMMAND, _by_target).read(0, len(text), 1)
    return draft.frozen()


def _slice(draft: Draft, form: RecipeForm, start: int, end: int, line: int, *, login: bool = False) -> None:
    if form is RecipeForm.MARKDOWN:
        page.read(draft, start, end, line, _block)
    elif form is RecipeForm.UNIT:
        unit.read(draft, start, end, line)
    elif form is RecipeForm.DOCKERFILE:
        dockerfile.read(draft, start, end, line)
    elif form is RecipeForm.COMPOSE:
        compose.read(draft, start, end, line)
    elif form is RecipeForm.CONFIG:
        config.read(draft, start, end, line)
    else:
        exported = draft.path.endswith((".env", "/etc/environment")) or (
            draft.form is RecipeForm.SHELL and bool(_ASSIGNMENTS.fullmatch(draft.text, start, end))
        )
        Script(draft, Scope.LOGIN if login else Scope.SESSION, _by_target, export_all=exported).read(start, end, line)


def _block(draft: Draft, start: int, end: int, line: int, fence: str) -> None:
    """A fenced block: by its language, else by what is in it."""
    first = fence.split()[0].lower().strip("{}.") if fence.split() else ""
    if first in _NO_RECIPE:
        return
    if first in _WINDOWS:
        draft.note(f"this is a {first} block of Windows: nothing in it was judged", line)
        return
    whole, plain = draft.text, page.without_prompts(draft.text, start, end)
    text = plain[start:end]
    form = _LANGUAGES.get(first)
    if form is None or form is RecipeForm.UNIT or form is RecipeForm.COMPOSE:
        seen = _by_text(text)
        if form is RecipeForm.UNIT and not _UNIT.search(text) and not _SETTING_LINE.search(text):
            seen = RecipeForm.CONFIG if _SECTION.search(text) else RecipeForm.SHELL
        elif form is RecipeForm.COMPOSE and not _SERVICES.search(text):
            return
        elif form is None and _SETTING_LINE.search(text):
            seen = RecipeForm.UNIT
        form = seen if seen is not RecipeForm.MARKDOWN else RecipeForm.SHELL
    draft.text = plain
    _slice(draft, form, start, end, line)
    draft.text = whole


def _by_target(draft: Draft, start: int, end: int, line: int, target: str) -> bool:
    """A text that a script writes to a file is read by that file's name."""
    name = target.rsplit("/", 1)[-1].lower()
    if name.endswith((".service", ".conf")):
        form = RecipeForm.UNIT
    elif name.startswith(("dockerfile", "containerfile")):
        form = RecipeForm.DOCKERFILE
    elif name.endswith((".yml", ".yaml")):
        form = RecipeForm.COMPOSE
    elif name == "config.ini":
        form = RecipeForm.CONFIG
    else:
        return False
    _slice(draft, form, start, end, line)
    return True
