"""Small helpers over tree-sitter nodes, shared by the frontends."""

from __future__ import annotations

from collections.abc import Iterator

from stillruns.errors import EnvironmentLacks

try:
    import tree_sitter_c
    import tree_sitter_cpp
    import tree_sitter_go
    import tree_sitter_python
    from tree_sitter import Language as Language  # the frontends take these two from here, so that without the
    from tree_sitter import Node as Node  # extra one sentence is printed, whichever of them is imported first
    from tree_sitter import Parser, Tree
except ImportError as error:  # pragma: no cover - only without the extra
    raise EnvironmentLacks(
        f"trace needs its parsers ({error.name} is missing); install them in the clone with "
        "`.venv/bin/pip install -e '.[trace]'`."
    ) from error

C = Language(tree_sitter_c.language())
CPP = Language(tree_sitter_cpp.language())
GO = Language(tree_sitter_go.language())
PYTHON = Language(tree_sitter_python.language())

MAX_DEPTH = 90
"""Expressions nested deeper than this (generated tables) are cut off and count as opaque."""


def parse(language: Language, data: bytes) -> Tree:
    """Parse; tree-sitter recovers from broken text by ERROR nodes, whose children are still read."""
    return Parser(language).parse(data)


def text(node: Node | None) -> str:
    """The node's source text; invalid UTF-8 is replaced."""
    if node is None or node.text is None:
        return ""
    return node.text.decode("utf-8", "replace")


def line(node: Node) -> int:
    """Line from 1."""
    return int(node.start_point[0]) + 1


def end_line(node: Node) -> int:
    """Last line from 1."""
    return int(node.end_point[0]) + 1


def children_but(node: Node, *taken: Node | None) -> Iterator[Node]:
    """The named children in source order, without those that were read already."""
    skip = {each.id for each in taken if each is not None}
    return (child for child in node.named_children if child.id not in skip)


def walk(node: Node) -> Iterator[Node]:
    """The node and its named descendants in source order."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(top.named_children))


def unquote(literal: str) -> str:
    """The text of a string literal without prefix and quotes; other literals unchanged."""
    for quote in ('"', "`", "'"):
        start = literal.find(quote)
        if 0 <= start <= 2 and len(literal) >= start + 2 and literal.endswith(quote):
            return literal[start + 1 : -1]
    return literal
