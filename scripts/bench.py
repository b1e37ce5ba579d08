"""`make bench`: what the harness costs. Ratios come from interleaved runs in one session; nothing here is a test.

    overhead    added wall time of a trial against a bare loop that starts the same server and posts the same request
    memory      peak memory of `stillruns run` and `stillruns report` with 10,000 trials in the store
    sequential  mean trials and errors of the sequential test, and coverage of its intervals (bench_sequential.py)
    autopsy     `stillruns autopsy` on a journal of a gigabyte, against rg
    start-up    CPU time of `stillruns --version` and `stillruns run --help`

Each prints its numbers and the target of the project beside them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench_autopsy
import urllib3
from bench_sequential import sequential_plans

from stillruns.act import trial
from stillruns.act.ports import free_port
from stillruns.act.runtimes import adapters
from stillruns.act.runtimes.adapter import Occasion
from stillruns.lab.running import opening_record
from stillruns.lab.runs import preparing
from stillruns.lab.runs.progress import Silent
from stillruns.lab.runs.shelving import shelf
from stillruns.lab.specs import spec_file
from stillruns.model.backend import Backend
from stillruns.model.spec import BackendSpec, Spec, StopRule
from stillruns.model.trial import TrialPlan, TrialRecord
from stillruns.store.opening import open_store
from stillruns.store.store import Store
from stillruns.store.view import encode_trial

ROOT = Path(__file__).parents[1]
POLL = 0.02
"""The bare loop looks as often as the harness does, so that readiness is seen equally late."""


def main() -> None:
    """Run the parts named on the command line, all by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["overhead", "memory", "autopsy", "start-up", "sequential"])
    parser.add_argument("--pairs", type=int, default=12, help="pairs of a bare and a supervised trial")
    parser.add_argument(
        "--backend", default="cpu", help="where the overhead part's servers compute: cpu, cuda, vulkan"
    )
    parser.add_argument("--trials", type=int, default=10_000, help="trials in the store for the memory part")
    asked = parser.parse_args()
    print(f"{os.uname().machine}, {os.cpu_count()} processors, load average {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory(prefix="stillruns-bench-") as folder:
        if "overhead" in asked.parts:
            overhead(Path(folder) / "overhead", asked.pairs, Backend(asked.backend))
        if "autopsy" in asked.parts:
            bench_autopsy.measure()
        if "memory" in asked.parts:
            memory(Path(folder) / "memory", asked.trials)
        if "start-up" in asked.parts:
            start_up()
    if "sequential" in asked.parts and not sequential_plans():
        sys.exit(1)


SHORT, LONG = "synth:llama?layers=4", "synth:llama?layers=16&embd=512&ff=1536&heads=8&kv=4&head_dim=64&ctx=2048"
"""A trial of about 0.1 s, and one of about 2 s."""


def experiment(predict: int, model: str = SHORT, backend: Backend = Backend.CPU) -> Spec:
    """One cell of a synthetic model; model and `predict` set how long a trial takes."""
    return spec_file.freeze(
        Spec(
            name="bench",
            question="",
            model=model,
            prompt="one two three",
            backends=(BackendSpec(id=backend.value, backend=backend),),
            gpu_layers=("all",),
            predict=predict,
            context=2048,
            reference="none",
            stop=StopRule(trials=1),
        )
    )


def plan_of(store: Store, predict: int, model: str = SHORT, backend: Backend = Backend.CPU) -> TrialPlan:
    """The plan of that cell's trial."""
    prepared = preparing.prepare(experiment(predict, model, backend), store, Silent())
    cell = prepared.plans[0]
    engine = prepared.engine_of(cell.condition)
    assert engine is not None
    occasion = Occasion("bench", "bench", cell.id, 0, prepared.spec.timeouts, os.environ)
    return adapters.of(cell.condition.runtime).plan(cell.condition, engine, occasion)


def overhead(folder: Path, pairs: int, backend: Backend) -> None:
    """Bare and supervised trials in turn, at two lengths."""
    with open_store(folder) as store, store.writer() as writer:
        for predict, model in ((16, SHORT), (160, LONG)):
            plan = plan_of(store, predict, model, backend)
            bare(plan)
            plain, held = [], []
            for number in range(pairs):
                first, second = (bare, None) if number % 2 else (None, bare)
                for side in (first, second):
                    started = time.perf_counter()
                    if side is not None:
                        side(plan)
                        plain.append(time.perf_counter() - started)
                        continue
                    identity = f"bench.{predict}.{number:04d}"
                    writer.append("trial_started", "bench", {"trial": identity})
                    record = trial.execute(
                        dataclasses.replace(plan, trial=identity), store.spool(identity), shelf(store)
                    )
                    writer.append("trial_ended", "bench", {"trial": identity, "record": encode_trial(record)})
                    held.append(time.perf_counter() - started)
            tell_overhead(plain, held)


def tell_overhead(plain: list[float], held: list[float]) -> None:
    """Medians of both sides, and of the paired differences."""
    added = [h - p for p, h in zip(plain, held, strict=True)]
    ratio = statistics.median(h / p for p, h in zip(plain, held, strict=True))
    low, high = sorted(added)[len(added) // 4], sorted(added)[(3 * len(added)) // 4]
    print(
        f"overhead   bare {statistics.median(plain):.3f} s, supervised {statistics.median(held):.3f} s: "
        f"added {1000 * statistics.median(added):.0f} ms (quartiles {1000 * low:.0f} to {1000 * high:.0f}), "
        f"ratio {ratio:.3f} over {len(added)} interleaved pairs; target 5 % at 2 s, at most 100 ms"
    )


def bare(plan: TrialPlan) -> None:
    """What anybody would write: start, wait for health, post, stop; output to a file."""
    port = free_port()
    argv = [word.replace("{port}", str(port)) for word in plan.argv]
    with tempfile.TemporaryFile() as sink, urllib3.PoolManager(retries=False) as pool:
        child = subprocess.Popen(argv, env=plan.env, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL)
        while True:
            try:
                if pool.request("GET", f"http://127.0.0.1:{port}{plan.ready_path}").status == 200:
                    break
            except urllib3.exceptions.HTTPError:
                pass
            assert child.poll() is None, "the server died"
            time.sleep(POLL)
        body = json.dumps(plan.request).encode()
        pool.request("POST", f"http://127.0.0.1:{port}{plan.request_path}", body=body)
        child.send_signal(signal.SIGTERM)
        child.wait()


def memory(folder: Path, trials: int) -> None:
    """Fill a store with copies of one real trial, then run and report beside and on them."""
    spec = folder / "spec.toml"
    with open_store(folder / "store") as store:
        plan = plan_of(store, 16)
        record = trial.execute(plan, store.spool("bench"), shelf(store))
        prepared = preparing.prepare(experiment(16), store, Silent())
        fill(store, prepared, record, trials)
    spec.write_text(
        '[experiment]\nname = "bench"\nmodel = "synth:llama?layers=4"\npredict = 16\ncontext = 256\n'
        '[[backend]]\nid = "cpu"\n[stop]\ntrials = 2\n'
    )
    for words in (["run", str(spec)], ["report"], ["report", "--list"]):
        done = measured([*words, "--store", str(folder / "store")])
        print(
            f"memory     stillruns {words[0]} {'--list' if '--list' in words else '':6s} with {trials} trials in the "
            f"store: {done[1]} MB peak, {done[0]:.1f} s CPU; target 120 MB"
        )


def fill(store: Store, prepared: preparing.Prepared, record: TrialRecord, trials: int) -> None:
    """One big run of `trials` copies; each has an id of its own."""
    identity = "20260101T000000Z-" + prepared.spec.sha256[7:15]
    with store.writer() as writer:
        writer.append("run_started", identity, opening_record(prepared))
        for number in range(trials):
            name = f"{identity}.{number:05d}"
            copy = dataclasses.replace(record, trial=name, run=identity, cell=prepared.plans[0].id, index=number)
            writer.append("trial_started", identity, {"trial": name, "cell": copy.cell, "index": number})
            writer.append("trial_ended", identity, {"trial": name, "record": encode_trial(copy)})


def start_up() -> None:
    """CPU time, least and median of 20 starts each."""
    for words, target in ((["--version"], 100), (["run", "--help"], 250), (["--help"], 250)):
        times = sorted(measured(words)[0] for _ in range(20))
        least, middle = 1000 * times[0], 1000 * times[10]
        print(
            f"start-up   stillruns {' '.join(words):10s} {least:.0f} ms least, {middle:.0f} ms median of 20; "
            f"target {target} ms of CPU time"
        )


def measured(words: list[str]) -> tuple[float, int]:
    """(CPU seconds, peak MB) of one start of the program; its children are not counted in the peak."""
    child = subprocess.Popen(
        [sys.executable, "-m", "stillruns", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, f"stillruns {' '.join(words)} ended with {child.returncode}"
    return used.ru_utime + used.ru_stime, round(used.ru_maxrss / 1000)


if __name__ == "__main__":
    main()
