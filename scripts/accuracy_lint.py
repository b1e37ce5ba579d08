"""How often lint is right about recipes that it was not made for (docs/accuracy.md).

    scripts/accuracy_lint.py                        recomputed from the words that the CSV holds
    scripts/accuracy_lint.py --texts DIR            over the recipes themselves, one folder a case (they are not kept)
    scripts/accuracy_lint.py --texts DIR --write before|after
    scripts/accuracy_lint.py --write words

docs/case-studies/blind-recipes.csv (with `--set 2`: -2.csv, and so on) holds names, values and labels, not the
posts. From them the shortest recipe of the same form is built: everything but the reading of the original's layout is
judged again. Each row is graded apart for its name and its value: `r` right, `u` unknown, `w` wrong, `-` no label.
Unknown are: no item, `not found` for a name that nothing reads here, no verdict on a value. `not found` for a name
that something reads is wrong. Exit code 1: a row that was right when its column was written (`words`; with --texts
`after`) is not right any more.
"""

from __future__ import annotations

import argparse
import csv
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from stillruns.lab.linting import Request, lint
from stillruns.model.lint import LintItem, Reading
from stillruns.model.recipe import RecipeForm

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "docs" / "case-studies"

SWITCHES = ("--jinja", "--no-mmap", "--metrics", "--reasoning-preserve", "--no-mmproj-offload", "--usevulkan")
"""Flags of the set that stood without a value; every other value that the CSV leaves out was a path or a variable."""

Row = dict[str, str]


def value(row: Row) -> str:
    """The value of a word; a path that the CSV leaves out is `x`."""
    return shlex.quote(row["value"] or "x")


def of(rows: Iterable[Row], kind: str) -> list[Row]:
    """The rows of one kind."""
    return [row for row in rows if row["kind"] == kind]


def arguments(rows: Sequence[Row]) -> list[str]:
    """Flags and their values as words."""
    words: list[str] = []
    for row in of(rows, "flag"):
        words += [row["name"]] if row["name"] in SWITCHES and not row["value"] else [row["name"], value(row)]
    return words


def start(rows: Sequence[Row]) -> list[str]:
    """The words that start the program of a case."""
    program = next(row["program"] for row in reversed(rows))
    old = of(rows, "program")
    heads = {"ollama": ["ollama", "serve"], "vllm": ["vllm", "serve", "model"], "python": ["python", "train.py"]}
    if old:
        return [f"./bin/{old[0]['name']}", *arguments(rows)]
    return [*heads.get(program, [program]), *arguments(rows)]


def building(rows: Sequence[Row]) -> list[str]:
    """Lines that build something: cmake, make, pip, go."""
    settings = " ".join(f"{row['name']}={value(row)}" for row in of(rows, "env") if row["name"] != "CMAKE_ARGS")
    lines: list[str] = []
    for program in dict.fromkeys(row["program"] for row in of(rows, "cmake")):
        words = [row for row in of(rows, "cmake") if row["program"] == program]
        defined = " ".join(f"-D{row['name']}={value(row)}" for row in words)
        what = program.partition(" ")[2]
        if program.startswith("make "):
            made = " ".join(f"{row['name']}={value(row)}" for row in words)
            lines.append(f"cd {what} && make {made}")
        elif program == "llama-cpp-python":
            lines.append(f"CMAKE_ARGS={shlex.quote(defined)} {settings} pip install llama-cpp-python")
        else:
            lines.append(f"cd {what} && {settings} cmake -S . -B build {defined}")
    if not lines and rows and rows[0]["program"].partition(" ")[0] in ("go", "pip", "build", "docker"):
        tail = {"go": "go generate ./...", "pip": "pip wheel .", "docker": "docker compose up -d"}
        lines.append(f"{settings} {tail.get(rows[0]['program'].partition(' ')[0], './build.sh')}")
    return lines


