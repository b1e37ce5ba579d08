"""From the words of a simple command to the program that is really started: sudo, env, docker run, bash -c."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from stillruns.model.recipe import BUILDERS, Scope, Word
from stillruns.normalise.recipe.draft import ASSIGNMENT, Draft, is_flag

Nested = Callable[[int, int, int, Scope], None]
"""Reads a slice (start, end, line) as a shell script of its own."""

WITH_VALUE: dict[str, frozenset[str]] = {
    "sudo": frozenset({"-u", "-g", "-C", "-D", "-h", "-p", "-T", "-r", "-t", "-U", "--user", "--group"}),
    "doas": frozenset({"-u", "-C"}),
    "nice": frozenset({"-n", "--adjustment"}),
    "ionice": frozenset({"-c", "-n", "-p"}),
    "nohup": frozenset(),
    "exec": frozenset({"-a"}),
    "setsid": frozenset(),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "time": frozenset({"-f", "-o"}),
    "timeout": frozenset({"-k", "-s", "--signal", "--kill-after"}),
    "taskset": frozenset(),
    "chrt": frozenset({"-p", "-T", "-P", "-D"}),
    "numactl": frozenset({"-N", "-m", "-C", "-p", "-i", "-l", "--cpunodebind", "--membind", "--physcpubind"}),
    "command": frozenset(),
    "watch": frozenset({"-n", "--interval"}),
    "strace": frozenset({"-o", "-e", "-p", "-s"}),
    "ltrace": frozenset({"-o", "-e"}),
    "rlwrap": frozenset(),
    "catchsegv": frozenset(),
    "unbuffer": frozenset(),
    "caffeinate": frozenset(),
    "xargs": frozenset({"-n", "-I", "-P", "-d", "-L"}),
}
"""Programs that start another one, and those of their options that take the next word as a value (man pages)."""

POSITIONAL = {"timeout": 1, "taskset": 1, "chrt": 1}
"""How many words of its own stand between a wrapper's options and the command."""

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ash"})
CONTAINERS = frozenset({"docker", "podman", "nerdctl"})

SWITCHES = frozenset(
    {"-d", "-i", "-t", "-P", "--rm", "--privileged", "--init", "--publish-all", "--read-only", "--no-healthcheck"}
    | {"--tty", "--interactive", "--detach", "--oom-kill-disable", "--sig-proxy", "--no-hosts", "--replace", "-q"}
)
"""Options of `docker run` without a value (docker run's and podman run's reference); all others take one."""


TOOLS = {
    "--server": "llama-server",
    "-s": "llama-server",
    "--run": "llama-cli",
    "-r": "llama-cli",
    "--run-legacy": "llama-completion",
    "-l": "llama-completion",
    "--bench": "llama-bench",
    "-b": "llama-bench",
    "--perplexity": "llama-perplexity",
    "-p": "llama-perplexity",
    "--quantize": "llama-quantize",
    "-q": "llama-quantize",
}
"""What the first word starts in llama.cpp's `full` images (.devops/tools.sh at b11434)."""


