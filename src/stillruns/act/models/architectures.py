"""What llama.cpp expects in a model file of each architecture: metadata keys, tensor names, shapes.

Read off llama.cpp's loader (`llama-model.cpp`, `llama-arch.cpp`) and checked by loading the files with real servers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from stillruns.act.models.gguf_writer import U32, I32Array, MetadataValue, TensorEntry
from stillruns.act.models.tokenizer import byte_level

FILE_TYPES: dict[str, int] = {"F16": 1, "Q4_0": 2, "Q8_0": 7}
"""`general.file_type` (llama.cpp's enum llama_ftype)."""
FULL_ATTENTION_INTERVAL = 4
"""In qwen35 every fourth layer is full attention, the others are gated delta nets."""
CONV_KERNEL = 4
KEY_HEADS, VALUE_HEADS = 1, 2
"""Heads of the gated delta net."""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The size of a model. `head_dim`, `embd`, `ff`, `state` in elements; `kv`, `heads` count heads; `ctx` tokens."""

    layers: int
    embd: int
    ff: int
    heads: int
    kv: int
    head_dim: int
    ctx: int
    state: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """Weights of `std`; rows whose index is not in `rows` (None = all) are zero."""

    entry: TensorEntry
    std: float
    rows: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Vector:
    """binary32 values centre + q * 2^-k (weights.f32)."""

    entry: TensorEntry
    centre: float
    k: int


def metadata(arch: str, name: str, kind: str, dims: Dimensions) -> dict[str, MetadataValue]:
    """Every key that llama.cpp asks for, in a fixed order."""
    tokenizer = byte_level()
    keys: dict[str, MetadataValue] = {
        "general.architecture": arch,
        "general.name": name,
        "general.file_type": U32(FILE_TYPES[kind]),
        f"{arch}.context_length": U32(dims.ctx),
        f"{arch}.embedding_length": U32(dims.embd),
        f"{arch}.block_count": U32(dims.layers),
        f"{arch}.feed_forward_length": U32(dims.ff),
        f"{arch}.attention.head_count": U32(dims.heads),
        f"{arch}.attention.head_count_kv": U32(dims.kv),
        f"{arch}.attention.key_length": U32(dims.head_dim),
        f"{arch}.attention.value_length": U32(dims.head_dim),
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{arch}.rope.freq_base": 10000.0,
        f"{arch}.rope.dimension_count": U32(dims.head_dim),
        f"{arch}.vocab_size": U32(len(tokenizer.tokens)),
    }
    if arch == "qwen35":
        keys |= {
            "qwen35.rope.dimension_sections": I32Array((dims.head_dim // 8,) * 4),
            "qwen35.ssm.conv_kernel": U32(CONV_KERNEL),
            "qwen35.ssm.state_size": U32(dims.state),
            "qwen35.ssm.group_count": U32(KEY_HEADS),
            "qwen35.ssm.time_step_rank": U32(VALUE_HEADS),
            "qwen35.ssm.inner_size": U32(dims.state * VALUE_HEADS),
            "qwen35.full_attention_interval": U32(FULL_ATTENTION_INTERVAL),
        }
    return keys | {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2" if arch == "llama" else "qwen2",
        "tokenizer.ggml.tokens": tokenizer.tokens,
        "tokenizer.ggml.token_type": I32Array(tokenizer.types),
        "tokenizer.ggml.merges": tokenizer.merges,
        "tokenizer.ggml.bos_token_id": U32(tokenizer.end),
        "tokenizer.ggml.eos_token_id": U32(tokenizer.end),
        "tokenizer.ggml.add_bos_token": False,
    }


def tensors(arch: str, kind: str, dims: Dimensions) -> Iterator[Matrix | Vector]:
    """Every tensor, in file order: embeddings, output, then layer by layer."""
    make = _Maker(kind, math.sqrt(min(1.0, 4 / dims.layers)))
    tokenizer = byte_level()
    vocabulary = len(tokenizer.tokens)
    yield make.matrix("token_embd.weight", vocabulary, dims.embd, std=1.0)
    yield make.norm("output_norm.weight", dims.embd)
    # Rows of tokens that are not printable stay zero, so that greedy text is valid UTF-8: llama-server answers a
    # request whose text is not with HTTP 500.
    output = make.matrix("output.weight", vocabulary, dims.embd, std=3.0 / math.sqrt(dims.embd))
    yield Matrix(output.entry, output.std, tokenizer.printable)
    for layer in range(dims.layers):
        prefix = f"blk.{layer}."
        yield make.norm(f"{prefix}attn_norm.weight", dims.embd)
        if arch == "qwen35" and (layer + 1) % FULL_ATTENTION_INTERVAL:
            yield from _delta_net(make, prefix, dims)
        else:
            yield from _attention(make, prefix, arch, dims)
        after = "post_attention_norm" if arch == "qwen35" else "ffn_norm"
        yield make.norm(f"{prefix}{after}.weight", dims.embd)
        yield make.matrix(f"{prefix}ffn_gate.weight", dims.ff, dims.embd)
        yield make.matrix(f"{prefix}ffn_up.weight", dims.ff, dims.embd)
        yield make.into_stream(f"{prefix}ffn_down.weight", dims.embd, dims.ff)


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the entries; `depth` scales what a layer adds to the residual stream."""

    kind: str
    depth: float

    def matrix(self, name: str, rows: int, columns: int, std: float | None = None) -> Matrix:
        """By default scaled to keep the size of activations: 1 / sqrt(fan-in)."""
        return Matrix(TensorEntry(name, (columns, rows), self.kind), std or 1.0 / math.sqrt(columns))

    def into_stream(self, name: str, rows: int, columns: int) -> Matrix:
        """What is added to the residual stream shrinks with the depth: else the token's own embedding drowns in a
        deep model, and the greedy text of 24 layers is one character for ever."""
        return self.matrix(name, rows, columns, self.depth / math.sqrt(columns))

    def norm(self, name: str, length: int) -> Vector:
        """A norm's weights: 1 with 2 % of spread."""
        return Vector(TensorEntry(name, (length,), "F32"), 1.0, 11)


def _attention(make: _Maker, prefix: str, arch: str, dims: Dimensions) -> Iterator[Matrix | Vector]:
    wide, narrow = dims.heads * dims.head_dim, dims.kv * dims.head_dim
    gated = 2 if arch == "qwen35" else 1  # qwen35's query projection carries the output gate besides
    yield make.matrix(f"{prefix}attn_q.weight", wide * gated, dims.embd)
    yield make.matrix(f"{prefix}attn_k.weight", narrow, dims.embd)
    yield make.matrix(f"{prefix}attn_v.weight", narrow, dims.embd)
    yield make.into_stream(f"{prefix}attn_output.weight", dims.embd, wide)
    if arch != "llama":
        yield make.norm(f"{prefix}attn_q_norm.weight", dims.head_dim)
        yield make.norm(f"{prefix}attn_k_norm.weight", dims.head_dim)


def _delta_net(make: _Maker, prefix: str, dims: Dimensions) -> Iterator[Matrix | Vector]:
    keys, values = dims.state * KEY_HEADS, dims.state * VALUE_HEADS
    channels = 2 * keys + values
    yield make.matrix(f"{prefix}attn_qkv.weight", channels, dims.embd)
    yield make.matrix(f"{prefix}attn_gate.weight", values, dims.embd)
    yield Vector(TensorEntry(f"{prefix}ssm_conv1d.weight", (CONV_KERNEL, channels), "F32"), 0.0, 6)
    yield Vector(TensorEntry(f"{prefix}ssm_dt.bias", (VALUE_HEADS,), "F32"), 0.5, 11)
    # -exp(A_log): the decay of the state, below zero by construction
    yield Vector(TensorEntry(f"{prefix}ssm_a", (VALUE_HEADS,), "F32"), -1.0, 7)
    yield make.matrix(f"{prefix}ssm_beta.weight", VALUE_HEADS, dims.embd)
    yield make.matrix(f"{prefix}ssm_alpha.weight", VALUE_HEADS, dims.embd)
    yield make.norm(f"{prefix}ssm_norm.weight", dims.state)
    yield make.into_stream(f"{prefix}ssm_out.weight", dims.embd, values)
