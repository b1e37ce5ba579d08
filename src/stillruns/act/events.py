"""Counting tokens in an answer while it streams.

Only what deadlines and the record need: tokens so far, the final event, an error event. The stored body is the truth,
and reading it as an answer is normalise's. Forms seen on llama-server b10068 to b10434 and in the OpenAI protocol:

    data: {"content": "s", "tokens": [115], "stop": false, ...}      a token of /completion
    data: {"content": "", "tokens": [], "stop": true, ...}           its final event
    data: {"choices": [{"text": "s", ...}]}                          a token of /v1/completions
    data: {"choices": [{"delta": {"content": "s"}, ...}]}            a token of /v1/chat/completions
    data: [DONE]                                                     the final event of both
    data: {"error": {"code": 500, "message": "Compute error."}}      a failed decode; the HTTP status stays 200
"""

from __future__ import annotations

import json

_LONGEST = 1 << 22
"""A line longer than this is no event; it is skipped so that memory stays bounded."""


class EventReader:
    """Feed it the body as it comes."""

    def __init__(self) -> None:
        self.tokens = 0
        self.finished = False
        self.error = ""
        """The server's own error message, one line, or empty."""
        self._pending = b""
        self._skipping = False

    def feed(self, data: bytes) -> None:
        """Take the next piece of the body; pieces may end anywhere."""
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            if self._skipping:
                self._skipping = False
                continue
            self._line(line.strip())
        if len(self._pending) > _LONGEST:
            self._pending = b""
            self._skipping = True

    def _line(self, line: bytes) -> None:
        if not line.startswith((b"data:", b"error:")):
            return
        payload = line.split(b":", 1)[1].strip()
        if payload == b"[DONE]":
            self.finished = True
            return
        try:
            event = json.loads(payload)
        except (ValueError, RecursionError):
            return
        if not isinstance(event, dict):
            return
        if event.get("error") is not None:
            self.error = error_text(event)
        elif event.get("stop") is True:
            self.finished = True
            self.tokens += _count(event)
        else:
            self.tokens += _count(event)


def _count(event: dict[str, object]) -> int:
    """Tokens in one event: 1 for a text without token ids."""
    tokens = event.get("tokens")
    if isinstance(tokens, list) and tokens:
        return len(tokens)
    if event.get("content"):
        return 1
    choices = event.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        delta = choices[0].get("delta")
        if choices[0].get("text") or (isinstance(delta, dict) and (delta.get("content") or delta.get("reasoning"))):
            return 1
    return 0


def error_text(body: object) -> str:
    """The message of an error object as servers send it, on one line; empty when there is none."""
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict):
        code = f" ({error['code']})" if "code" in error else ""
        error = f"{error.get('message', 'no message')}{code}"
    return " ".join(str(error).split())[:500] if error is not None else ""


def plain_error(body: bytes) -> str:
    """The same from a whole body that is no stream; its first line where it is not JSON."""
    try:
        return error_text(json.loads(body))
    except (ValueError, RecursionError):
        return " ".join(body[:500].decode("utf-8", "replace").split())
