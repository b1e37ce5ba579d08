"""Text that people paste into public reports: no keys, no names of people, no prompts, no control characters.

The evidence in the store stays as it is; only what is shown is redacted. A tag names what was there and is no
pseudonym: a digest of a short key could be turned back by trying.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache

from stillruns.redact.environment import secret_name
from stillruns.redact.redactor import TAG, Redactor
from stillruns.redact.text import redact
from stillruns.report.columns import visible

SECRET = "<secret>"  # noqa: S105 - what stands in the place of one
PROMPT = "<prompt>"
"""What stands in the place of a text that the user wrote for the model."""
_FLAGS = frozenset(
    "--api-key --hf-token -hft --token --password --auth-token --access-token --registry-token".split()
)
_PROMPTS = frozenset("--prompt --system-prompt --in-prefix --in-suffix --reverse-prompt".split())
_SHORT_PROMPTS = frozenset(("-p", "-sys", "-r"))
"""llama.cpp's options that take a text for the model (common/arg.cpp). Before one of its programs the short ones are
somebody else's (`docker run -p 8080:8080`), and llama-bench's take numbers."""
_LLAMA = re.compile(r"(?:^|/|\s)llama-")
_NO_TEXT = re.compile(r"[0-9,+*:./-]*|--?[a-z][a-z-]*")
_PROMPT_INSIDE = re.compile(
    rf"(?P<flag>(?<![\w-])(?:{'|'.join(map(re.escape, sorted(_PROMPTS | _SHORT_PROMPTS)))})[ ]{{1,4}})"
    r"(?P<value>'[^']*'|\"(?:[^\"\\]|\\.)*\"|[^\s'\";|&]+)"
)
"""The same inside one word: `bash -c "llama-cli -p 'text'"`."""
_HIDDEN = re.compile(r"<[a-z-]{1,20}>")
_ASSIGNED = re.compile(r"(?:--?env=|-e|--)?([A-Za-z_][A-Za-z0-9_-]*)=(?=.)", re.DOTALL)


@lru_cache(maxsize=1)
def _redactor() -> Redactor:
    """With the names of this user and this machine, wherever they stand: not every home is under /home."""
    env = os.environ
    users = {env.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")} | {
        env.get("HOME", "").rpartition("/")[2]
    }
    return Redactor(key=os.urandom(16), users=tuple(sorted(users - {""})), hosts=(os.uname().nodename,))


def text(raw: str) -> str:
    """One line, safe to print and to paste."""
    return visible(TAG.sub(_kind, redact(raw, _redactor()).text))


def words(argv: Sequence[str]) -> tuple[str, ...]:
    """A command line without prompts (`-p X`) and without the values of secret options (`--api-key X`) and variables
    (`HF_TOKEN=X`)."""
    shown: list[str] = []
    ours = False
    for before, word in zip(("", *argv), argv, strict=False):
        name = _ASSIGNED.match(word)
        ours = ours or bool(_LLAMA.search(before))
        if before in _FLAGS:
            shown.append(SECRET)
        elif (before in _PROMPTS or (ours and before in _SHORT_PROMPTS)) and not _NO_TEXT.fullmatch(word):
            shown.append(PROMPT)
        elif name and (secret_name(name[1]) or f"--{name[1]}" in _FLAGS):
            shown.append(word[: name.end()] + SECRET)
        elif name and f"--{name[1]}" in _PROMPTS:
            shown.append(word[: name.end()] + PROMPT)
        else:
            shown.append(TAG.sub(_kind, redact(_inside(word), _redactor()).text))
    return tuple(shown)


def command(argv: Sequence[str]) -> str:
    """The same as one line that a shell would read; `<secret>` and the like stand as they are."""
    return text(" ".join(_quoted(word) for word in words(argv)))


def variables(environment: Mapping[str, str]) -> str:
    """Variables as they would stand before a command, without the values of secret ones."""
    return command([f"{name}={value}" for name, value in environment.items()])


def _quoted(word: str) -> str:
    """Quoted where a shell needs it; what was hidden is no reason to."""
    bare = _HIDDEN.sub("", word)
    return word if _HIDDEN.search(word) and bare in ("", shlex.quote(bare)) else shlex.quote(word)


def _inside(word: str) -> str:
    """A script in one word, without the prompts of the llama.cpp programs in it."""
    program = _LLAMA.search(word)
    if program is None:
        return word
    return word[: program.end()] + _PROMPT_INSIDE.sub(_no_prompt, word[program.end() :])


def _no_prompt(found: re.Match[str]) -> str:
    return found[0] if _NO_TEXT.fullmatch(found["value"]) else f"{found['flag']}{PROMPT}"


def _kind(tag: re.Match[str]) -> str:
    return f"{tag[0].split(':')[0]}>"
