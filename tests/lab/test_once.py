"""The promise: what `run -- COMMAND` prints is true in its first line, answers a maintainer's first questions, and
can be pasted: real servers that work, that are refused, that die in every way."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from program import PROGRAM, ROOT, environment, stillruns
from real_parts import llama_server, need_core
from stillruns.act.models import synthetic
from stillruns.act.ports import free_port

ONCE = json.loads((ROOT / "docs/schemas/once.json").read_text())
LOST = "llama-server logs from a thread of its own, whose last lines died with it this time"
NO_GPU = {"VK_DRIVER_FILES": "/nonexistent.json"}


def once(
    store: Path, *words: str | Path, options: tuple[str, ...] = (), cwd: Path | None = None, **extra: str
) -> subprocess.CompletedProcess[str]:
    """`stillruns run -- WORDS`."""
    return stillruns("run", "--store", store, *options, "--", *words, cwd=cwd, **extra)


def document(store: Path, *words: str | Path, **extra: str) -> dict[str, Any]:
    """The same with `--json`: it keeps its schema, and its Markdown is pasteable in form."""
    done = once(store, *words, options=("--json",), **extra)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    jsonschema.validate(told, ONCE)
    lines = told["markdown"].splitlines()
    assert len(lines) <= 60 and sum(line == "```" for line in lines) % 2 == 0
    assert isinstance(told, dict)
    return told


def log(store: Path, told: dict[str, Any]) -> str:
    """The whole log of the command."""
    shown = stillruns("show", told["trial"], "--log", "--store", store)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def first(told: dict[str, Any]) -> str:
    """The first line of the Markdown."""
    return str(told["markdown"].splitlines()[0])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model in the home of somebody."""
    home = tmp_path_factory.mktemp("x") / "home" / "annika"
    home.mkdir(parents=True)
    place = home / "tiny.gguf"
    synthetic.write(synthetic.parse("synth:llama?layers=4"), place)
    return place


def server(model: Path, *more: str) -> list[str]:
    """A command line of a server that asks for a GPU, on a port of its own."""
    words = [str(llama_server()), "-m", str(model), "-ngl", "99", "-c", "256", "-t", "1"]
    return [*words, "--port", str(free_port()), *more]


@pytest.mark.engine()
def test_the_first_questions(tmp_path: Path, model: Path) -> None:
    """Build, host, devices, the variables that decide, what came back; and no home folder, in JSON either."""
    told = document(
        tmp_path / "s", *server(model), HSA_OVERRIDE_GFX_VERSION="9.0.0", STILLRUNS_X="1", HF_TOKEN="t0ken", **NO_GPU
    )
    assert first(told).endswith("ran and answered; layers asked 99, applied 0; it ran on the CPU")
    text = told["markdown"]
    assert told["version"] and f"`llama-server` {told['version']}" in text
    assert os.uname().release in told["system"] and f"- system: {told['system']}" in text
    assert "HSA_OVERRIDE_GFX_VERSION=9.0.0" in text and "STILLRUNS_X" not in text and "t0ken" not in text
    assert told["answer"] and "- answer to a request of stillruns' own: " in text
    assert told["applied"]["factors"]["model"]["got"].endswith("/home/<user>/tiny.gguf (Q8_0)")
    assert "annika" not in json.dumps(told)


@pytest.mark.engine()
def test_nothing_asked(tmp_path: Path, model: Path) -> None:
    """A command that asks for no device is not said to have asked for the CPU; the first line says where it ran."""
    words = [word for word in server(model) if word not in ("-ngl", "99")]
    told = document(tmp_path / "s", *words, **NO_GPU)
    assert first(told).endswith(": ran and answered, on the CPU")
    assert told["applied"]["factors"]["backend"]["asked"] == "-"


