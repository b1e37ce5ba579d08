"""The promise: what is made to be pasted holds no key, no token and no user's name."""

from __future__ import annotations

import pytest

from stillruns.report import pasteable

TOKEN = "hf_" + "AbC1" * 8


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["llama-server", "--api-key", "abc", "-ngl", "99"], "llama-server --api-key <secret> -ngl 99"),
        (["llama-server", "--hf-token", "-x y'z"], "llama-server --hf-token <secret>"),
        (["llama-server", "-hft", "t"], "llama-server -hft <secret>"),
        (["llama-server", "--api-key=abc"], "llama-server --api-key=<secret>"),
        (["docker", "run", "-e", f"HF_TOKEN={TOKEN}", "image"], "docker run -e HF_TOKEN=<secret> image"),
        (["docker", "run", "-eHF_TOKEN=s3", "--env=LLAMA_API_KEY=k", "i"], None),
        (["env", "LLAMA_API_KEY=two words", "llama-server"], "env LLAMA_API_KEY=<secret> llama-server"),
        (["x", "--rpc", "10.0.0.5:50052", "https://me:pw12@host/x"], None),
        (["x", TOKEN], "x <secret>"),
        (["llama-server", "-n", "8", "--max-tokens=5", "GGML_VK_VISIBLE_DEVICES=0"], None),
    ],
)
def test_a_command_line(argv: list[str], shown: str | None) -> None:
    """Values of secret options and variables are replaced, in every form in which programs take them."""
    line = pasteable.command(argv)
    if shown is not None:
        assert line == shown
    for hidden in ("s3", "=k ", "pw12", TOKEN):
        assert hidden not in line
    if "-n" in argv:
        assert line == " ".join(argv)


def test_a_line_of_a_log() -> None:
    """Home folders lose their user, control characters cannot act, and ordinary lines stay as they are."""
    assert pasteable.text("loading /home/alice/m.gguf\x1b[31m") == "loading /home/<user>/m.gguf\\x1b[31m"
    plain = "0.00.052.267 I load_tensors: offloaded 2/5 layers to GPU on http://127.0.0.1:8080"
    assert pasteable.text(plain) == plain
