"""Options and variables of llama-server that a spec may not set, since the harness itself needs them.

A server that listens elsewhere, wants a key, or only prints its help would otherwise be counted as a failure of the
backend under test. Names are those of llama.cpp's common/arg.cpp.
"""

from __future__ import annotations

from stillruns.errors import SpecError

_LISTENS = "stillruns chooses where the server listens"
_KEYLESS = "stillruns asks without a key"
_PLAIN = "stillruns asks over plain HTTP at the server's own paths"
_MODEL = "experiment.model names the model"
_ENDS = "the server would print and end, or answer no completion"

_WHY: dict[str, str] = {
    "--host --port LLAMA_ARG_HOST LLAMA_ARG_PORT": _LISTENS,
    "--api-key --api-key-file LLAMA_API_KEY LLAMA_ARG_API_KEY": _KEYLESS,
    "--api-prefix LLAMA_ARG_API_PREFIX": _PLAIN,
    "--ssl-key-file --ssl-cert-file LLAMA_ARG_SSL_KEY_FILE LLAMA_ARG_SSL_CERT_FILE": _PLAIN,
    "-m --model -mu --model-url -hf -hfr --hf-repo -dr --docker-repo": _MODEL,
    "LLAMA_ARG_MODEL LLAMA_ARG_MODEL_URL LLAMA_ARG_HF_REPO LLAMA_ARG_DOCKER_REPO": _MODEL,
    "-h --help --usage --version --list-devices --completion-bash": _ENDS,
    "--embedding --embeddings --rerank --reranking LLAMA_ARG_EMBEDDINGS LLAMA_ARG_RERANKING": _ENDS,
}

TAKEN: dict[str, str] = {word: why for words, why in _WHY.items() for word in words.split()}
"""What may not be set -> why."""


def refuse_taken(word: str, place: str) -> None:
    """Raise SpecError when `word`, an argument or a variable's name, is one of these. `place` says where it is."""
    why = TAKEN.get(word.split("=", 1)[0] if word.startswith("--") else word)
    if why:
        raise SpecError(f"{place}: {word} may not be set in a spec, since {why}; take it out")
