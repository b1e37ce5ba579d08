"""The promise: what the catalogue ships is whole, and every pattern explains its golden line and wins it alone."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stillruns.catalogue import load, shipped
from stillruns.catalogue.regexes import check
from stillruns.model.backend import Runtime
from stillruns.model.pattern import CrashPattern
from stillruns.normalise.logs.matcher import best_pattern, pattern_table
from stillruns.normalise.logs.prefix import strip
from stillruns.normalise.logs.reader import lines

GOLDEN = Path(__file__).parents[1] / "golden" / "patterns"
PATTERNS = load.patterns()


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.id)
def test_pattern_wins_its_golden_line(pattern: CrashPattern) -> None:
    """The pattern's golden line is explained by it, no other of its rank matches, and the origins agree."""
    raw = (GOLDEN / f"{pattern.id}.raw").read_bytes()
    expect = json.loads((GOLDEN / f"{pattern.id}.expect.json").read_text())
    (line,) = lines(raw)
    text = strip(line.text).text
    table = pattern_table(PATTERNS)
    best = best_pattern(table, text)
    assert best is not None
    assert best[0].id == pattern.id
    rivals = [
        p.id
        for p, _ in table.matches(text)
        if p.rank == pattern.rank and not (p.harmless_when and re.search(p.harmless_when, text))
    ]
    assert rivals == [pattern.id]
    assert expect == {"origin": pattern.origin, "pattern": pattern.id}


def test_no_golden_line_without_its_pattern() -> None:
    """Golden lines of patterns that are gone are gone too."""
    assert {path.stem for path in GOLDEN.glob("*.raw")} == {p.id for p in PATTERNS}


def test_the_list_of_checked_files_is_fresh() -> None:
    """The files listed as checked are those of the package, byte for byte; they pass the check, and what the list
    keeps of them is what their TOML says."""
    assert shipped.CHECKED.read_text(encoding="utf-8") == load.checked_list()
    for entry in (*load.grammar(Runtime.LLAMA_CPP), *load.grammar(Runtime.OLLAMA), *load.grammar(Runtime.VLLM)):
        check(entry.regex, entry.anchor)
    for pattern in PATTERNS:
        check(pattern.regex, pattern.anchor)
        re.compile(pattern.harmless_when)


def test_every_seed_row_is_kept_or_refuted() -> None:
    """69 workarounds, and what was found since; the two refuted pieces of advice are known issues, never offered as
    workarounds."""
    ids = {w.id for w in load.workarounds()}
    assert len(ids - {"vulkan-keep-graph-order"}) == 69
    refuted = {issue.id for issue in load.known_issues() if issue.id.startswith("refuted-")}
    assert refuted == {"refuted-override-1030-on-vega", "refuted-rocm-641-on-gfx900"}
    assert not any(w.set_env.get("HSA_OVERRIDE_GFX_VERSION") == "10.3.0" for w in load.workarounds())


def test_known_issue_of_the_published_crash() -> None:
    """The crash of qwen3.5 on Vulkan names its version of repair: backends were compared over two versions."""
    issue = next(i for i in load.known_issues() if i.id == "ollama-qwen35-vulkan-deltanet-set")
    assert (issue.fixed_in, issue.versions_until) == ("0.17.5", "0.17.4")
    assert any("3490e9590" in source for source in issue.sources)


def test_other_runtimes_have_no_grammar_yet() -> None:
    """A runtime without a grammar gives no rules, and no error."""
    assert load.grammar(Runtime.OPENAI) == ()
    assert load.grammar(Runtime.LLAMA_CPP)


def _hostile(regex: str, anchor: str) -> Iterator[str]:
    """Lines that nearly match: the anchor repeated, and the anchor before and after long runs."""
    for filler in (" ", "0", "a", "(", ")", ":", "|", "= ", "a ", "0.", ") (", anchor, anchor + " "):
        run = filler * 4000
        yield run[:4000]
        yield (anchor + run)[:4000] + "!"
        yield run[:2000] + anchor + run[:2000]
    literal = re.sub(r"\\(.)", r"\1", re.sub(r"\(\?P<\w+>|[()?*+$^]|\\[swdS]", "", regex))
    yield (literal * 40)[:4000] + "!"


def test_no_regex_is_slow_on_hostile_lines() -> None:
    """The static check keeps its word: 4,000 hostile characters cost no rule or pattern more than 50 ms."""
    entries = [*load.grammar(Runtime.LLAMA_CPP), *PATTERNS]
    for entry in entries:
        compiled = re.compile(entry.regex)
        for line in _hostile(entry.regex, entry.anchor):
            # again where it took long: Python may have tidied its memory meanwhile
            assert any(_seconds(compiled, line) < 0.05 for _ in range(5)), (entry.id, line[:60])


def _seconds(regex: re.Pattern[str], line: str) -> float:
    started = time.process_time()
    regex.search(line)
    return time.process_time() - started


def test_loading_is_quick() -> None:
    """Parsing and checking the whole catalogue costs less than a second of CPU, once per process."""
    for function in (load.grammar, load.patterns, load.workarounds, load.known_issues):
        function.cache_clear()  # type: ignore[attr-defined]
    started = time.process_time()
    load.grammar(Runtime.LLAMA_CPP)
    load.patterns()
    load.workarounds()
    load.known_issues()
    assert time.process_time() - started < 1.0
