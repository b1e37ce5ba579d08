"""Rules for what opens a door: keys, tokens, passwords, credentials in addresses."""

from __future__ import annotations

import re

from stillruns.redact.rule import PLAIN, Rule, rule

_START = r"(?<![A-Za-z0-9_-])"

_KNOWN_FORMS = "|".join(
    (
        r"hf_[A-Za-z0-9]{20,128}",
        r"(?:api_org|hf_oauth)_[A-Za-z0-9]{20,128}",
        r"gh[pousr]_[A-Za-z0-9]{20,255}",
        r"github_pat_[A-Za-z0-9_]{20,255}",
        r"glpat-[A-Za-z0-9_-]{20,128}",
        r"xox[abeprs]-[A-Za-z0-9-]{10,255}",
        r"A[KS]IA[0-9A-Z]{16}",
        r"AIza[0-9A-Za-z_-]{35}",
        r"nvapi-[A-Za-z0-9_-]{20,128}",
        r"npm_[A-Za-z0-9]{36}",
        r"pypi-[A-Za-z0-9_-]{40,512}",
        r"gsk_[A-Za-z0-9]{20,128}",
        r"r8_[A-Za-z0-9]{30,64}",
        r"eyJ[A-Za-z0-9_-]{8,4096}\.eyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,4096}",
    )
)
_ANCHORS = (
    *("hf_", "api_org_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "akia", "asia"),
    *("aiza", "nvapi-", "npm_", "pypi-", "gsk_", "r8_", "eyj"),
)

_QUOTE = r"(?:\\{0,3}[\"'])?"
_BARE = rf"(?:[^\s\"'<,;&\\)}}\]]|\\(?![nrt\"'\\\s<]).|\\\\(?![\"'])|{PLAIN}){{1,1024}}"
_QUOTED = rf"(?:(?!(?P=open))(?:\\(?:[^\s<]|[ \t])|[^\s<\\]|[ \t]|{PLAIN})){{1,1024}}"
_VALUE = rf"(?:(?P<open>\\{{0,3}}[\"'])(?P<quoted>{_QUOTED})(?P=open)|{_QUOTE}(?P<value>{_BARE}))"
"""A value in quotes, spaces and all; without them up to the first separator. An escaped quote or an escaped line end
closes a bare one, so that JSON inside a log line stays JSON."""

_NOTHING = frozenset(
    """
    none null nil true false yes no unset empty set unknown required missing invalid disabled enabled n/a
    key token password
    """.split()
)


def _text(found: re.Match[str]) -> str:
    """The value, in whichever of the two groups it was found."""
    groups = found.groupdict()
    return groups.get("quoted") or groups.get("value") or ""


def _says_something(found: re.Match[str]) -> bool:
    """`api_key: None` tells a fact and hides nothing; a row of stars is redacted already."""
    value = _text(found).strip(".")
    return bool(value) and value.lower() not in _NOTHING and not set(value) <= set("*xX.-_[]()")


_VOCABULARY = re.compile(
    r"(?:^|[^a-z0-9])(?:bos|eos|eot|eom|eog|pad|sep|unk|cls|mask|nl|lf|stop|special|fim|fim_[a-z]+|pre|suf|mid|prefix|"
    r"suffix|middle|next|last|first|n|per|draft|image|img|audio|video|think|thinking|add_bos|add_eos|add_sep)[ _-]$",
    re.IGNORECASE,
)


def _token_of_a_door(found: re.Match[str]) -> bool:
    """Model servers print tokens of a vocabulary on every second line; a secret has letters and digits, 8 or more."""
    value = _text(found)
    if _VOCABULARY.search(found.string[max(0, found.start() - 24) : found.start()]):
        return False
    return len(value) >= 8 and any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _has_digit(found: re.Match[str]) -> bool:
    return any(c.isdigit() for c in found["value"])


_EITHER = (("quoted", "secret"), ("value", "secret"))


_NAMED = (
    r"(?:password|passwd|passphrase|api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?(?:access[_-]?)?key)?|"
    r"client[_-]?secret|private[_-]?key|credentials?|auth[_-]?token|access[_-]?token|refresh[_-]?token|hf[_-]?token|"
    r"session[_-]?(?:id|token|key)|set-cookie|cookie|x-api-key)"
)

RULES: tuple[Rule, ...] = (
    rule(
        "address-credentials",
        rf"://(?P<value>(?:[^\s/@\"'<>\\]|{PLAIN}){{1,512}})@",
        "auth",
        ("://",),
    ),
    rule("token-form", rf"{_START}(?P<value>{_KNOWN_FORMS})(?![A-Za-z0-9])", "secret", _ANCHORS),
    rule(
        "sk-token", rf"{_START}(?P<value>sk-[A-Za-z0-9_-]{{20,255}})(?![A-Za-z0-9])", "secret", ("sk-",), _has_digit
    ),
    rule(
        "authorization",
        rf"authorization{_QUOTE}[ \t]{{0,4}}[=:][ \t]{{0,4}}{_QUOTE}(?:(?:basic|bearer|token|digest)[ ]{{1,4}})?"
        rf"(?P<value>(?:[^\s\"'<\\]|[ ]|{PLAIN}){{1,4096}})",
        "secret",
        ("authorization",),
        _says_something,
        re.IGNORECASE,
    ),
    rule(
        "bearer",
        rf"{_START}bearer[ ]{{1,4}}(?P<value>[A-Za-z0-9._~+/=-]{{8,4096}})",
        "secret",
        ("bearer",),
        _has_digit,
        re.IGNORECASE,
    ),
    Rule(
        "named-secret",
        re.compile(rf"{_NAMED}{_QUOTE}[ \t]{{0,8}}(?:=>|[=:])[ \t]{{0,8}}{_VALUE}", re.IGNORECASE),
        _EITHER,
        ("passw", "passphrase", "key", "secret", "credential", "token", "session", "cookie"),
        _says_something,
    ),
    Rule(
        "named-token",
        re.compile(rf"token{_QUOTE}[ \t]{{0,8}}(?:=>|[=:])[ \t]{{0,8}}{_VALUE}", re.IGNORECASE),
        _EITHER,
        ("token",),
        _token_of_a_door,
    ),
    Rule(
        "secret-argument",
        re.compile(
            r"(?<![\w-])(?:--?(?:api-key|hf-token|token|password|passphrase|secret|auth-token|access-token)|-hft)"
            rf"{_QUOTE}(?:[ \t]{{1,4}}|[ \t]{{0,2}}[=,][ \t]{{0,4}})(?!-){_VALUE}"
        ),
        _EITHER,
        ("-api-key", "-hf-token", "-token", "-password", "-passphrase", "-secret", "-auth-", "-access-", "-hft"),
        _says_something,
    ),
    rule(
        "query-secret",
        rf"[?&](?:token|key|sig|signature|api_key|apikey|access_token|auth|x-amz-[a-z-]{{1,32}})="
        rf"(?P<value>(?:[^\s&#\"'<>\\]|{PLAIN}){{4,4096}})",
        "secret",
        ("?", "&"),
        _says_something,
        re.IGNORECASE,
    ),
)

KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
KEY_BLOCK_LIMIT = 16384
"""No private key is longer; past it the marker stands alone (somebody's grep), and only its own lines go."""
_BODY_LINE = re.compile(r"(?:\r?\n|\\r|\\n)+[A-Za-z0-9+/=: ,-]{8,100}(?=\r|\n|\\|\"|$)")


def key_blocks(text: str) -> list[tuple[int, int]]:
    """(start, end) of every private key block, the markers included. A block whose end is cut off runs to the last
    line that looks like its body. Linear: a missing end is looked for once."""
    blocks: list[tuple[int, int]] = []
    ends = [found.end() for found in KEY_END.finditer(text)]
    at = position = 0
    while begin := KEY_BEGIN.search(text, position):
        while at < len(ends) and ends[at] <= begin.end():
            at += 1
        if at < len(ends) and ends[at] - begin.start() <= KEY_BLOCK_LIMIT:
            stop = ends[at]
        else:
            stop = begin.end()
            while line := _BODY_LINE.match(text, stop):
                stop = line.end()
        blocks.append((begin.start(), stop))
        position = stop
    return blocks
