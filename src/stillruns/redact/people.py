"""Rules for people and their machines: mail, home folders, prompts, log prefixes, names from a list."""

from __future__ import annotations

import re
from functools import lru_cache

from stillruns.redact.redactor import Redactor
from stillruns.redact.rule import PLAIN, Rule, rule

_NOT_PEOPLE = frozenset(
    "shared public default defaultuser0 linuxbrew allusers ... $user ${user} %u $username %username%".split()
)
_NAME = r"[^\s/\\:;,'\"<>()\[\]{}|&=*?$`%@]"


def _is_person(found: re.Match[str]) -> bool:
    return found["value"].lower() not in _NOT_PEOPLE and bool(found["value"].strip("."))


_UNIT_SUFFIX = re.compile(
    r"\.(?:service|socket|timer|slice|target|mount|scope|device|path|so|conf|gguf|py|cpp|log|json)\Z", re.IGNORECASE
)


def _is_mail(found: re.Match[str]) -> bool:
    """systemd units (`ollama@1.service`) and remotes of source repositories (`git@...`) are no mail."""
    value = found["value"]
    return not _UNIT_SUFFIX.search(value) and not value.startswith("git@")


def _not_local(found: re.Match[str]) -> bool:
    """`localhost` is no name; a value of digits and dots is an address, which has a rule of its own."""
    value = found["value"]
    return value.lower() not in ("localhost", "localhost.localdomain") and not re.fullmatch(r"[\d.:]+", value)


_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?"
_CLOCK = r"\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?:Z|[+-]\d{2}:?\d{2})?"

RULES: tuple[Rule, ...] = (
    rule(
        "mail",
        r"(?<![A-Za-z0-9._%+-])(?P<value>[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})"
        r"(?![A-Za-z0-9_-]|\.[A-Za-z0-9])",
        "mail",
        ("@",),
        _is_mail,
    ),
    rule(
        "home",
        rf"/(?:home|Users|media)/(?P<value>{_NAME}{{1,64}})",
        "user",
        ("/home/", "/users/", "/media/"),
        _is_person,
    ),
    rule(
        "windows-home",
        rf"(?<![A-Za-z])[A-Za-z]:[\\/]{{1,4}}Users[\\/]{{1,4}}(?P<value>{_NAME}{{1,64}}"
        rf"(?:[ ]{_NAME}{{1,32}}){{0,3}}(?=[\\/])|{_NAME}{{1,64}})",
        "user",
        ("users",),
        _is_person,
        re.IGNORECASE,
    ),
    rule(
        "user-variable",
        rf"(?<![A-Za-z0-9_])(?:USER|LOGNAME|USERNAME|SUDO_USER)\"?[=:]\s{{0,2}}\"?(?P<value>{_NAME}{{1,64}})",
        "user",
        ("user", "logname"),
        _is_person,
    ),
    rule(
        "host-variable",
        rf"(?<![A-Za-z0-9_])(?:HOSTNAME|NODENAME|COMPUTERNAME|_HOSTNAME|Static hostname|Node Name)\"?\s{{0,2}}[=:]"
        rf"\s{{0,2}}\"?(?P<value>{_HOST})",
        "host",
        ("hostname", "nodename", "computername", "node name"),
        _not_local,
    ),
    rule(
        "syslog-host",
        rf"^[ ]?(?:[^\W\d_]{{3}}|\d{{1,2}}[^\W\d_])[ ]{{1,2}}\d{{1,2}} {_CLOCK} (?P<value>{_HOST})"
        r" [^\s:\[]{1,64}(?:\[\d{1,10}\])?: ",
        "host",
        (),
        _not_local,
        re.MULTILINE,
    ),
    rule(
        "journal-host",
        rf"^\d{{4}}-\d{{2}}-\d{{2}}[T ]{_CLOCK} (?P<value>{_HOST}) [^\s:\[]{{1,64}}(?:\[\d{{1,10}}\])?: ",
        "host",
        (),
        _not_local,
        re.MULTILINE,
    ),
    rule(
        "uname-host",
        rf"(?<![\w-])Linux (?P<value>{_HOST}) \d+\.\d+[.\w+-]{{0,64}} #\d",
        "host",
        ("linux ",),
        _not_local,
    ),
    Rule(
        "login",
        re.compile(rf"(?<![\w.%+-])(?P<user>[A-Za-z_][\w-]{{0,31}})@(?P<value>{_HOST})(?=:[~/]|[ ]~)"),
        (("user", "user"), ("value", "host")),
        ("@",),
        _not_local,
    ),
)

MODEL_RULES: tuple[Rule, ...] = (
    rule(
        "model-file",
        rf"(?<![^\s/\\'\"=(:])(?P<value>(?:[^\s/\\'\"<>=(:]|{PLAIN}){{1,200}}?)(?:-\d{{5}}-of-\d{{5}})?\.(?:gguf|safetensors)(?!\w)",
        "model",
        (".gguf", ".safetensors"),
        None,
        re.IGNORECASE,
    ),
    rule(
        "model-name",
        r"general\.(?:name|basename|finetune|author|organization)[ ]{1,4}str[ ]{1,40}=[ ]"
        rf"(?P<value>(?:[^\s<]|[ ]|{PLAIN}){{1,200}})",
        "model",
        ("general.",),
    ),
)


@lru_cache(maxsize=8)
def rules_of(redactor: Redactor) -> tuple[Rule, ...]:
    """The rules that come from the redactor's own lists: exact texts, user names, host names, model files."""
    rules: list[Rule] = []
    lines = sorted(
        {line.strip() for text in redactor.texts for line in text.splitlines() if len(line.strip()) >= 4},
        key=lambda line: (-len(line), line),
    )
    if lines:
        pattern = "|".join(map(re.escape, lines))
        rules.append(rule("private-text", f"(?P<value>{pattern})", "prompt", tuple(s.lower() for s in lines)))
    names = redactor.listed_names()
    for kind in ("user", "host"):
        listed = sorted((n for n, k in names.items() if k == kind), key=lambda n: (-len(n), n))
        if listed:
            pattern = rf"(?<![\w.-])(?P<value>{'|'.join(map(re.escape, listed))})(?![\w-])"
            rules.append(rule(f"listed-{kind}", pattern, kind, tuple(listed), None, re.IGNORECASE))
    return tuple(rules) + (MODEL_RULES if redactor.models else ())
