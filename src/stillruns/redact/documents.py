"""Redaction of structured documents: requests, responses, records."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from stillruns.redact.environment import redact_environment
from stillruns.redact.redactor import TAG, Redactor
from stillruns.redact.text import redact

PROMPT_FIELDS = frozenset(
    ("prompt", "messages", "system", "input", "suffix", "input_prefix", "input_suffix", "template")
)
"""What a person wrote, in requests of llama-server, Ollama and the OpenAI protocol."""

COMPLETION_FIELDS = frozenset(
    (
        "content",
        "response",
        "completion",
        "text",
        "message",
        "delta",
        "reasoning_content",
        "thinking",
        "tokens",
        "context",
        "completion_probabilities",
        "probs",
        "logprobs",
    )
)
"""What a model answered, token ids and probabilities included: the text can be rebuilt from them."""

ENVIRONMENT_FIELDS = frozenset(("env", "environment", "environ"))

JsonValue = object


@dataclass(frozen=True, slots=True)
class Removed:
    """`path` is the place in the document, such as `messages` or `body.env.PATH`."""

    path: str
    rule: str
    tag: str


@dataclass(slots=True)
class _Walk:
    redactor: Redactor
    prompts: frozenset[str]
    completions: frozenset[str]
    removed: list[Removed] = field(default_factory=list)

    def text(self, value: str, path: str) -> str:
        """One string, by the rules for texts."""
        done = redact(value, self.redactor)
        self.removed += [Removed(path, span.rule, span.tag) for span in done.spans]
        return done.text

    def whole(self, value: JsonValue, path: str, kind: str) -> JsonValue:
        """The whole value as one tag; numbers, truth values and empty texts under such a name are no text."""
        if value is None or isinstance(value, (bool, int, float)) or value in ("", [], {}):
            return value
        if isinstance(value, str) and TAG.fullmatch(value):
            return value
        canonical = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        tag = self.redactor.tag(kind, canonical)
        self.removed.append(Removed(path, f"{kind}-field", tag))
        return tag

    def value(self, value: JsonValue, path: str) -> JsonValue:
        """Any value at a place that tells nothing by its name."""
        if isinstance(value, str):
            return self.text(value, path)
        if isinstance(value, (list, tuple)):
            return [self.value(item, f"{path}[{n}]") for n, item in enumerate(value)]
        if isinstance(value, dict):
            return {self.text(str(k), path): self.member(str(k), v, path) for k, v in value.items()}
        return value

    def member(self, name: str, value: JsonValue, path: str) -> JsonValue:
        """A member of an object: its name may say what the value is."""
        below = f"{path}.{name}" if path else name
        if name in self.prompts:
            return self.whole(value, below, "prompt")
        if name in self.completions:
            return self.whole(value, below, "completion")
        if name in ENVIRONMENT_FIELDS and isinstance(value, dict):
            done = redact_environment({str(k): str(v) for k, v in value.items()}, self.redactor)
            if done.dropped:
                self.removed.append(Removed(below, "environment", f"{done.dropped} variables"))
            return dict(done.kept)
        if isinstance(value, str):
            return self._named(name, value, below)
        return self.value(value, below)

    def _named(self, name: str, value: str, path: str) -> str:
        """A value under its name is judged with it: `{"api_key": "x"}` is as telling as `api_key=x`."""
        lead = f"{name}="
        done = redact(lead + value, self.redactor)
        if done.text.startswith(lead) and "\n" not in value and not any(c in value for c in "\"' ,;&"):
            self.removed += [Removed(path, span.rule, span.tag) for span in done.spans]
            return done.text[len(lead) :]
        return self.text(value, path)


def redact_document(
    document: JsonValue,
    redactor: Redactor,
    *,
    prompts: frozenset[str] = PROMPT_FIELDS,
    completions: frozenset[str] = COMPLETION_FIELDS,
) -> tuple[JsonValue, tuple[Removed, ...]]:
    """A copy of a JSON-able document without what is private, and the list of what is missing.

    `prompts` and `completions` are the member names whose whole value goes; pass empty sets for a document of this
    program's own, whose `text` members are excerpts. Environments keep what the allow-list names.
    """
    walk = _Walk(redactor, prompts, completions)
    return walk.value(document, ""), tuple(walk.removed)


def redact_json_lines(text: str, redactor: Redactor) -> str:
    """A body of JSON documents, one a line, or a server-sent event stream (`data: {...}`): each line is redacted as a
    document where it is one and as text where it is none. Line count and order stay."""
    lines: list[str] = []
    for line in text.split("\n"):
        lead, mark, body = line.partition("data: ")
        lead, body = (lead + mark, body) if mark and not lead.strip() else ("", line)
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            lines.append(redact(line, redactor).text)
            continue
        if not isinstance(document, (dict, list)):
            lines.append(redact(line, redactor).text)
            continue
        cleaned, removed = redact_document(document, redactor)
        lines.append(lead + json.dumps(cleaned, ensure_ascii=False) if removed else line)
    return "\n".join(lines)
