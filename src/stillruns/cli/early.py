"""What hears a stop until stopping.py is loaded, which takes Python some 15 ms: it says the same and ends at once.

Nothing is recorded by then, and nothing is to be put in order. What is imported here the interpreter has loaded by
itself before it runs any code of ours (hence `_signal`: the module `signal` is a wrapper that loads `enum`), so that
the moment in which Python answers Ctrl-C with a traceback of its own ends with its own start.
"""

import _signal
import os

from stillruns.model.stops import STOPS

SENTENCE = "stillruns: interrupted; what was recorded so far is kept.\n"
STATUS = 130


def listen() -> None:
    """From here on; a signal that our caller ignores (nohup, a shell's background job) stays ignored."""
    for number in STOPS.values():
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, _end)


def deaf() -> None:
    """All is said: nothing that still comes changes the exit status."""
    for number in STOPS.values():
        _signal.signal(number, _signal.SIG_IGN)


def _end(number: int, frame: object) -> None:
    try:
        os.write(2, SENTENCE.encode())
    finally:  # without a stderr the exit status says it
        os._exit(STATUS)