@dataclass(slots=True)
class Unwrapper:
    """One simple command of a script. `settings` are the assignments before it."""

    draft: Draft
    nested: Nested
    scope: Scope
    style: str = "shell"
    without: set[str] = field(default_factory=set)

    def command(self, words: Sequence[Word], settings: Sequence[Word]) -> None:
        """Find the program, then add it, its flags and its variables."""
        extra = list(settings)
        rest = list(words)
        scope = self.scope
        while rest:
            head = rest[0].text.rsplit("/", 1)[-1]
            if head in WITH_VALUE:
                rest = self._strip(head, rest[1:])
            elif head == "env":
                rest = self._env(rest[1:], extra)
            elif head == "systemd-run":
                rest, scope = self._systemd_run(rest[1:], extra), Scope.SERVICE
            elif head == "gdb":
                cut_at = next((i for i, w in enumerate(rest) if w.text == "--args"), len(rest) - 1)
                rest = rest[cut_at + 1 :]
            else:
                break
            while rest and head in ("sudo", "doas", "command", "exec", "time") and ASSIGNMENT.match(rest[0].text):
                extra.append(rest.pop(0))
        if not rest:
            self._alone(extra, scope)
            return
        self._dispatch(rest, extra, scope)

    def _alone(self, settings: Sequence[Word], scope: Scope) -> None:
        for word in settings:
            self.draft.setting(word, scope, "assignment", style=self.style)

    def _dispatch(self, rest: list[Word], settings: list[Word], scope: Scope) -> None:
        head = rest[0].text.rsplit("/", 1)[-1]
        if head in CONTAINERS and self._container(rest, settings):
            return
        if head == "eval" and len(rest) == 2 and rest[1].literal:
            self.nested(rest[1].start + 1, rest[1].end - 1, rest[1].line, scope)
            return
        if head in SHELLS and self._shell(rest, scope, settings):
            return
        if head == "ssh" and len(rest) > 2:
            rest = rest[2:]
            head = rest[0].text.rsplit("/", 1)[-1]
            if rest[0].literal:
                self.nested(rest[0].start + 1, rest[0].end - 1, rest[0].line, scope)
                return
        self._program(head, rest, settings, scope)

    def _program(self, head: str, rest: list[Word], settings: Sequence[Word], scope: Scope) -> None:
        draft = self.draft
        ours = draft.is_ours(rest[0].text, rest[1:])
        if not ours and head in draft.names.old:
            head = ""  # `server`, `main` of somebody else
        before = draft.without
        draft.without = before | self.without
        index = draft.run(ours or head, rest[0], rest[1:], scope, self.style)
        draft.without = before
        where = Scope.BUILD if head in BUILDERS else (scope if scope is not Scope.SESSION else Scope.COMMAND)
        for word in settings:
            draft.setting(word, where, "before the command", command=index, style=self.style)
        if head == "cmake":
            draft.cmake_words(rest[1:], index, "cmake")
        elif head in ("make", "gmake"):
            draft.make_words(rest[1:], index)

    def _strip(self, head: str, words: list[Word]) -> list[Word]:
        """Drop a wrapper's own options and words."""
        takes = WITH_VALUE[head]
        while words and (is_flag(words[0]) or words[0].text == "--"):
            stop = words[0].text == "--"
            words = words[2:] if words[0].text in takes and not stop else words[1:]
            if stop:
                break
        return words[POSITIONAL.get(head, 0) :]

    def _env(self, words: list[Word], settings: list[Word]) -> list[Word]:
        while words:
            text = words[0].text
            if text in ("-u", "--unset", "-C", "-S"):
                self.without |= {words[1].text} if text in ("-u", "--unset") and len(words) > 1 else set()
                words = words[2:]
            elif is_flag(words[0]) or text in ("-", "--"):
                name, _, value = text.partition("=")
                self.without |= {value} if name == "--unset" else set()
                if text in ("-", "-i", "--ignore-environment"):
                    self.without |= {"*", *(word.text.partition("=")[0] for word in settings)}
                words = words[1:]
            elif ASSIGNMENT.match(text):
                self.without.discard(text.partition("=")[0])
                settings.append(words.pop(0))
            else:
                break
        return words

    def _systemd_run(self, words: list[Word], settings: list[Word]) -> list[Word]:
        takes = {"-E", "-p", "-u", "-t", "--unit", "--property", "--setenv", "--slice", "-M", "-H", "--description"}
        while words and is_flag(words[0]):
            name, equals, value = words[0].text.partition("=")
            if name in ("--setenv", "-E"):
                settings.append(
                    replace(words[0], text=value) if equals else (words[1] if len(words) > 1 else words[0])
                )
            words = words[2:] if name in takes and not equals else words[1:]
        return words

    def _shell(self, rest: list[Word], scope: Scope, settings: Sequence[Word]) -> bool:
        for index, word in enumerate(rest[1:], 1):
            if word.text.startswith("-") and word.text.endswith("c") and index + 1 < len(rest):
                script = rest[index + 1]
                inset = 1 if script.literal else 0
                for setting in settings:
                    self.draft.setting(setting, scope, "before the command")
                self.nested(script.start + inset, script.end - inset, script.line, scope)
                return True
        return False

    def _container(self, rest: list[Word], settings: Sequence[Word]) -> bool:
        """`docker run [options] IMAGE [command]`; false for every other docker command."""
        at = next((i for i, word in enumerate(rest) if word.text in ("run", "create", "exec")), -1)
        if at < 0 or at > 3:
            return False
        inside: list[tuple[Word, int]] = []
        words = rest[at + 1 :]
        entry: Word | None = None
        while words and is_flag(words[0]):
            word, name = words[0], words[0].text.partition("=")[0]
            joined = "=" in word.text and word.text.startswith("--")
            if name in ("-e", "--env"):
                if joined:
                    inside.append((replace(word, text=word.text.partition("=")[2]), len(name) + 1))
                elif len(words) > 1:
                    inside.append((words[1], 0))
            elif name == "--entrypoint":
                entry = replace(word, text=word.text.partition("=")[2]) if joined else words[min(1, len(words) - 1)]
            elif name.startswith("-e") and len(name) > 2 and not name.startswith("--"):
                inside.append((replace(word, text=word.text[2:]), 2))
            switch = name in SWITCHES or (not name.startswith("--") and set(name[1:]) <= set("ditP"))
            words = words[1:] if switch or joined or (name[:2] == "-e" and len(name) > 2) else words[2:]
        if not words:
            return False
        index = self._inside(words[0], words[1:], entry)
        for word, shift in inside:
            if "=" not in word.text:  # `-e NAME` hands on what the shell has
                word = replace(word, text=f"{word.text}=", dynamic=True)
            self.draft.setting(word, Scope.CONTAINER, "docker -e", command=index, shift=shift, style="docker")
        for word in settings:
            self.draft.setting(word, Scope.SESSION, "before docker, outside the container", command=-1)
        return True

    def _inside(self, image: Word, words: Sequence[Word], entry: Word | None) -> int:
        draft = self.draft
        if entry is not None and (ours := draft.is_ours(entry.text, words)):
            return draft.run(ours, replace(image, text=entry.text), words, Scope.CONTAINER, self.style, named=False)
        if words and not is_flag(words[0]) and (ours := draft.is_ours(words[0].text, words[1:])):
            return draft.run(ours, words[0], words[1:], Scope.CONTAINER, self.style)
        program = draft.names.image_program(image.text)
        if program == "llama.cpp tools" and words:
            program = TOOLS.get(words[0].text, "")
            words = words[1:]
        return draft.run(program or image.text, image, words, Scope.CONTAINER, self.style, named=False)
