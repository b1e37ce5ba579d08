"""Checks the changelog fragments, and puts them together for a release.

    python scripts/changelog.py            what the next release would say
    python scripts/changelog.py 0.2.0      writes it into CHANGELOG.md and removes the fragments

A fragment is changelog.d/TOPIC.KIND.md (changelog.d/README.md says what belongs in one).
"""

from __future__ import annotations

import re
import sys
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).parent.parent
KINDS = {
    "added": "Added",
    "changed": "Changed",
    "fixed": "Fixed",
    "removed": "Removed",
    "data": "Catalogue",
}
"""Kind in the file's name -> heading, in the order of the release notes."""

_NAME = re.compile(r"([a-z0-9][a-z0-9-]*)\.([a-z]+)\.md")
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:[-.]?[a-z]+\d*)?")


def fragments(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """{kind: [(topic, text), ...]}, topics in order; ValueError names a file that is no fragment."""
    found: dict[str, list[tuple[str, str]]] = {kind: [] for kind in KINDS}
    for path in sorted(folder.iterdir()):
        if path.name == "README.md":
            continue
        name = _NAME.fullmatch(path.name)
        if not name or name[2] not in KINDS:
            raise ValueError(f"{path.name} is not TOPIC.KIND.md with a kind of {', '.join(KINDS)}")
        text = path.read_text(encoding="utf-8").strip()
        if not text or text.startswith(("#", "-", "*")):
            raise ValueError(f"{path.name} holds no plain sentence for users")
        found[name[2]].append((name[1], text))
    return found


def notes(found: dict[str, list[tuple[str, str]]]) -> str:
    """The release notes as Markdown, without a heading for the release."""
    parts = []
    for kind, heading in KINDS.items():
        if found[kind]:
            items = "\n".join("- " + text.replace("\n", "\n  ") for _, text in found[kind])
            parts.append(f"### {heading}\n\n{items}\n")
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Without arguments print, with a version write; anything else changes nothing."""
    if arguments and (len(arguments) > 1 or not _VERSION.fullmatch(arguments[0])):
        print(__doc__, file=sys.stderr)
        return 2
    folder = ROOT / "changelog.d"
    text = notes(fragments(folder))
    if not arguments:
        print(text)
        return 0
    target = ROOT / "CHANGELOG.md"
    before = target.read_text(encoding="utf-8") if target.exists() else "# Changes\n"
    head, _, rest = before.partition("\n")
    today = datetime.now(timezone.utc).date().isoformat()
    target.write_text(f"{head}\n\n## {arguments[0]} ({today})\n\n{text}{rest}", encoding="utf-8")
    for path in folder.glob("*.*.md"):
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
