"""Results to stdout, each of them whole; everything else to stderr."""

from __future__ import annotations

import json
from typing import Any

import click

from stillruns.cli.stopping import EAR


def emit_json(document: dict[str, Any]) -> None:
    """One JSON document on stdout."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    with EAR.whole():
        click.echo(text)


def emit_text(text: str) -> None:
    """Text on stdout as it is: no markup is read in it, no colour added."""
    with EAR.whole():
        click.echo(text, nl=not text.endswith("\n"))


def tell(text: str) -> None:
    """One sentence on stderr."""
    click.echo(f"stillruns: {text}", err=True)
