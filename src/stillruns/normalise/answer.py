"""The body of a completion's response -> Answered.

Read are llama-server's `/completion` (one JSON object, or server-sent events) and OpenAI's completions and chat
completions, likewise. A stream counts as finished only with its own last event (`"stop": true`, or `[DONE]` after a
finish reason): a server that was killed looks like a clean end of stream otherwise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.exchange import Answered, TokenProb

_MAX_TOP = 64


def read(status: int | None, body: bytes) -> Answered | Absence:
    """The answer, as far as it came. `status` is the HTTP status, None when there was none.

    An error body (`{"error": {...}}`) gives an Answered without text whose `stop_reason` is `error: <message>`.
    Bytes that are no answer give an absence that says why.
    """
    if not body.strip():
        return Absence(AbsenceReason.NOT_COLLECTED, "the response has no body")
    text = body.decode("utf-8", "replace")
    gathered = _Gathered()
    if text.lstrip().startswith("{"):
        try:
            document = _parse(text)
        except ValueError:
            return Absence(AbsenceReason.UNPARSABLE, "the response is not whole JSON: it was cut off")
        if not isinstance(document, dict) or not gathered.take(document, streamed=False):
            return Absence(AbsenceReason.UNPARSABLE, "the response is JSON, but of no known form of answer")
        return gathered.answer(status)
    for document in _events(text, gathered):
        gathered.take(document, streamed=True)
    if not gathered.known:
        return Absence(AbsenceReason.UNPARSABLE, "the response is neither JSON nor a stream of events")
    return gathered.answer(status)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _events(text: str, gathered: _Gathered) -> Iterator[dict[str, Any]]:
    """The JSON of each `data:` (and llama-server's `error:`) line; a last line without its newline may be torn."""
    for line in text.replace("\r\n", "\n").split("\n"):
        name, colon, value = line.partition(":")
        if not colon or name not in ("data", "error"):
            continue
        value = value.strip()
        if value == "[DONE]":
            gathered.done()
            continue
        try:
            document = _parse(value)
        except ValueError:
            gathered.torn = True
            continue
        if isinstance(document, dict):
            yield {"error": document} if name == "error" and "error" not in document else document


@dataclass
class _Gathered:
    """What the events so far have said."""

    known: bool = False
    torn: bool = False
    finished: bool = False
    text: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    probs: list[TokenProb] = field(default_factory=list)
    prompt_tokens: int | None = None
    prompt_per_second: float | None = None
    predicted_per_second: float | None = None
    stop_reason: str = ""
    evaluated: int | None = None

    def take(self, document: dict[str, Any], *, streamed: bool) -> bool:
        """One JSON object; False when it is of no known form."""
        if "error" in document:
            error = document["error"]
            message = error.get("message", "") if isinstance(error, dict) else error
            self.stop_reason = f"error: {str(message)[:500]}"
            self.known = True
        elif isinstance(document.get("choices"), list):
            self._openai(document, streamed)
        elif "content" in document:
            self._llama(document, streamed)
        else:
            return False
        timings = document.get("timings")
        if isinstance(timings, dict):
            self.prompt_per_second = _rate(timings.get("prompt_per_second"), self.prompt_per_second)
            self.predicted_per_second = _rate(timings.get("predicted_per_second"), self.predicted_per_second)
            computed = _int(timings.get("prompt_n"))
            self.evaluated = self.evaluated if computed is None else computed
            self.prompt_tokens = computed if self.prompt_tokens is None else self.prompt_tokens
        return True

    def done(self) -> None:
        """`[DONE]`: the stream's end, if a reason to stop was given before it."""
        self.finished = self.finished or bool(self.stop_reason and not self.stop_reason.startswith("error"))

    def _llama(self, document: dict[str, Any], streamed: bool) -> None:
        self.known = True
        if isinstance(document["content"], str):
            self.text.append(document["content"])
        self._take_tokens(document.get("tokens"))
        probs = document.get("completion_probabilities") or document.get("probs")
        last = bool(document.get("stop"))
        if isinstance(probs, list) and not (streamed and last and self.probs):
            self.probs += [_prob(entry) for entry in probs if isinstance(entry, dict)]
        if last or not streamed:
            self.finished = last or "stop" not in document
            self.stop_reason = _stop_reason(document)
            evaluated = _int(document.get("tokens_evaluated"))
            self.prompt_tokens = evaluated if evaluated is not None else self.prompt_tokens

    def _openai(self, document: dict[str, Any], streamed: bool) -> None:
        self.known = True
        usage = document.get("usage")
        if isinstance(usage, dict):
            self.prompt_tokens = _int(usage.get("prompt_tokens"))
        for choice in document["choices"][:1]:
            if not isinstance(choice, dict):
                continue
            message = choice.get("delta") or choice.get("message") or {}
            piece = choice.get("text", message.get("content") if isinstance(message, dict) else None)
            if isinstance(piece, str):
                self.text.append(piece)
            self._take_tokens(choice.get("tokens"))
            logprobs = choice.get("logprobs")
            content = logprobs.get("content") if isinstance(logprobs, dict) else None
            if isinstance(content, list):
                self.probs += [_prob(entry) for entry in content if isinstance(entry, dict)]
            if isinstance(choice.get("finish_reason"), str):
                self.stop_reason = choice["finish_reason"]
                self.finished = self.finished or not streamed

    def _take_tokens(self, tokens: Any) -> None:
        if isinstance(tokens, list):
            self.tokens += [t for t in tokens if isinstance(t, int) and not isinstance(t, bool)]

    def answer(self, status: int | None) -> Answered:
        """What has come, closed."""
        tokens = tuple(self.tokens) or tuple(p.token for p in self.probs if p.token >= 0)
        return Answered(
            status=status,
            finished=self.finished,
            text="".join(self.text) if self.text else None,
            tokens=tokens,
            probs=tuple(self.probs),
            prompt_tokens=self.prompt_tokens,
            prompt_per_second=self.prompt_per_second,
            predicted_per_second=self.predicted_per_second,
            stop_reason=self.stop_reason,
            evaluated=self.evaluated,
        )


def _prob(entry: dict[str, Any]) -> TokenProb:
    """One token's entry: `{id, logprob, top_logprobs: [{id, logprob}]}` (b4291 on), or `{content, probs: [{tok_str,
    prob}]}` before, which names no ids. A logprob of null is NaN."""
    token = _int(entry.get("id"))
    rivals = entry.get("top_logprobs") or entry.get("top_probs") or []
    top = []
    for rival in rivals[:_MAX_TOP] if isinstance(rivals, list) else ():
        if not isinstance(rival, dict):
            continue
        number, value = _int(rival.get("id")), _logprob(rival)
        if number is not None and value is not None:
            top.append((number, value))
    return TokenProb(-1 if token is None else token, _logprob(entry), tuple(top))


def _logprob(entry: dict[str, Any]) -> float | None:
    """Natural logarithm; from `prob` where only that is given. None for null, NaN and what is no number."""
    value = entry.get("logprob")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return None if math.isnan(value) else float(value)
    chance = entry.get("prob")
    if "logprob" not in entry and isinstance(chance, (int, float)) and 0 < chance <= 1:
        return math.log(chance)
    return None


def _stop_reason(document: dict[str, Any]) -> str:
    named = document.get("stop_type")
    if isinstance(named, str):
        return named
    for key, reason in (("stopped_eos", "eos"), ("stopped_word", "word"), ("stopped_limit", "limit")):
        if document.get(key) is True:
            return reason
    return ""


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _rate(value: Any, otherwise: float | None) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0:
        return float(value)
    return otherwise
