"""Release tags of a git repository, and the names that the sources of a release mention."""

from __future__ import annotations

import os
from pathlib import Path

from stillruns import proc
from stillruns.errors import UsageError

_TIMEOUT = 60.0
_ENV = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*")


def tags(path: Path) -> tuple[str, ...]:
    """Tags of a repository, oldest version first; empty for a folder that is none."""
    done = _git(path, "tag", "--list", "--sort=version:refname")
    return tuple(done.stdout.decode("utf-8", "replace").split()) if done.status == 0 else ()


def mentioned(path: Path, rev: str, pattern: str, globs: tuple[str, ...]) -> frozenset[str]:
    """Every text that an extended regular expression matches in the files of a revision."""
    if rev.startswith("-"):
        raise UsageError(f"{rev!r} is no revision of {path}")
    done = _git(path, "grep", "-hoIE", "-e", pattern, rev, "--", *globs)
    if done.status not in (0, 1):
        said = done.stderr.decode("utf-8", "replace").strip()[:200]
        raise UsageError(f"git grep failed in {path} at {rev}: {said}")
    return frozenset(done.stdout.decode("utf-8", "replace").split("\n")) - {""}


def _git(path: Path, *words: str) -> proc.Finished:
    env = {**os.environ, **_ENV}
    return proc.run(["git", *_SAFE, "-C", str(path), *words], timeout=_TIMEOUT, env=env, limit=64 << 20)