@pytest.mark.vulkan()
@pytest.mark.slow()
def test_a_software_driver_is_no_gpu(tmp_path: Path, model: Path, shader_cache: Path) -> None:
    """Where every line speaks of a GPU and llvmpipe computes, the first line says so."""
    told = document(
        tmp_path / "s", *server(model), GGML_VK_VISIBLE_DEVICES="0", MESA_SHADER_CACHE_DIR=str(shader_cache)
    )
    if "llvmpipe" not in " ".join(told["devices"]):
        pytest.skip("the first Vulkan device here is no software driver")
    assert "applied 5/5, on Vulkan0 (a software driver: it computes on the CPU)" in first(told)
    assert told["applied"]["factors"]["backend"]["asked"] == "a GPU"


@pytest.mark.engine()
def test_a_refused_argument_was_not_applied(tmp_path: Path, model: Path) -> None:
    """The server's own words stand in the first line, and nothing of the command counts as taken."""
    told = document(tmp_path / "s", *server(model, "--n-gpu-layer", "1"))
    assert "exit status 1 in init: invalid argument: --n-gpu-layer" in first(told)
    assert {f["status"] for f in told["applied"]["factors"].values()} == {"no"}
    assert "its log names no build" in told["markdown"]


@pytest.mark.engine()
def test_a_model_that_is_not_there_was_not_applied(tmp_path: Path, model: Path) -> None:
    """`yes` of a trial that died before is `not reached` for a reader; each line of the log is quoted once."""
    told = document(tmp_path / "s", *server(model.with_name("gone.gguf")), **NO_GPU)
    if "exiting due to" not in log(tmp_path / "s", told):
        pytest.skip(LOST)
    assert "in load: the model file cannot be opened; layers asked 99, applied unknown" in first(told)
    [row] = [line for line in told["markdown"].splitlines() if line.startswith("| model ")]
    assert "| not reached |" in row
    assert "exiting due to" in told["excerpts"][-1]["text"], "the last line of the log is missing"
    texts = [e["text"].split(" E ", 1)[-1] for e in told["excerpts"] if " E " in e["text"]]
    assert len(texts) == len(set(texts))


@pytest.mark.engine()
def test_a_port_in_use_is_no_teardown(tmp_path: Path, model: Path) -> None:
    """A server that could not begin tidies up; it did not fail while shutting down."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        words = [*server(model)[:-1], str(taken.getsockname()[1])]
        done = once(tmp_path / "s", *words, options=("--as-is", "--json"))
    told = json.loads(done.stdout)
    assert "in teardown" not in told["markdown"]
    if "couldn't bind" not in log(tmp_path / "s", told):
        pytest.skip(LOST)
    assert "another program has the port" in first(told), told["markdown"]


@pytest.mark.engine()
@pytest.mark.parametrize(
    ("fault", "head", "inside"),
    [
        (
            "warmup:exit",
            "exit status 7 in warmup; layers asked 99, applied 0; it ran on the CPU",
            "give the whole log",
        ),
        ("prompt:kill", "SIGKILL in prompt, sent by someone else", "Next: Read the kernel's log"),
        ("load:segv", "SIGSEGV in load", "Next: Run it once more with --device none"),
        ("prompt:nan", "NaN in prompt", "Next: No GPU was in use; compare the model file's digest"),
        ("prompt:stuck", "ran and answered, with one sign over and over", "- answer to a request"),
    ],
)
def test_a_server_that_dies(tmp_path: Path, model: Path, shim: Path, fault: str, head: str, inside: str) -> None:
    """How it ended, on what it ran, the last lines of its log, and the next step."""
    told = document(tmp_path / "s", *server(model), LD_PRELOAD=str(shim), STILLRUNS_FAULT=fault, **NO_GPU)
    assert inside in told["markdown"], told["markdown"]
    assert "LD_PRELOAD" in told["environment"]
    last = "offloaded 5/5 layers" if fault.startswith("warmup") else "loading model"
    if last not in log(tmp_path / "s", told):
        pytest.skip(LOST)
    assert head in first(told), told["markdown"]


@pytest.mark.engine()
def test_nan_is_wrong_output(tmp_path: Path, model: Path, shim: Path) -> None:
    """`--fail-on wrong` sees it."""
    extra = {"LD_PRELOAD": str(shim), "STILLRUNS_FAULT": "decode:nan", **NO_GPU}
    assert once(tmp_path / "s", *server(model), options=("--fail-on", "wrong"), **extra).returncode == 1


@pytest.mark.engine()
def test_a_wrapper(tmp_path: Path, model: Path) -> None:
    """A script's server is judged by its own command line and log; Ctrl-C ends it and brings the report."""
    script = tmp_path / "serve.sh"
    script.write_text(f"#!/bin/sh\n{shlex.join(server(model))}\necho over\n")
    script.chmod(0o755)
    argv = [*PROGRAM, "run", "--store", str(tmp_path / "s"), "--", str(script)]
    extra = environment(**NO_GPU)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=extra) as child:
        assert child.stderr is not None and child.stdout is not None
        said = ""
        for line in child.stderr:
            said += line
            if "listening on" in line:
                child.send_signal(signal.SIGINT)
                break
        child.stderr.read()
        report = child.stdout.read()
    assert "no request is sent, since serve.sh is no llama-server itself" in said
    assert "llama-server: ran until it was stopped by Ctrl-C; layers asked 99, applied 0" in report, report
    assert "- started as: " in report and "/home/<user>/tiny.gguf" in report
    assert "added to the environment by stillruns" in report and "stopped by Ctrl-C" in report


