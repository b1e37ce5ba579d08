"""The main job on a real llama-server: cells, void trials, resume, refusal, evidence."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from experiments import CPU, Table, small, vulkan
from program import PROGRAM, environment, run_document, stillruns
from real_parts import llama_server
from stillruns.act.models import synthetic
from stillruns.act.ports import free_port
from stillruns.store.verify import verify

MODEL = "synth:llama?layers=4"


def spec(folder: Path, *backends: Table, trials: int = 2, **experiment: object) -> Path:
    """An experiment with three layer counts, on the CPU (which has one cell) and the backends that are given."""
    return small(
        folder / "spec.toml",
        *(backends if any(backend["id"] == "cpu" for backend in backends) else (CPU, *backends)),
        matrix={"gpu_layers": [0, 2, "all"]},
        stop={"trials": trials},
        timeouts={"load": 120, "first_token": 120, "token": 60, "teardown": 60},
        **{"model": MODEL, "predict": 8, "context": 256, **experiment},
    )


@pytest.mark.engine()
def test_the_document_and_its_schema(tmp_path: Path) -> None:
    """`run --json` prints one document that its schema accepts, and the store verifies."""
    done = stillruns("run", spec(tmp_path), "--json", "--store", tmp_path / "store")
    assert done.returncode == 0, done.stderr
    document = run_document(done)
    cpu = next(c for c in document["cells"] if c["backend"] == "cpu" and c["rate"])
    assert (cpu["trials"], cpu["applied"], cpu["passed"]) == (2, 2, 2)
    assert cpu["output"] == "same"
    assert not verify(tmp_path / "store").problems


@pytest.mark.vulkan()
@pytest.mark.slow()
def test_vulkan_cells_are_proved(tmp_path: Path, shader_cache: Path) -> None:
    """Each Vulkan cell ran on the device with its layers, and the placement is told: {output first}."""
    place = spec(tmp_path, vulkan(MESA_SHADER_CACHE_DIR=shader_cache))
    done = stillruns("run", place, "--json", "--store", tmp_path / "store")
    assert done.returncode == 0, done.stderr
    cells = {c["gpu_layers"]: c for c in json.loads(done.stdout)["cells"] if c["backend"] == "vulkan"}
    assert {n: c["applied"] for n, c in cells.items()} == {0: 2, 2: 2, "all": 2}
    assert cells[2]["placement"] == {"repeating": 1, "output": True, "total": 5}
    assert cells["all"]["placement"] == {"repeating": 4, "output": True, "total": 5}
    assert {c["output"] for c in cells.values()} <= {"same", "floor ok"}


@pytest.mark.engine()
def test_a_silent_cpu_fallback_is_void(tmp_path: Path) -> None:
    """With the Vulkan driver hidden the server runs on the CPU, exits 0 and says `offloaded`: void, never a pass."""
    hidden = vulkan(VK_DRIVER_FILES="/nonexistent.json", VK_ICD_FILENAMES="/nonexistent.json")
    done = stillruns("run", spec(tmp_path, hidden), "--json", "--store", tmp_path / "store")
    cells = [c for c in json.loads(done.stdout)["cells"] if c["backend"] == "vulkan"]
    assert len(cells) == 3
    for cell in cells:
        assert (cell["applied"], cell["passed"], cell["rate"]) == (0, 0, None)
        assert cell["void"] == cell["trials"] == 3
        assert "ran on the CPU" in cell["note"]
    assert done.returncode == 1


@pytest.mark.engine()
@pytest.mark.parametrize("moment", [0.05, 0.2, 0.4, 0.7, 1.1])
@pytest.mark.slow()
def test_a_killed_harness_loses_one_trial(tmp_path: Path, moment: float) -> None:
    """SIGKILL of the whole harness in mid-trial: the next run says `interrupted`, repeats that trial, loses nothing
    else, and no server is left."""
    store = tmp_path / "store"
    slow = spec(tmp_path, trials=3, prompt="one two three", warm=False, predict=200)
    child = subprocess.Popen(
        [*PROGRAM, "run", str(slow), "--store", store],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for_trial(store, child)
    time.sleep(moment)
    child.send_signal(signal.SIGKILL)
    child.wait()
    started, ended = count(store, "trial_started"), count(store, "trial_ended")
    done = stillruns("run", slow, "--json", "--store", store)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert sum(c["interrupted"] for c in document["cells"]) <= 1
    if started > ended:
        assert "was interrupted; it is repeated" in done.stderr
    cpu = next(c for c in document["cells"] if c["rate"])
    assert cpu["applied"] == 3
    assert count(store, "trial_ended") == count(store, "trial_started") - (started - ended)
    assert not verify(store).problems
    assert not servers(store)


def gate(folder: Path, *, first: bool = False) -> list[str]:
    """The prefix of a backend: each server (save the first, where asked) waits for a file `go` in the folder, so that
    no run is over before a test has done to it what it wants. Probes, which name no batch size, wait for nothing."""
    free = 'mkdir "$0/first" 2>/dev/null || ' if first else ""
    script = f'case " $* " in *" -b "*) {free}until [ -e "$0/go" ]; do sleep 0.1; done;; esac; exec "$@"'
    return ["sh", "-c", script, str(folder)]


@pytest.mark.engine()
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_ctrl_c_keeps_the_store(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C (SIGTERM, SIGHUP) ends with 130 and a store that the same command goes on with."""
    store = tmp_path / "store"
    place = spec(tmp_path, {"id": "cpu", "prefix": gate(tmp_path)}, trials=1)
    child = subprocess.Popen(
        [*PROGRAM, "run", str(place), "--store", store],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_trial(store, child)
    child.send_signal(number)
    _, text = child.communicate(timeout=120)
    assert child.returncode == 130
    assert "the same command goes on" in text and "Traceback" not in text
    assert f"stopped by {'Ctrl-C' if number == signal.SIGINT else number.name}; " in text
    assert not servers(store)
    assert not verify(store).problems
    (tmp_path / "go").touch()
    before = count(store, "run_started")
    resumed = stillruns("run", place, "--store", store)
    assert resumed.returncode == 0
    assert count(store, "run_started") == before == 1
    assert f"going on with run {identity(store)}" in resumed.stderr


@pytest.mark.engine()
@pytest.mark.slow()
def test_a_run_that_was_stopped_while_it_was_judged_still_ends(tmp_path: Path) -> None:
    """All trials are there, its last record is not: the same command writes it, once, and replay agrees."""
    store = tmp_path / "store"
    words = ("run", spec(tmp_path, trials=1), "--json", "--store", store)
    assert stillruns(*words).returncode == 0
    journal = next((store / "journal").iterdir())
    lines = journal.read_text().splitlines(keepends=True)
    assert json.loads(lines[-1])["kind"] == "run_ended"
    journal.write_text("".join(lines[:-1]))
    (store / "index.sqlite").unlink()  # it is made anew from the journal, and knows the record that was cut off
    for _ in range(2):
        again = stillruns(*words)
        assert again.returncode == 0, again.stderr
        assert "complete already" in again.stderr
        assert count(store, "run_ended") == 1
    assert stillruns("replay", "--store", store).returncode == 0
    assert not verify(store).problems


@pytest.mark.engine()
@pytest.mark.slow()
def test_a_changed_twin_is_refused(tmp_path: Path) -> None:
    """The checks of a run are of one twin: another file in its place is told, as another model is."""
    store, twin = tmp_path / "store", tmp_path / "twin.gguf"
    for seed, name in ((0, "model.gguf"), (0, "twin.gguf"), (1, "other.gguf")):
        kind = "Q8_0" if name == "model.gguf" else "F16"
        synthetic.write(synthetic.parse(f"synth:llama?layers=1&type={kind}&seed={seed}"), tmp_path / name)
    models = {"model": tmp_path / "model.gguf", "twin": twin}
    place = small(tmp_path / "s.toml", **models, check=True, predict=2, warm=False)
    assert stillruns("run", place, "--store", store).returncode in (0, 1)
    (tmp_path / "other.gguf").replace(twin)
    refused = stillruns("run", place, "--store", store)
    assert refused.returncode == 2
    assert "the model's twin changed since run" in refused.stderr and "--new" in refused.stderr


@pytest.mark.engine()
@pytest.mark.slow()
def test_a_changed_binary_is_refused(tmp_path: Path) -> None:
    """A run goes on with the binary that it began with, or as a new run."""
    store, original = tmp_path / "store", llama_server()
    assert original is not None
    binary = tmp_path / "llama-server"
    binary.write_text(f'#!/bin/sh\nexec {shlex.quote(original)} "$@"\n')
    binary.chmod(0o755)
    place = spec(tmp_path, {"id": "cpu", "binary": binary}, trials=1)
    assert stillruns("run", place, "--store", store).returncode == 0
    binary.write_text(binary.read_text() + "# changed\n")
    refused = stillruns("run", place, "--store", store)
    assert refused.returncode == 2
    assert "changed since run" in refused.stderr and "--new" in refused.stderr
    assert stillruns("run", place, "--store", store, "--new").returncode == 0


@pytest.mark.engine()
def test_once_sees_the_silent_fallback(tmp_path: Path) -> None:
    """`run -- llama-server -ngl 99` without a device: at most 60 lines of Markdown that say it ran on the CPU."""
    made = stillruns("run", spec(tmp_path, trials=1), "--store", tmp_path / "store")
    assert made.returncode == 0, made.stderr
    model = next((tmp_path / "store/cache/models").glob("*.gguf"))
    command = [str(llama_server()), "-m", str(model), "-ngl", "99", "--port", "18431", "-c", "256", "-t", "1"]
    done = stillruns("run", "--store", tmp_path / "store", "--", *command, VK_DRIVER_FILES="/nonexistent.json")
    assert done.returncode == 0, done.stderr
    assert "ran on the CPU" in done.stdout
    assert len(done.stdout.splitlines()) <= 60
    failing = stillruns(
        "run",
        "--fail-on",
        "void",
        "--store",
        str(tmp_path / "store"),
        "--",
        *command,
        VK_DRIVER_FILES="/nonexistent.json",
    )
    assert failing.returncode == 1
    assert not verify(tmp_path / "store").problems


@pytest.mark.engine()
def test_once_of_a_program_that_dies(tmp_path: Path) -> None:
    """A model that is no model: the command's own end is reported, with the line that tells."""
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 64)
    done = stillruns(
        "run", "--store", tmp_path / "s", "--", str(llama_server()), "-m", str(bad), "--port", str(free_port())
    )
    assert done.returncode == 0
    assert "exit status 1" in done.stdout
    assert "load" in done.stdout


