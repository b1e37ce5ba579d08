"""The promise: prompts and answers leave no trace in a redacted document, and its shape stays."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from stillruns.redact.documents import redact_document, redact_json_lines
from stillruns.redact.redactor import Redactor

REDACTOR = Redactor(b"k" * 32)


def test_request_and_answer() -> None:
    """What a person wrote and what the model answered go whole, token ids and probabilities with them."""
    document = {
        "prompt": "my private question",
        "n_predict": 8,
        "env": {"GGML_VK_VISIBLE_DEVICES": "0", "HOME": "/home/alice"},
        "api_key": "abc",
        "answer": {
            "content": "private",
            "tokens": [1, 2],
            "timings": {"predicted_per_second": 35.2},
            "tokens_cached": 9,
        },
        "paths": ["/home/alice/x.gguf"],
    }
    done, removed = redact_document(document, REDACTOR)
    text = json.dumps(done)
    assert "private" not in text and "alice" not in text and "abc" not in text and "[1, 2]" not in text
    assert isinstance(done, dict)
    assert done["n_predict"] == 8 and done["env"] == {"GGML_VK_VISIBLE_DEVICES": "0"}
    assert done["answer"]["timings"] == {"predicted_per_second": 35.2}
    assert {r.path for r in removed} == {
        "prompt",
        "env",
        "api_key",
        "answer.content",
        "answer.tokens",
        "paths[0]",
    }
    assert document["prompt"] == "my private question", "the original is not touched"


def test_own_documents_keep_their_excerpts() -> None:
    """In this program's own documents `text` is an excerpt of a log: it is redacted as text, not dropped."""
    document = {"key_line": {"ref": "s0:L12", "text": "SIGSEGV in /home/alice/llama"}}
    done, _ = redact_document(document, REDACTOR, prompts=frozenset(), completions=frozenset())
    assert re.fullmatch(
        r"\{'key_line': \{'ref': 's0:L12', 'text': 'SIGSEGV in /home/<user:\w+>/llama'\}\}", str(done)
    )


def test_event_stream_keeps_its_lines() -> None:
    """A server-sent event stream is redacted event by event; its end mark and line numbers stay."""
    body = 'data: {"content":"pri","stop":false}\n\ndata: {"content":"vate","stop":true}\n\ndata: [DONE]\n'
    done = redact_json_lines(body, REDACTOR)
    assert "pri" not in done.replace("completion", "") and "vate" not in done
    assert done.count("\n") == body.count("\n") and '"stop": true' in done and done.endswith("data: [DONE]\n")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from(["/home/bob/x", "a@b.example"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["prompt", "env", "x", "text"]), inner)
    ),
    max_leaves=8,
)


@given(JSON)
def test_idempotent(document: object) -> None:
    """A redacted document redacted again is itself."""
    done, _ = redact_document(document, REDACTOR)
    assert redact_document(done, REDACTOR) == (done, ())
