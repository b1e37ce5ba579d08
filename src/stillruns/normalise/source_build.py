"""A source tree to what it would build, delete and read. Files arrive as bytes; nothing of the tree is run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from stillruns.model.source_build import Deletion, EnvRead, Place, SourceBuild, TargetList
from stillruns.model.trace import SourceFile
from stillruns.normalise import cmake, source_macros

SUFFIXES = (
    "CMakeLists.txt", "CMakePresets.json", "Dockerfile", "release.yml", "release.yaml", "docker.yml", ".sh",
    "Makefile.rocm", "hip.h", "common.cuh", "ggml-cuda.cu", "mmq.cu", ".go", ".patch", "LLAMA_CPP_VERSION",
)  # fmt: skip
"""What is read of a tree: build files, release recipes, ggml's GPU headers, and the Go files that set variables."""

WATCHED = ("GGML_CUDA_INIT",)
_LIST = re.compile(r"gfx[0-9a-f]+(?::[a-z]+[+-])*(?:[;,]gfx[0-9a-f]+(?::[a-z]+[+-])*)+")
_TARGET = re.compile(r"gfx[0-9a-f]+(?::[a-z]+[+-])*")


def read(name: str, rev: str, files: Sequence[SourceFile], offered: tuple[str, ...]) -> SourceBuild:
    """Everything about one tree. `offered` are the targets that ROCm's package would offer (the catalogue's)."""
    texts = {file.path: file.data.decode("utf-8", "replace") for file in files if len(file.data) < 4 << 20}
    runtime = _runtime(texts)
    lists: list[TargetList] = []
    problems: list[str] = []
    used = _presets_used(texts)
    recipes = "".join(text for path, text in texts.items() if "Dockerfile" in path or "release.y" in path)
    for path, text in sorted(texts.items()):
        base = path.rpartition("/")[2]
        if base == "CMakePresets.json":
            lists += _presets(name, path, text, used, problems)
        elif base == "CMakeLists.txt":
            lists += _defaults(name, path, text, offered, released="GGML_CUDA=ON" in recipes)
        elif (
            base.endswith("Dockerfile")
            or base in ("release.yml", "release.yaml", "docker.yml", "Makefile.rocm")
            or re.match(r"gen_linux\.sh\Z", base)
        ):
            lists += _recipe_lists(name, path, text)
    return SourceBuild(
        name, rev, runtime, tuple(lists), tuple(_deletions(name, texts)), tuple(_reads(name, texts)),
        source_macros.read(name, texts, offered), tuple(problems),
    )  # fmt: skip


def _runtime(texts: dict[str, str]) -> str:
    if any(
        path in texts for path in ("discover/runner.go", "envconfig/config.go", "ml/device.go", "gpu/amd_linux.go")
    ):
        return "ollama"
    return "llama.cpp" if "ggml/src/ggml-hip/CMakeLists.txt" in texts or "ggml/CMakeLists.txt" in texts else ""


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _place(project: str, path: str, text: str, number: int) -> Place:
    lines = text.split("\n")
    return Place(project, path, number, lines[number - 1].strip()[:200] if number <= len(lines) else "")


def _presets(project: str, path: str, text: str, used: set[str], problems: list[str]) -> Iterator[TargetList]:
    """The configure presets that name GPU targets, inheritance followed."""
    try:
        presets = {str(p["name"]): p for p in json.loads(text)["configurePresets"]}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        problems.append(f"{path} is no CMake presets file: {error}")
        return
    for name, preset in presets.items():
        for variable, backend in (("AMDGPU_TARGETS", "rocm"), ("CMAKE_CUDA_ARCHITECTURES", "cuda")):
            value = _inherited(presets, name, variable, 0)
            own = preset.get("cacheVariables")
            if not isinstance(value, str) or not isinstance(own, dict) or variable not in own:
                continue
            start = text.find(json.dumps(name))
            number = _line(text, max(text.find(f'"{variable}"', start), 0))
            targets = tuple(filter(None, value.split(";")))
            if backend == "cuda":
                targets = cuda_targets(targets)
            released = any(heir in used for heir in _heirs(presets, name))
            yield TargetList(
                f"preset {name}", backend, targets, "", False, released, _place(project, path, text, number)
            )