def test_once_says_why_and_what_to_try(tmp_path: Path) -> None:
    """Where a line decides how a command ended, the report explains it as an autopsy would, with what to try."""
    program = tmp_path / "llama-server"
    program.write_text(
        "#!/bin/sh\ncat >&2 <<'END'\n./llama-server: /lib/libc.so.6: version `GLIBC_9.99' not found "
        "(required by ./llama-server)\nEND\nexit 1\n"
    )
    program.chmod(0o755)
    done = stillruns("run", "--store", tmp_path / "s", "--", str(program), "-m", "x.gguf")
    assert "exit status 1 in init" in done.stdout, done.stdout
    assert "needs a version of a system library" in done.stdout
    assert "Next: Take a build for this distribution" in done.stdout


def test_a_missing_program_is_one_sentence(tmp_path: Path) -> None:
    """No traceback, the name, and what to do."""
    done = stillruns("run", "--store", tmp_path / "s", "--", "no-such-program-here")
    assert done.returncode == 1
    assert "no-such-program-here" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.engine()
@pytest.mark.skipif(os.geteuid() != 0, reason="a full disk is made with a small tmpfs, which needs root")
@pytest.mark.slow()
def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    """A store on a full disk: one sentence, exit 3, and what is there still verifies; with room the run goes on."""
    mount = tmp_path / "small"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(mount)], check=False).returncode:
        pytest.skip("tmpfs cannot be mounted in this environment")
    try:
        filler = mount / "filler"
        place = spec(tmp_path, trials=3)
        store = mount / "store"
        stillruns("verify", "--store", store)
        done = stillruns("run", place, "--store", store)
        if done.returncode == 0:  # it fitted: fill the rest and go on with a new run
            free = shutil.disk_usage(mount).free
            filler.write_bytes(b"x" * max(0, free - 20000))
            done = stillruns("run", place, "--new", "--store", store)
        assert done.returncode == 3, done.stderr
        sentence = done.stderr.strip().splitlines()[-1]
        assert "space" in sentence and "Traceback" not in done.stderr
        assert not verify(store).problems
        filler.unlink(missing_ok=True)
        subprocess.run(["mount", "-o", "remount,size=64m", str(mount)], check=True)
        assert stillruns("run", place, "--store", store).returncode == 0
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=False)


