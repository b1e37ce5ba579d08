"""Write docs/known-issues.md from the catalogue: faults that upstream knows, when they are named, and sources."""

from __future__ import annotations

from pathlib import Path

from stillruns.catalogue import load
from stillruns.model.workaround import KnownIssue

PAGE = Path(__file__).parent.parent / "docs" / "known-issues.md"
HEAD = """# Known issues

Written by `python scripts/known_issues_page.py` from the catalogue; do not edit. `stillruns autopsy` names one of
these only where a sign of it is seen in the incident (a crash pattern, a line, a frame, a signature) and every
condition holds. A condition that the log does not tell is no match. Entries without a sign are for claims, which
compare conditions and read no log.

"""


def cell(text: str) -> str:
    """Text that cannot break a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def signs(issue: KnownIssue) -> str:
    """What has to be seen."""
    parts = [f"pattern {' or '.join(issue.patterns)}"] if issue.patterns else []
    parts += [f"line `{' or '.join(issue.lines)}`"] if issue.lines else []
    parts += [f"frame {' or '.join(issue.frames)}"] if issue.frames else []
    parts += ["signature"] if issue.signatures else []
    return " and ".join(parts) or "none"


def conditions(issue: KnownIssue) -> str:
    """What has to hold."""
    parts = [
        ", ".join(values)
        for values in (
            *(issue.runtimes, issue.backends, issue.targets, issue.models),
            *(issue.drivers, issue.outcomes, issue.phases),
        )
        if values
    ]
    low, high = issue.versions_from, issue.versions_until
    if low or high:
        parts.append(f"version {low}" if low == high else f"versions {low or 'any'} to {high or 'today'}")
    return "; ".join(parts) or "any"


def row(issue: KnownIssue) -> str:
    """One issue."""
    fixed = f" Fixed in {issue.fixed_in}." if issue.fixed_in else ""
    cells = (
        f"`{issue.id}`",
        f"{issue.title}.{fixed} {issue.text}",
        conditions(issue),
        signs(issue),
        "; ".join(issue.sources),
    )
    return "| " + " | ".join(cell(text) for text in cells) + " |"


def page() -> str:
    """The whole page."""
    head = "| id | what it is | where it applies | sign | sources |\n|---|---|---|---|---|\n"
    return HEAD + head + "\n".join(map(row, load.known_issues())) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
