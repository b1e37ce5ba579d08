"""Lines that say that a process ended, and how: shells, systemd, Go, Python, Windows, gdb, libstdc++, ggml.

`read` takes one line without its envelope. It says what the line says; whether a second line is only the echo of the
first is for the judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from stillruns.model.expression import Expression

ANCHORS: tuple[str, ...] = (
    "Segmentation fault",
    "Aborted",
    "Illegal instruction",
    "Bus error",
    "Floating point exception",
    "dumped core",
    "core dumped",
    "コアダンプ",
    "SIG",
    "signal: ",
    "exit status ",
    "exit code",
    "(exit ",
    "exited with code",
    "exited, code=",
    "terminate called",
    "GGML_ASSERT",
    "GGML_ABORT",
    "panic: ",
    "Exception 0x",
    "0xc0000",
    "-529697949",
    "Killed",
    " status: ",
    "fatal error: ",
    "Fatal Python error",
    "Unhandled exception",
    "Fatal signal ",
    "xit code",
    "zsh: ",
    "egmentation fault",
    "IOT instruction",
    "abort ",
    "illegal hardware instruction",
    "bus error",
    "floating point exception",
    "322122",
    "OOM killer",
    "oom-kill",
    "access violation",
    "xception code: 0x",
    "has crashed without additional",
    "-10737",
)
"""A line that `read` recognises contains one of these."""

WINDOWS: dict[int, tuple[str, str]] = {
    0xC0000005: ("0xc0000005", "access violation"),
    0xC0000409: ("0xc0000409", "stack buffer overrun or fail-fast"),
    0xC000001D: ("0xc000001d", "illegal instruction"),
    0xC0000135: ("0xc0000135", "a DLL was not found"),
    0xC0000142: ("0xc0000142", "a DLL failed to start"),
    0xC0000374: ("0xc0000374", "heap corruption"),
    0xC00000FD: ("0xc00000fd", "stack overflow"),
    0xE06D7363: ("0xe06d7363", "a C++ exception that nothing caught"),
}
"""NTSTATUS values and MSVC's C++ exception, as Microsoft documents them."""
_WIDENED = {(1 << 64) - (1 << 32) + code: code for code in WINDOWS}
"""JavaScript prints such a code as a 64-bit number, rounded to a double's: 0xc0000409 is 18446744072635812000."""

