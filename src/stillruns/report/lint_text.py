"""`lint` for a terminal: the verdicts that matter first, each with its place; then the corrected recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from stillruns.model.lint import LintItem, LintResult
from stillruns.report.columns import PLAIN, Page, visible


def text(results: Sequence[LintResult], *, everything: bool = False, page: Page = PLAIN) -> str:
    """Plain text. Names that are read as written are one line each, or only counted unless `everything`."""
    lines: list[str] = []
    for result in results:
        lines += _result(result, everything, page)
    return "\n".join(lines) + "\n"


def _result(result: LintResult, everything: bool, page: Page) -> list[str]:
    lines = page.line(f"{result.recipe} ({result.form})")
    for a in result.against:
        lines += page.line(f"against {a.name}: {a.how}{f' [{a.version}]' if a.version else ''}", "  ")
    bad = [item for item in result.items if not item.good]
    fine = [item for item in result.items if item.good]
    for item in bad:
        lines += ["", *_item(item, page)]
    if fine:
        lines.append("")
        if everything:
            for item in fine:
                lines += _item(item, page)
        else:
            shown = ", ".join(dict.fromkeys(_named(item) for item in fine))
            lines += page.wrapped(f"read as written ({len(fine)}): {shown}", "", "  ")
    lines += ["", *(part for note in result.notes for part in page.line(f"note: {note}", "", "  "))]
    counts = Counter(item.verdict.value for item in result.items)
    lines.append("; ".join(f"{count} {name}" for name, count in counts.most_common()) or "nothing to judge was found")
    if result.corrected is not None:
        lines += ["", "changes:"]
        for edit in result.edits:
            after = visible(edit.after) or "(nothing)"
            lines += page.wrapped(
                f"line {edit.line}: {visible(edit.before)} -> {after}: {visible(edit.why)}", "  ", "      "
            )
        lines += ["", "corrected:", "", *map(_copied, result.corrected.rstrip("\n").split("\n"))]
        if result.still_open:
            lines += [
                "",
                "left to you:",
                *[row for text in result.still_open for row in page.wrapped(visible(text), "  ", "      ")],
            ]
    lines.append("")
    return lines


def _copied(row: str) -> str:
    """A line of the corrected recipe, to be copied: tabs stay, and what a terminal would act on is shown."""
    return "\t".join(visible(part) for part in row.removesuffix("\r").split("\t"))


def _named(item: LintItem) -> str:
    return visible(
        item.name if item.value is None else f"{item.name}={item.value}" if item.kind == "env" else item.name
    )


def _item(item: LintItem, page: Page) -> list[str]:
    value = f" {item.value}" if item.value is not None else ""
    head = f"{item.said}: {item.name}{value}: {item.verdict.value}"
    if item.value_verdict is not None:
        head += f"; value: {item.value_verdict.value}"
    lines = page.line(head, "", "  ")
    for label, content in (
        ("why", item.why),
        ("does", item.effect),
        ("takes", item.accepts),
        ("default", item.default),
        ("since", item.since or ""),
        ("until", item.until or ""),
        ("use", item.use or ""),
    ):
        if content:
            lines += page.wrapped(f"{label}: {visible(content)}", "    ", "      ")
    for cited in item.evidence:
        source = f" ({visible(cited.source)})" if cited.kind == "catalogue" and cited.source else ""
        lines += page.wrapped(f"at {visible(cited.place)}: {visible(cited.text)}{source}", "    ", "      ")
    return lines


def exit_is_no(results: Iterable[LintResult]) -> bool:
    """Whether any recipe holds a name that nothing reads, a value that is not taken, or a conflict."""
    return any(not result.clean for result in results)
