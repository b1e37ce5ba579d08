"""Walkers of device code: every container is read as its compiler wrote it; hostile bytes give FormatError or a
sentence, quickly, and never another exception."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import device_code as make
from stillruns.errors import FormatError
from stillruns.formats import amdgpu, bundles, code_file, elf, kpack, nvidia, offload_binary, tensile
from stillruns.formats.reading import ReadAt, Span
from stillruns.model.code_object import Feature


def reader(data: bytes) -> ReadAt:
    return lambda offset, n: data[offset : offset + n]


def span(data: bytes) -> Span:
    return Span(reader(data), 0, len(data))


CODE = make.code("gfx906")
PLAIN = make.bundle([("gfx900", make.code("gfx900")), ("gfx906:xnack-", CODE)])
KPACK = b"KPAK" + struct.pack("<IQ", 1, 64) + bytes(48)
KPACK += msgspec.msgpack.encode(
    {
        "gfx_arches": ["gfx906", "gfx1100"],
        "toc": {"lib/libx.so#0": {"gfx906": {"ordinal": 0}}, "other": {"gfx1100": {}}},
    }
)
INDEX = make.lazy_index("gfx906", ["A_gfx906"], ["A_fallback"])


def targets(data: bytes) -> list[tuple[str, list[str]]]:
    return [(b.form, [e.target for e in b.entries if e.target]) for b in bundles.walk(span(data))]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("method", [0, 1])
def test_compressed_bundles_of_every_version_and_method(version: int, method: int) -> None:
    """Versions 1 to 3, zlib and zstd, also several in one section: version 1 does not tell where it ends."""
    one = make.compressed(PLAIN, version, method)
    form = f"v{version}/{('zlib', 'zstd')[method]}"
    assert targets(make.padded([one, PLAIN, one])) == [
        (form, ["gfx900", "gfx906:xnack-"]),
        ("plain", ["gfx900", "gfx906:xnack-"]),
        (form, ["gfx900", "gfx906:xnack-"]),
    ]


def test_a_bundle_table_longer_than_a_page_is_read_whole() -> None:
    """Two hundred entries do not fit into the first 4,096 bytes."""
    many = [(f"gfx{900 + i}", CODE) for i in range(200)]
    for data in (make.bundle(many), make.compressed(make.bundle(many), 3)):
        ((_, found),) = targets(data)
        assert found == [target for target, _ in many]


def test_damage_between_bundles_does_not_hide_the_next() -> None:
    """An unknown compression version or junk is one sentence; the bundle behind it is found all the same."""
    broken = b"CCOB" + struct.pack("<HH", 9, 1) + bytes(4088)
    found = list(bundles.walk(span(make.padded([broken, b"junk", PLAIN]))))
    assert [b.form for b in found] == ["damaged", "plain"]
    assert "version 9" in found[0].problem


def test_a_truncated_bundle_says_how_much_is_missing() -> None:
    """The last code object is cut: its bundle is listed and the bytes beyond the end are counted."""
    (found,) = bundles.walk(span(PLAIN[:-112]))
    assert found.problem.endswith("goes 100 bytes beyond its section")


def test_a_bomb_stays_packed() -> None:
    """A compressed bundle of 64 MB of zeros is refused after its head, in no time and no memory."""
    bomb = span(make.compressed(b"__CLANG_OFFLOAD_BUNDLE__" + b"\xff" * 8 + bytes(64 << 20), 2))
    started = time.process_time()
    (found,) = bundles.walk(bomb)
    assert "claims" in found.problem
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("flags", "abi", "target"),
    [
        (0x2F, 3, "gfx906"),
        (0x2F | 2 << 8 | 3 << 10, 2, "gfx906:sramecc+:xnack-"),
        (0x3F | 3 << 8, 4, "gfx90a:xnack+"),
        (0x51 | 1 << 24, 4, "gfx9-generic"),
        (0xFE, 2, "unknown-0xfe"),
        (0x2F | 0x100, 1, "gfx906:xnack+"),
    ],
)
def test_headers_of_code_objects(flags: int, abi: int, target: str) -> None:
    """The processor (gfx90a keeps its letter), features and version come from e_flags and EI_ABIVERSION."""
    found = amdgpu.header(make.elf(machine=224, abi=abi, flags=flags))
    assert found is not None
    assert (found.target, found.version) == (target, abi + 2)


@pytest.mark.parametrize(
    ("entry", "target"),
    [
        ("hipv4-amdgcn-amd-amdhsa--gfx906:sramecc+:xnack-", "gfx906:sramecc+:xnack-"),
        ("hip-amdgcn-amd-amdhsa-gfx90a", "gfx90a"),
        ("hipv4-amdgcn-amd-amdhsa--gfx10-3-generic", "gfx10-3-generic"),
        ("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic:xnack+", "gfx9-4-generic:xnack+"),
        ("host-x86_64-unknown-linux-gnu-", ""),
        ("", ""),
    ],
)
def test_targets_in_ids_of_entries(entry: str, target: str) -> None:
    """An id ends with its target, hyphens and features included."""
    assert amdgpu.target_in(entry) == target


def test_features_that_an_id_does_not_say_are_any() -> None:
    """`gfx906:xnack-` fixes xnack and leaves sramecc open."""
    assert amdgpu.features_in("gfx906:xnack-") == ("gfx906", Feature.OFF, Feature.ANY)


@pytest.mark.parametrize("version", [1, 2])
def test_offload_binaries(version: int) -> None:
    """Version 1 holds an image a binary, version 2 several; both say triple and arch in strings."""
    images = [("gfx900", make.code("gfx900")), ("gfx906:xnack-", CODE)]
    if version == 1:
        data = b"".join(make.offload_binary([image], 1) for image in images)
    else:
        data = make.offload_binary(images, 2)
    found = [image for group in offload_binary.walk(span(data)) for image in group]
    assert [(i.arch, i.triple, i.code and i.code.processor) for i in found] == [
        ("gfx900", "amdgcn-amd-amdhsa", "gfx900"),
        ("gfx906:xnack-", "amdgcn-amd-amdhsa", "gfx906"),
    ]


def test_fat_binaries_of_nvidia() -> None:
    """Machine code and PTX are told apart; a second fat binary behind padding is found."""
    data = make.fatbin([(2, 61, b"x" * 50), (1, 61, b"ptx")]) + bytes(40) + make.fatbin([(2, 120, b"y")])
    found = list(nvidia.walk(span(data)))
    assert [[e.target for e in f.entries] for f in found] == [["sm_61", "compute_61"], ["sm_120"]]
    (cut,) = nvidia.walk(span(data[:90]))
    assert "claims" in cut.problem


def test_kpack_archives_and_references() -> None:
    """An archive tells the targets of each binary, which lists its bundles with numbers."""
    archive = kpack.archive(reader(KPACK), len(KPACK))
    assert archive.targets == ("gfx906", "gfx1100")
    assert archive.of("lib/libx.so") == ("gfx906",)
    assert archive.of("lib/lib") == ()
    data = msgspec.msgpack.encode(
        {"kernel_name": "lib/libx.so", "kpack_search_paths": ["../.kpack/x_@GFXARCH@.kpack"]}
    )
    found = kpack.reference(span(data + bytes(20)))
    assert found == kpack.Reference("lib/libx.so", ("../.kpack/x_@GFXARCH@.kpack",))


def test_indexes_of_kernels() -> None:
    """A lazy index gives its rows with the prefixes below them; the stream reader sees the same rows."""
    assert tensile.lazy(INDEX) == (tensile.Row("gfx906", ("A_gfx906",)), tensile.Row("", ("A_fallback",)))
    assert [r.target for r in tensile.merged(reader(INDEX), len(INDEX))] == ["gfx906", ""]
    for cut in (b"", INDEX[:30], INDEX[:-3]):
        with pytest.raises(FormatError):
            tensile.lazy(cut)
        with pytest.raises(FormatError):
            tensile.merged(reader(cut), len(cut))


def test_names_of_code_follow_the_library() -> None:
    """Fallback code is named after the target, once, whether or not the prefix already is (AMD's wheels do that)."""
    assert tensile.code_names("T_fallback", "gfx900")[0] == "T_fallback_gfx900.hsaco"
    assert tensile.code_names("T_fallback_gfx900", "gfx900")[0] == "T_fallback_gfx900.hsaco"
    assert tensile.code_names("T_gfx900", "gfx900") == ("T_gfx900.co", "T_gfx900.hsaco")
    assert tensile.target_in("Kernels.so-000-gfx90a-xnack+.hsaco") == "gfx90a"
    assert tensile.target_in("hipblasltTransform.hsaco") == ""


def test_code_files_tell_their_maker_and_whether_they_are_whole() -> None:
    """The linker comes from .comment; a file that is cut says so."""
    assert code_file.read(reader(CODE), len(CODE)) == code_file.CodeFile("gfx906", 5, "LLD 19.1.7")
    assert "sections" in code_file.read(reader(CODE[:-10]), len(CODE) - 10).problem
    packed = make.compressed(PLAIN, 2)
    assert code_file.read(reader(packed), len(packed)).problem == ""
    assert "shall have" in code_file.read(reader(packed[:-1]), len(packed) - 1).problem


def test_an_elf_file_without_section_headers_still_tells_what_it_links() -> None:
    """Linking comes from the program headers: DT_NEEDED, DT_SONAME and DT_RUNPATH of a library with neither."""
    strings = b"\0libamdhip64.so.6\0libx.so\0$ORIGIN/../lib:/opt/rocm/lib\0"
    dynamic = struct.pack("<12Q", 1, 1, 14, 18, 29, 26, 5, 0x1000, 10, len(strings), 0, 0)
    base = 64 + 56 * 2
    head = (
        b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    )
    rows = struct.pack("<IIQQQQQQ", 1, 4, base, 0x1000, 0, len(strings), len(strings), 1)
    rows += struct.pack("<IIQQQQQQ", 2, 4, base + len(strings), 0x2000, 0, len(dynamic), len(dynamic), 8)
    data = head + rows + strings + dynamic
    found = elf.read(reader(data), len(data))
    assert found.linking.needed == ("libamdhip64.so.6",)
    assert found.linking.soname == "libx.so"
    assert found.linking.runpath == ("$ORIGIN/../lib", "/opt/rocm/lib")


def walk_all(data: bytes) -> None:
    """Every walker over the same bytes; only FormatError may come out."""
    jobs: tuple[Callable[[], object], ...] = (
        lambda: elf.read(reader(data), len(data)),
        lambda: list(bundles.walk(span(data))),
        lambda: list(offload_binary.walk(span(data))),
        lambda: list(nvidia.walk(span(data))),
        lambda: kpack.archive(reader(data), len(data)),
        lambda: kpack.reference(span(data)),
        lambda: tensile.lazy(data),
        lambda: tensile.mapping(data),
        lambda: tensile.code_suffixes(data),
        lambda: tensile.merged(reader(data), len(data)),
        lambda: tensile.solution_fields(reader(data), len(data)),
        lambda: code_file.read(reader(data), len(data)),
        lambda: amdgpu.header(data),
    )
    for job in jobs:
        with contextlib.suppress(FormatError):
            job()


SEEDS = (
    make.elf([(".hip_fatbin", PLAIN), (".hipFatBinSegment", make.wrappers(1))]),
    make.padded([PLAIN, make.compressed(PLAIN, 2), make.compressed(PLAIN, 3, 0)]),
    make.compressed(PLAIN, 1),
    make.offload_binary([("gfx906", CODE)], 1) + make.offload_binary([("gfx906", CODE), ("gfx900", CODE)], 2),
    make.fatbin([(2, 61, b"x" * 50), (1, 61, b"ptx")]),
    KPACK,
    INDEX,
    CODE,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_files_never_raise_anything_else(data: st.DataObject) -> None:
    """Bytes overwritten, cut or put in anywhere in a valid file."""
    damaged = bytearray(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        junk = data.draw(
            st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\xff", b"\x80", b"\x7f\xff\xff\xff", b"CCOB", b"\xdf"])
        )
        damaged[at : at + len(junk)] = junk
    end = data.draw(st.integers(1, len(damaged)))
    walk_all(bytes(damaged[: end if data.draw(st.booleans()) else len(damaged)]))


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"\x7fELF\x02\x01\x01", b"CCOB", b"KPAK", bundles.MAGIC, offload_binary.MAGIC]),
)
def test_arbitrary_bytes_never_raise_anything_else(tail: bytes, head: bytes) -> None:
    """Junk behind each magic."""
    walk_all(head + tail)
