"""What a broken connection says, in plain words: urllib3 and http.client name their own classes instead."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import urllib3

LONGEST = 300
"""Characters of a sentence that is the library's own."""

_PLAIN: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedError, "the connection was refused"),
    (socket.gaierror, "the name of the host is not known"),
    (urllib3.exceptions.ConnectTimeoutError, "nobody took the connection in time"),
    (urllib3.exceptions.TimeoutError, "no byte came in time"),
    (TimeoutError, "no byte came in time"),
    (http.client.RemoteDisconnected, "the connection was closed before an answer"),
    (ConnectionResetError, "the connection was reset"),
    (ConnectionAbortedError, "the connection was aborted"),
    (BrokenPipeError, "the connection was closed while the request was sent"),
    (http.client.IncompleteRead, "the connection was closed in the middle of the answer"),
)
"""Exact before general: `RemoteDisconnected` is a ConnectionResetError too. urllib3's IncompleteRead is one of
http.client's."""

_WRAPPERS = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.InvalidChunkLength)
"""Classes that say less than what they wrap: the first is a ConnectTimeoutError even where nothing timed out, the
second an IncompleteRead even where the whole of a senseless length came."""


def plain(error: BaseException) -> str:
    """One line for an error of urllib3, http.client or the socket: `the connection was reset`.

    The kernel tells the same death of a server in two ways, as an end or (where the server had not read all that it
    was sent) as a reset; both are said to be what they are. What is not known by its class keeps the library's words,
    cut at LONGEST characters.
    """
    causes = list(_causes(error))
    for kind, words in _PLAIN:
        if any(isinstance(cause, kind) for cause in causes):
            return words
    for cause in causes:
        if isinstance(cause, OSError) and cause.strerror and not isinstance(cause, urllib3.exceptions.HTTPError):
            return f"the connection failed: {cause.strerror}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:LONGEST]


def timed_out(error: BaseException) -> bool:
    """Whether a deadline of ours was the reason."""
    return any(isinstance(cause, (TimeoutError, urllib3.exceptions.TimeoutError)) for cause in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error itself and all that it was made from, the outermost first."""
    waiting, seen = [error], set[int]()
    while waiting:
        cause = waiting.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        if not isinstance(cause, _WRAPPERS):
            yield cause
        inner = [*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__]
        waiting += [one for one in inner if isinstance(one, BaseException)]
