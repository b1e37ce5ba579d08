"""Writes a store with every kind of run, for tests/stores: `python scripts/golden_store.py FOLDER NAME`.

FOLDER is where the runs are really made (its path stands in the evidence), NAME the store's name below
tests/stores. Needs a llama-server (STILLRUNS_LLAMA_SERVER), a C compiler for the faults and a Vulkan driver; a few
minutes. Only for a new store: those that are there stay as they are.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from pathlib import Path

from stillruns.act.shim import build, faults

ROOT = Path(__file__).parent.parent
PROGRAM = [sys.executable, "-m", "stillruns"]
DYING = "terminate called without an active exception"
LEFT_OUT = ("index.sqlite", "spool", "locks", "cache", "tmp")
"""Derived parts, which may be left out of any store."""

MATRIX = """
[experiment]
name = "golden"
question = "Do the verdicts of this store stay what they are?"
model = "synth:llama?layers=2&type=Q8_0"
prompt = "one two three"
predict = 6
context = 128
batch = 64
ubatch = 64
check = true
[[backend]]
id = "cpu"
[[backend]]
id = "vulkan"
env = {{ GGML_VK_VISIBLE_DEVICES = "0" }}
[[backend]]
id = "vulkan-nowhere"
backend = "vulkan"
env = {{ GGML_VK_VISIBLE_DEVICES = "0", VK_DRIVER_FILES = "/none.json", VK_ICD_FILENAMES = "/none.json" }}
[[backend]]
id = "vulkan-dies"
backend = "vulkan"
env = {{ GGML_VK_VISIBLE_DEVICES = "0", LD_PRELOAD = "{shim}", STILLRUNS_FAULT = "decode:segv" }}
[matrix]
gpu_layers = [0, "all"]
[stop]
trials = 3
max_voids = 2
[[hypothesis]]
use = "gpu-unusable"
[[hypothesis]]
use = "crash-time-deterministic"
[[hypothesis]]
id = "H1"
text = "The side with the fault crashes, the other does not"
predicts = '''
pool(c for c in cells if c.side == "vulkan-dies").crash_rate > pool(c for c in cells if c.side == "vulkan").crash_rate
'''
refuted_if = '''
pool(c for c in cells if c.side == "vulkan-dies").crash_rate < pool(c for c in cells if c.side == "vulkan").crash_rate
'''
[[hypothesis]]
id = "H2"
text = "It works where no device is to be seen"
predicts = 'all(c.passed > 0 for c in cells if c.side == "vulkan-nowhere")'
refuted_if = 'all(c.rate.low > 0.5 for c in cells if c.side == "vulkan-nowhere")'
"""

SEQUENTIAL = """
[experiment]
name = "golden, sequential, late deaths"
model = "synth:llama?layers=2&type=F16"
prompt = "one two three"
predict = 6
context = 128
batch = 64
ubatch = 64
epochs = 3
[[backend]]
id = "cpu"
[[backend]]
id = "cpu-dies-late"
backend = "cpu"
env = {{ LD_PRELOAD = "{shim}", STILLRUNS_FAULT = "decode:segv:12" }}
[stop]
decide = {{ fail_below = 0.05, fail_above = 0.5, error = 0.05 }}
min_trials = 2
max_trials = 6
"""


def main() -> None:
    """Make the runs, copy what a store must keep, and write what `replay` says of it."""
    folder, name = Path(sys.argv[1]).resolve(), sys.argv[2]
    store = folder / "store"
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core is half a megabyte
    shim = build.build(None, folder / "shim")
    for title, text in (("matrix", MATRIX), ("sequential", SEQUENTIAL)):
        spec = folder / f"{title}.toml"
        spec.write_text(text.format(shim=faults.environment("decode:segv", shim)["LD_PRELOAD"]))
        stillruns("run", str(spec), store=store)
    stillruns("selftest", "--kind", "segv", "--kind", "oom", "--phase", "decode", store=store)
    worklog = folder / "worklog"
    shutil.copytree(ROOT / "tests" / "golden" / "worklog", worklog, dirs_exist_ok=True)
    stillruns("import", str(worklog), store=store)
    stillruns("run", "--", "sh", "-c", f"echo '{DYING}' >&2; kill -ABRT $$", store=store)
    place = ROOT / "tests" / "stores" / name
    shutil.copytree(store, place, ignore=shutil.ignore_patterns(*LEFT_OUT))
    done = stillruns("replay", "--json", "--verdicts", store=store)
    place.with_name(f"{name}.expect.json").write_text(done, encoding="utf-8")
    print(f"{place}: {sum(f.stat().st_size for f in place.rglob('*') if f.is_file()) >> 10} KiB")


def stillruns(*words: str, store: Path) -> str:
    """The program's output; whatever it found is the point, so its exit code is not looked at."""
    head, tail = (words[:1], words[1:])
    command = [*PROGRAM, *head, "--store", str(store), *tail]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(f"{' '.join(words)[:60]}: exit {done.returncode}", file=sys.stderr, flush=True)
    return done.stdout


if __name__ == "__main__":
    main()
