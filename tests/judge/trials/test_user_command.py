"""The promise: what is asked is read from the command line of the one llama.cpp program that it is about."""

from __future__ import annotations

from stillruns.judge.trials import user_command


def test_what_was_started() -> None:
    """Every program of llama.cpp's, one that ran twice counted twice, without those that load nothing; a shell that
    names one in its script is none."""
    commands = [
        ["sh", "-c", "llama-bench -m a.gguf; llama-server -m b.gguf"],
        ["/opt/llama-server", "--version"],
        ["/opt/llama-bench", "-m", "a.gguf", "-ngl", "7"],
        ["/opt/llama-server", "-m", "b.gguf"],
        ["/opt/llama-server", "-m", "b.gguf"],
        ["rpc-server", "-p", "50052"],
        ["llama-swap", "--config", "swap.yaml"],
        [],
    ]
    found = user_command.started(commands)
    assert [program.argv[0] for program in found] == [
        "/opt/llama-bench", "/opt/llama-server", "/opt/llama-server", "rpc-server",
    ]  # fmt: skip
    assert [program.program for program in found] == ["llama-bench", "llama-server", "llama-server", ""]
    assert found[0].layers == 7
