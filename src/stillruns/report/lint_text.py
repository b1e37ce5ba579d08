"""`lint` for a terminal: the verdicts that matter first, each with its place; then the corrected recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from stillruns.model.lint import LintItem, LintResult
from stillruns.report.columns import visible, wrapped


def text(results: Sequence[LintResult], *, everything: bool = False) -> str:
    """Plain text. Names that are read as written are one line each, or only counted unless `everything`."""
    lines: list[str] = []
    for result in results:
        lines += _result(result, everything)
    return "\n".join(lines) + "\n"


def _result(result: LintResult, everything: bool) -> list[str]:
    lines = [visible(f"{result.recipe} ({result.form})")]
    lines += [visible(f"  against {a.name}: {a.how}{f' [{a.version}]' if a.version else ''}") for a in result.against]
    bad = [item for item in result.items if not item.good]
    fine = [item for item in result.items if item.good]
    for item in bad:
        lines += ["", *_item(item)]
    if fine:
        lines.append("")
        if everything:
            for item in fine:
                lines += _item(item)
        else:
            shown = ", ".join(dict.fromkeys(_named(item) for item in fine))
            lines += wrapped(f"read as written ({len(fine)}): {shown}", "", "  ")
    lines += ["", *[f"note: {visible(note)}" for note in result.notes]]
    counts = Counter(item.verdict.value for item in result.items)
    lines.append("; ".join(f"{count} {name}" for name, count in counts.most_common()) or "nothing to judge was found")
    if result.corrected is not None:
        lines += ["", "changes:"]
        for edit in result.edits:
            after = visible(edit.after) or "(nothing)"
            lines += wrapped(
                f"line {edit.line}: {visible(edit.before)} -> {after}: {visible(edit.why)}", "  ", "      "
            )
        lines += ["", "corrected:", "", result.corrected.rstrip("\n")]
        if result.still_open:
            lines += [
                "",
                "left to you:",
                *[row for text in result.still_open for row in wrapped(visible(text), "  ", "      ")],
            ]
    lines.append("")
    return lines


def _named(item: LintItem) -> str:
    return visible(
        item.name if item.value is None else f"{item.name}={item.value}" if item.kind == "env" else item.name
    )


def _item(item: LintItem) -> list[str]:
    value = f" {item.value}" if item.value is not None else ""
    head = f"{item.said}: {item.name}{value}: {item.verdict.value}"
    if item.value_verdict is not None:
        head += f"; value: {item.value_verdict.value}"
    lines = [visible(head)]
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
            lines += wrapped(f"{label}: {visible(content)}", "    ", "      ")
    for cited in item.evidence:
        source = f" ({visible(cited.source)})" if cited.kind == "catalogue" and cited.source else ""
        lines += wrapped(f"at {visible(cited.place)}: {visible(cited.text)}{source}", "    ", "      ")
    return lines


def exit_is_no(results: Iterable[LintResult]) -> bool:
    """Whether any recipe holds a name that nothing reads, a value that is not taken, or a conflict."""
    return any(not result.clean for result in results)
