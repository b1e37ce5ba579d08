"""The command line: arguments and exit codes. One file a verb, imported only when that verb is called."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of `stillruns` and `python -m stillruns`."""
    if sys.argv[1:] == ["--version"]:  # answered before any import of weight
        from stillruns import __version__

        sys.stdout.write(f"stillruns {__version__}\n")
        return
    from stillruns.cli.group import run

    run()
