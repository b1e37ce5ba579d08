"""The command line: arguments and exit codes. One file a verb, imported only when that verb is called."""

from __future__ import annotations

import os
import sys

from stillruns.cli import early


def main() -> None:
    """Entry point of `stillruns` and `python -m stillruns`."""
    early.listen()
    if sys.argv[1:] == ["--version"] and sys.stdout is not None:  # answered before any import of weight
        from stillruns import __version__

        try:
            sys.stdout.write(f"stillruns {__version__}\n")
            sys.stdout.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter would try again at its end
            sys.exit(0 if isinstance(error, BrokenPipeError) else f"stillruns: cannot write: {error.strerror}")
        early.deaf()
        return
    from stillruns.cli import stopping

    stopping.EAR.listen()
    try:
        with stopping.EAR.held():
            from stillruns.cli.group import run
        run()
    except KeyboardInterrupt:  # while the program was loaded, or said its last words
        stopping.say()
        stopping.EAR.deaf()
        sys.exit(early.STATUS)