def test_a_wrapper_in_python_passes_a_signal_on(tmp_path: Path) -> None:
    """Its exit status is explained, and a core that its child left is evidence, not litter in the user's folder."""
    told = document(tmp_path / "s", sys.executable, "-c", "raise SystemExit(245)")
    assert "exit status 245" in first(told) and "256 - 11, as a wrapper in Python passes SIGSEGV on" in first(told)
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "core").write_text("no core of ours")
    (folder / "core").rename(folder / "core.txt")
    code = "import subprocess, sys; sys.exit(subprocess.call(['sh', '-c', 'kill -SEGV $$']))"
    done = once(tmp_path / "s", sys.executable, "-c", code, cwd=folder)
    assert [path.name for path in folder.iterdir()] == ["core.txt"], done.stdout
    need_core()
    assert "a process that it started died by SIGSEGV" in done.stdout


def test_a_core_of_somebody_else_stays(tmp_path: Path) -> None:
    """The folder is the user's: what crashes there in another session was not started for this trial."""
    need_core()
    folder = tmp_path / "work"
    folder.mkdir()
    crash = "subprocess.call(['sh', '-c', 'ulimit -c unlimited; kill -SEGV $$'], start_new_session=True)"
    done = once(tmp_path / "s", sys.executable, "-c", f"import subprocess; {crash}; raise SystemExit(3)", cwd=folder)
    assert "died by" not in done.stdout and list(folder.iterdir()), done.stdout


def test_a_core_beside_an_old_one(tmp_path: Path) -> None:
    """The kernel writes over a core that lies there: it is the new one, and is read."""
    need_core()
    (tmp_path / "core").write_text("an old one")
    again = once(tmp_path / "s", "sh", "-c", "kill -SEGV $$", options=("--json",), cwd=tmp_path)
    trial = json.loads(again.stdout)["trial"]
    shown = stillruns("show", trial, "--json", "--store", tmp_path / "s")
    assert json.loads(shown.stdout)["record"]["core"]["signal"] == "SIGSEGV"


def test_a_signal_that_is_no_ctrl_c_is_named(tmp_path: Path) -> None:
    """What a service manager stops was not stopped by a key."""
    argv = [*PROGRAM, "run", "--store", str(tmp_path / "s"), "--"]
    argv += ["sh", "-c", "echo up; exec sleep 600"]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as child:
        assert child.stderr is not None and child.stdout is not None
        for line in child.stderr:
            if line.startswith("up"):
                child.send_signal(signal.SIGTERM)
                break
        child.stderr.read()
        report = child.stdout.read()
    assert child.returncode == 0
    assert "### sh: ran until it was stopped by SIGTERM" in report and "Ctrl-C" not in report, report
    assert report.count("SIGTERM") == 2 and "note:" not in report, report


