"""The reader of device code against the compilers' own tools, on real files.

    python scripts/measure_code_objects.py compare --tools DIR FILE...   are the lists equal?
    python scripts/measure_code_objects.py bench --tools DIR FILE        time, memory, bytes written

`--tools` is a folder with llvm-objdump, llvm-readelf, clang-offload-bundler (LLVM 22: `scripts/fetch_rocm.sh DIR`
makes DIR/bin) and, for NVIDIA's code, cuobjdump. Plain bundles are compared with llvm-objdump --offloading (which
extracts every image beside its input, hence the scratch folder), compressed ones bundle by bundle with
clang-offload-bundler (llvm-objdump 22 crashes on most of them), code objects with llvm-readelf, NVIDIA's with
cuobjdump.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from stillruns.formats import bundles, elf
from stillruns.formats.reading import Span
from stillruns.model.absence import Absence
from stillruns.model.code_object import CodeObjects
from stillruns.normalise import code_objects

SCAN = """
import sys, time
from stillruns.collect.tree import FileTree
from stillruns.normalise import code_objects
started = time.perf_counter()
with FileTree().ranges(sys.argv[1]) as source:
    found = code_objects.read(source.read_at, source.size, sys.argv[1], source.ref)
print(time.perf_counter() - started)
"""
_FLAGS = re.compile(r"^File: (.+)$|^  Flags: +0x[0-9A-F]+(.*)$", re.MULTILINE | re.IGNORECASE)


def main() -> int:
    """Exit 1 when a list differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=("compare", "bench"))
    parser.add_argument("--tools", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("files", nargs="+", type=Path)
    asked = parser.parse_args()
    if asked.job == "bench":
        bench(asked.files[0].resolve(), asked.tools, asked.runs)
        return 0
    differences = 0
    plain = [path for path in asked.files if is_code_object(path)]
    for path in asked.files:
        if path not in plain:
            verdict = compare(path.resolve(), asked.tools)
            differences += verdict.startswith("DIFFERENT")
            print(f"{path}: {verdict}", flush=True)
    if plain:
        wrong = compare_code_objects(plain, asked.tools)
        differences += len(wrong)
        print(f"{len(plain)} code objects: {len(wrong)} differ from llvm-readelf")
        for line in wrong[:20]:
            print(f"  {line}")
    return int(differences > 0)


def is_code_object(path: Path) -> bool:
    """A plain AMDGPU ELF file."""
    with path.open("rb") as file:
        head = file.read(20)
    return head[:4] == b"\x7fELF" and head[18:20] == elf.EM_AMDGPU.to_bytes(2, "little")


def ours(path: Path) -> CodeObjects:
    """What our reader says."""
    with path.open("rb") as file:
        found = code_objects.read(lambda o, n: os.pread(file.fileno(), n, o), path.stat().st_size, str(path))
    if isinstance(found, Absence):
        sys.exit(found.detail)
    return found


def compare(path: Path, tools: Path) -> str:
    """`same ...` or `DIFFERENT ...` for one library or bundle file."""
    found = ours(path)
    mine = Counter({target.target: target.count for target in found.targets})
    if any(target.startswith(("sm_", "compute_")) for target in mine):
        theirs = nvidia(path, tools)
        return told(Counter(set(mine)), theirs, "cuobjdump")
    if not mine:
        return f"{found.format}: nothing to compare"
    if found.compressed or found.format == "bundle file":
        return told(mine, bundled(path, tools), "clang-offload-bundler")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as scratch:
        (Path(scratch) / "x").symlink_to(path)
        done = run([tools / "llvm-objdump", "--offloading", "x"], scratch)
        theirs = Counter(re.findall(r"^Extracting offload bundle: .*-(gfx[\w:+-]+)$", done, re.MULTILINE))
        theirs += Counter(re.findall(r"^arch +(\S+)$", done, re.MULTILINE))
        samples = {name.name.rpartition("--")[2]: name for name in Path(scratch).glob("x.*--gfx*")}
        wrong = compare_code_objects(list(samples.values()), tools, {v: k for k, v in samples.items()})
    return told(mine, theirs, f"llvm-objdump, {len(samples) - len(wrong)} of {len(samples)} extracted objects agree")


def told(mine: Counter[str], theirs: Counter[str], tool: str) -> str:
    """The two lists in a sentence."""
    if mine == theirs:
        return f"same as {tool}: {sum(mine.values())} entries of {len(mine)} targets"
    return f"DIFFERENT from {tool}: ours more {dict(mine - theirs)}, theirs more {dict(theirs - mine)}"


def bundled(path: Path, tools: Path) -> Counter[str]:
    """clang-offload-bundler's list of every bundle in a file; it reads one bundle a file, so each is cut out."""
    theirs: Counter[str] = Counter()
    with path.open("rb") as file, tempfile.TemporaryDirectory() as scratch:
        size = path.stat().st_size

        def read_at(offset: int, n: int) -> bytes:
            return os.pread(file.fileno(), n, offset)

        span = Span(read_at, 0, size)
        if span.some(0, 4) == b"\x7fELF":
            section = next(s for s in elf.read(read_at, size).sections if s.name == code_objects.HIP_FATBIN)
            span = span.within(section.offset, section.offset + section.size)
        for number, bundle in enumerate(bundles.walk(span)):
            one = Path(scratch) / f"{number}.bundle"
            one.write_bytes(read_at(bundle.offset, bundle.size or span.end - bundle.offset))
            listed = run([tools / "clang-offload-bundler", "--list", "--type=o", f"--input={one}"], scratch)
            theirs += Counter(re.findall(r"-(gfx[\w:+-]+)$", listed, re.MULTILINE))
    return theirs


def nvidia(path: Path, tools: Path) -> Counter[str]:
    """The set of architectures that cuobjdump lists."""
    code, text = (run([tools / "cuobjdump", option, path], ".") for option in ("-lelf", "-lptx"))
    found = set(re.findall(r"\.(sm_\d+[af]?)\.cubin", code))
    return Counter(found | {f"compute_{n}" for n in re.findall(r"\.sm_(\d+)[af]?\.ptx", text)})


def compare_code_objects(files: Sequence[Path], tools: Path, expected: dict[Path, str] | None = None) -> list[str]:
    """Differences between llvm-readelf's flags and our target (or the one that is expected), a line each."""
    wrong = []
    for start in range(0, len(files), 200):
        part = files[start : start + 200]
        text = run([tools / "llvm-readelf", "-h", *part], ".")
        flags = [found[2] for found in _FLAGS.finditer(text) if found[2] is not None]
        if len(flags) != len(part):
            return [f"llvm-readelf spoke of {len(flags)} of {len(part)} files"]
        for path, said in zip(part, flags, strict=True):
            words = [word.strip() for word in said.split(",") if word.strip()]
            signs = {f"{w[:-1]}{w[-1]}" for w in words if w[-1] in "+-"}
            theirs = words[0] + "".join(f":{sign}" for sign in sorted(signs)) if words else "?"
            mine = expected[path] if expected else ours(path).targets[0].target
            if mine != theirs:
                wrong.append(f"{path}: ours {mine}, theirs {theirs}")
    return wrong


def run(argv: Sequence[str | Path], folder: str) -> str:
    """Standard output of a tool."""
    done = subprocess.run([str(word) for word in argv], cwd=folder, capture_output=True, check=False)
    return done.stdout.decode("utf-8", "replace")


def measured(argv: Sequence[str], folder: str) -> tuple[float, float, float, float]:
    """(seconds of wall time, of processor time, MB of peak memory, MB written into the folder)."""
    before = sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(folder))
    started = time.perf_counter()
    child = subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - started
    child.returncode = 0
    after = sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(folder))
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, (after - before) / 1e6


