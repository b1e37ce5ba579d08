"""`make fuzz`: bytes that nobody meant, into everything that reads bytes from outside.

    scripts/fuzz.py [--seconds 20] [--seed N] [TARGET...]   every target in turn, or those named (a prefix is enough)
    scripts/fuzz.py --replay FILE TARGET                    one saved input again, with its traceback
    scripts/fuzz.py --list

Each target damages its good inputs, seeded, for its seconds of wall time; where atheris is installed
(`pip install atheris`: extra `fuzz`), as long again guided by coverage. A finding is saved in fuzz-findings/, one for
each kind of failure, and the exit status is 1. The same seed tries the same inputs; the default one is the time.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import itertools
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

if TYPE_CHECKING:
    from fuzzing.target import Target

FINDINGS = ROOT / "fuzz-findings"
MEMORY = 3 << 30
"""Bytes of address space: an absurd size in an input must not become an allocation."""


def targets() -> dict[str, Target]:
    """Every target by name."""
    from fuzzing import binaries, documents, logs

    return {target.name: target for target in (*logs.TARGETS, *binaries.TARGETS, *documents.TARGETS)}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--guided", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.guided:
        guided(asked.targets[0], asked.guided)
        return
    chosen = [t for t in targets().values() if not asked.targets or t.name.startswith(tuple(asked.targets))]
    if asked.list or not chosen:
        print("\n".join(target.name for target in (chosen or targets().values())))
        sys.exit(0 if chosen else 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if asked.replay:
        chosen[0].check(asked.replay.read_bytes())
        print("nothing found")
        return
    print(f"seed {asked.seed}, {asked.seconds:.0f} s a target, {len(chosen)} targets")
    found = sum(damaged(target, asked.seconds, asked.seed) for target in chosen)
    if importlib.util.find_spec("atheris"):
        found += sum(coverage(target, asked.seconds, asked.seed) for target in chosen)
    else:
        print("atheris is not installed: no inputs guided by coverage")
    print(f"{found} kinds of findings" + (f", inputs in {FINDINGS.name}/" if found else ""))
    sys.exit(1 if found else 0)


def damaged(target: Target, seconds: float, seed: int) -> int:
    """Seeds, then damaged seeds, until the time is up; returns how many kinds of failures there were."""
    from fuzzing.target import trial

    seeds = target.seeds()
    inputs = itertools.chain(seeds, target.inputs(seeds, random.Random(seed)))
    stop, count, size, kinds = time.monotonic() + seconds, 0, 0, set()
    ended = True
    for data in inputs:
        if time.monotonic() > stop:
            ended = False
            break
        count, size = count + 1, size + len(data)
        try:
            trial(target, data)
        except Exception as error:  # every exception is a finding
            kind = f"{type(error).__name__} at {where(error)}"
            if kind not in kinds:
                kinds.add(kind)
                print(f"  {target.name}: {kind}: {str(error)[:300]!r}\n    input {keep(target.name, data)}")
    whole = ", all there are" if ended else ""
    print(f"{target.name:22s} {count:7d} inputs, {size / 1e6:8.1f} MB{whole}, {len(kinds)} kinds of findings")
    return len(kinds)


def where(error: Exception) -> str:
    """The last line of ours in the traceback."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "target.py" not in f.filename]
    ours = [f for f in frames if "stillruns" in f.filename] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"


def keep(name: str, data: bytes) -> str:
    """Save an input; returns its place."""
    FINDINGS.mkdir(exist_ok=True)
    place = FINDINGS / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
    place.write_bytes(data)
    return f"{FINDINGS.name}/{place.name}"


def coverage(target: Target, seconds: float, seed: int) -> int:
    """The same target in a child under atheris (libFuzzer), which ends with its first finding."""
    with tempfile.TemporaryDirectory() as corpus:
        for number, data in enumerate(target.seeds()):
            (Path(corpus) / str(number)).write_bytes(data)
        FINDINGS.mkdir(exist_ok=True)
        argv = [sys.executable, __file__, target.name, "--guided", corpus, f"-max_total_time={int(seconds) or 1}"]
        argv += [f"-seed={seed % (1 << 32) or 1}", f"-artifact_prefix={FINDINGS}/{target.name}-", "-timeout=60"]
        done = subprocess.run(
            [*argv, "-rss_limit_mb=2500", "-verbosity=1"], capture_output=True, text=True, check=False
        )
    runs = re.findall(r"^#(\d+)\s.* cov: (\d+)", done.stderr, re.MULTILINE)
    told = f"{int(runs[-1][0]):7d} inputs, {runs[-1][1]} edges" if runs else "      ? inputs"
    print(f"{target.name:22s} {told}, guided by coverage{'' if done.returncode == 0 else ': A FINDING'}")
    if done.returncode:
        print("\n".join(f"    {line}" for line in done.stderr.splitlines()[-30:]))
    if not any(FINDINGS.iterdir()):
        FINDINGS.rmdir()
    return int(done.returncode != 0)


def guided(name: str, arguments: list[str]) -> None:
    """In the child: our modules instrumented, then libFuzzer's loop."""
    import atheris

    with atheris.instrument_imports(include=["stillruns"]):
        target = targets()[name]
    from fuzzing.target import trial

    atheris.Setup([sys.argv[0], *arguments], lambda data: trial(target, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
