"""`stillruns autopsy` on bytes."""

from __future__ import annotations

import importlib
import io
import pkgutil
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from fuzzing import damage, nearly
from fuzzing.target import Target
from stillruns import judge, normalise
from stillruns.catalogue import load
from stillruns.lab import autopsy
from stillruns.model.autopsy import Autopsy
from stillruns.model.expression import Expression
from stillruns.normalise.logs import prefilter, reader
from stillruns.normalise.logs.streams import RUNTIMES
from stillruns.report import autopsy_json, autopsy_text

GOLDEN = Path(__file__).parents[1] / "golden"
_REWRITTEN = ("{", *(sign for sign in prefilter.REWRITTEN if sign.isprintable()))


def golden() -> list[bytes]:
    """Every golden log."""
    folders = ("autopsy", "patterns", "ollama", "llama_cpp")
    return [path.read_bytes() for folder in folders for path in sorted((GOLDEN / folder).rglob("*.raw"))]


def survive(data: bytes) -> Autopsy:
    """Read bytes and report them both ways. Every line number is one of the input; what is quoted stands there."""
    found = autopsy.perform(("-",), io.BytesIO(data))
    document = autopsy_json.document(found)
    text = autopsy_text.text(found)
    assert all(char.isprintable() or char == "\n" for char in text), "a control character in the report"
    count = data.count(b"\n") + (not data.endswith(b"\n"))
    refs = [ref for r in document["requests"] for ref in r["refs"]]
    refs += [span[end] for span in document["timeline"] for end in ("from", "to")]
    refs += [ref for warning in document["warnings"] for ref in warning["refs"]]
    refs += [part["ref"] for s in document["servers"] for kind in ("backends_loaded", "devices") for part in s[kind]]
    quoted = [e for i in document["incidents"] for e in (*i["evidence"], *([i["key_line"]] if i["key_line"] else []))]
    for ref in (*refs, *(e["ref"] for e in quoted)):
        assert 1 <= int(ref.rpartition("L")[2]) <= count, f"{ref} of {count} lines"
    if quoted:
        quotes(data, quoted)
    return found


def quotes(data: bytes, quoted: list[dict[str, str]]) -> None:
    """The quoted text is part of its line. Lines that are rewritten before they are read (JSON, tables) are left."""
    wanted = {int(e["ref"].rpartition("L")[2]) for e in quoted}
    shown: dict[int, list[str]] = {number: [] for number in wanted}
    for line in reader.lines(data):
        if line.number in wanted:
            shown[line.number].append(line.text)
    for entry in quoted:
        states = shown[int(entry["ref"].rpartition("L")[2])]
        if any(sign in state for state in states for sign in _REWRITTEN):
            continue
        text = entry["text"].removesuffix("…")
        fits = [text in reader.visible(state, 1 << 30) for state in states]
        assert any(fits), f"{entry['ref']} does not hold {text[:200]!r} but {states[0][:200]!r}"


def expressions() -> list[str]:
    """Every regular expression that sees a line: the catalogue's, and those of the modules."""
    found = [pattern.regex for pattern in load.patterns()]
    found += [rule.regex for runtime in RUNTIMES for rule in load.grammar(runtime)]
    for package in (normalise, judge):
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if any(part in info.name for part in (".logs", ".crash", ".incidents")) and not info.ispkg:
                found += list(_inside(tuple(vars(importlib.import_module(info.name)).values())))
    return list(dict.fromkeys(found))


def _inside(value: object) -> Iterator[str]:
    if isinstance(value, (Expression, re.Pattern)) and isinstance(value.pattern, str):
        yield value.pattern
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _inside(part)


def near_matches(seeds: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """Up to half a megabyte of near-matches of one expression, the next expression in each input."""
    regexes = expressions()
    random.shuffle(regexes)
    start = b"time=2026-03-07T01:19:03.374Z level=INFO source=routes.go:1158 msg=x\n", b"build: 4000 (abc) with cc\n"
    while True:
        for regex in regexes:
            source = nearly.lines(regex, random)
            rows = [next(source).replace("\n", " ").encode("utf-8", "replace") for _ in range(64)]
            yield random.choice((b"", *start)) + b"\n".join(rows) + b"\n"


def dense(seeds: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """Half a megabyte of lines of a few bytes: one or some words over and over, some of them words that count. A
    line that counts costs some 15 µs, so that such a flood may cost more than a second a megabyte."""
    words = [w.encode() for w in (*prefilter.DEATHS, *prefilter.OTHERS, *autopsy.anchors()) if len(w) < 16]
    words += [b"", b"", b"a", b"\0", b"\r", b" ", b"{", b"#0 ", b"\xff"]
    while True:
        chosen = [random.choice(words) + random.choice((b"", b"x", b" 1")) for _ in range(random.choice((1, 2, 50)))]
        yield b"\n".join(random.choices(chosen, k=500_000 // (1 + sum(map(len, chosen)) // len(chosen))))


TARGETS = (
    Target("log-cuts", golden, survive, damage.cuts, total=damage.all_cuts),
    Target("log-lines", golden, survive, damage.text),
    Target("log-shuffled", golden, survive, damage.shuffled),
    Target("log-noise", golden, survive, damage.noise),
    Target("log-near-matches", golden, survive, near_matches),
    Target("log-dense", golden, survive, dense, floor=2.5),
)
