"""A server's environment is small, made on purpose, and holds no secret and no hidden setting of the user's shell."""

from __future__ import annotations

import os

from stillruns.act.environment import build, harness_identity, marked

SHELL = {
    "PATH": "/bin",
    "HOME": "/home/x",
    "LD_LIBRARY_PATH": "/opt/rocm/lib",
    "HSA_OVERRIDE_GFX_VERSION": "9.0.0",
    "XDG_RUNTIME_DIR": "/run/user/1",
    "LLAMA_ARG_N_GPU_LAYERS": "7",
    "LLAMA_LOG_FILE": "/tmp/log",
    "LLAMA_API_KEY": "secret",
    "OLLAMA_AUTH_TOKEN": "secret",
    "HF_TOKEN": "secret",
    "HTTP_PROXY": "http://proxy",
    "LD_PRELOAD": "libx.so",
    "LANG": "de_DE.UTF-8",
    "LC_ALL": "de_DE.UTF-8",
}


def test_what_is_passed_on() -> None:
    """Allow-listed names and prefixes, a fixed locale, nothing else."""
    assert build(SHELL) == {
        "PATH": "/bin",
        "HOME": "/home/x",
        "LD_LIBRARY_PATH": "/opt/rocm/lib",
        "HSA_OVERRIDE_GFX_VERSION": "9.0.0",
        "XDG_RUNTIME_DIR": "/run/user/1",
        "LANG": "C.UTF-8",
    }


def test_the_spec_wins_and_the_binary_comes_first() -> None:
    """LD_LIBRARY_PATH of the binary goes before the shell's; the spec may set anything."""
    env = build(SHELL, {"LD_LIBRARY_PATH": "/wheel"}, {"LLAMA_ARG_N_GPU_LAYERS": "3", "LD_PRELOAD": "libfault.so"})
    assert env["LD_LIBRARY_PATH"] == "/wheel:/opt/rocm/lib"
    assert env["LLAMA_ARG_N_GPU_LAYERS"] == "3" and env["LD_PRELOAD"] == "libfault.so"
    assert build({}, {"LD_LIBRARY_PATH": "/wheel"}) == {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "LD_LIBRARY_PATH": "/wheel",
    }


def test_the_marker_names_this_process() -> None:
    """A trial's environment names the trial and the harness: pid, start, pid namespace."""
    env = marked({}, "t-1")
    assert env == {"STILLRUNS_TRIAL": "t-1", "STILLRUNS_HARNESS": harness_identity()}
    pid, start, namespace = env["STILLRUNS_HARNESS"].split(":")
    assert int(pid) == os.getpid() and int(start) > 0 and int(namespace) > 0
