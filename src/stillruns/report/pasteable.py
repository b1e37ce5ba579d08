"""Text that people paste into public reports: no keys, no tokens, no names of people, no control characters.

The evidence in the store stays as it is; only what is shown is redacted. A tag names what was there and is no
pseudonym: a digest of a short key could be turned back by trying.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

from stillruns.redact.environment import secret_name
from stillruns.redact.redactor import TAG, Redactor
from stillruns.redact.text import redact
from stillruns.report.columns import visible

SECRET = "<secret>"  # noqa: S105 - what stands in the place of one
_FLAGS = frozenset(
    "--api-key --hf-token -hft --token --password --auth-token --access-token --registry-token".split()
)
_ASSIGNED = re.compile(r"(?:--?env=|-e|--)?([A-Za-z_][A-Za-z0-9_-]*)=(?=.)", re.DOTALL)
_REDACTOR = Redactor(key=os.urandom(16))


def text(raw: str) -> str:
    """One line, safe to print and to paste."""
    return visible(TAG.sub(_kind, redact(raw, _REDACTOR).text))


def words(argv: Sequence[str]) -> tuple[str, ...]:
    """A command line without the values of secret options (`--api-key X`) and variables (`HF_TOKEN=X`)."""
    shown: list[str] = []
    for before, word in zip(("", *argv), argv, strict=False):
        name = _ASSIGNED.match(word)
        if before in _FLAGS:
            shown.append(SECRET)
        elif name and (secret_name(name[1]) or f"--{name[1]}" in _FLAGS):
            shown.append(word[: name.end()] + SECRET)
        else:
            shown.append(TAG.sub(_kind, redact(word, _REDACTOR).text))
    return tuple(shown)


def command(argv: Sequence[str]) -> str:
    """The same as one line that a shell would read."""
    return text(" ".join(word if SECRET in word else shlex.quote(word) for word in words(argv)))


def _kind(tag: re.Match[str]) -> str:
    return f"{tag[0].split(':')[0]}>"