def shell(rows: Sequence[Row]) -> str:
    """A script."""
    builds = building(rows)
    runs = [row for row in rows if row["kind"] in ("flag", "program")]
    lines = list(builds)
    if runs or not builds:
        lines += [f"export {row['name']}={value(row)}" for row in of(rows, "env") if row["name"] != "CMAKE_ARGS"]
        lines.append(" ".join(start(runs or rows)))
    return "\n".join(lines) + "\n"


def unit(rows: Sequence[Row]) -> str:
    """A systemd unit."""
    lines = [f'Environment="{row["name"]}={row["value"] or "x"}"' for row in of(rows, "env")]
    return "\n".join(["[Service]", *lines, f"ExecStart=/usr/bin/{' '.join(start(rows))}"]) + "\n"


IMAGES = {
    "ollama": "ollama/ollama",
    "llama-server": "ghcr.io/ggml-org/llama.cpp:server",
    "llama-cli": "ghcr.io/ggml-org/llama.cpp:light",
    "llama-bench": "ghcr.io/ggml-org/llama.cpp:full --bench",
}


def docker(rows: Sequence[Row]) -> str:
    """`docker run`."""
    settings = [f"-e {row['name']}={value(row)}" for row in of(rows, "env")]
    image = IMAGES.get(rows[0]["program"], f"x/{rows[0]['program']}")
    return " ".join(["docker run -d --device /dev/kfd", *settings, image, *arguments(rows)]) + "\n"


def compose(rows: Sequence[Row]) -> str:
    """A compose file, a service for each program."""
    lines = ["services:"]
    for program in dict.fromkeys(row["program"] for row in rows):
        mine = [row for row in rows if row["program"] == program]
        lines += [f"  {program}:", f"    image: {IMAGES.get(program, f'x/{program}')}"]
        settings = [f"      - {row['name']}={row['value'] or 'x'}" for row in of(mine, "env")]
        lines += ["    environment:", *settings] if settings else []
        words = arguments(mine)
        lines += ["    command:", *[f'      - "{shlex.split(word)[0]}"' for word in words]] if words else []
    return "\n".join(lines) + "\n"


def dockerfile(rows: Sequence[Row]) -> str:
    """A Dockerfile."""
    before = ("HIPCXX", "HIP_PATH")
    lines = ["FROM ubuntu:24.04"]
    lines += [f"ENV {row['name']}={value(row)}" for row in of(rows, "env") if row["name"] not in before]
    kept = [row for row in rows if row["kind"] != "env" or row["name"] in before]
    lines += [f"RUN {line}" for line in building(kept)]
    lines += [f"RUN echo ${{{row['name']}}}" for row in rows if row["place"].startswith("read by the recipe itself")]
    if rows[0]["program"] in ("ollama", "llama-server"):
        lines.append(f"ENTRYPOINT {' '.join(start(rows[:1]))}")
    return "\n".join(lines) + "\n"


def config(rows: Sequence[Row]) -> str:
    """A file of presets."""
    return "\n".join(["[*]", *[f"{row['name']} = {row['value'] or 'x'}" for row in rows]]) + "\n"


FORMS: dict[str, tuple[RecipeForm, Callable[[Sequence[Row]], str]]] = {
    "shell": (RecipeForm.SHELL, shell),
    "cmake": (RecipeForm.SHELL, shell),
    "windows": (RecipeForm.SHELL, lambda rows: f"@echo off\nset {rows[0]['name']}={rows[0]['value']}\nollama.exe\n"),
    "unit": (RecipeForm.UNIT, unit),
    "docker": (RecipeForm.SHELL, docker),
    "compose": (RecipeForm.COMPOSE, compose),
    "dockerfile": (RecipeForm.DOCKERFILE, dockerfile),
    "config": (RecipeForm.CONFIG, config),
    "envfile": (RecipeForm.SHELL, lambda rows: "".join(f"export {row['name']}={value(row)}\n" for row in rows)),
}


