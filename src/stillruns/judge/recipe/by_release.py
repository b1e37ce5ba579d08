"""What releases take differently: which one runs decides, and what is said of the newest holds for no other.

Of Ollama the values of a variable; of llama.cpp the flags, where the tag of its image names an older build than the
one whose options were read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from stillruns.judge.recipe import values
from stillruns.judge.recipe.ground import Case, Ground
from stillruns.judge.recipe.reach import View
from stillruns.model.lint import LintItem, Reading, ValueReading
from stillruns.model.option_row import EnvValue, OptionRow
from stillruns.model.recipe import Scope
from stillruns.model.version import between, older

_VERSION = re.compile(r"(?<![\w.])v?(\d+\.\d+\.\d+)(?![\w.]|-rc)")
_IMAGE = re.compile(r"(?:docker\.io/)?ollama/ollama:v?(\d+\.\d+\.\d+)(?:-rocm)?(?:@sha256:[0-9a-f]+)?\Z")
"""No candidates (`0.30.0-rc17`): which of them changed what was not read."""

_LLAMA_IMAGE = re.compile(
    r"(?:ghcr\.io/)?(?:ggml-org|ggerganov)/llama\.cpp:(?:server|light|full)(?:-[a-z]\w{0,20}){0,4}-b(?P<build>\d{3,6})"
    r"(?:@sha256:[0-9a-f]+)?\Z"
)
_CAME = re.compile(r"\(b(\d+), b\d+\]")
_WENT = re.compile(r"removed in \(b(\d+), b\d+\]")
_OWN_BUILD = "0.0.0"
"""What Ollama calls itself where nobody gave it a version (version/version.go)."""


def release(view: View) -> str:
    """The release of Ollama that reads the variable: what the installed program says, or the tag of its own image;
    empty where nothing tells. A tag that moves (`latest`, `rocm`) tells nothing: it was pulled on some day."""
    command = view.case.command
    if view.case.item.scope is Scope.CONTAINER and command is not None:
        tagged = _IMAGE.match(command.written.text)
        if tagged:
            return tagged[1]
    for engine in view.engines:
        said = _VERSION.search(engine.version) if engine.program == "ollama" else None
        if said and said[1] != _OWN_BUILD:
            return said[1]
    return ""


def not_yet(view: View, since: str) -> bool:
    """Whether the release that runs is known, and older than the first that reads the variable."""
    return older(release(view), since) is True


def still(view: View, since: str, until: str) -> bool:
    """Whether the release that runs is known, and one of those that read the variable."""
    return between(release(view), since, until) is True


def value(view: View) -> values.Answer | None:
    """The verdict on a value that the catalogue knows by release; None for a variable whose values it does not."""
    rows = [row for row in view.ground.options.env_values if row.name == view.name]
    given = view.case.item.value
    if not rows or given is None:
        return None
    if not given:
        return None, "an empty value counts as unset"
    takes = [row for row in rows if row.value != "*" and fnmatchcase(given, row.value)]
    others = [row for row in rows if row.value == "*"]
    now = release(view)
    if now:
        mine = next((row for row in takes if between(now, row.since, row.until)), None)
        if mine is not None:
            return ValueReading.OK, mine.effect
        why = f"Ollama {now} has nothing called `{given}`: it {_fate(others, now)}"
        return ValueReading.NOT_ACCEPTED, f"{why}; it was taken {_times(takes)}" if takes else why
    fates = "; ".join(f"{_when(row)} what is not taken {row.effect}" for row in others)
    if not takes:
        return ValueReading.NOT_ACCEPTED, f"no release that was read has anything called `{given}`: {fates}"
    return None, f"which release of Ollama runs is not known, and `{given}` is taken {_times(takes)} only; {fates}"


def in_its_image(item: LintItem, case: Case, ground: Ground, row: OptionRow | None) -> LintItem | None:
    """A verdict on a flag by the newest options, as it stands for the older build that the image's tag names; None
    where nothing tells. `row` is what the catalogue knows of the flag besides."""
    command = case.command
    tagged = _LLAMA_IMAGE.match(command.written.text) if command is not None else None
    newest = next((s.last for s in ground.options.searched if s.kind == "flag" and s.owner == "llama.cpp"), "")
    if tagged is None or older(f"b{tagged['build']}", newest) is not True:
        return item
    build = int(tagged["build"])
    came, went = _CAME.search(row.since) if row else None, _WENT.search(row.until) if row else None
    if came and build <= int(came[1]):
        why = f"the image is b{build}, and the flag came in {came[0]}"
        return replace(item, verdict=Reading.NOT_FOUND, value_verdict=ValueReading.NO_EFFECT, why=why, use=None)
    of = f"the image is b{build}, and only the values of {newest} were read"
    if went and build <= int(went[1]):
        return replace(item, verdict=Reading.READ, value_verdict=None, why=f"{of}; {went[0]}", use=None)
    if item.verdict is Reading.READ:
        known = item.value_verdict in (None, ValueReading.OK)
        return item if known else replace(item, value_verdict=None, why=f"{of}: there {item.why}", use=None)
    return item if row is not None else None


def _fate(others: Sequence[EnvValue], now: str) -> str:
    return next((row.effect for row in others if between(now, row.since, row.until)), "is not taken")


def _times(rows: Sequence[EnvValue]) -> str:
    """`up to v0.5.7 (why) and from v0.12.4 on`."""
    return " and ".join(_when(row) + (f" ({row.effect})" if row.effect else "") for row in rows)


def _when(row: EnvValue) -> str:
    if not row.since:
        return f"up to {row.until}"
    return f"from {row.since} to {row.until}" if row.until else f"from {row.since} on"
