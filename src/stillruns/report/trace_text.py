"""A trace as text for a terminal, and as DESIGN's JSON."""

from __future__ import annotations

from typing import Any

from stillruns.model.trace import Stage, Statement, Trace, TraceRow
from stillruns.report.columns import PLAIN, WIDTH, Page, cut, visible

SCHEMA = "stillruns.trace/1"


def document(trace: Trace) -> dict[str, Any]:
    """`stillruns.trace/1`: DESIGN's fields first, then what else a program may want."""
    return {
        "schema": SCHEMA,
        "option": trace.option,
        "found": trace.found,
        "sources": [
            {
                "name": s.name,
                "rev": s.rev,
                "asked": s.asked or None,
                "tree": s.tree,
                "files": s.files,
                "bytes": s.bytes,
            }
            for s in trace.sources
        ],
        "stages": [_stage(s) for s in trace.stages],
        "meaning": trace.meaning.text,
        "meaning_refs": list(trace.meaning.refs),
        "is_not": [s.text for s in trace.is_not],
        "is_not_refs": [list(s.refs) for s in trace.is_not],
        "unknown": list(trace.unknown),
        "expected": [
            {"id": e.id, "status": e.status, "place": e.place or None, "last_seen": e.last_seen}
            for e in trace.expected
        ],
        "rows": [_row(r) for r in trace.rows],
        "folded": [f"{r.project}:{r.path}:{r.line}" for r in trace.folded],
        "stops": list(trace.stops),
        "near": list(trace.near),
        "searched": list(trace.searched),
        "elsewhere": [{"project": name, "hits": count} for name, count in trace.elsewhere],
        "text_hits": trace.hits,
        "notes": list(trace.notes),
    }


def _stage(stage: Stage) -> dict[str, Any]:
    return {
        "stage": stage.stage,
        "project": stage.project,
        "file": stage.file,
        "line": stage.line,
        "code": stage.code,
        "effect": stage.effect,
        "special": list(stage.special),
        "function": stage.function,
        "lines": list(stage.lines),
        "on_path": stage.on_path,
        "expected": stage.expected or None,
    }


def _row(row: TraceRow) -> dict[str, Any]:
    return {
        "project": row.project,
        "file": row.path,
        "line": row.line,
        "role": row.role,
        "function": row.function,
        "symbol": row.symbol,
        "to": row.to,
        "depth": row.depth,
        "derived": row.derived,
        "code": row.code,
    }


def text(trace: Trace, page: Page = PLAIN) -> str:
    """The stage table, the meaning, what it is not, and what is open."""
    out: list[str] = []
    if not trace.found:
        out.append(f"{trace.option}: found nowhere.")
        out += [f"  searched {s}" for s in trace.searched]
        out.append(f"  near spellings: {', '.join(trace.near)}" if trace.near else "  nothing is spelt like it.")
        out += [f"  note: {n}" for n in trace.notes]
        return "\n".join(visible(line) for line in out) + "\n"
    out.append(f"{trace.option} in " + ", ".join(f"{s.name}@{s.asked or s.rev}" for s in trace.sources))
    out.append("")
    for number, stage in enumerate(trace.stages, 1):
        others = [str(n) for n in stage.lines if n != stage.line]
        more = f" (and {', '.join(others[:6])}{', ...' if len(others) > 6 else ''})" if others else ""
        where = f" in {stage.function}" if stage.function else ""
        out.append(f"{number:2} {stage.stage}: {stage.project} {stage.file}:{stage.line}{more}{where}")
        out.append(f"     {_code(page, stage.code)}")
        out += _wrapped(page, stage.effect, "     -> ")
        out += [line for special in stage.special for line in _wrapped(page, special, "     !  ")]
    out += ["", *_statement(page, "meaning", trace.meaning)]
    for statement in trace.is_not:
        out += _statement(page, "it is not", statement)
    for sentence in trace.unknown:
        out += _wrapped(page, sentence, "unknown: ")
    moved = [e for e in trace.expected if e.status != "found"]
    if moved:
        told = ", ".join(f"{e.id} {e.status}{f' (now {e.place})' if e.status == 'moved' else ''}" for e in moved)
        out += _wrapped(page, f"known stages of other releases: {told}.", "spec: ")
    out += [line for s in trace.stops for line in _wrapped(page, s, "stop: ")]
    if trace.folded:
        out += _wrapped(page, _folded(trace), "folded: ")
    rows = len(trace.rows)
    out += _wrapped(
        page,
        f"{rows} lines concern the option; the word itself stands in {trace.hits} lines of the same trees"
        + (f", {sum(n for _, n in trace.elsewhere)} of them in examples, tests and tools" if trace.elsewhere else "")
        + ".",
        "scale: ",
    )
    out += [line for n in trace.notes for line in _wrapped(page, n, "note: ")]
    return "\n".join(visible(line) for line in out) + "\n"


