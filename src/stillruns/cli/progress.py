"""Progress on stderr: a live line (Rich) on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from stillruns.lab.runs.progress import Progress
from stillruns.model.cell_plan import CellPlan
from stillruns.model.verdict import TrialVerdict
from stillruns.report.columns import visible

PLAIN_EVERY = 10.0
"""Seconds between plain progress lines, so that a log of a long run stays readable."""


@contextmanager
def progress() -> Iterator[Progress]:
    """What fits the terminal; the live line is taken away on leaving."""
    if not sys.stderr.isatty():
        yield Plain()
        return
    live = Live()
    try:
        yield live
    finally:
        live.close()


class Plain:
    """One line a cell's trial at most every ten seconds, and every failure."""

    def __init__(self) -> None:
        self.last = 0.0

    def note(self, text: str) -> None:
        """A sentence."""
        click.echo(f"stillruns: {visible(text)}", err=True)

    def started(self, plan: CellPlan, done: int, total: int, seconds_left: float | None) -> None:
        """A line, unless the last one is younger than ten seconds."""
        if time.monotonic() - self.last >= PLAIN_EVERY:
            self.last = time.monotonic()
            click.echo(f"stillruns: trial {done + 1} of {total}, {plan.id}{left(seconds_left)}", err=True)

    def ended(self, plan: CellPlan, verdict: TrialVerdict) -> None:
        """A line for each trial that did not pass."""
        if not verdict.passed:
            click.echo(f"stillruns: {plan.id}: {summary(verdict)}", err=True)


class Live:
    """Rich's progress bar with the current cell and the time left; notes are printed above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bar

        self.bar = Bar(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self.bar.start()
        self.task = self.bar.add_task("preparing", total=None)

    def note(self, text: str) -> None:
        """A sentence above the bar; log text in it is never read as markup."""
        self.bar.console.print(f"stillruns: {visible(text)}", markup=False, highlight=False, soft_wrap=True)

    def started(self, plan: CellPlan, done: int, total: int, seconds_left: float | None) -> None:
        """The bar moves."""
        self.bar.update(self.task, completed=done, total=total, description=f"{plan.id}{left(seconds_left)}")

    def ended(self, plan: CellPlan, verdict: TrialVerdict) -> None:
        """A trial that did not pass is worth a line."""
        if not verdict.passed:
            self.note(f"{plan.id}: {summary(verdict)}")

    def close(self) -> None:
        """Take the bar away."""
        self.bar.stop()


def summary(verdict: TrialVerdict) -> str:
    """How a trial ended, and why it does not count where it does not."""
    if verdict.void:
        return f"void: {verdict.applied.why}"
    text = verdict.outcome.text
    return text if verdict.counts else f"{text} (applied unknown: {verdict.applied.why})"


def left(seconds: float | None) -> str:
    """`, about 40 s left`."""
    if seconds is None:
        return ""
    return f", about {seconds / 60:.0f} min left" if seconds >= 120 else f", about {seconds:.0f} s left"
