"""Check the whole catalogue and vouch for it in data/checked.txt, so that programs need not check it at every start.

Run it after any change of a data file; the tests compare.
"""

from __future__ import annotations

from pathlib import Path

from stillruns.catalogue import load
from stillruns.model.backend import Runtime

FILE = Path(__file__).parent.parent / "src" / "stillruns" / "catalogue" / "data" / "checked.txt"


def main() -> None:
    """Raises CatalogueError, and writes nothing, when a rule is broken."""
    FILE.unlink(missing_ok=True)
    load.forget_checks()
    for runtime in Runtime:
        load.grammar(runtime)
    count = len(load.patterns()) + len(load.workarounds()) + len(load.known_issues()) + len(load.card_names())
    FILE.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(load.digests().items())))
    print(f"{count} entries checked, {FILE.name} written")


if __name__ == "__main__":
    main()
