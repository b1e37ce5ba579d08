"""Which files of a folder are no logs by their names and first bytes: source code, settings, tables, prose."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

MARKDOWN = frozenset((".md", ".markdown", ".mdx"))
"""What may hold logs between its fences: an issue that was saved, a report."""

_OTHERS = frozenset(
    """
    .py .pyi .ipynb .c .cc .cpp .cxx .cu .cuh .h .hh .hpp .hip .inc .m .mm .metal .cl .comp .glsl .s .go .rs .zig
    .js .mjs .jsx .ts .tsx .java .kt .scala .swift .rb .pl .pm .lua .php .cs .jl .r .sql .proto .jinja .j2 .gbnf
    .sh .bash .zsh .fish .ps1 .bat .cmd .awk .nix .cmake .mk .gradle .diff .patch
    .toml .yaml .yml .ini .cfg .conf .env .lock .service .socket .timer .json5 .jsonc .xml .xsd .html .htm .css .svg
    .pyc .pyo .csv .tsv .rst .adoc .org .tex .bib
    """.split()
)
"""Ends of the names of source code, settings, tables, and prose that marks its quotations in other ways."""
_NAMES = re.compile(
    r"(?:CMakeLists\.txt|requirements[\w.-]*\.txt|(?:GNU)?[Mm]akefile|Dockerfile|Containerfile|Modelfile|Justfile"
    r"|Jenkinsfile|Vagrantfile|README|LICEN[CS]E|COPYING|NOTICE|AUTHORS|CONTRIBUTING|CHANGELOG|CHANGES|NEWS)"
    r"(?:\.(?!log|out|err)\w{1,12})?\Z"
)
CACHES = frozenset(
    ".git .hg .svn .tox .venv .mypy_cache .pytest_cache .ruff_cache __pycache__ node_modules site-packages".split()
)
"""Folders of tools, whose files nobody hands over as logs."""
_BEGINS = re.compile(
    rb"(?:\xef\xbb\xbf)?\s{0,20}(?:#!/|<!DOCTYPE |<html|<\?xml |[0-9a-f]{32,128} [ *]\S)", re.IGNORECASE
)
"""A script, a page, a list of digests."""
_LOGS = frozenset((".log", ".out", ".err"))
"""Ends of names that say what it is, whatever stands first: a script, say, before what it printed."""


@dataclass
class LeftOut:
    """What a scan of one folder did not read: `documents` are JSON, `others` no logs by name or beginning, `further`
    how many logs there were beyond those that are read. Of `markdown` only what stands between fences was read."""

    documents: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    markdown: list[str] = field(default_factory=list)
    further: int = 0


def is_one(path: Path, head: bytes) -> bool:
    """Whether a file that a folder holds is no log. `head` are its first bytes; Markdown is another question."""
    if path.suffix.lower() in MARKDOWN:
        return False
    end = path.suffix.lower()
    return end in _OTHERS or bool(_NAMES.match(path.name)) or (end not in _LOGS and bool(_BEGINS.match(head)))
