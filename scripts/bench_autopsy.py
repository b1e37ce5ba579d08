"""`make bench`: what `stillruns autopsy` costs on a big journal and on a paste.

A journal of a busy host is made (8 lines of 100 are Ollama's, 50 runners die in it) and read, in turn with `rg -c`
over the same literals. The target: at most four times rg's wall time, below 200 MB, and a
2,000-line paste in under 0.3 s, whole process, as an installed program runs: with compiled modules.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from stillruns.lab.autopsy import anchors
from stillruns.normalise.logs.prefilter import DEATHS, OTHERS, REWRITTEN

INCIDENTS = 50
NOISE = (
    'nginx[811]: 10.0.0.{0} - - "GET /api/v{1}/items/{2} HTTP/2.0" 200 {2} "-" "curl/8.5.0"',
    "sshd[{2}]: Accepted publickey for build from 10.0.0.{0} port {2} ssh2: ED25519 SHA256:abcdefghijklmnopqrstuv",
    "systemd[1]: session-{2}.scope: Deactivated successfully.",
    'dockerd[900]: time="2026-03-07T01:19:01.460+09:00" lvl=info m="sandbox {2} is up" container={1}{2}',
    "kernel: docker0: port {0}(veth{2}) entered blocking state",
    "CRON[{2}]: (root) CMD (test -x /usr/sbin/anacron || run-parts --report /etc/cron.hourly)",
    "prometheus[1201]: ts=2026-03-07T01:19:01.460Z caller=compact.go:{0} component=tsdb n={1} duration={2}ms",
)
GIN = "ollama[1415]: [GIN] 2026/03/07 - 01:19:03 | 200 |  {1}.583529503s |       127.0.0.1 | "
SLOG = "ollama[1415]: time=2026-03-07T01:19:03.374+09:00 level=INFO source=sched.go:{0} "
OLLAMA = (
    *((GIN + 'GET      "/api/tags"',) * 6),
    GIN + 'POST     "/api/generate"',
    GIN + 'POST     "/api/chat"',
    SLOG + 'msg="system memory" total="62.7 GiB" free="59.4 GiB" free_swap="8.8 GiB"',
    SLOG + 'msg="context for request finished" runner.size="{1}.1 GiB"',
)
START = Path(__file__).parents[1] / "tests" / "golden" / "autopsy" / "ollama-engine-vulkan-segv.raw"


PEAK = """
import atexit, resource, sys
atexit.register(lambda: print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stdout))
from stillruns.cli import main
main()
"""
"""The program, with its own peak memory after its output."""


def block(seed: int, size: int) -> bytes:
    """About `size` bytes of an uneventful journal."""
    chance = random.Random(seed)
    lines: list[str] = []
    length = 0
    while length < size:
        form = chance.choice(OLLAMA) if chance.random() < 0.08 else chance.choice(NOISE)
        text = form.format(chance.randrange(200), chance.randrange(9), chance.randrange(10_000, 60_000))
        line = f"Mar 07 01:{chance.randrange(10, 60)}:{chance.randrange(10, 60)} host1 {text}\n"
        lines.append(line)
        length += len(line)
    return "".join(lines).encode()


def journal(path: Path, size: int) -> None:
    """A journal of `size` bytes with 50 incidents."""
    blocks = [block(seed, 1 << 21) for seed in range(4)]
    incident = "".join(
        f"Mar 07 01:19:03 host1 ollama[1415]: {line}\n" for line in START.read_text().splitlines()
    ).encode()
    count = max(INCIDENTS, size // len(blocks[0]))
    with path.open("wb") as file:
        for number in range(count):
            if (number + 1) * INCIDENTS // count > number * INCIDENTS // count:
                file.write(incident)
            file.write(blocks[number % len(blocks)])


COMPILED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""An installed package's modules are compiled; a checkout's only where writing them is not forbidden."""


def timed(argv: list[str]) -> tuple[float, bytes]:
    """(wall seconds, stdout)."""
    began = time.perf_counter()
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=False, env=COMPILED)
    return time.perf_counter() - began, done.stdout


def rounds(path: Path, literals: Path, times: int) -> Iterator[tuple[float, float, bytes]]:
    """In turn: (rg's seconds, ours, our output)."""
    rg = shutil.which("rg")
    for _ in range(times):
        bare = timed([rg, "-c", "-F", "-f", str(literals), str(path)])[0] if rg else float("nan")
        ours, output = timed([sys.executable, "-c", PEAK, "autopsy", "--json", str(path)])
        yield bare, ours, output


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--pastes", action="store_true", help="only the two pastes")
    asked = parser.parse_args()
    if asked.pastes:
        with tempfile.TemporaryDirectory(prefix="stillruns-bench-") as folder:
            pastes(Path(folder), 20)
    else:
        measure(asked.mib, asked.times)


def measure(mib: int = 1024, times: int = 3) -> None:
    """Make, measure, print."""
    print(f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory(prefix="stillruns-bench-") as folder:
        path, literals = Path(folder) / "journal.log", Path(folder) / "literals"
        journal(path, mib << 20)
        words = [w for w in (*anchors(), *DEATHS, *OTHERS, *REWRITTEN) if "\n" not in w and "\0" not in w]
        literals.write_text("\n".join(dict.fromkeys(words)) + "\n")
        measured = list(rounds(path, literals, times))
        bare, ours = min(m[0] for m in measured), min(m[1] for m in measured)
        text, _, peak_kib = measured[-1][2].decode().rpartition("peak ")
        found, peak = json.loads(text), int(peak_kib) / 1024
        print(f"journal {path.stat().st_size >> 20} MiB, {found['sources'][0]['lines']} lines, {len(words)} literals")
        print(f"rg -c {bare:.2f} s, autopsy {ours:.2f} s: {ours / bare:.1f} times (target: at most 4)")
        print(f"incidents {len(found['incidents'])} of {INCIDENTS}, peak memory {peak:.0f} MB (target: below 200)")
        pastes(Path(folder), 4 * times)


def pastes(folder: Path, times: int) -> None:
    """The start-up that a person feels: 2,000 lines of a busy journal, and of a server's own log."""
    busy, own = folder / "busy.log", folder / "own.log"
    busy.write_bytes(b"".join(block(7, 1 << 20).splitlines(keepends=True)[:2000]))
    own.write_text("\n".join((START.read_text().splitlines() * 200)[:2000]) + "\n")
    autopsy = [sys.executable, "-m", "stillruns", "autopsy"]
    commands = {
        "python itself": [sys.executable, "-c", "pass"],
        "2,000 lines of a journal": [*autopsy, str(busy)],
        "2,000 lines of a server's log": [*autopsy, str(own)],
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(times):
        for name, argv in commands.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            wall = timed(argv)[0]
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken[name].append((wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    for name, pairs in taken.items():
        wall, cpu = min(w for w, _ in pairs), min(c for _, c in pairs)
        print(f"{name:30s} {wall:.3f} s, {cpu:.3f} s of CPU time, whole process, least of {times}; target 0.3 s")


if __name__ == "__main__":
    main()