_SHELL = {
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Illegal instruction": "SIGILL",
    "Bus error": "SIGBUS",
    "Floating point exception": "SIGFPE",
    "Killed": "SIGKILL",
}
_GO = {
    "segmentation fault": "SIGSEGV",
    "segmentation violation": "SIGSEGV",
    "aborted": "SIGABRT",
    "abort trap": "SIGABRT",
    "illegal instruction": "SIGILL",
    "bus error": "SIGBUS",
    "floating point exception": "SIGFPE",
    "killed": "SIGKILL",
}
_ZSH = {
    "segmentation fault": "SIGSEGV",
    "abort": "SIGABRT",
    "IOT instruction": "SIGABRT",
    "illegal hardware instruction": "SIGILL",
    "bus error": "SIGBUS",
    "floating point exception": "SIGFPE",
    "killed": "SIGKILL",
}
_ZSH_WORDS = rf"(?P<what>{'|'.join(_ZSH)})(?= |$)"
"""zsh has its own words; `IOT instruction` is the older name of the signal that abort() raises."""
_NUMBERS = {4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV"}
_NUMBERS |= {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 13: "SIGPIPE", 15: "SIGTERM"}
_STATUS = {128 + n: _NUMBERS[n] for n in (4, 6, 7, 8, 9, 11)}


class Sign(msgspec.Struct, frozen=True):
    """`kind` as in model.server_log.Ending; `signal` a name (`SIGSEGV`) or a Windows code (`0xc0000005`); `pid` where
    the line has one; `process` its name. `unit` is the systemd unit."""

    kind: str
    signal: str | None = None
    exit_status: int | None = None
    pid: int | None = None
    process: str = ""
    unit: str = ""
    what: str = ""


def _shell(match: re.Match[str]) -> Sign:
    pid = match.groupdict().get("pid")
    return Sign("signal", _SHELL[match["what"]], pid=int(pid) if pid else None)


def _status(match: re.Match[str]) -> Sign | None:
    digits = match["status"]
    if len(digits) > 17:
        near = (code for wide, code in _WIDENED.items() if float(wide) == float(digits))
        known = next((Sign("signal", WINDOWS[code][0], what=WINDOWS[code][1]) for code in near), None)
        return known or Sign("exit", None, what="a code of 64 bits")
    status = int(digits[:11])
    windows = WINDOWS.get(status & 0xFFFFFFFF) if (status < 0 or status > 0xFFFF) else None
    if windows:
        return Sign("signal", windows[0], what=windows[1])
    if status == 0:
        return None
    if status < 0 and -status <= 64:
        return Sign("signal", _NUMBERS.get(-status))
    return Sign("exit", _STATUS.get(status), status)


def _named(match: re.Match[str]) -> Sign | None:
    """A number that is one of Windows' codes, wherever it stands: none is a likely number of anything else."""
    sign = _status(match)
    return sign if sign is not None and sign.kind == "signal" else None


def _zsh(match: re.Match[str]) -> Sign:
    pid = match.groupdict().get("pid")
    return Sign("signal", _ZSH[match["what"]], pid=int(pid) if pid else None)


def _unit_oom(match: re.Match[str]) -> Sign:
    return Sign("oom", "SIGKILL", unit=match["unit"])


def _windows(match: re.Match[str]) -> Sign | None:
    known = WINDOWS.get(int(match["code"], 16))
    return Sign("signal", known[0], what=known[1]) if known else None


def _systemd(match: re.Match[str]) -> Sign | None:
    code, status = match["code"], match["status"]
    number, _, name = status.partition("/")
    unit = match["unit"] or ""
    if code == "exited":
        found = _status_number(number)
        return Sign("exit", found, int(number), unit=unit) if number.isdecimal() and number != "0" else None
    return Sign("signal", f"SIG{name}" if name else None, unit=unit)


def _status_number(number: str) -> str | None:
    return _STATUS.get(int(number)) if number.isdecimal() else None


def _go(match: re.Match[str]) -> Sign:
    return Sign("signal", _GO.get(match["what"].strip()))


def _core(match: re.Match[str]) -> Sign:
    return Sign("signal", None, pid=int(match["pid"]), process=match["process"])


_FORMS: tuple[tuple[str, Expression, Callable[[re.Match[str]], Sign | None]], ...] = (
    (
        "",
        Expression(
            r"^(?:\S{1,200}: (?:line \d{1,7}: {1,3})?)?(?: {0,4}(?P<pid>\d{1,10}) )?"
            r"(?P<what>Segmentation fault|Aborted|Illegal instruction|Bus error|Floating point exception|Killed)"
            r"(?: {1,8}\(core dumped\)| {1,8}\(コアダンプ\))?(?= {2,}|\s{0,8}$| {1,4}\S{0,200}(?:llama|ollama|vllm))"
        ),
        _shell,
    ),
    ("zsh: ", Expression(rf"^zsh: {_ZSH_WORDS}"), _zsh),
    ("] ", Expression(rf"^\[\d{{1,4}}\] {{1,4}}[+-]? {{0,4}}(?P<pid>\d{{1,10}}) {_ZSH_WORDS}"), _zsh),
    (
        "SIG",
        Expression(r"^(?P<signal>SIG[A-Z]{2,8}): (?P<what>[a-z ]{3,40})"),
        lambda m: Sign("signal", m["signal"]),
    ),
    (
        "SIG",
        Expression(
            r"(?:Program terminated with signal|received signal|Process received signal:?|caught signal)"
            r" (?P<signal>SIG[A-Z]{2,8})"
        ),
        lambda m: Sign("signal", m["signal"]),
    ),
    (
        "Fatal signal ",
        Expression(r"Fatal signal \d{1,2} \((?P<signal>SIG[A-Z]{2,8})\)"),
        lambda m: Sign("signal", m["signal"]),
    ),
    ("signal: ", Expression(r"signal: (?P<what>[a-z][a-z ]{2,30})(?: \(core dumped\))?"), _go),
    (
        "ex",
        Expression(
            r"(?:exit status|[Ee]xit code:?|exited with code|exited with status|\(exit|"
            r"exit code is|return code:?|[Rr]un #\d{1,4} status:) {0,2}(?P<status>-?\d{1,11}|\d{18,20})\b"
        ),
        _status,
    ),
    ("xit code", Expression(r"\(Exit code: (?P<status>\d{18,20}|-?\d{1,10})\)"), _status),
    ("-10737", Expression(r"(?<![\d.])(?P<status>-10737\d{5})(?![\d.])"), _named),
    ("322122", Expression(r"(?<![\d.])(?P<status>322122\d{4})(?![\d.])"), _named),
    ("-529697949", Expression(r"(?<![\d.])(?P<status>-529697949)(?![\d.])"), _named),
    (
        "access violation",
        Expression(r"exception: access violation (?:reading|writing|executing) 0x[0-9a-fA-F]{1,16}"),
        lambda m: Sign("signal", "0xc0000005", what="access violation"),
    ),
    (
        "has crashed without additional",
        Expression(r"model has crashed without additional information\. \(Exit code: null\)"),
        lambda m: Sign("exit", None, what="the application's word"),
    ),
    (
        "status: ",
        Expression(r"^\s{0,20}Run #\d{1,4} status: (?P<status>-?\d{1,11})$"),
        _status,
    ),
    (
        "code=",
        Expression(
            r"(?:(?P<unit>\S{1,200}\.service): )?[Mm]ain process exited, code=(?P<code>exited|killed|dumped),"
            r" status=(?P<status>\S{1,24})"
        ),
        _systemd,
    ),
    (
        "OOM killer",
        Expression(r"(?P<unit>\S{1,200}\.service): A process of this unit has been killed by the OOM killer"),
        _unit_oom,
    ),
    (
        "oom-kill",
        Expression(r"(?P<unit>\S{1,200}\.service): Failed with result 'oom-kill'"),
        _unit_oom,
    ),
    (
        "core",
        Expression(
            r"^Process (?P<pid>\d{1,10}) \((?P<process>[^)]{1,64})\) of user \d{1,10}"
            r" (?:dumped core|terminated abnormally)"
        ),
        _core,
    ),
    (
        "terminate called",
        Expression(
            r"terminate called (?:after throwing an instance of '(?P<what>[^']{1,200})'|"
            r"without an active exception|recursively)"
        ),
        lambda m: Sign("terminate", "SIGABRT", what=m["what"] or ""),
    ),
    ("GGML_A", Expression(r"GGML_(?:ASSERT|ABORT)[(:]"), lambda m: Sign("assert", "SIGABRT")),
    ("panic: ", Expression(r"^panic: (?P<what>.{1,200})"), lambda m: Sign("panic", None, what=m["what"])),
    (
        "fatal error: ",
        Expression(r"^fatal error: (?P<what>(?!--).{1,200})"),
        lambda m: Sign("panic", None, what=m["what"]),
    ),
    (
        "0x",
        Expression(
            r"(?:Exception (?:code: )?|exit status |exit code:? |status |code )"
            r"\(?(?P<code>0x[cCeE][0-9a-fA-F]{7})\b"
        ),
        _windows,
    ),
    (
        "Fatal Python error",
        Expression(r"^Fatal Python error: (?P<what>[^:]{1,80})"),
        lambda m: Sign("signal", _SHELL.get(m["what"]), what=m["what"]),
    ),
)


def read(text: str) -> Sign | None:
    """What the line says about an end, or None. A status of 0 is no ending."""
    for anchor, form, make in _FORMS:
        if anchor and anchor not in text:
            continue
        found = form.search(text)
        if found:
            sign = make(found)
            if sign is not None:
                return sign
    return None
