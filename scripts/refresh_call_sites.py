"""Writes src/stillruns/normalise/logs/ollama_sites.py: which call site of a log line means which release of Ollama.

    python scripts/refresh_call_sites.py GIT_DIR

GIT_DIR is a clone of ollama/ollama with its tags. Every final release is searched with `git grep` for the messages
below; a line number that several releases share names them all.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

MESSAGES = (
    ("server.go", "starting llama server"),
    ("server.go", "starting runner"),
    ("llama_server.go", "starting llama-server"),
    ("sched.go", "loaded runners"),
    ("sched.go", "system memory"),
    ("server.go", "loading model"),
    ("llama_server.go", "loading model via llama-server"),
    ("runner.go", "starting go runner"),
    ("runner.go", "starting ollama engine"),
    ("runner.go", "load"),
    ("server.go", "waiting for llama runner to start responding"),
    ("server.go", "llama runner started in"),
    ("llama_server.go", "llama-server started in"),
    ("server.go", "post predict"),
    ("server.go", "enabling flash attention"),
    ("routes.go", "server config"),
    ("types.go", "inference compute"),
    ("sched.go", "new model will fit in available VRAM in single GPU, loading"),
)
CALL = re.compile(
    r"^(v[\d.]+):([^:]+):(\d+):.*?(?:slog|log)\.\w+\((?:ctx, |slog\.Level\w+, |context\.TODO\(\), )*"
    r'(?:fmt\.Sprintf\()?"((?:[^"\\]|\\.)*)'
)
TARGET = Path(__file__).parent.parent / "src/stillruns/normalise/logs/ollama_sites.py"
HEAD = '''"""Which call site of a log line means which release of Ollama. Written by scripts/refresh_call_sites.py.

slog prints `source=FILE:LINE` with every message. One row here is a file, a message (or its beginning), and for each
line number the final releases ({first} to {last}) in which that message stands there.
"""

from __future__ import annotations

TABLE: tuple[tuple[str, str, str], ...] = (
'''


def git(directory: str, *arguments: str) -> str:
    """Standard output of one git command; an empty text when nothing was found."""
    done = subprocess.run(["git", "-C", directory, *arguments], capture_output=True, text=True, errors="replace")
    return done.stdout


def releases(directory: str) -> list[str]:
    """Final releases, oldest first."""
    tags = [tag for tag in git(directory, "tag").split() if re.fullmatch(r"v\d+(\.\d+)+", tag)]
    return sorted(tags, key=lambda tag: [int(part) for part in tag[1:].split(".")])


def sites(directory: str, tags: list[str]) -> dict[tuple[str, str], dict[int, set[int]]]:
    """(file, message) -> line -> indices of the releases in which it stands there."""
    found: dict[tuple[str, str], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for index, tag in enumerate(tags):
        for line in git(directory, "grep", "-n", "log\\.", tag, "--", "*.go", ":!*_test.go").splitlines():
            match = CALL.match(line)
            if not match:
                continue
            file = match[2].rsplit("/", 1)[-1]
            for wanted, message in MESSAGES:
                exact = match[4] == message or (message.endswith(" in") and match[4].startswith(message))
                if file == wanted and exact:
                    found[wanted, message][int(match[3])].add(index)
    return found


def spans(indices: set[int], tags: list[str]) -> str:
    """`0.15.5,0.17.5-0.18.2`: neighbouring releases joined."""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(tags[a][1:] if a == b else f"{tags[a][1:]}-{tags[b][1:]}" for a, b in runs)


def main() -> None:
    """Search, and write the module."""
    directory = sys.argv[1]
    tags = releases(directory)
    found = sites(directory, tags)
    rows = []
    for key in MESSAGES:
        words = [f"{line}:{spans(found[key][line], tags)}" for line in sorted(found[key])]
        texts, current = [], ""
        for word in words:
            if len(current) + len(word) > 96:
                texts.append(current)
                current = ""
            current += word + " "
        texts.append(current.rstrip())
        body = "\n".join(f'        "{text}"' for text in texts)
        rows.append(f'    (\n        "{key[0]}",\n        "{key[1]}",\n{body},\n    ),\n')
    TARGET.write_text(HEAD.format(first=tags[0][1:], last=tags[-1][1:]) + "".join(rows) + ")\n")
    print(f"{TARGET}: {sum(len(found[key]) for key in MESSAGES)} call sites in {len(tags)} releases")


if __name__ == "__main__":
    main()
