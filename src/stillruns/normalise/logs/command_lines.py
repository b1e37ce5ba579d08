"""The command line that a paste begins with: which program of llama.cpp it starts, and with how many layers.

Before it may stand a shell's prompt (`$ `, `user@host:~/src$ `, `[user@host src]$ `, `(venv) ...`, `C:\\src>`,
`PS C:\\src>`), the `> ` of a text that was quoted, variables, `sudo`, and Python where the program is KoboldCpp.
"""

from __future__ import annotations

import msgspec

from stillruns.model.expression import Expression
from stillruns.model.server_log import Layers

_COMMAND = Expression(
    r"^\s{0,8}(?:>{1,3}\s{1,2})?(?:\([\w.-]{1,40}\) ){0,2}"
    r"(?:(?:PS )?[A-Z]:\\[^>]{0,200}>\s?|\[?[\w.-]{1,64}@[\w.-]{1,64}[: ][^$#>%\]]{0,200}\]?\s?[$#>%]\s{0,2})?"
    r"(?:[$>#❯%]\s{0,4})?(?:sudo (?:-E )?)?(?:\w{1,60}=\S{0,300} ){0,10}(?:py(?:thon[\d.]{0,5})? )?"
    r"(?P<program>\S{0,200}(?:llama-(?:server|cli|bench|run|simple)\S{0,60}|/main|/server|/llava(?:-cli)?|"
    r"\.llamafile(?:\.exe)?|koboldcpp(?:\.py|\S{0,30}\.exe)?)|llama)"
    r"(?P<arguments> {1,8}(?:-.{0,4000}|\\))$"
)
_MORE = Expression(r"^\s{0,40}-{1,2}[a-zA-Z]")
_WRAPPED = Expression(r"^\s{2,40}-{1,2}[a-zA-Z][\w-]{0,40}[ =]")
_HINT = Expression(r"llama-[scbr]|/main |/server |/llava|\.llamafile|koboldcpp|llama -")
_LAYERS = Expression(r" (?:-ngl|--gpu-?layers|--n-gpu-layers)[ =](?P<layers>-?\d{1,6}|all|auto)\b")


class Command(msgspec.Struct, frozen=True):
    """`program` without its folder; `layers` as asked, None where the line does not say."""

    program: str
    layers: Layers


def read(text: str) -> Command | None:
    """The command that the line holds, or None."""
    argued = " -" in text or text.endswith(" \\")
    found = _COMMAND.match(text) if argued and _HINT.search(text) else None
    if found is None:
        return None
    return Command(found["program"].replace("\\", "/").rsplit("/", 1)[-1], layers(found["arguments"]))


def more(text: str, unended: bool) -> bool:
    """Whether the line just below a command belongs to it: after a backslash, or as a paste wraps it."""
    return (_MORE if unended else _WRAPPED).match(text) is not None


def layers(arguments: str) -> Layers:
    """What is asked of the GPU; None where nothing is."""
    found = _LAYERS.search(arguments)
    return number(found["layers"]) if found else None


def number(text: str) -> Layers:
    """`99`, `all`, `auto` as asked; -1 stays a number, since its meaning depends on the build."""
    return text if text in ("all", "auto") else int(text)
