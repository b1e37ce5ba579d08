"""The promise: what is made to be pasted holds no key, no token and no user's name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stillruns.report import pasteable

ROOT = Path(__file__).parents[2]
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
        (["bin/llama-cli", "-p", "dear Bob", "-sys", "be kind"], "bin/llama-cli -p <prompt> -sys <prompt>"),
        (["llama-cli", "--prompt=dear Bob", "-n", "5"], "llama-cli --prompt=<prompt> -n 5"),
        (["bash", "-c", "llama-cli -p 'dear Bob' -n 5"], "bash -c 'llama-cli -p <prompt> -n 5'"),
        (["bash", "-c", 'mkdir -p x && ./llama-cli -p "a \\" b"'], "bash -c 'mkdir -p x && ./llama-cli -p <prompt>'"),
        (["llama-bench", "-p", "512,128", "-r", "3"], "llama-bench -p 512,128 -r 3"),
        (["docker", "run", "-p", "80:8080", "llama-server"], "docker run -p 80:8080 llama-server"),
        (["unshare", "-p", "-f", "llama-server"], "unshare -p -f llama-server"),
        (["x", "-m", "/home/ann/a b.gguf", "/home/ann/c"], "x -m '/home/<user>/a b.gguf' /home/<user>/c"),
        (["sh", "-c", "a && b --api-key k"], "sh -c 'a && b --api-key <secret>'"),
    ],
)
def test_a_command_line(argv: list[str], shown: str | None) -> None:
    """Values of secret options and variables are replaced, in every form in which programs take them."""
    line = pasteable.command(argv)
    if shown is not None:
        assert line == shown
    for hidden in ("s3", "=k ", "pw12", TOKEN):
        assert hidden not in line
    if "-n" in argv and shown is None:
        assert line == " ".join(argv)


def test_a_line_of_a_log() -> None:
    """Home folders lose their user, control characters cannot act, and ordinary lines stay as they are."""
    assert pasteable.text("loading /home/alice/m.gguf\x1b[31m") == "loading /home/<user>/m.gguf\\x1b[31m"
    plain = "0.00.052.267 I load_tensors: offloaded 2/5 layers to GPU on http://127.0.0.1:8080"
    assert pasteable.text(plain) == plain


def test_names_of_this_user_and_machine() -> None:
    """Not every home is under /home: this user's name and this machine's are hidden wherever they stand as words; a
    name that is a word of the trade stays where nothing shows a name."""
    code = (
        "from stillruns.report import pasteable\n"
        "print(pasteable.command(['x', '/data/annika/m.gguf', 'annika', 'annikas']))\n"
        "print(pasteable.variables({'LD_LIBRARY_PATH': '/data/annika/a b', 'LLAMA_API_KEY': 'k'}))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": "/data/annika", "USER": "ollama"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "x /data/<user>/m.gguf <user> annikas",
        "'LD_LIBRARY_PATH=/data/<user>/a b' LLAMA_API_KEY=<secret>",
    ]
