"""The promise: any bytes are either read as GGUF or refused with one sentence and an offset, in bounded time."""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillruns.errors import FormatError
from stillruns.formats import gguf


def reader(data: bytes) -> Callable[[int, int], bytes]:
    """`read_at` over bytes."""
    return lambda offset, count: data[offset : offset + count]


def text(value: bytes, long: bool = True, order: str = "<") -> bytes:
    """A GGUF string."""
    return struct.pack(order + ("Q" if long else "I"), len(value)) + value


def small(version: int = 3, order: str = "<") -> bytes:
    """A hand-made file with every scalar type, a short and a long array, a nested array and two tensors."""
    long = version > 1
    number = "Q" if long else "I"

    def key(name: bytes, kind: int, value: bytes) -> bytes:
        return text(name, long, order) + struct.pack(order + "I", kind) + value

    entries = [
        key(b"general.architecture", 8, text(b"llama", long, order)),
        key(b"u8", 0, b"\xff"),
        key(b"i8", 1, b"\xff"),
        key(b"u16", 2, struct.pack(order + "H", 65535)),
        key(b"i16", 3, struct.pack(order + "h", -2)),
        key(b"u32", 4, struct.pack(order + "I", 1 << 31)),
        key(b"i32", 5, struct.pack(order + "i", -3)),
        key(b"f32", 6, struct.pack(order + "f", 0.5)),
        key(b"yes", 7, b"\x01"),
        key(b"u64", 10, struct.pack(order + "Q", 1 << 63)),
        key(b"i64", 11, struct.pack(order + "q", -4)),
        key(b"f64", 12, struct.pack(order + "d", 0.25)),
        key(b"short", 9, struct.pack(f"{order}I{number}3i", 5, 3, 1, 2, 3)),
        key(
            b"names", 9, struct.pack(f"{order}I{number}", 8, 2) + text(b"a", long, order) + text(b"\xff", long, order)
        ),
        key(
            b"tokens",
            9,
            struct.pack(f"{order}I{number}", 8, 100) + b"".join(text(b"%d" % i, long, order) for i in range(100)),
        ),
        key(b"scores", 9, struct.pack(f"{order}I{number}", 6, 100) + bytes(400)),
        key(b"nested", 9, struct.pack(f"{order}I{number}I{number}2B", 9, 1, 0, 2, 7, 8)),
    ]
    tensors = [
        text(b"a", long, order) + struct.pack(f"{order}I2{number}IQ", 2, 32, 2, 8, 0),
        text(b"b", long, order) + struct.pack(f"{order}I1{number}IQ", 1, 3, 0, 96),
    ]
    head = b"GGUF" + struct.pack(f"{order}I2{number}", version, len(tensors), len(entries))
    body = head + b"".join(entries) + b"".join(tensors)
    return body + bytes(-len(body) % 32) + bytes(96 + 12)


SMALL = small()


@pytest.mark.parametrize(("version", "order"), [(1, "<"), (2, "<"), (3, "<"), (3, ">")])
def test_reads_every_version_and_byte_order(version: int, order: str) -> None:
    """Versions 1 to 3, little and big endian, give the same content."""
    data = small(version, order)
    read = gguf.read(reader(data), len(data))
    assert (read.version, read.big_endian, read.architecture) == (version, order == ">", "llama")
    assert read.metadata["u8"] == 255
    assert read.metadata["i8"] == -1
    assert read.metadata["u32"] == 1 << 31
    assert read.metadata["u64"] == 1 << 63
    assert read.metadata["i64"] == -4
    assert read.metadata["f32"] == 0.5
    assert read.metadata["yes"] is True
    assert read.metadata["short"] == (1, 2, 3)
    assert read.metadata["names"] == ("a", "\N{REPLACEMENT CHARACTER}")
    tokens = read.metadata["tokens"]
    assert isinstance(tokens, gguf.ArrayRef)
    assert (tokens.count, tokens.element) == (100, 8)
    scores = read.metadata["scores"]
    assert isinstance(scores, gguf.ArrayRef)
    assert (scores.count, scores.bytes) == (100, 400)
    first, second = read.tensors
    assert (first.name, first.shape, first.type_name, first.bytes) == ("a", (32, 2), "Q8_0", 68)
    assert (second.offset, second.bytes) == (read.data + 96, 12)
    assert read.missing == 0