def _inherited(presets: dict[str, Any], name: str, variable: str, depth: int) -> object:
    preset = presets.get(name)
    if not isinstance(preset, dict) or depth > 10:
        return None
    own = preset.get("cacheVariables")
    if isinstance(own, dict) and variable in own:
        value = own[variable]
        return value.get("value") if isinstance(value, dict) else value
    parents = preset.get("inherits", [])
    for parent in [parents] if isinstance(parents, str) else parents if isinstance(parents, list) else []:
        found = _inherited(presets, str(parent), variable, depth + 1)
        if found is not None:
            return found
    return None


def _heirs(presets: dict[str, Any], name: str) -> set[str]:
    """A preset and every one that inherits from it."""
    found = {name}
    for _ in range(10):
        grown = set(found)
        for other, preset in presets.items():
            parents = preset.get("inherits", []) if isinstance(preset, dict) else []
            if found & set([parents] if isinstance(parents, str) else map(str, parents)):
                grown.add(other)
        if grown == found:
            break
        found = grown
    return found


def _presets_used(texts: dict[str, str]) -> set[str]:
    """Presets that Dockerfiles and release workflows configure with."""
    used: set[str] = set()
    for path, text in texts.items():
        if "Dockerfile" in path or path.endswith((".yml", ".yaml", ".sh")):
            used |= {m[1] or m[2] for m in re.finditer(r"--preset[ =](?:['\"]([^'\"\n]+)['\"]|([\w.-]+))", text)}
            used |= {m[1] for m in re.finditer(r"preset:\s*['\"]?([\w .-]+?)['\"]?\s*$", text, re.MULTILINE)}
    return used


def cuda_targets(words: Sequence[str]) -> tuple[str, ...]:
    """CMAKE_CUDA_ARCHITECTURES: `86-real` is machine code, `75-virtual` PTX, a plain number both (CMake's manual)."""
    found: list[str] = []
    for word in words:
        number, _, kind = word.partition("-")
        if re.fullmatch(r"\d{2,3}[af]?", number):
            found += [f"sm_{number}"] if kind != "virtual" else []
            found += [f"compute_{number}"] if kind != "real" else []
    return tuple(found)


def _defaults(
    project: str, path: str, text: str, offered: tuple[str, ...], *, released: bool
) -> Iterator[TargetList]:
    """What a file's own defaults say, where nobody gives a list."""
    if "FILTER" in text:
        yield from _default_filter(project, path, text, offered)
    elif path == "ggml/src/ggml-hip/CMakeLists.txt":
        for command in cmake.commands(text):
            if command.name == "set" and command.args[:1] == ("CMAKE_HIP_ARCHITECTURES",):
                place = _place(project, path, text, command.line)
                yield TargetList("default of a plain build", "rocm", None, "", True, False, place)
                return
    elif path == "ggml/src/ggml-cuda/CMakeLists.txt":
        for toolkit in ("12.9", "13.0"):
            given = {"CUDAToolkit_FOUND": "1", "CUDAToolkit_VERSION": toolkit, "CMAKE_VERSION": "3.31", "UNIX": "1"}
            result = cmake.evaluate(text, given, "CMAKE_CUDA_ARCHITECTURES", ())
            targets = cuda_targets(result.variables.get("CMAKE_CUDA_ARCHITECTURES", "").split(";"))
            named = [c for c in cmake.commands(text) if c.args[:2] == ("APPEND", "CMAKE_CUDA_ARCHITECTURES")]
            if targets and named:
                name = f"default list with CUDA {toolkit}"
                place = _place(project, path, text, named[0].line)
                yield TargetList(name, "cuda", targets, "", not released, released, place)


