"""Backtrace lines -> frames.

Forms: gdb (`#3  0x... in ggml_abort (file=...) from /lib/libggml-base.so`), glibc's backtrace_symbols
(`/lib/libggml-base.so(ggml_abort+0x152) [0x7f...]`), systemd-coredump (`#0  0x... n/a (libggml-vulkan.so + 0x1234)`),
Go goroutines (`github.com/ollama/ollama/ml/backend/ggml._Cfunc_ggml_backend_sched_graph_compute_async(0x...)`), the
Linux kernel's `segfault at ... in libx.so[...]`, Android's tombstones
(`#02 pc 0000000000a1b2c3  /vendor/lib64/hw/vulkan.adreno.so (vkCmdBindPipeline+20)`), Windows' event log
(`Faulting module name: amdvlk64.dll, version: ...`).
"""

from __future__ import annotations

import re

from stillruns.model.evidence import Ref
from stillruns.model.expression import Expression
from stillruns.model.server_log import Frame

MAX_FRAMES = 64
"""So many frames of one backtrace are kept."""

_GDB = Expression(
    r"^#(?P<number>\d{1,4}) {1,4}(?:0x(?P<pc>[0-9a-f]{1,16}) in )?(?P<name>.{1,1500}?) ?\((?P<rest>.*)$"
)
_COREDUMP = Expression(
    r"^\s{0,80}#(?P<number>\d{1,4}) {1,4}0x[0-9a-f]{1,16} "
    r"(?P<name>\S{1,1500}) \((?P<module>[^ )]{1,300}) \+ 0x[0-9a-f]{1,16}\)"
)
_GLIBC = Expression(
    r"^(?P<module>/?[^\s()]{1,400}\.so[\w.]{0,40}|/?[^\s()]{1,400})"
    r"\((?P<name>[^()+\s]{0,1500})(?:\+0x[0-9a-f]{1,16})?\) ?\[0x[0-9a-f]{1,16}\]"
)
_GO = Expression(
    r"^(?P<name>(?:[\w.-]{1,100}/){0,10}[\w.]{1,200}(?:\.\(\*?\w{1,100}\))?(?:\.[\w]{1,200}){0,6})\((?:0x|\{|\.\.\.|\?|\))"
)
_ANDROID = Expression(
    r"^\s{0,40}#\d{1,3} {1,4}pc (?:[0-9a-f]{1,16}|\.{3}) {1,4}(?P<module>\S{1,400})"
    r"(?: \((?P<name>[^()]{1,1500}?)(?:\(.{0,1500}\))?\+\d{1,10}\))?"
)
_SOURCE_NAME = Expression(r"L?(\d{1,3})")
_FAULTING = Expression(r"^\s{0,8}Faulting module name: (?P<module>[^,]{1,200})")
_FROM = Expression(r" from (?P<module>\S{1,400})$")


def read(text: str, ref: Ref) -> Frame | None:
    """The frame that a line holds, or None. Names lose arguments, template arguments, addresses and offsets."""
    first = text[:1]
    if first == "#" or (first == " " and "#" in text[:88]):
        found = _ANDROID.match(text)
        if found:
            return Frame(plain(found["name"] or ""), _file(found["module"]), ref)
        found = _COREDUMP.match(text)
        if found:
            return Frame(plain(found["name"]), _file(found["module"]), ref)
        found = _GDB.match(text)
        if found:
            module = _FROM.search(found["rest"])
            return Frame(plain(found["name"]), _file(module["module"]) if module else "", ref)
        return None
    if "Faulting module" in text:
        found = _FAULTING.match(text)
        return Frame("", found["module"], ref) if found else None
    if "[0x" in text and "(" in text:
        found = _GLIBC.match(text)
        if found:
            return Frame(plain(found["name"]), _file(found["module"]), ref)
    if first.isalpha() and "(" in text and "." in text[:400]:
        found = _GO.match(text)
        if found and ("/" in found["name"] or found["name"].startswith(("runtime.", "main.", "syscall.", "net."))):
            return Frame(_go_name(found["name"]), "", ref)
    return None


def _go_name(name: str) -> str:
    short = name.rsplit("/", 1)[-1]
    return short.split("._Cfunc_", 1)[1] if "._Cfunc_" in short else short


def _file(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def demangled(name: str) -> str:
    """The qualified name in a symbol of the Itanium C++ ABI, without arguments: `_ZN13llama_context6decodeERK11..` is
    `llama_context::decode`. What it cannot read, and every other name, stays as it is: glibc prints no other form."""
    if not name.startswith("_Z"):
        return name
    rest = name[2:]
    nested = rest.startswith("N")
    rest = rest[1:].lstrip("KVr") if nested else rest
    parts: list[str] = []
    if rest.startswith("St"):
        parts, rest = ["std"], rest[2:]
    while rest:
        found = _SOURCE_NAME.match(rest)
        if not found or len(rest) < found.end() + int(found[1]):
            break
        end = found.end() + int(found[1])
        parts.append(rest[found.end() : end])
        rest = rest[end:]
        if not nested:
            break
    if nested and parts and rest[:1] == "C":
        parts.append(parts[-1])
    return "::".join(parts) or name


def plain(name: str) -> str:
    """A demangled name without arguments, template arguments and return types: `ggml_vk_mul_mat_q_f16`."""
    name = demangled(name)
    out: list[str] = []
    depth = 0
    guarded = name.replace("operator<<", "operator shl").replace("operator<", "operator lt")
    guarded = guarded.replace("operator->", "operator arrow").replace("operator>", "operator gt")
    for char in guarded:
        if char == "<":
            depth += 1
        elif char == ">":
            depth = max(0, depth - 1)
        elif depth == 0:
            out.append(char)
    text = "".join(out).split("(", 1)[0].strip()
    if " " in text and "operator" not in text:
        text = text.rsplit(" ", 1)[-1]
    text = re.sub(r"@@?[\w.]{1,60}$", "", text)
    return re.sub(r"(?:\.(?:constprop|isra|part|cold)(?:\.\d{1,4}){0,2}){1,4}$", "", text).strip()