def test_every_truncation_is_noticed() -> None:
    """A file cut at any byte is refused with an offset, or, within the weights, said to miss exactly what it does."""
    whole = gguf.read(reader(SMALL), len(SMALL))
    for length in range(len(SMALL)):
        cut = SMALL[:length]
        try:
            read = gguf.read(reader(cut), length)
        except FormatError as error:
            assert error.offset is not None
            assert error.offset <= length
            assert length < whole.data
        else:
            assert read.missing == len(SMALL) - length
            assert read.tensors == whole.tensors


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "magic"),
        (b"GGML" + SMALL[4:], "not a GGUF file"),
        (b"GGUF" + struct.pack("<I", 9) + SMALL[8:], "version 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 0), "tensor count"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 19) + bytes(64), "metadata count"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 60) + bytes(64), "claims"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text(b"k") + struct.pack("<I", 13), "unknown metadata type"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text(b"k") + struct.pack("<IIQ", 9, 4, 1 << 62), "claims"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text(b"k") + struct.pack("<IIQ", 9, 77, 0), "element type"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text(b"\xff") + bytes(13), "UTF-8"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + 2 * (text(b"k") + struct.pack("<IB", 0, 1)) + bytes(9), "twice"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text(b"general.alignment") + struct.pack("<II", 4, 7), "alignment"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text(b"t") + struct.pack("<I5QIQ", 5, *[1] * 5, 0, 0),
            "dimensions",
        ),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text(b"t") + struct.pack("<I1QIQ", 1, 33, 8, 0), "do not divide"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text(b"t") + struct.pack("<IIQ", 0, 8, 0),
            "rows of 1 do not divide",
        ),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text(b"t") + struct.pack("<I1QIQ", 1, 32, 8, 5), "not aligned"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text(b"t") + struct.pack("<I4QIQ", 4, *[1 << 62] * 4, 0, 0),
            "ggml can count",
        ),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text(b"k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 9,
            "nested",
        ),
    ],
)
def test_refusals_say_what_and_where(data: bytes, says: str) -> None:
    """Each kind of damage has its own sentence."""
    with pytest.raises(FormatError, match=says):
        gguf.read(reader(data), len(data))


def test_a_type_of_the_future_is_listed_without_a_size() -> None:
    """An unknown tensor type is a fact about this reader, not about the file."""
    data = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text(b"t") + struct.pack("<I1QIQ", 1, 32, 999, 0)
    data += bytes(-len(data) % 32)
    (tensor,) = gguf.read(reader(data), len(data)).tensors
    assert (tensor.bytes, tensor.type_name) == (None, "type 999")


@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), min_size=1, max_size=8))
@settings(max_examples=400, deadline=None)
def test_mutations_are_read_or_refused(changes: list[tuple[int, int]]) -> None:
    """Flipped bytes anywhere end in a reading or in FormatError, nothing else."""
    data = bytearray(SMALL)
    for place, value in changes:
        data[place] = value
    try:
        read = gguf.read(reader(bytes(data)), len(data))
    except FormatError as error:
        assert str(error)
    else:
        assert len(read.tensors) <= 2 + len(changes) * 256


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_bytes_after_the_magic(tail: bytes) -> None:
    """Arbitrary bytes after a good start never escape as another error."""
    data = b"GGUF\x03\x00\x00\x00" + tail
    with contextlib.suppress(FormatError):
        gguf.read(reader(data), len(data))


def test_a_claimed_size_that_the_file_does_not_have() -> None:
    """A file that shrinks while it is read is refused, not looped over."""
    with pytest.raises(FormatError, match="could not be read"):
        gguf.read(reader(SMALL[:40]), len(SMALL))


def test_agrees_with_the_gguf_package(tmp_path: Path) -> None:
    """The reference implementation's writer and reader see the same file; block sizes agree."""
    reference = pytest.importorskip("gguf", reason="the package gguf (extra `oracle`) is not installed")
    numpy = pytest.importorskip("numpy")
    for kind, (block, size) in reference.constants.GGML_QUANT_SIZES.items():
        if kind.name == "Q8_1":  # never in files; the package counts two float32, ggml two binary16
            continue
        assert gguf.TENSOR_TYPES[int(kind)] == (kind.name, block, size)
    path = tmp_path / "reference.gguf"
    writer = reference.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_token_list([f"t{i}" for i in range(200)])
    writer.add_token_scores([0.5] * 200)
    writer.add_tensor("a", numpy.zeros((3, 64), dtype=numpy.float16))
    writer.add_tensor("b", numpy.ones(5, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    data = path.read_bytes()
    read = gguf.read(reader(data), len(data))
    theirs = reference.GGUFReader(path)
    assert [(t.name, list(t.shape), t.offset, t.bytes) for t in read.tensors] == [
        (t.name, t.shape.tolist(), t.data_offset, t.n_bytes) for t in theirs.tensors
    ]
    assert read.metadata["general.name"] == "tiny"
    tokens = read.metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, gguf.ArrayRef)
    assert tokens.count == 200
    stream = io.BytesIO(data)

    def seeking(offset: int, count: int) -> bytes:
        stream.seek(offset)
        return stream.read(count)

    assert gguf.read(seeking, len(data)) == read
