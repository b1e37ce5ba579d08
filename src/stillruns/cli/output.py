"""Results to stdout, everything else to stderr."""

from __future__ import annotations

import json
from typing import Any

import click


def emit_json(document: dict[str, Any]) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def emit_text(text: str) -> None:
    """Text on stdout as it is: no markup is read in it, no colour added."""
    click.echo(text, nl=not text.endswith("\n"))


def tell(text: str) -> None:
    """One sentence on stderr."""
    click.echo(f"stillruns: {text}", err=True)