def rebuilt(rows: Sequence[Row]) -> tuple[LintItem, ...]:
    """What lint says of the shortest recipe that has the words of a case."""
    form, write = FORMS[rows[0]["form"]]
    request = Request(files=("-",), text=write(rows), form=form, look_on_path=False, configuration=False, environ={})
    return lint(request)[0].items


def original(folder: Path) -> tuple[LintItem, ...]:
    """What lint says of the recipe itself."""
    path = next(iter(sorted(folder.iterdir())))
    return lint(Request(files=(str(path),), look_on_path=False, configuration=False, environ={}))[0].items


def find(row: Row, items: Sequence[LintItem]) -> LintItem | None:
    """The item of a word: of its name, then of its kind, then of its value. A program is known by its last part."""
    named = [
        item
        for item in items
        if (item.name.rpartition("/")[2] if row["kind"] == "program" else item.name) == row["name"]
    ]
    named = [item for item in named if item.kind.value == row["kind"]] or named
    named = [item for item in named if (item.value or "") == row["value"]] or named
    named = [item for item in named if item.verdict is not Reading.CONFLICT] or named
    return named[0] if named else None


def grade(row: Row, item: LintItem | None) -> str:
    """Two letters: the name, the value."""
    labels, said = row["label"].split("|"), item.verdict.value if item else None
    if said in (None, Reading.CONFLICT.value) or (
        said == "not found" and said not in labels and "read" not in labels
    ):
        name = "u"
    else:
        name = "r" if said in labels else "w"
    if not row["value_label"]:
        return name + "-"
    reading = item.value_verdict.value if item and item.value_verdict else None
    if reading is None:
        return name + "u"
    return name + ("r" if reading in row["value_label"].split("|") else "w")


def table(grades: Sequence[str], title: str) -> None:
    """One table: names and values."""
    print(f"\n{title}\n\n| of | right | unknown | wrong | right of what was answered |\n|---|---|---|---|---|")
    for place, what in ((0, "names"), (1, "values")):
        count = Counter(each[place] for each in grades if each and each[place] != "-")
        answered = count["r"] + count["w"]
        share = f"{100 * count['r'] / answered:.0f} %" if answered else ""
        print(f"| {what} | {count['r']} | {count['u']} | {count['w']} | {share} |")


def main() -> int:
    """Print the tables; 1 where something got worse."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--set", choices=("1", "2", "3"), default="1")
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--write", choices=("before", "after", "words"))
    parser.add_argument("--show", action="store_true", help="every row that is not right")
    asked = parser.parse_args()
    path = TABLES / f"blind-recipes{'' if asked.set == '1' else f'-{asked.set}'}.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    cases: dict[str, list[Row]] = {}
    for row in rows:
        cases.setdefault(row["case"], []).append(row)
    found = {case: original(asked.texts / case) if asked.texts else rebuilt(words) for case, words in cases.items()}
    worse = 0
    grades: list[str] = []
    for row in rows:
        item = find(row, found[row["case"]])
        grades.append(grade(row, item))
        recorded = row.get("after" if asked.texts else "words") or ""
        lost = any(was == "r" and now != "r" for was, now in zip(recorded, grades[-1], strict=False))
        worse += lost
        if lost or (asked.show and set(grades[-1]) & {"u", "w"}):
            said = (
                f"{item.verdict.value}, {item.value_verdict.value if item.value_verdict else None}" if item else "-"
            )
            label = f"{row['label']}, {row['value_label']}"
            print(f"{row['case']} {grades[-1]} {row['name']}={row['value']}: {said} (label: {label})")
        if asked.write:
            row[asked.write] = grades[-1]
    for column in ("before", "after"):
        if all(row.get(column) for row in rows):
            table([row[column] for row in rows], f"{column} (recorded, over the recipes themselves)")
    table(grades, "now, over the recipes themselves" if asked.texts else "now, rebuilt from the words")
    if asked.write:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        return 0
    if worse:
        print(f"\n{worse} rows that were right are not right any more", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    raise SystemExit(main())
