"""Files of another release among a folder's own: told by comparing each target's files with most of the others'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from stillruns.formats.code_file import CodeFile

_T = TypeVar("_T", bound=Hashable)


@dataclass(slots=True)
class Mix:
    """`suspects` are the files of a target that differ from the folder's others, `details` one clause a target,
    `problems` sentences where nothing says which side is the odd one."""

    suspects: dict[str, tuple[str, ...]] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, target: str, names: Sequence[str], clause: str) -> None:
        """One more sign against files of a target."""
        self.suspects[target] = tuple(dict.fromkeys((*self.suspects.get(target, ()), *names)))
        said = self.details.get(target)
        if not said or clause not in said:
            self.details[target] = f"{said}; {clause}" if said else clause


def compare(
    named: Mapping[str, Sequence[str]], code: Mapping[str, CodeFile], samples: Mapping[str, frozenset[str]]
) -> Mix:
    """Files by target, heads of code files, and the fields of a solution of each target (empty: none was read)."""
    mix = Mix()
    for target, names in named.items():
        odd = [name for name in names if name in code and code[name].processor not in ("", target)]
        if odd:
            mix.add(target, odd, f"{odd[0]} holds code for {code[odd[0]].processor}")
    for suffix in (".co", ".hsaco"):
        _by_file(mix, named, {n: f.maker for n, f in code.items() if n.endswith(suffix) and f.maker}, "linked by {}")
        versions = {n: f.version for n, f in code.items() if n.endswith(suffix) and f.version}
        _by_file(mix, named, versions, "code objects of version {}")
    usual = _usual(list(filter(None, samples.values())))
    for target, fields in samples.items():
        if fields and usual and fields != usual:
            more, less = sorted(fields - usual), sorted(usual - fields)
            words = [f"more: {', '.join(more[:3])}"] * bool(more) + [f"less: {', '.join(less[:3])}"] * bool(less)
            odd = [name for name in named[target] if name.endswith(".dat") and "_lazy_" not in name]
            mix.add(target, odd, f"its solutions have other fields than those of other targets ({'; '.join(words)})")
    return mix


def _by_file(mix: Mix, named: Mapping[str, Sequence[str]], told: Mapping[str, _T], words: str) -> None:
    """Compare one property of files. Each target has one vote: what most of its files have."""
    votes = {}
    for target, names in named.items():
        counted = Counter(told[name] for name in names if name in told)
        if counted:
            votes[target] = counted.most_common(1)[0][0]
    usual = _usual(list(votes.values()))
    if usual is None:
        if len(set(votes.values())) > 1:
            each = ", ".join(f"{target}: {words.format(value)}" for target, value in sorted(votes.items()))
            sentence = f"the targets' files come from different releases ({each})"
            mix.problems += [sentence] if sentence not in mix.problems else []
        return
    for target, names in named.items():
        odd = [name for name in names if name in told and told[name] != usual]
        if odd:
            values = ", ".join(sorted({str(told[name]) for name in odd}))
            mix.add(target, odd, f"{words.format(values)}, where most of the folder has {usual}")


def _usual(values: Sequence[_T]) -> _T | None:
    """What more than half of at least three have, or all of them; else None."""
    counted = Counter(values).most_common(1)
    if not counted:
        return None
    value, count = counted[0]
    return value if count == len(values) or (len(values) >= 3 and count * 2 > len(values)) else None
