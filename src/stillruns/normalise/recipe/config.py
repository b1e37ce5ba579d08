"""config.ini of llama.cpp: sections of `option = value` (common/preset.cpp at b11434 has its grammar)."""

from __future__ import annotations

import re

from stillruns.model.recipe import Comment, Item, ItemKind, Scope
from stillruns.normalise.recipe.draft import Draft

_ROW = re.compile(r"[ \t]*([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*([^;#\r\n]*)")
_SECTION = re.compile(r"[ \t]*\[[ \t]*([^\]]+?)[ \t]*\]")


def read(draft: Draft, start: int, end: int, line: int, *, command: int = -1) -> None:
    """Add each option as a config item; `how` names its section."""
    section, at = "", start
    while at < end:
        stop = draft.text.find("\n", at, end)
        stop = end if stop < 0 else stop
        row = draft.text[at:stop]
        heading, setting = _SECTION.match(row), _ROW.match(row)
        if row.lstrip()[:1] in ("#", ";"):
            draft.comments.append(Comment(row.strip().lstrip("#;").strip(), line))
        elif heading:
            section = heading.group(1)
        elif setting:
            name_at = at + setting.start(1)
            draft.items.append(
                Item(
                    kind=ItemKind.CONFIG,
                    name=setting.group(1),
                    value=setting.group(2).strip(),
                    line=line,
                    start=at,
                    end=stop,
                    name_start=name_at,
                    name_end=name_at + len(setting.group(1)),
                    command=command,
                    scope=Scope.FILE,
                    how=f"section [{section or 'default'}]",
                    style="line",
                )
            )
        elif row.strip():
            draft.note("this line is no `option = value`; llama.cpp refuses the whole file for it", line)
        at, line = stop + 1, line + 1