def _default_filter(project: str, path: str, text: str, offered: tuple[str, ...]) -> Iterator[TargetList]:
    """What a plain `cmake -B build` on Linux keeps, evaluated: the list filters that really run."""
    linux = {"UNIX": "1", "LINUX": "1", "CMAKE_HIP_COMPILER": "/usr/bin/clang++", "CMAKE_SYSTEM_NAME": "Linux"}
    for watched in ("AMDGPU_TARGETS", "GPU_TARGETS"):
        result = cmake.evaluate(text, linux, watched, offered)
        if result.filtered:
            last = result.filtered[-1]
            place = _place(project, path, text, last.line)
            yield TargetList("default filter", "rocm", last.after, last.regex, True, False, place)
            continue
        written = [c for c in cmake.commands(text) if c.name == "list" and c.args[:2] == ("FILTER", watched)]
        if written:  # the list is set before the condition is asked, so that the filter is dead code
            kept = tuple(filter(None, result.variables.get(watched, "").split(";")))
            place = _place(project, path, text, written[0].line)
            yield TargetList("default list (its filter never runs)", "rocm", kept, "", True, False, place)


def _recipe_lists(project: str, path: str, text: str) -> Iterator[TargetList]:
    """Target lists in a Dockerfile or a workflow's jobs for Linux; a comment is none."""
    jobs = _jobs(text) if path.endswith((".yml", ".yaml")) else []
    for number, line in enumerate(text.split("\n"), 1):
        found = _LIST.search(line[:4000])
        if not found or line.lstrip().startswith(("#", "//")):
            continue
        targets = tuple(_TARGET.findall(found[0]))
        job, runs_on = next(((name, on) for first, name, on in reversed(jobs) if first <= number), ("", ""))
        name = f"{path.rpartition('/')[2]}, job {job}" if job else f"{path.rpartition('/')[2]} line {number}"
        windows = bool(re.search(r"windows|hip-radeon", f"{line} {runs_on}", re.IGNORECASE))
        if not windows:
            yield TargetList(name, "rocm", targets, "", False, True, _place(project, path, text, number))


def _jobs(text: str) -> list[tuple[int, str, str]]:
    """(line, name, runs-on) of a workflow's jobs, by the indentation that every workflow has."""
    found: list[tuple[int, str, str]] = []
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r"\S", line) and not line.startswith("#"):
            inside = line.startswith("jobs:")
        job = re.match(r"  ([\w-]+):\s*(?:#.*)?\Z", line[:200])
        if inside and job:
            found.append((number, job[1], ""))
        runs = re.match(r"    runs-on:\s*(.{1,100})", line)
        if inside and runs and found:
            found[-1] = (*found[-1][:2], runs[1].strip())
    return found


def _deletions(project: str, texts: dict[str, str]) -> Iterator[Deletion]:
    """`rm` lines of release recipes whose pattern speaks of kernels of a target."""
    for path, text in sorted(texts.items()):
        if "Dockerfile" not in path and not path.endswith(("release.yml", "release.yaml")):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if "gfx" in line and re.search(r"\brm\s+-|Remove-Item", line) and not line.lstrip().startswith("#"):
                for word in re.findall(r"[^\s;'\"]*gfx[^\s;'\"]*", line):
                    pattern = word.replace("\\", "/").rpartition("/")[2]
                    yield Deletion(pattern, _place(project, path, text, number))


def _reads(project: str, texts: dict[str, str]) -> Iterator[EnvRead]:
    """Where the watched variables are read by a program, and where they are only set for a child."""
    for name in WATCHED:
        quoted = rf"[\"']{name}[\"']"
        reading = re.compile(
            rf"(?:getenv|Getenv|LookupEnv|environ)\W{{0,3}}\(?\s*{quoted}|(?:String|Bool|Uint)\({quoted}\)"
        )
        setting = re.compile(rf"\[\s*{quoted}\s*\]\s*=|Setenv\(\s*{quoted}|{name}=")
        read_at, set_at = [], []
        for path, text in sorted(texts.items()):
            if name not in text:
                continue
            for number, line in enumerate(text.split("\n"), 1):
                if name in line and reading.search(line):
                    read_at.append(_place(project, path, text, number))
                elif name in line and setting.search(line):
                    set_at.append(_place(project, path, text, number))
        yield EnvRead(name, tuple(read_at), tuple(set_at))
