"""Writers of device code containers for tests: small, valid, and easy to damage."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import msgspec

from stillruns.formats.zstd import ZstdCompressor

MACH = {
    "gfx803": 0x2A, "gfx900": 0x2C, "gfx902": 0x2D, "gfx906": 0x2F, "gfx908": 0x30, "gfx90c": 0x32, "gfx1010": 0x33,
    "gfx1011": 0x34, "gfx1012": 0x35, "gfx1030": 0x36, "gfx1031": 0x37, "gfx1032": 0x38, "gfx1033": 0x39,
    "gfx1035": 0x3D, "gfx1034": 0x3E, "gfx90a": 0x3F, "gfx940": 0x40, "gfx1100": 0x41, "gfx1150": 0x43,
    "gfx1103": 0x44, "gfx1036": 0x45, "gfx1101": 0x46, "gfx1102": 0x47, "gfx1200": 0x48, "gfx1151": 0x4A,
    "gfx941": 0x4B, "gfx942": 0x4C, "gfx1201": 0x4E, "gfx950": 0x4F, "gfx9-generic": 0x51,
}  # fmt: skip
"""EF_AMDGPU_MACH_AMDGCN_* (LLVM, docs/AMDGPUUsage.rst, "AMDGPU ELF Header e_flags")."""


def elf(
    sections: Sequence[tuple[str, bytes]] = (), *, machine: int = 62, abi: int = 0, flags: int = 0, kind: int = 3
) -> bytes:
    """A 64-bit little-endian ELF file with these sections and no program headers."""
    names = b"\0"
    body = b""
    rows = [bytes(64)]
    at = 64
    for name, data in [*sections, (".shstrtab", b"")]:
        name_at = len(names)
        names += name.encode() + b"\0"
        data = names if name == ".shstrtab" else data
        pad = -(at + len(body)) % 16
        body += bytes(pad)
        rows.append(struct.pack("<IIQQQQIIQQ", name_at, 1, 0, 0, at + len(body), len(data), 0, 0, 1, 0))
        body += data
    table = at + len(body)
    head = b"\x7fELF\x02\x01\x01" + bytes((0, abi)) + bytes(7)
    head += struct.pack(
        "<HHIQQQIHHHHHH", kind, machine, 1, 0, 0, table, flags, 64, 56, 0, 64, len(rows), len(rows) - 1
    )
    return head + body + b"".join(rows)


def code(target: str, *, version: int = 5, maker: str = "LLD 19.1.7", features: int = 0, generic: int = 0) -> bytes:
    """A code object of a processor; `features` are the bits of e_flags for xnack and sramecc."""
    flags = MACH[target] | features | generic << 24
    return elf([(".comment", b"\0Linker: " + maker.encode() + b"\0")], machine=224, abi=version - 2, flags=flags)


def library(sections: Sequence[tuple[str, bytes]] = (), needed: Sequence[str] = (), runpath: str = "") -> bytes:
    """A shared library with these sections that needs others: its strings, dynamic section and program headers come
    last."""
    data = elf(sections)
    data += bytes(-len(data) % 16)
    strings, rows = b"\0", []
    for tag, text in [*((1, name) for name in needed), *([(29, runpath)] if runpath else [])]:
        rows += [tag, len(strings)]
        strings += text.encode() + b"\0"
    rows += [5, len(data), 10, len(strings), 0, 0]
    at = len(data) + len(strings) + -len(strings) % 16
    dynamic = struct.pack(f"<{len(rows)}Q", *rows)
    table = at + len(dynamic)
    total = table + 112
    heads = struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, total, total, 1)
    heads += struct.pack("<IIQQQQQQ", 2, 4, at, at, at, len(dynamic), len(dynamic), 8)
    head = data[:32] + struct.pack("<Q", table) + data[40:56] + struct.pack("<H", 2)
    return head + data[58:] + strings + bytes(-len(strings) % 16) + dynamic + heads


def bundle(entries: Sequence[tuple[str, bytes]]) -> bytes:
    """A plain offload bundle of (target, code); the host's empty entry comes first."""
    listed = [("host-x86_64-unknown-linux-gnu-", b"")] + [
        (f"hipv4-amdgcn-amd-amdhsa--{target}", data) for target, data in entries
    ]
    size = 32 + sum(24 + len(name) for name, _ in listed)
    offset = -(-size // 64) * 64
    table, body = b"", b""
    for name, data in listed:
        table += struct.pack("<QQQ", offset + len(body), len(data), len(name)) + name.encode()
        body += data + bytes(-len(data) % 64)
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(listed)) + table
    return head + bytes(offset - len(head)) + body


