"""Which released runtimes, images and packages still carry a target."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from stillruns.model.gate_tables import PackageRow, RuntimeRow
from stillruns.report.columns import PLAIN, Page

_LISTS = {
    "build_targets": "release",
    "release_build_targets": "release",
    "docker_build_targets": "container recipe",
}


def carried(rows: Sequence[RuntimeRow], target: str) -> list[tuple[RuntimeRow, bool | None]]:
    """Every list of targets, with whether it has the target (whatever its features); None where the row describes the
    list instead of giving it."""
    found: list[tuple[RuntimeRow, bool | None]] = []
    for row in rows:
        if row.facet in _LISTS:
            words = re.findall(r"gfx[0-9a-f]+", row.value.partition("(")[0])
            listed = bool(words) or row.value == "(none)"
            found.append((row, target in words if listed else None))
    return found


def text(
    rows: Sequence[RuntimeRow], packages: Sequence[PackageRow], targets: Sequence[str], page: Page = PLAIN
) -> str:
    """One block a target; releases in a row that say the same are one line (`--json` has each, with its place)."""
    parts = []
    for target in targets:
        table = [["runtime", "platform", "kind", target, "from", "to"]]
        for row, has in carried(rows, target):
            until = "newest read" if row.newest else _short(row.until)
            word = {True: "yes", False: "no", None: "not told"}[has]
            said = [row.runtime, row.platform, _LISTS[row.facet], word]
            if table[-1][:4] == said:
                table[-1][5] = until
            else:
                table.append([*said, _short(row.since), until])
        read_on = max((r.read_on for r in rows), default="?")
        lines = [*page.line(f"ROCm builds that were released and carry {target} (as read on {read_on})"), ""]
        lines += page.table(table)
        mine = [package for package in packages if package.target == target]
        lines += ["", f"packages that carry {target}"]
        found = [["package", "version", "suite", "library", "files"]]
        found += [[p.package, p.version, p.suite, p.library, str(p.files)] for p in mine]
        lines += page.table(found) if mine else ["  none of those that were read"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _short(release: str) -> str:
    """A commit is told by the package that shipped it: `llama-cpp-python 0.3.17` for `49bfddeca18e (...)`."""
    found = re.fullmatch(r"[0-9a-f]{8,40} \((.+)\)", release)
    return found[1] if found else release


def document(rows: Sequence[RuntimeRow], packages: Sequence[PackageRow], targets: Sequence[str]) -> dict[str, Any]:
    """The same as `stillruns.builds/1`."""
    return {
        "schema": "stillruns.builds/1",
        "targets": list(targets),
        "builds": [
            {
                "target": target,
                "runtime": row.runtime,
                "platform": row.platform,
                "kind": _LISTS[row.facet],
                "from": row.since,
                "to": row.until,
                "newest": row.newest,
                "carries": has,
                "place": row.place,
                "source": row.source,
                "read_on": row.read_on,
            }
            for target in targets
            for row, has in carried(rows, target)
        ],
        "packages": [
            {
                "target": package.target,
                "package": package.package,
                "version": package.version,
                "suite": package.suite,
                "library": package.library,
                "files": package.files,
                "source": package.source,
            }
            for package in packages
            if package.target in targets
        ],
    }
