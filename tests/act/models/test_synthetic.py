"""The promise: a `synth:` spec is one file, the same bytes on every machine, whole or not there at all."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stillruns.act.models import synthetic
from stillruns.errors import EnvironmentLacks, SpecError
from stillruns.formats import gguf

DIGESTS = json.loads((Path(__file__).parent / "digests.json").read_text())
"""Spec -> SHA-256. They change only together with synthetic.GENERATION."""


def read(path: Path) -> gguf.Gguf:
    """The header of a file on disk."""
    data = path.read_bytes()
    return gguf.read(lambda offset, count: data[offset : offset + count], len(data))


@pytest.mark.parametrize("spec", DIGESTS)
def test_bytes_are_the_same_everywhere(spec: str, tmp_path: Path) -> None:
    """The committed digest, the returned digest and the file agree."""
    digest = synthetic.write(synthetic.parse(spec), tmp_path / "model.gguf")
    assert digest == DIGESTS[spec]
    assert digest == "sha256:" + hashlib.sha256((tmp_path / "model.gguf").read_bytes()).hexdigest()


@pytest.mark.parametrize("arch", synthetic.ARCHITECTURES)
@pytest.mark.parametrize("kind", synthetic.TYPES)
def test_files_are_well_formed(arch: str, kind: str, tmp_path: Path) -> None:
    """The reader accepts every file, whole to the last byte, of the size that was promised, 100 to 450 KB."""
    model = synthetic.parse(f"synth:{arch}?type={kind}")
    synthetic.write(model, tmp_path / "m.gguf")
    header = read(tmp_path / "m.gguf")
    assert header.architecture == arch
    assert header.missing == 0
    assert header.metadata["general.name"] == model.name
    assert sum(t.bytes or 0 for t in header.tensors) == model.weight_bytes()
    assert 100_000 < (tmp_path / "m.gguf").stat().st_size < 450_000


@pytest.mark.parametrize("arch", synthetic.ARCHITECTURES)
def test_f16_and_q8_0_of_one_spec_hold_the_same_weights(arch: str, tmp_path: Path) -> None:
    """Dequantised by the reference implementation, the two files are equal number by number."""
    reference = pytest.importorskip("gguf", reason="the package gguf (extra `oracle`) is not installed")
    tensors = []
    for kind in ("F16", "Q8_0"):
        path = synthetic.ensure(synthetic.parse(f"synth:{arch}?type={kind}&seed=5"), tmp_path)
        tensors.append({t.name: t for t in reference.GGUFReader(path).tensors})
    halves, eights = tensors
    assert halves.keys() == eights.keys()
    for name, half in halves.items():
        eight = reference.quants.dequantize(eights[name].data, eights[name].tensor_type)
        assert (eight.reshape(-1) == half.data.reshape(-1).astype("float32")).all(), name


def test_defaults_and_canonical_name() -> None:
    """Defaults are filled in; the canonical name reads back as the same model; file names are plain and distinct."""
    model = synthetic.parse("synth:qwen35")
    assert model.name == "synth:qwen35?layers=4&type=Q8_0&seed=0"
    other = synthetic.parse("synth:qwen3?embd=128&seed=2&heads=4&type=F16")
    assert other.name == "synth:qwen3?layers=4&type=F16&seed=2&embd=128&heads=4"
    assert synthetic.parse(other.name) == other
    assert model.file_name != other.file_name
    assert set(other.file_name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("llama", "begin with"),
        ("synth:mamba", "accepted are llama, qwen3, qwen35"),
        ("synth:llama?layer=4", "unknown key 'layer'; accepted are type, seed, layers"),
        ("synth:llama?type=Q4_K", "accepted are F16, Q8_0, Q4_0"),
        ("synth:llama?layers=0", "layers='0' must be a number from 1 to 256"),
        ("synth:llama?layers=4x", "must be a number"),
        ("synth:llama?layers=", "must be a number"),
        ("synth:llama?layers", "must be a number"),
        ("synth:llama?seed=-1", "must be a number"),
        ("synth:llama?seed=" + "9" * 5000, "must be a number"),
        ("synth:llama?seed=٣", "must be a number"),
        ("synth:llama?embd=100", "multiple of 32"),
        ("synth:llama?heads=3&kv=2", "must divide"),
        ("synth:llama?seed=1&seed=2", "twice"),
        ("synth:qwen35?layers=3", "layers=4 or more"),
        ("synth:", "accepted are llama"),
    ],
)
def test_refusals_list_what_is_accepted(spec: str, says: str) -> None:
    """One sentence: what is wrong and what would be right."""
    with pytest.raises(SpecError, match=says) as caught:
        synthetic.parse(spec)
    assert "\n" not in str(caught.value)


def test_cache_is_reused_and_repaired(tmp_path: Path) -> None:
    """A file that is there is kept; one that was damaged is written anew; leftovers of killed writers go."""
    model = synthetic.parse("synth:llama?layers=1&type=Q4_0")
    path = synthetic.ensure(model, tmp_path / "new" / "folder")
    before = path.stat()
    assert synthetic.ensure(model, path.parent).stat().st_mtime_ns == before.st_mtime_ns
    with path.open("r+b") as stream:
        stream.seek(5000)
        stream.write(b"damage")
    left = path.parent / ".old.1.2.partial"
    left.write_bytes(b"half a file")
    os.utime(left, (time.time() - 7200, time.time() - 7200))
    assert synthetic.ensure(model, path.parent) == path
    assert (
        "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
        == path.with_name(path.name + ".sha256").read_text().strip()
    )
    assert sorted(p.name for p in path.parent.iterdir()) == [path.name, path.name + ".sha256"]


def test_full_disk_leaves_no_half_file(tmp_path: Path) -> None:
    """When the file cannot grow (a limit on file size stands in for a full disk), one sentence and nothing left."""
    code = (
        "import sys; from pathlib import Path; from stillruns.act.models import synthetic\n"
        "synthetic.ensure(synthetic.parse('synth:llama'), Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)),
        timeout=60,
    )
    assert done.returncode == 1
    assert "EnvironmentLacks: no room for the synthetic model in" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A path through a file is refused in one sentence."""
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentLacks, match="cannot be used"):
        synthetic.ensure(synthetic.parse("synth:llama"), tmp_path / "file" / "below")


def test_ctrl_c_leaves_no_half_file(tmp_path: Path) -> None:
    """SIGINT in the middle of a large model: the folder is as empty as before."""
    code = (
        "import sys; from pathlib import Path; from stillruns.act.models import synthetic\n"
        "synthetic.write(synthetic.parse('synth:llama?layers=64&embd=1024&ff=4096'), Path(sys.argv[1]) / 'm.gguf')"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not any(path.stat().st_size > 1 << 20 for path in tmp_path.iterdir()):
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=30)
    assert b"KeyboardInterrupt" in stderr
    assert list(tmp_path.iterdir()) == []


def test_memory_does_not_grow_with_the_model(tmp_path: Path) -> None:
    """A 29 MB model is written with little more memory than Python itself needs."""
    code = (
        "import re, sys; from pathlib import Path; from stillruns.act.models import synthetic\n"
        "path = Path(sys.argv[1]) / 'm.gguf'\n"
        "synthetic.write(synthetic.parse('synth:llama?layers=8&embd=1024&ff=1024'), path)\n"
        "print(path.stat().st_size, re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    size, peak_kib = map(int, done.stdout.split())
    assert size > 25_000_000
    assert peak_kib < 40_000