def _folded(trace: Trace) -> str:
    files: dict[str, list[str]] = {}
    for row in trace.folded:
        files.setdefault(f"{row.project} {row.path}", []).append(str(row.line))
    told = [f"{name}:{','.join(lines[:5])}{'...' if len(lines) > 5 else ''}" for name, lines in files.items()]
    return f"{len(trace.folded)} further lines: " + "; ".join(told[:12]) + (" ..." if len(told) > 12 else "")


def _statement(page: Page, title: str, statement: Statement) -> list[str]:
    out = _wrapped(page, statement.text, f"{title}: ")
    if statement.refs:
        out += _wrapped(page, ", ".join(statement.refs), "  by ")
    return out


def _code(page: Page, line: str) -> str:
    """A line of somebody's source; one that is very long is cut, and no shorter on a narrow page."""
    return cut(line, max(WIDTH, page.width))


def _wrapped(page: Page, sentence: str, lead: str) -> list[str]:
    return page.wrapped(sentence, lead, " " * len(lead)) or [lead]


def _key(stage: Stage) -> tuple[str, str, str, str]:
    return stage.project, stage.file, stage.function or stage.code, stage.stage


def compare(old: Trace, new: Trace) -> dict[str, Any]:
    """What changed between two traces of one option: stages that are new, gone, or read otherwise."""
    was, now = {_key(s): s for s in old.stages}, {_key(s): s for s in new.stages}
    gone_lines = {(r.project, r.path, _squeeze(r.code)) for r in old.rows}
    new_lines = {(r.project, r.path, _squeeze(r.code)) for r in new.rows}
    changed = [
        {"old": _stage(was[k]), "new": _stage(now[k])}
        for k in was
        if k in now and (_squeeze(was[k].code), was[k].special) != (_squeeze(now[k].code), now[k].special)
    ]
    return {
        "schema": "stillruns.trace-diff/1",
        "option": old.option,
        "old": document(old),
        "new": document(new),
        "added": [_stage(now[k]) for k in now if k not in was and not _inside(now[k], gone_lines)],
        "removed": [_stage(was[k]) for k in was if k not in now and not _inside(was[k], new_lines)],
        "changed": changed,
        "lines_removed": [_row(r) for r in old.rows if (r.project, r.path, _squeeze(r.code)) not in new_lines],
        "lines_added": [_row(r) for r in new.rows if (r.project, r.path, _squeeze(r.code)) not in gone_lines],
        "meaning_changed": old.meaning.text != new.meaning.text
        and _bare(old.meaning.text) != _bare(new.meaning.text),
    }


def _inside(stage: Stage, lines: set[tuple[str, str, str]]) -> bool:
    return (stage.project, stage.file, _squeeze(stage.code)) in lines


def _squeeze(code: str) -> str:
    """Without the alignment that formatters change, and without a comment at the end."""
    return " ".join(code.split("//")[0].split())


def _bare(sentence: str) -> str:
    """The sentence without its places, which move in every release."""
    return " ".join(w for w in sentence.split() if ":" not in w)


def compare_text(old: Trace, new: Trace, page: Page = PLAIN) -> str:
    """The comparison for a terminal."""
    made = compare(old, new)
    first, second = (", ".join(f"{s.name}@{s.asked or s.rev}" for s in t.sources) for t in (old, new))
    out = [f"{old.option}: {first} -> {second}", ""]
    for title, key in (("gone", "removed"), ("new", "added")):
        for stage in made[key]:
            out.append(f"{title}: {stage['stage']}: {stage['project']} {stage['file']}:{stage['line']}")
            out.append(f"     {_code(page, stage['code'])}")
            out += [line for s in stage["special"] for line in _wrapped(page, s, "     !  ")]
    for pair in made["changed"]:
        before, after = pair["old"], pair["new"]
        out.append(
            f"changed: {after['stage']}: {after['project']} {before['file']}:{before['line']} -> :{after['line']}"
        )
        out += [f"   - {_code(page, before['code'])}", f"   + {_code(page, after['code'])}"]
        out += [
            line for s in before["special"] if s not in after["special"] for line in _wrapped(page, s, "   - !  ")
        ]
        out += [
            line for s in after["special"] if s not in before["special"] for line in _wrapped(page, s, "   + !  ")
        ]
    if not (made["removed"] or made["added"] or made["changed"]):
        out.append("the stages are the same.")
    for title, key in (("-", "lines_removed"), ("+", "lines_added")):
        rows = made[key]
        out += [f"line {title} {r['file']}:{r['line']}: {_code(page, r['code'])}" for r in rows[:12]]
        if len(rows) > 12:
            out.append(f"line {title} and {len(rows) - 12} more (in --json)")
    out.append("")
    if made["meaning_changed"]:
        out += [*_statement(page, "meant", old.meaning), *_statement(page, "means", new.meaning)]
    else:
        out += ["the meaning is the same.", *_statement(page, "means", new.meaning)]
    before = {_bare(s.text) for s in old.is_not}
    out += [line for s in new.is_not if _bare(s.text) not in before for line in _statement(page, "now it is not", s)]
    out += [line for s in new.unknown if s not in old.unknown for line in _wrapped(page, s, "unknown now: ")]
    return "\n".join(visible(line) for line in out) + "\n"
