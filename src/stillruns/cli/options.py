"""Options that every verb takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from stillruns.model.hint import CALLER

Function = TypeVar("Function", bound=Callable[..., Any])


def _named(ctx: click.Context, option: click.Parameter, store: Path | None) -> Path | None:
    """Commands that are printed until the verb is done name the same store."""
    CALLER.store = str(store) if store else ""
    ctx.call_on_close(_forget)
    return store


def _forget() -> None:
    CALLER.store = ""


def common(function: Function) -> Function:
    """`--json`, `--store DIR`, `--debug`: passed to the verb as `as_json`, `store_dir` (None = default place)."""
    function = click.option("--debug", is_flag=True, expose_value=False, help="Show a traceback with an error.")(
        function
    )
    function = click.option(
        "--store",
        "store_dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=None,
        callback=_named,
        help="The evidence store (default: $STILLRUNS_STORE, else ~/.local/share/stillruns).",
    )(function)
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")(function)