def test_who_ended_it(tmp_path: Path) -> None:
    """A request to end that was not ours is said to be one; a program that is none of llama.cpp's has no phases."""
    told = document(tmp_path / "s", "sh", "-c", "echo x; kill -TERM $$")
    assert first(told) == "### sh: SIGTERM, which stillruns did not send"
    told = document(tmp_path / "s", "sh", "-c", "printf 'caf\\351 \\377\\n'; exit 3")
    assert first(told) == "### sh: exit status 3" and "phase" not in told["markdown"]


def test_llama_bench_tells_its_table(tmp_path: Path) -> None:
    """Its table is quoted with the build, and what it does not tell (which device computed) is unknown, not applied;
    the next step is the option with which it tells."""
    program = tmp_path / "llama-bench"
    program.write_text(
        "#!/bin/sh\necho 'ggml_vulkan: 0 = Some Card (radv) | uma: 0 | fp16: 1' >&2\n"
        "echo '| model | size | params | backend | ngl | test | t/s |'\n"
        "echo '| ----- | ---: | -----: | ------- | --: | ---: | --: |'\n"
        "echo '| llama 1B Q8_0 | 1.0 GiB | 1.0 B | Vulkan | 99 | tg8 | 12.00 ± 0.10 |'\n"
        "echo; echo 'build: 0a1b2c3 (4321)'\n"
    )
    program.chmod(0o755)
    told = document(tmp_path / "s", program, "-m", "x.gguf", "-ngl", "99", "-p", "16")
    assert "ended cleanly; layers asked 99, applied unknown" in first(told)
    assert {f["status"] for f in told["applied"]["factors"].values()} == {"unknown"}
    assert "`llama-bench` build: 0a1b2c3 (4321)" in told["markdown"] and "12.00" in told["markdown"]
    assert "once more with -v" in told["markdown"] and not told["added"]


LOADED = """\
build: 4321 (0a1b2c3) with cc (Debian) 12.2.0 for x86_64-linux-gnu
llama_model_load_from_file_impl: using device Vulkan0 (Some Card (radv)) - 8000 MiB free
load_tensors: loading model tensors, this can take a while... (mmap = true)
load_tensors: offloading 4 repeating layers to GPU
load_tensors: offloading output layer to GPU
load_tensors: offloaded 5/5 layers to GPU
load_tensors:      Vulkan0 model buffer size =     5.00 MiB
"""
TIMES = """\
llama_perf_context_print: prompt eval time =       9.10 ms /     2 tokens
llama_perf_context_print:        eval time =      20.00 ms /     7 runs
"""


@pytest.mark.parametrize(
    ("name", "log_text", "end"),
    [("llama-cli", LOADED + TIMES, 0), ("llama-cli", LOADED + TIMES, 3), ("llama-bench", LOADED, 0)],
    ids=["cli", "cli that fails later", "bench -v"],
)
def test_a_tool_that_loaded_its_model(tmp_path: Path, name: str, log_text: str, end: int) -> None:
    """Only the server says `model loaded`; what a tool's log shows of its load is applied all the same."""
    (tmp_path / "log").write_text(log_text)
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\ncat {shlex.quote(str(tmp_path / 'log'))} >&2\necho hello\nexit {end}\n")
    program.chmod(0o755)
    told = document(tmp_path / "s", program, "-m", "x.gguf", "-ngl", "99", "-v")
    seen = {what: (factor["status"], factor["got"]) for what, factor in told["applied"]["factors"].items()}
    assert seen["backend"] == ("yes", "Vulkan0") and seen["gpu_layers"] == ("yes", "5/5")
    assert seen["model"][0] == "yes" and seen["model"][1]
    assert "layers asked 99, applied 5/5, on Vulkan0" in first(told)


