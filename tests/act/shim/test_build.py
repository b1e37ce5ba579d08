"""The promise: the fault library compiles with the system's compiler, once, and says what is missing where it cannot;
preloaded into anything else than a llama-server it does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stillruns.act.shim import build, faults, preloading
from stillruns.errors import EnvironmentLacks


def test_compiled_once(tmp_path: Path) -> None:
    """The second call finds the first one's library; nothing else is left in the folder."""
    try:
        first = build.build(None, tmp_path)
    except EnvironmentLacks as lack:
        pytest.skip(str(lack))
    stamp = first.stat().st_mtime_ns
    assert build.build(None, tmp_path) == first
    assert first.stat().st_mtime_ns == stamp
    assert [path.name for path in first.parent.iterdir()] == [build.LIBRARY]


def test_no_warnings(tmp_path: Path) -> None:
    """The source compiles without a warning."""
    try:
        compiler = build._compiler(None)
    except EnvironmentLacks as lack:
        pytest.skip(str(lack))
    argv = [compiler, *build.FLAGS, "-Werror", "-o", str(tmp_path / "x.so"), str(build.SOURCE), *build.LIBRARIES]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert done.returncode == 0


def test_no_compiler(tmp_path: Path) -> None:
    """A compiler that is not there is answered with the apt line."""
    with pytest.raises(EnvironmentLacks, match=r"'no-such-cc' was not found: install one with `apt install gcc"):
        build.build("no-such-cc", tmp_path)


def test_a_compiler_that_fails(tmp_path: Path) -> None:
    """A compiler that cannot compile is quoted in one sentence, and leaves nothing behind."""
    broken = tmp_path / "broken-cc"
    broken.write_text("#!/bin/sh\necho 'x.c:1:10: fatal error: dlfcn.h: No such file or directory' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(EnvironmentLacks, match=r"fatal error: dlfcn\.h.*libc6-dev") as caught:
        build.build(str(broken), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("fault", ["decode:segv", "init:kill", "load:oom", "symbol=posix_memalign:segv:1"])
def test_passes_through_other_programs(fault: str, shim: Path, tmp_path: Path) -> None:
    """A shell and a Python below it run as if it were not there, and nothing is logged."""
    log = tmp_path / "log"
    env = {**os.environ, **faults.environment(fault, shim, log=log)}
    code = "import ctypes, ssl, threading; print('alive')"
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "{sys.executable}" -I -S -c "{code}"'],
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "alive\n", "")
    assert not log.exists()


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("decode", "expected PHASE:KIND"),
        ("discover:segv", "no such phase"),
        ("decode:explode", "no such kind"),
        ("decode:segv:0", "number from 1"),
        ("decode:segv:x", "number from 1"),
        ("symbol=" + "x" * 100 + ":segv:1", "too long"),
        ("symbol=llama_no_such:segv:1", "no such function"),
        ("x" * 300, "too long"),
    ],
)
def test_nonsense_is_refused_loudly(fault: str, says: str, shim: Path) -> None:
    """A fault that could never strike must not look like a server that survived it."""
    env = {**os.environ, **faults.environment(fault, shim)}
    done = subprocess.run(["/bin/true"], env=env, capture_output=True, text=True, timeout=30)
    assert done.returncode == 64
    assert says in done.stderr


def test_environment() -> None:
    """What is preloaded already stays; a path that LD_PRELOAD cannot hold is refused."""
    shim = Path("/x/libstillruns_fault.so")
    env = faults.environment("load:segv", shim, preload="/y.so")
    assert env == {"LD_PRELOAD": "/x/libstillruns_fault.so:/y.so", "STILLRUNS_FAULT": "load:segv"}
    with pytest.raises(EnvironmentLacks, match="without spaces"):
        faults.environment("load:segv", Path("/a folder/x.so"))


def test_a_folder_with_blanks(tmp_path: Path) -> None:
    """A library in a folder whose name LD_PRELOAD cannot hold is loaded through a link, which does not stay; one that
    needs no link has none."""
    folder = tmp_path / "a folder: mine"
    folder.mkdir()
    try:
        library = build.build(None, folder)
    except EnvironmentLacks as lack:
        pytest.skip(str(lack))
    with preloading.reachable(library) as path:
        env = {**os.environ, **faults.environment("decode", path)}
        done = subprocess.run(["/bin/true"], env=env, capture_output=True, text=True, timeout=120)
        with preloading.reachable(path) as same:
            assert same == path and path.samefile(library)
    assert done.returncode == 64 and "expected PHASE:KIND" in done.stderr
    assert not os.path.lexists(path) and not path.parent.exists() and library.is_file()


ALLOCATION = (
    "int {call}(void **p, unsigned long n)",
    "{{ *p = (void *)n; return 0; }}",
    "{{ void *p; return {call}(&p, 64); }}",
)
WAIT = "int {call}(void *stream)", "{{ return stream != 0; }}", "{{ return {call}(0); }}"


@pytest.mark.parametrize(
    ("library", "call", "written", "kind", "refusals"),
    [
        ("libcudart.so.13", "cudaMalloc", ALLOCATION, "oom", ["0", "2", "0"]),
        ("libamdhip64.so.6", "hipMalloc", ALLOCATION, "oom", ["0", "2", "0"]),
        ("libcudart.so.13", "cudaStreamSynchronize", WAIT, "device_lost", ["0", "719", "719"]),
        ("libamdhip64.so.6", "hipStreamSynchronize", WAIT, "device_lost", ["0", "719", "719"]),
    ],
)
def test_stands_in_front_of_a_gpu_runtime(
    library: str,
    call: str,
    written: tuple[str, str, str],
    kind: str,
    refusals: list[str],
    shim: Path,
    tmp_path: Path,
) -> None:
    """The Nth call that a library opened at run time makes of its GPU runtime is refused, and the others are done; a
    device that is lost stays lost. A ggml backend is such a library, and its runtime is in nobody's global scope."""
    compiler = build._compiler(None)
    declared, does, asks = (text.format(call=call) for text in written)
    (tmp_path / "runtime.c").write_text(f"{declared} {does}\n")
    (tmp_path / "backend.c").write_text(f"{declared};\nint ask(void) {asks}\n")
    (tmp_path / "program.c").write_text(
        "#include <dlfcn.h>\n#include <stdio.h>\nint main(int n, char **v) {\n"
        '  int (*ask)(void) = (int (*)(void))dlsym(dlopen(v[n - 1], RTLD_LAZY | RTLD_LOCAL), "ask");\n'
        '  for (int i = 0; i < 3; i++) printf("%d ", ask());\n}\n'
    )
    shared = [compiler, "-shared", "-fPIC"]
    for argv in (
        [*shared, f"-Wl,-soname,{library}", "-o", library, "runtime.c"],
        [*shared, "-Wl,-rpath,$ORIGIN", "-o", "backend.so", "backend.c", library],
        [compiler, "-o", "program", "program.c", "-ldl"],
    ):
        subprocess.run(argv, cwd=tmp_path, check=True, timeout=120)
    env = {**os.environ, **faults.environment(f"symbol={call}:{kind}:2", shim)}
    done = subprocess.run([tmp_path / "program", tmp_path / "backend.so"], env=env, capture_output=True, text=True)
    assert (done.stdout.split(), done.returncode) == (refusals, 0), done.stderr
