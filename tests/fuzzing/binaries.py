"""Every parser of a binary format, on its own, and what `check` makes of a file with device code."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import msgspec

import device_code as made
from fuzzing import damage
from fuzzing.target import Target
from stillruns.errors import FormatError
from stillruns.formats import (
    amdgpu,
    bundles,
    code_file,
    core_notes,
    elf,
    elf_dynamic,
    gguf,
    kpack,
    nvidia,
    offload_binary,
    tensile,
)
from stillruns.formats.reading import ReadAt, Span
from stillruns.model.absence import Absence
from stillruns.normalise import code_objects


def _reader(data: bytes) -> ReadAt:
    return lambda offset, count: (
        data[offset : offset + count] if offset >= 0 and count >= 0 else _refuse(offset, count)
    )


def _refuse(offset: int, count: int) -> bytes:
    raise AssertionError(f"a read of {count} bytes at {offset}")


def _reads(parse: Callable[[ReadAt, int], object]) -> Callable[[bytes], None]:
    """FormatError is an answer."""

    def check(data: bytes) -> None:
        try:
            parse(_reader(data), len(data))
        except FormatError as error:
            assert "\n" not in str(error)

    return check


def _spans(walk: Callable[[Span], object]) -> Callable[[bytes], None]:
    return _reads(lambda read_at, size: walk(Span(read_at, 0, size)))


def _whole(parse: Callable[[bytes], object]) -> Callable[[bytes], None]:
    return _reads(lambda read_at, size: parse(read_at(0, size)))


def _code(read_at: ReadAt, size: int) -> None:
    found = code_objects.read(read_at, size, "/lib/x.so")
    if not isinstance(found, Absence):
        code_objects.archive_patterns(found)
        code_objects.with_archives(found, [(read_at, size, "/lib/x.kpack")])


def _plain() -> bytes:
    return made.bundle([("gfx900:xnack-", made.code("gfx900")), ("gfx1030", made.code("gfx1030"))])


def _libraries() -> list[bytes]:
    plain = _plain()
    hip = made.padded([plain, made.compressed(plain, 2), made.compressed(plain, 3)])
    return [
        made.elf([(".hip_fatbin", hip), (".hipFatBinSegment", made.wrappers(3))]),
        made.elf([(".hip_fatbin", made.compressed(plain, 1, 0)), (".hipFatBinSegment", made.wrappers(1))]),
        made.elf([(".llvm.offloading", made.offload_binary([("gfx906", made.code("gfx906"))], 1))]),
        made.elf([(".nv_fatbin", made.fatbin([(2, 61, b"cubin"), (1, 70, b".version 7")]))]),
        made.elf([(kpack.SECTION, _reference()), (".hipFatBinSegment", made.wrappers(2, b"KPIH"))]),
        made.code("gfx90a", features=0x500),
        plain,
    ]


def _reference() -> bytes:
    value = {"kernel_name": "a", "kpack_search_paths": ["../x_@GFXARCH@.kpack"]}
    return msgspec.msgpack.encode(value)


def _archive() -> bytes:
    toc = msgspec.msgpack.encode({"gfx_arches": ["gfx906"], "toc": {"a": {"gfx906": {"ordinal": 0, "size": 4}}}})
    return b"KPAK" + struct.pack("<IQ", 1, 64) + bytes(48) + toc


def _core() -> bytes:
    status = bytearray(400)
    struct.pack_into("<h", status, 12, 11)
    struct.pack_into("<Q", status, 112 + 16 * 8, 0x4010)
    files = struct.pack("<QQQQQ", 1, 4096, 0x4000, 0x5000, 0) + b"/usr/lib/libx.so\0"
    notes = b""
    for kind, data in ((1, bytes(status)), (0x53494749, struct.pack("<iiiiQ", 11, 0, 1, 0, 16)), (0x46494C45, files)):
        notes += struct.pack("<III", 5, len(data), kind) + b"CORE\0\0\0\0" + data + bytes(-len(data) % 4)
    head = (
        b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    )
    return head + struct.pack("<IIQQQQQQ", 4, 0, 120, 0, 0, len(notes), 0, 4) + notes


def _model() -> bytes:
    def text(value: bytes) -> bytes:
        return struct.pack("<Q", len(value)) + value

    pairs = [
        text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama"),
        text(b"names") + struct.pack("<IIQ", 9, 8, 80) + b"".join(text(b"%d" % n) for n in range(80)),
        text(b"nested") + struct.pack("<IIQIQ2B", 9, 9, 1, 0, 2, 7, 8),
    ]
    tensor = text(b"a") + struct.pack("<I2QIQ", 2, 32, 2, 8, 0)
    body = b"GGUF" + struct.pack("<IQQ", 3, 1, len(pairs)) + b"".join(pairs) + tensor
    return body + bytes(-len(body) % 32) + bytes(96)


def _indexes() -> list[bytes]:
    return [
        made.lazy_index("gfx906", ["A_gfx906"], ["B_fallback"]),
        made.lazy_index("gfx900", [], ["B_fallback"]),
        made.solutions(["depthU", "sizeMapping"]),
        msgspec.msgpack.encode({"Cijk": ["a", "b"], "x": {"y": 1}}),
    ]


def _one(name: str, seeds: Callable[[], Sequence[bytes]], check: Callable[[bytes], None]) -> Target:
    return Target(name, seeds, check, damage.binary)


TARGETS = (
    _one("code-objects", _libraries, _reads(_code)),
    _one("code-file", _libraries, _reads(code_file.read)),
    _one("elf", _libraries, _reads(elf.read)),
    _one("elf-dynamic", _libraries, _reads(elf_dynamic.read)),
    _one("bundles", lambda: [_plain(), made.compressed(_plain(), 3)], _spans(lambda span: list(bundles.walk(span)))),
    _one("offload-binary", lambda: [made.offload_binary([("gfx906", b"x")], v) for v in (1, 2)],
         _spans(lambda span: list(offload_binary.walk(span)))),
    _one("nvidia-fatbin", lambda: [made.fatbin([(2, 61, b"cubin")])], _spans(lambda span: list(nvidia.walk(span)))),
    _one("kpack-reference", lambda: [_reference()], _spans(kpack.reference)),
    _one("kpack-archive", lambda: [_archive()], _reads(kpack.archive)),
    _one("amdgpu-header", lambda: [made.code("gfx906")], _whole(amdgpu.header)),
    _one("core-notes", lambda: [_core()], _reads(core_notes.read)),
    _one("gguf", lambda: [_model()], _reads(gguf.read)),
    _one("tensile-lazy", _indexes, _whole(tensile.lazy)),
    _one("tensile-merged", _indexes, _reads(tensile.merged)),
    _one("tensile-mapping", _indexes, _whole(tensile.mapping)),
    _one("tensile-suffixes", _indexes, _whole(tensile.code_suffixes)),
    _one("tensile-solutions", _indexes, _reads(tensile.solution_fields)),
)  # fmt: skip