def compressed(plain: bytes, version: int, method: int = 1) -> bytes:
    """A compressed bundle, versions 1 to 3, method 0 zlib or 1 zstd."""
    packed = zlib.compress(plain) if method == 0 else _zstd(plain)
    size = {1: 20, 2: 24, 3: 32}[version] + len(packed)
    sizes = {
        1: struct.pack("<I", len(plain)),
        2: struct.pack("<II", size, len(plain)),
        3: struct.pack("<QQ", size, len(plain)),
    }[version]
    return b"CCOB" + struct.pack("<HH", version, method) + sizes + bytes(8) + packed


def offload_binary(images: Sequence[tuple[str, bytes]], version: int) -> bytes:
    """LLVM's OffloadBinary: version 1 holds exactly one image."""
    width = 16 if version == 1 else 24
    rows, strings, words, body = b"", b"", b"", b""
    table = 32 + 40 * len(images)
    texts = table + width * 2 * len(images)
    pool = [(("triple", "amdgcn-amd-amdhsa"), ("arch", arch)) for arch, _ in images]
    length = sum(len(k) + len(v) + 2 for pair in pool for k, v in pair)
    first = -(-(texts + length) // 8) * 8
    for index, (pair, (_, data)) in enumerate(zip(pool, images, strict=True)):
        rows += struct.pack("<HHIQQQQ", 1, 4, 0, table + width * 2 * index, 2, first + len(body), len(data))
        for key, value in pair:
            key_at = texts + len(words)
            words += key.encode() + b"\0"
            value_at = texts + len(words)
            words += value.encode() + b"\0"
            strings += struct.pack("<QQ", key_at, value_at) + (struct.pack("<Q", len(value)) if version > 1 else b"")
        body += data + bytes(-len(data) % 8)
    inner = rows + strings + words
    inner += bytes(first - 32 - len(inner)) + body
    last = 40 if version == 1 else len(images)
    return b"\x10\xff\x10\xad" + struct.pack("<IQQQ", version, 32 + len(inner), 32, last) + inner


def fatbin(entries: Sequence[tuple[int, int, bytes]]) -> bytes:
    """NVIDIA's fat binary of (kind: 1 PTX, 2 code; architecture; content)."""
    body = b""
    for kind, arch, data in entries:
        data += bytes(-len(data) % 8)
        body += struct.pack("<HHIQIIHHIQQQQ", kind, 0x101, 64, len(data), 0, 0, 8, 1, arch, 0, 0x11, 0, 0) + data
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def lazy_index(target: str, own: Sequence[str], fallback: Sequence[str], predicate: str = "") -> bytes:
    """A lazy Tensile index: a row for the target (where it has kernels of its own) and one for every processor."""
    rows: list[dict[str, object]] = []
    if own:
        processor = {"type": "Processor", "value": predicate or target}
        rows.append({"predicate": {"type": "AMDGPU", "value": processor}, "library": _problems(own)})
    rows.append({"predicate": {"type": "TruePred"}, "library": _problems(fallback)})
    return msgspec.msgpack.encode({"solutions": [], "library": {"type": "Hardware", "rows": rows}})


def solutions(fields: Sequence[str], source: bool = False) -> bytes:
    """A file of one solution with these fields, of a compiled kernel (`source`) or an assembled one."""
    size = {"depthU": 8, "sourceKernel": source}
    first = dict.fromkeys(fields, 0) | {"problemType": {"useBeta": True}, "sizeMapping": size}
    return msgspec.msgpack.encode({"solutions": [first], "library": {"rows": []}})


def padded(bundles: Sequence[bytes]) -> bytes:
    """Bundles as they lie in .hip_fatbin: each padded with zeros to 4,096 bytes."""
    return b"".join(data + bytes(-len(data) % 4096) for data in bundles)


def wrappers(count: int, magic: bytes = b"FPIH") -> bytes:
    """The registrations in .hipFatBinSegment."""
    return (magic + bytes(20)) * count


def _problems(prefixes: Sequence[str]) -> dict[str, object]:
    rows = [{"library": {"type": "Placeholder", "value": prefix}} for prefix in prefixes]
    return {"type": "ProblemMap", "map": {"Contraction_l_Ailk_Bjlk_Cijk_Dijk": {"type": "Problem", "rows": rows}}}


def _zstd(data: bytes) -> bytes:
    packer = ZstdCompressor()
    return bytes(packer.compress(data) + packer.flush())