def test_programs_one_after_the_other(tmp_path: Path) -> None:
    """A script's second program is not judged for the first, nor with its lines: none is, and it is said why. A line
    of trouble is quoted, and `--fail-on crash` fails: nobody can say that all went well."""
    (tmp_path / "first").write_text(LOADED + "vk::DeviceLostError: vk::Queue::submit: ErrorDeviceLost\n")
    (tmp_path / "second").write_text(LOADED.replace("5/5", "0/5"))
    words = ["sh", "-c", f"cat '{tmp_path}/first' '{tmp_path}/second' >&2"]
    told = document(tmp_path / "s", *words)
    assert first(told) == "### sh: exit status 0; at least 2 llama.cpp programs ran, none of them is judged"
    assert (told["mixed"], told["program"], told["devices"], told["used"]) == (2, "", [], [])
    assert told["applied"]["status"] == "unknown" and "at least 2 llama.cpp programs" in told["applied"]["why"]
    assert told["outcome"]["phase"] == "unknown" and told["outcome"]["key_line"] is None
    assert [e["text"] for e in told["excerpts"]] == ["vk::DeviceLostError: vk::Queue::submit: ErrorDeviceLost"]
    assert "put stillruns run -- before each" in told["next_step"]
    assert once(tmp_path / "s", *words, options=("--fail-on", "crash")).returncode == 1
    words[2] = f"cat '{tmp_path}/second' '{tmp_path}/second' >&2; exit 3"
    told = document(tmp_path / "s", *words)
    assert "exit status 3; at least 2 llama.cpp programs" in first(told) and not told["outcome"]["refs"]
    argv = [sys.executable, "-m", "stillruns", "autopsy", told["trial"], "--json", "--store", str(tmp_path / "s")]
    found = json.loads(subprocess.run(argv, capture_output=True, text=True, env=environment(), check=True).stdout)
    assert len(found["servers"]) == 2 and {i["outcome"] for i in found["incidents"]} <= {"unknown"}
    assert any("exit status 3 is that of the command" in warning["text"] for warning in found["warnings"])


def test_tables_one_after_the_other(tmp_path: Path) -> None:
    """llama-bench names its build at the end of its table only: two of them are two programs."""
    table = "| llama 1B Q8_0 | 1.0 GiB | 1.0 B | Vulkan | 99 | tg8 | 12.00 ± 0.10 |\n\nbuild: 0a1b2c3 (4321)\n"
    (tmp_path / "table").write_text(table)
    told = document(tmp_path / "s", "sh", "-c", f"echo >&2 found; cat '{tmp_path}/table' '{tmp_path}/table'")
    assert told["mixed"] == 2 and told["applied"]["status"] == "unknown"


def test_programs_at_once(tmp_path: Path) -> None:
    """Two that run beside each other and print no build: each is named as it was started, without its key."""
    for name in ("llama-server", "llama-bench"):
        (tmp_path / name).symlink_to(Path(sys.executable).resolve())
    sleeps = "import sys, time; print(sys.argv[1], file=sys.stderr, flush=True); time.sleep(600)"
    script = tmp_path / "both.sh"
    script.write_text(
        f"'{tmp_path}/llama-server' -I -S -c '{sleeps}' upone --api-key s3cret-of-ours &\n"
        f"'{tmp_path}/llama-bench' -I -S -c '{sleeps}' uptwo &\nwait\n"
    )
    argv = [
        sys.executable,
        "-m",
        "stillruns",
        "run",
        "--json",
        "--store",
        str(tmp_path / "s"),
        "--",
        "sh",
        str(script),
    ]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as child:
        assert child.stderr is not None and child.stdout is not None
        waited = {"upone", "uptwo"}
        for line in child.stderr:
            waited.discard(line.strip())
            if not waited:
                child.send_signal(signal.SIGINT)  # a last look is taken then, and both run
                break
        child.stderr.read()
        told = json.loads(child.stdout.read())
    jsonschema.validate(told, ONCE)
    assert told["mixed"] == 2 and sorted(words[0].rsplit("/", 1)[-1] for words in told["programs"]) == [
        "llama-bench", "llama-server",
    ]  # fmt: skip
    assert "ran until it was stopped by Ctrl-C; at least 2 llama.cpp programs ran" in first(told)
    assert "- seen to run: " in told["markdown"] and "s3cret-of-ours" not in json.dumps(told)


