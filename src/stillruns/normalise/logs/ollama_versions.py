"""The release of an Ollama server, from its version line or from the call sites of its log lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from stillruns.model.server_log import VersionRange
from stillruns.normalise.logs.ollama_sites import TABLE

_Release = tuple[int, ...]


@lru_cache(maxsize=4096)
def _sites(file: str, line: int) -> tuple[tuple[str, tuple[tuple[_Release, _Release], ...]], ...]:
    """((message, release ranges), ...) of one call site; a log has few of the thousand in the table."""
    found, head = [], f"{line}:"
    for name, message, text in TABLE:
        if name == file:
            for word in text.split():
                if word.startswith(head):
                    spans = [span.partition("-") for span in word[len(head) :].split(",")]
                    ranges = tuple((release(low), release(high or low)) for low, _, high in spans)
                    found.append((message, ranges))
    return tuple(found)


@lru_cache(maxsize=1)
def _messages() -> dict[str, tuple[str, ...]]:
    """file -> the messages whose call sites are known."""
    found: dict[str, tuple[str, ...]] = {}
    for file, message, _ in TABLE:
        found[file] = (*found.get(file, ()), message)
    return found


def release(text: str) -> _Release:
    """`0.17.4` as numbers, for comparing; a suffix (`-rc1`) is left out."""
    return tuple(int(part[:9]) for part in text.split("-")[0].lstrip("v").split(".") if part.isdecimal())


@dataclass
class Versions:
    """What the lines so far leave possible."""

    stated: str = ""
    ranges: list[tuple[_Release, _Release]] = field(default_factory=list)
    known: bool = False
    contradicted: bool = False
    _seen: set[tuple[str, int, str]] = field(default_factory=set)

    def state(self, version: str) -> None:
        """The server says its version itself."""
        self.stated = self.stated or version[:60]

    def site(self, file: str, line: int, message: str) -> None:
        """A message and where it was called. Lines at places that no final release has say nothing."""
        if not file or (file, line, message) in self._seen:
            return
        if not any(message == known or message.startswith(known + " ") for known in _messages().get(file, ())):
            return
        if len(self._seen) < 4096:
            self._seen.add((file, line, message))
        for known, ranges in _sites(file, line):
            if message == known or message.startswith(known + " "):
                self._narrow(ranges)

    def range(self) -> VersionRange:
        """The outer bounds of what is possible; nothing when the call sites contradict each other (two releases in
        one stream, or a build of someone's own)."""
        if self.stated:
            return VersionRange(self.stated, self.stated, "line")
        if not self.known or self.contradicted:
            return VersionRange()
        return VersionRange(
            _text(min(low for low, _ in self.ranges)), _text(max(high for _, high in self.ranges)), "call sites"
        )

    def _narrow(self, ranges: tuple[tuple[_Release, _Release], ...]) -> None:
        if self.contradicted:
            return
        if not self.known:
            self.ranges, self.known = list(ranges), True
            return
        common = [
            (max(low, other_low), min(high, other_high))
            for low, high in self.ranges
            for other_low, other_high in ranges
            if max(low, other_low) <= min(high, other_high)
        ]
        self.ranges, self.contradicted = common, not common


def _text(number: _Release) -> str:
    return ".".join(map(str, number))
