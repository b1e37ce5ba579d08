"""What several store tests share: a small filled store, bulk data, children, mounts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import pytest

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.evidence import Cut, Evidence
from stillruns.model.exchange import Exchange
from stillruns.model.process import CoreNotes, ProcessEnd
from stillruns.model.trial import Sighting, TrialRecord
from stillruns.store.ids import run_id, spec_digest
from stillruns.store.record import ZERO, encode
from stillruns.store.store import Store
from stillruns.store.view import encode_trial

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"
AT = datetime(2026, 11, 30, 9, 15, tzinfo=timezone.utc)


def spec(name: str) -> dict[str, object]:
    """A spec as run_started holds it, with a float, a path and its own digest (both left out of the digest)."""
    plain: dict[str, object] = {"name": name, "timeouts": {"load": 300.0, "token": 0.05}, "gpu_layers": [0, "all"]}
    plain |= {"path": "/somewhere/spec.toml", "sha256": ""}
    plain["sha256"] = spec_digest(plain)
    return plain


def trial(store: Store, run: str, index: int, *, crashed: bool = False) -> TrialRecord:
    """A trial record with two blobs of evidence in the store."""
    log = store.put_bytes(f"llama_model_loader: trial {index} of {run}\n".encode() * 40)
    body = store.put_bytes(f'{{"content": "{run} {index}"}}'.encode())
    evidence = (
        Evidence("s0", "stderr", log.sha256, log.bytes, "llama-server", "2026-11-30T09:15:00Z", Cut(16, 4)),
        Evidence("s1", "response", body.sha256, body.bytes, "POST /completion \udcff"),
    )
    notes = CoreNotes("SIGSEGV", 0, 4096, "/usr/lib/libggml-vulkan.so", 64, ("/bin/llama-server",), 3)
    return TrialRecord(
        trial=f"{run}.{index}",
        run=run,
        cell="vulkan-2",
        index=index,
        started="2026-11-30T09:15:00Z",
        ended="2026-11-30T09:15:02Z",
        argv=("llama-server", "-m", "m\udcff.gguf", "--port", "{port}"),
        env={"GGML_VK_VISIBLE_DEVICES": "0"},
        sighting=Sighting(0.5, 1.5, 2.0),
        end=ProcessEnd(None if crashed else 0, "SIGSEGV" if crashed else None, crashed, None, 2.0, 1.5, 100_000),
        exchange=None if crashed else Exchange(0.6, 0.7, 1.4, 200, "", "", "s1", 32),
        core=notes if crashed else Absence(AbsenceReason.NOT_COLLECTED, "it ended by itself"),
        evidence=evidence,
        load_average=0.25,
    )


def fill(store: Store, name: str = "first", trials: int = 3, *, end: bool = True) -> str:
    """One run with `trials` ended trials and one interrupted trial, by one writer; its id."""
    asked = spec(name)
    digest = str(asked["sha256"])
    run = run_id(AT, digest)
    with store.writer() as writer, store.hold(run):
        writer.append("run_started", run, {"spec": asked, "spec_sha256": digest, "name": name})
        for index in range(trials):
            started = {"trial": f"{run}.{index}", "cell": "vulkan-2", "index": index}
            writer.append("trial_started", run, started)
            record = trial(store, run, index, crashed=index % 2 == 1)
            writer.append("trial_ended", run, {"record": encode_trial(record)})
        lost = {"trial": f"{run}.lost", "cell": "cpu", "index": trials}
        writer.append("trial_started", run, lost)
        writer.append("trial_interrupted", run, lost)
        if end:
            writer.append("run_ended", run, {"complete": True})
    return run


def bulk(store: Store, run: str, trials: int, size: int = 6800, writer: str = "w000001-00000000") -> None:
    """`trials` trial_ended records of about `size` bytes, as a writer would leave them, without its fsyncs."""
    template = asdict(trial(store, run, 0)) | {"argv": ("llama-server", "-m", "m.gguf"), "evidence": ()}
    template["env"] = {f"VARIABLE_{i:03d}": "x" * 40 for i in range(max(0, size - 1800) // 57)}
    store.settle()
    previous, number, buffer = ZERO, 1, bytearray()

    def flush() -> None:
        (store.path / "journal" / f"{writer}-{number}.jsonl").write_bytes(buffer)

    for seq in range(trials):
        template |= {"trial": f"{run}.{seq}", "index": seq}
        line = encode(seq, previous, writer, "trial_ended", run, {"record": template}, {})
        if len(buffer) + len(line) > 4 * 1024 * 1024:
            flush()
            number, buffer = number + 1, bytearray()
        buffer += line
        previous = line[-74:-3].decode()
    flush()


def answers(store: Store) -> tuple[object, ...]:
    """Everything that a reader can learn from the records."""
    runs = store.runs()
    return runs, tuple(store.records()), tuple(tuple(store.records(r.run)) for r in runs)


def snapshot(path: Path) -> dict[str, bytes]:
    """Every file of a store with its content."""
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def start(*args: str | Path, **kwargs: object) -> subprocess.Popen[bytes]:
    """A Python child that can import the package and this module."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), str(HERE)])}
    argv = [sys.executable, *map(str, args)]
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)  # type: ignore[call-overload, no-any-return]


def python(code: str, *args: str | Path) -> str:
    """Run code in a child; its stdout. Fails the test with the child's stderr when it fails."""
    with start("-c", code, *args) as child:
        out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err.decode()
    return out.decode()


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of that size, mounted at `folder`; skips the test where we may not mount."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", folder], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"cannot mount a small tmpfs here (needs root and CAP_SYS_ADMIN): {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