def wait_for_trial(store: Path, child: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Until the first trial is on record as started."""
    limit = time.monotonic() + 120
    while not count(store, "trial_started"):
        assert child.poll() is None and time.monotonic() < limit
        time.sleep(0.01)


def count(store: Path, kind: str) -> int:
    """Records of a kind, read from the journal's text."""
    return sum(
        f'"kind":"{kind}"' in line for file in store.glob("journal/*.jsonl") for line in file.read_text().splitlines()
    )


def identity(store: Path) -> str:
    """The id of the newest run, from the list that a person reads."""
    listed = stillruns("report", "--list", "--store", store).stdout
    return listed.splitlines()[-1].split()[0]


def servers(store: Path) -> list[str]:
    """Living processes whose command line names this store."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(store) in text and "llama-server" in text:
            found.append(text)
    return found


@pytest.mark.engine()
def test_a_relative_store(tmp_path: Path) -> None:
    """`--store here` means this folder's `here`, also for the children that start in other folders."""
    place = spec(tmp_path, trials=1)
    done = stillruns("run", place.name, "--store", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here" / "VERSION").is_file()


@pytest.mark.engine()
def test_an_attached_server_is_unverified(tmp_path: Path) -> None:
    """A server that we did not start shows nothing about itself: what answered is told, in no rate."""
    port = str(free_port())
    server = subprocess.Popen(
        [str(llama_server()), "-m", str(tiny_model(tmp_path)), "--port", port, "-c", "512", "-t", "1", "-np", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        served = {"id": "served", "backend": "vulkan", "runtime": "openai", "url": f"http://127.0.0.1:{port}"}
        done = stillruns("run", spec(tmp_path, served), "--json", "--store", tmp_path / "store")
        cell = next(c for c in json.loads(done.stdout)["cells"] if c["backend"] == "served")
        assert cell["unverified"] == {"passed": 2, "failed": 0}
        assert (cell["applied"], cell["unknown"], cell["rate"]) == (0, 2, None)
        assert done.returncode == 0, done.stderr
    finally:
        server.terminate()
        server.wait()


def tiny_model(folder: Path) -> Path:
    """A synthetic model file."""
    path = folder / "tiny.gguf"
    synthetic.write(synthetic.parse(MODEL), path)
    return path


@pytest.mark.engine()
@pytest.mark.slow()
def test_a_model_that_changes_while_the_run_goes_on(tmp_path: Path) -> None:
    """The run stops with a sentence, the trial that met the change counts for nothing, and the old file goes on."""
    store = tmp_path / "store"
    model, other = tmp_path / "m.gguf", tmp_path / "other.gguf"
    shutil.copyfile(synthetic.ensure(synthetic.parse(MODEL), tmp_path), model)
    shutil.copyfile(synthetic.ensure(synthetic.parse("synth:llama?layers=4&seed=1"), tmp_path), other)
    place = spec(tmp_path, {"id": "cpu", "prefix": gate(tmp_path, first=True)}, trials=2, model=model)
    child = subprocess.Popen(
        [*PROGRAM, "run", str(place), "--store", store], stderr=subprocess.PIPE, text=True, env=environment()
    )
    limit = time.monotonic() + 120
    while count(store, "trial_started") < 2:  # the second waits
        assert child.poll() is None and time.monotonic() < limit
        time.sleep(0.01)
    kept = tmp_path / "kept.gguf"
    os.link(model, kept)
    other.rename(model)  # at no moment is there none
    (tmp_path / "go").touch()
    _, text = child.communicate(timeout=120)
    assert child.returncode == 2
    assert f"the model {model} changed while run" in text and "--new" in text
    assert count(store, "trial_ended") + count(store, "trial_interrupted") == count(store, "trial_started")
    assert count(store, "trial_ended") == 1
    kept.rename(model)
    assert stillruns("run", place, "--store", store).returncode == 0


@pytest.mark.engine()
@pytest.mark.parametrize(("data", "said"), [(b"", "no GGUF file"), (b"x" * 99, "no GGUF file"), (None, "ends ")])
def test_a_damaged_model_is_no_failure_of_a_backend(tmp_path: Path, data: bytes | None, said: str) -> None:
    """A model that is none, or that ends early, is refused before any trial."""
    whole = synthetic.ensure(synthetic.parse(MODEL), tmp_path).read_bytes()
    (tmp_path / "m.gguf").write_bytes(whole[:-4096] if data is None else data)
    place = spec(tmp_path, model="m.gguf")
    refused = stillruns("run", place, "--store", tmp_path / "store")
    assert refused.returncode == 2 and said in refused.stderr
    assert "\nTraceback" not in refused.stderr and refused.stderr.strip().count("\n") == 0


def attached(folder: Path, backend: str, trials: int) -> subprocess.CompletedProcess[str]:
    """A run against a server on the CPU that is there already, whose log the spec names."""
    binary = llama_server()
    assert binary is not None
    model = synthetic.ensure(synthetic.parse(MODEL), folder)
    port, log = free_port(), folder / "server.log"
    words = f"-t 1 -c 512 -b 512 -fa off -np 1 -fit off --device none --port {port} -lv 4"
    argv, env = [binary, "-m", str(model), *words.split()], environment(LD_LIBRARY_PATH=str(Path(binary).parent))
    with log.open("wb") as file, subprocess.Popen(argv, stderr=file, stdout=file, env=env) as server:
        served = {"id": backend, "runtime": "openai", "url": f"http://127.0.0.1:{port}", "log": "server.log"}
        stop = {"trials": trials, "max_voids": 1}
        place = small(folder / "attached.toml", served, stop=stop, model="tiny", context=512, reference="none")
        try:
            while b"listening on" not in log.read_bytes():
                assert server.poll() is None
                time.sleep(0.1)
            return stillruns("run", place, "--store", folder / "store")
        finally:
            server.terminate()


@pytest.mark.engine()
def test_an_attached_server_is_judged_by_its_log(tmp_path: Path) -> None:
    """`log` in the spec is read: a server on the CPU that is called vulkan is void, not unverified."""
    done = attached(tmp_path, "vulkan", 1)
    assert done.returncode == 1
    assert "1 void: ran on the CPU" in done.stdout


@pytest.mark.engine()
def test_one_warm_server_is_one_block(tmp_path: Path) -> None:
    """Three trials on one attached server: their rate may be that process's own, and the report says so."""
    done = attached(tmp_path, "cpu", 3)
    assert "all 3 applied trials come from one server process" in done.stdout
    assert "all 3 applied trials of backend=cpu,gpu_layers=none were made in one boot" in done.stdout


@pytest.mark.engine()
@pytest.mark.slow()
def test_two_runs_of_one_spec_are_one(tmp_path: Path) -> None:
    """Started together in one store, the second is refused with the first one's process, and leaves no second run."""
    store, place = tmp_path / "store", spec(tmp_path, trials=2)
    words = [*PROGRAM, "run", str(place), "--store", store]
    both = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment()) for _ in range(2)]
    ends = [(child.communicate(timeout=120)[1], child.returncode) for child in both]
    assert count(store, "run_started") == 1
    assert {code for _, code in ends} <= {0, 3} and 0 in {code for _, code in ends}
    assert all("is being worked on by process" in text for text, code in ends if code == 3)
