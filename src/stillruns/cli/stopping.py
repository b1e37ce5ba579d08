"""Ctrl-C, SIGTERM and SIGHUP: each stops any verb, in the same way and with one sentence.

Loaded before the rest of the program, since a good part of a short command's time goes into its imports; until it is
loaded itself, early.py listens.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType

from stillruns.cli import early
from stillruns.model.stops import STOPS

ECHO = 1.0
"""Seconds after a signal in which the next one is its echo (`timeout` sends two, so does a terminal that closes)."""
AGAIN = 0.01
"""Seconds until a stop is tried again that came where Python lets nothing through."""


class Stopped(KeyboardInterrupt):
    """Raised where the signal came; its text is what a person calls it: `Ctrl-C`, `SIGTERM`, `SIGHUP`.

    A class of its own, since Python ends by SIGINT, whatever exit status it was given, once a KeyboardInterrupt
    proper has passed through `exec`, which the standard library uses in many an import.
    """


class Ear:
    """What hears the signals; there is one in a process (`EAR`)."""

    def __init__(self) -> None:
        self._name = ""
        self._at = 0.0
        self._holding = self._owed = False

    def listen(self) -> None:
        """From here on a signal raises Stopped. One that our caller ignores (nohup, a shell's background job) stays
        ignored."""
        for number in STOPS.values():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._hear)
        signal.signal(signal.SIGALRM, self._try_again)
        sys.unraisablehook = self._swallowed

    def deaf(self) -> None:
        """The exit status is decided and all is said: nothing that still comes changes it."""
        for number in (*STOPS.values(), signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)

    @property
    def heard(self) -> bool:
        """Whether we were told to stop: whatever error then comes up is the stop in disguise (Python makes a
        RuntimeError of what is raised in some places)."""
        return bool(self._name)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """A stop waits for the end of this block (a second one does not): what is written comes out whole, and what
        is imported is there whole, since an import is full of places that swallow or disguise a KeyboardInterrupt."""
        outermost = not self._holding
        self._holding = True
        try:
            yield
        finally:
            self._holding = not outermost
            if self._owed and outermost:
                self._owed = False
                raise Stopped(self._name)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._name:
            if time.monotonic() - self._at > ECHO:  # asked again, and in earnest
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            return
        self._name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        self._at = time.monotonic()
        self._stop()

    def _stop(self) -> None:
        if self._holding:
            self._owed = True
        else:
            raise Stopped(self._name)

    def _swallowed(self, what: sys.UnraisableHookArgs) -> None:
        """Python drops what a finaliser or a weak reference's callback raises. A stop that came there comes again."""
        if isinstance(what.exc_value, Stopped):
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
        else:
            sys.__unraisablehook__(what)

    def _try_again(self, number: int, frame: FrameType | None) -> None:
        self._stop()


EAR = Ear()


def say() -> None:
    """The sentence, to stderr if there is one; it needs nothing that may be loaded only in part."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(early.SENTENCE)
        sys.stderr.flush()