def bench(path: Path, tools: Path, runs: int) -> None:
    """A whole process of ours against one of llvm-objdump, interleaved, warm cache; each in an empty folder. In
    `check` the interpreter is there already, so the scan is timed apart as well."""
    sides: dict[str, list[tuple[float, float, float, float]]] = {"ours": [], "llvm-objdump": []}
    scans = []
    for _ in range(runs):
        for side in sides:
            with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
                (Path(folder) / "x").symlink_to(path)
                argv = [sys.executable, "-c", SCAN, str(path)]
                if side == "llvm-objdump":
                    argv = [str(tools / "llvm-objdump"), "--offloading", "x"]
                sides[side].append(measured(argv, folder))
        scans.append(float(run([sys.executable, "-c", SCAN, path], ".")))
    middle = {side: [statistics.median(row[i] for row in rows) for i in range(4)] for side, rows in sides.items()}
    for side, (seconds, processor, megabytes, written) in middle.items():
        print(
            f"{side:13} {seconds:6.2f} s, {processor:.2f} s of processor time, {megabytes:.1f} MB, {written:.0f} MB "
            f"written; least {min(row[0] for row in sides[side]):.2f} s"
        )
    theirs, ours, scan = middle["llvm-objdump"], middle["ours"], statistics.median(scans)
    least = [min(row[0] for row in sides[side]) for side in ("llvm-objdump", "ours")]
    print(f"the scan alone {scan:5.3f} s; least {min(scans):.3f} s")
    print(
        f"ratio of medians over {runs} runs: {theirs[0] / scan:.0f} for the scan, {theirs[0] / ours[0]:.0f} for the "
        f"whole process ({least[0] / least[1]:.0f} by the least times, {theirs[1] / ours[1]:.0f} by processor time), "
        f"{theirs[2] / ours[2]:.0f} in memory; target 20 and 40; load "
        f"average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    )


if __name__ == "__main__":
    sys.exit(main())