@pytest.mark.engine()
def test_a_program_that_tells_of_itself_is_no_second(tmp_path: Path, model: Path) -> None:
    """`llama-server --version` before the server, as scripts have it, leaves the server's verdict alone."""
    script = tmp_path / "serve.sh"
    refused = server(model.with_name("gone.gguf"))
    script.write_text(f"#!/bin/sh\n{refused[0]} --version\n{' '.join(refused)}\n")
    script.chmod(0o755)
    told = document(tmp_path / "s", script, **NO_GPU)
    assert told["mixed"] == 0 and "of llama.cpp's" not in told["markdown"]


def test_a_user_whose_name_is_a_verdict(tmp_path: Path) -> None:
    """The document keeps its closed words, whatever the user is called."""
    told = document(tmp_path / "s", "sh", "-c", "exit 3", USER="error", LOGNAME="unbekannt", HOME="/home/interrupted")
    assert told["outcome"]["kind"] == "error" and "exit status 3" in first(told)
    told = document(tmp_path / "s", "sh", "-c", "kill -TERM $$", USER="SIGTERM", HOME="/home/SIGTERM")
    assert told["outcome"]["signal"] == "SIGTERM"


def test_a_tool_that_loaded_nothing(tmp_path: Path) -> None:
    """`llama-cli --version -m x.gguf` ends well, and nothing of what was asked was applied as far as is known."""
    program = tmp_path / "llama-cli"
    program.write_text("#!/bin/sh\necho 'version: 4321 (0a1b2c3)' >&2\n")
    program.chmod(0o755)
    told = document(tmp_path / "s", program, "--version", "-m", "x.gguf", "-ngl", "99")
    assert {factor["status"] for factor in told["applied"]["factors"].values()} == {"unknown"}


@pytest.mark.engine()
def test_a_log_with_prompts_is_not_quoted(tmp_path: Path, model: Path, shim: Path) -> None:
    """With -v the server prints requests; of such a log only lines that say they are no debug lines are told."""
    extra = {"LD_PRELOAD": str(shim), "STILLRUNS_FAULT": "prompt:segv", **NO_GPU}
    told = document(tmp_path / "s", *server(model, "-v"), **extra)
    assert "SIGSEGV in prompt" in first(told)
    assert " D " in log(tmp_path / "s", told)
    assert not any(" D " in e["text"] or '"prompt"' in e["text"] for e in told["excerpts"])


def test_a_long_command_is_cut_and_says_so(tmp_path: Path) -> None:
    """60 lines hold, the block is closed, and how much is missing is told."""
    told = document(tmp_path / "s", "sh", "-c", "exit 4", *["x" * 200] * 40)
    assert "characters more)" in told["markdown"]


def test_the_same_command_at_once(tmp_path: Path) -> None:
    """A command that fails at once, again and again and by several hands: each run has an id of its own."""
    store = tmp_path / "s"
    argv = [*PROGRAM, "run", "--json", "--store", store, "--", "false"]
    children = [subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment()) for _ in range(3)]
    documents = [json.loads(child.communicate()[0]) for child in children]
    documents += [document(store, "false") for _ in range(2)]
    trials = {told["trial"] for told in documents}
    assert len(trials) == 5
    assert all(stillruns("show", trial, "--store", store).returncode == 0 for trial in trials)
    assert stillruns("verify", "--store", store).returncode == 0
