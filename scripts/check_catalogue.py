"""Check the whole catalogue and vouch for it in data/checked.txt, so that programs need not check it at every start.

Run it after any change of a data file; the tests compare.
"""

from __future__ import annotations

from stillruns.catalogue import load, shipped
from stillruns.model.backend import Runtime


def main() -> None:
    """Raises CatalogueError when a rule is broken; then the list stays as it was, and vouches for less."""
    text = load.checked_list()
    shipped.CHECKED.write_text(text, encoding="utf-8")
    load.forget_checks()
    counts = [len(load.grammar(runtime)) for runtime in Runtime]
    counts += [len(load.patterns()), len(load.workarounds()), len(load.known_issues()), len(load.card_names())]
    print(f"{sum(counts)} entries checked, {shipped.CHECKED.name} written")


if __name__ == "__main__":
    main()
