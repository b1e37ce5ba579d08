"""Rules for network and hardware addresses, which look like much that is none.

Logs of model servers are full of numbers with dots and colons: llama.cpp stamps (`0.37.645.332`), four-part versions
(`0.20.0.1`), PCI addresses (`0000:03:00.0`), times, C++ scopes. An address needs its context.
"""

from __future__ import annotations

import ipaddress
import re

from stillruns.redact.rule import Rule, rule

_STAMP = re.compile(r"\d+\.[0-5]\d\.\d{3}\.\d{3}\Z")
_WORD_BEFORE = re.compile(
    r"(?:://|@|(?<![a-z])(?:host(?:name)?|server|addr(?:ess)?|ip(?:v[46])?|inet6?|listen(?:ing)?(?: on| at)?|"
    r"bind(?:ing)?(?: to)?|bound to|connect(?:ed|ing|ion)?(?: to| from)?|client|remote|peer|endpoint|gateway|"
    r"nameserver|dns|proxy|ping|ssh|scp|src|dst|rhost|lease of|route(?: via)?|via|OLLAMA_HOST|LLAMA_ARG_HOST)"
    r"[\"']?\s{0,3}[=:]?\s{0,3}[\"'\[(]{0,2})\Z",
    re.IGNORECASE,
)
_REQUEST_BEFORE = re.compile(r"(?:GET|POST|PUT|DELETE|HEAD|OPTIONS|PATCH) \S{1,200} {1,2}\Z")
_COLUMN_BEFORE = re.compile(r"\| {1,24}\Z")
_PORT_OR_NET = re.compile(r":\d{2,5}(?!\d|[:.]\d)|/(?:[12]?\d|3[0-2])(?![\d./])|\]:\d{2,5}(?!\d)| port \d")
_STATUS_AFTER = re.compile(r" {1,2}[1-5]\d\d(?!\d)")
_COLUMN_AFTER = re.compile(r" {1,24}\|")


def _in_context(found: re.Match[str], *, port_says: bool) -> bool:
    text, start, end = found.string, found.start("value"), found.end("value")
    if port_says and _PORT_OR_NET.match(text, end):
        return True
    before = text[max(0, start - 48) : start]
    if _WORD_BEFORE.search(before):
        return True
    if _COLUMN_AFTER.match(text, end) and _COLUMN_BEFORE.search(before):
        return True
    return bool(_STATUS_AFTER.match(text, end) and _REQUEST_BEFORE.search(text[max(0, start - 216) : start]))


def _is_ipv4(found: re.Match[str]) -> bool:
    """A valid address that names a machine (not loopback, not a mask) and stands where addresses stand."""
    try:
        address = ipaddress.IPv4Address(found["value"])
    except ValueError:
        return False  # a part above 255 or with a leading zero: a stamp or a version
    if address.is_loopback or address.is_unspecified or int(address) >> 24 == 255:
        return False
    if any(address in net for net in _UNMISTAKABLE):
        return True
    return not (_STAMP.match(found["value"]) and not _PORT_OR_NET.match(found.string, found.end())) and _in_context(
        found, port_says=True
    )


_UNMISTAKABLE = tuple(ipaddress.IPv4Network(net) for net in ("192.168.0.0/16", "172.16.0.0/12", "169.254.0.0/16"))
"""Private networks whose numbers no version and no stamp has (10.0.0.0/8 is not among them: `10.12.145.232`)."""

_V6_START = re.compile(r"(?:f[cd][0-9a-f]{2}|fe[89ab][0-9a-f]|[23][0-9a-f]{3}):", re.IGNORECASE)


def _is_ipv6(found: re.Match[str]) -> bool:
    """All eight groups, or a prefix that is in use, or a context; `a::b` is a C++ scope until something says more."""
    value = found["value"]
    try:
        address = ipaddress.IPv6Address(value)
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return False
    if value.count(":") == 7 and "::" not in value:
        return True
    return bool(_V6_START.match(value)) or _in_context(found, port_says=False)


def _is_mac(found: re.Match[str]) -> bool:
    digits = found["value"].replace(":", "").replace("-", "").lower()
    return set(digits) != {"0"} and set(digits) != {"f"}


def _is_unique(found: re.Match[str]) -> bool:
    """An identifier with a tail of zeros is a PCI address written as a UUID, or nothing at all."""
    value = found["value"].lower()
    tail = value.replace("-", "").removeprefix("gpu").removeprefix("mig")
    return not tail.endswith("0" * 12) and any(c.isdigit() for c in value)


def _is_serial(found: re.Match[str]) -> bool:
    value = found["value"].lower().removeprefix("0x")
    return any(c.isdigit() for c in value) and set(value) - set("0-f") != set() and value != "0123456789"


_HEX = "[0-9a-fA-F]"
_UUID = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"

RULES: tuple[Rule, ...] = (
    rule("ipv4", r"(?<![\w.])(?<!\d-)(?P<value>\d{1,3}(?:\.\d{1,3}){3})(?!\w|\.\w|-\d)", "ip", (), _is_ipv4),
    rule(
        "ipv6",
        rf"(?<![\w:.])(?P<value>(?:{_HEX}{{1,4}}|:):(?:{_HEX}{{0,4}}:){{0,6}}(?:{_HEX}{{1,4}}|:)?)(?![\w:]|\.\w)",
        "ip",
        (),
        _is_ipv6,
    ),
    rule(
        "mac",
        rf"(?<![\w:-])(?P<value>{_HEX}{{2}}(?:(?::{_HEX}{{2}}){{5}}|(?:-{_HEX}{{2}}){{5}}))(?![\w:-])",
        "mac",
        (),
        _is_mac,
    ),
    rule(
        "gpu-uuid",
        rf"(?<![\w-])(?P<value>(?:GPU|MIG)-(?:GPU-)?(?:{_UUID}(?:/\d{{1,2}}/\d{{1,2}})?|{_HEX}{{16}}))(?![\w-])",
        "gpu-uuid",
        ("gpu-", "mig-"),
        _is_unique,
    ),
    rule(
        "device-uuid",
        r"(?:deviceUUID|gpu[ _]uuid|device[ _]uuid|gpu_id|\bid(?==))\"?[ \t]{0,24}[=:][ \t]{0,4}\"?"
        rf"(?P<value>{_UUID})(?![\w-])",
        "gpu-uuid",
        ("uuid", "gpu_id", "id="),
        _is_unique,
        re.IGNORECASE,
    ),
    rule(
        "serial",
        r"(?:serial(?:[ _-]?(?:number|no\.?|#))?|unique[ _-]?id|\bs/n)\"?[ \t]{0,24}[=:][ \t]{0,24}\"?"
        r"(?P<value>[A-Za-z0-9][A-Za-z0-9-]{3,63})(?![\w/-])",
        "serial",
        ("serial", "unique", "s/n"),
        _is_serial,
        re.IGNORECASE,
    ),
    rule(
        "machine-id",
        rf"machine[_-]?id\"?[ \t]{{0,8}}[=:][ \t]{{0,8}}\"?(?P<value>{_HEX}{{32}}|{_UUID})(?![\w-])",
        "machine",
        ("machine",),
        None,
        re.IGNORECASE,
    ),
    rule(
        "disk-uuid",
        rf"(?:PART)?UUID=\"?(?P<value>{_UUID}|{_HEX}{{8}}-{_HEX}{{2}}|{_HEX}{{4}}-{_HEX}{{4}})(?![\w-])",
        "disk",
        ("uuid=",),
    ),
)
