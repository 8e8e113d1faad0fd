"""Products of tokens and the weights of their routed experts, one (token, expert) pair at a time.

A column of PEs stores ``local_experts`` experts and processes at most P pairs. The list of pairs
consists of a count, followed by three values per pair: token, expert and weight. M is the number of
tokens, A is the number of experts per token, and an expert has K inputs and N outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wse.number_formats import CODINGS
from wse.program.isa.cycles.experts import (
    expert_bias_cycles,
    expert_in_cycles,
    expert_out_cycles,
    expert_pairs_cycles,
    one_expert_cycles,
    one_fp8_blocks_expert_cycles,
    one_mxfp4_expert_cycles,
)
from wse.program.isa.kernel import Kernel
from wse.program.isa.linear import blocks_bytes, tile_bytes
from wse.program.isa.operands import acc, act, f32, numbers, raw, wgt

_MXFP4: Final = CODINGS["mxfp4"].number
_NAMES: Final = tuple(CODINGS)


def _pair_list(P: int) -> int:
    """Return the number of elements of a list of P (token, expert) pairs.

    The list is the number of pairs, followed by the token, expert and routing weight of each pair.
    """
    return 1 + 3 * P


def _code_rows(K: int, coding: int) -> int:
    """Return the number of rows of bytes in which K rows of quantised weights are stored.

    Weights of neighbouring rows may share a byte.

    Args:
        K: Number of rows of weights.
        coding: Index of the storage format of the weights.
    """
    return CODINGS[_NAMES[coding]].code_bytes(K, 1)


def _coded_tile_extent(K: int, N: int, local_experts: int, k_stride: int, coding: int) -> int:
    """Return how many bytes the quantised weights (codes) of a column's experts span in SRAM.

    Args:
        K, N: Number of inputs and outputs of an expert.
        local_experts: Number of experts, whose codes are side by side in a row.
        k_stride: Row stride of the codes, in bytes.
        coding: Index of the storage format of the codes.
    """
    return (_code_rows(K, coding) - 1) * k_stride + local_experts * N


def _tiles_bytes(b: Mapping[str, int], P: int, K: int, N: int, local_experts: int) -> int:
    """Return how many bytes of expert weights a PE must read.

    A (token, expert) pair needs one tile, which is the weights of the expert on the PE. A tile that
    several pairs need is counted once.

    Args:
        b: Bytes per element of each SRAM view (``wgt``, ``act``, ...), by name.
        P: Maximum number of pairs.
        K, N: Number of inputs and outputs of an expert.
        local_experts: Number of experts on the PE.
    """
    return min(P, local_experts) * K * N * b["wgt"]


def _coded_tiles_bytes(b: Mapping[str, int], P: int, K: int, N: int, local_experts: int, coding: int, G: int) -> int:
    """Return how many bytes of quantised expert weights and their scales a PE must read.

    Args:
        b: Bytes per element of each SRAM view (``wgt``, ``act``, ...), by name.
        P: Maximum number of (token, expert) pairs.
        K, N: Number of inputs and outputs of an expert.
        local_experts: Number of experts on the PE; the weights of each are read once.
        coding: Index of the storage format.
        G: Number of groups of inputs that share scales.
    """
    return min(P, local_experts) * tile_bytes(_NAMES[coding], b, K, N, G)


def _mxfp4_bytes(b: Mapping[str, int], P: int, K: int, N: int, local_experts: int, G: int) -> int:
    """Return how many bytes of mxfp4 expert weights and their scales a PE must read.

    Args:
        b: Bytes per element of each SRAM view (``wgt``, ``act``, ...), by name.
        P: Maximum number of (token, expert) pairs.
        K, N: Number of inputs and outputs of an expert.
        local_experts: Number of experts on the PE; the weights of each are read once.
        G: Number of groups of inputs that share scales.
    """
    return min(P, local_experts) * tile_bytes("mxfp4", b, K, N, G)


def _fp8_blocks_bytes(b: Mapping[str, int], P: int, K: int, N: int, local_experts: int, G: int, B: int) -> int:
    """Return how many bytes of fp8 expert weights and their block scales a PE must read.

    Args:
        b: Bytes per element of each SRAM view (``wgt``, ``act``, ...), by name.
        P: Maximum number of (token, expert) pairs.
        K, N: Number of inputs and outputs of an expert.
        local_experts: Number of experts on the PE; the weights of each are read once.
        G, B: Number of groups of inputs, and blocks of outputs, that share scales.
    """
    return min(P, local_experts) * blocks_bytes(b, K, N, G, B)


EXPERTS: Final = (
    Kernel(
        name="expert_pairs",
        operands=(
            f32("ids", "M A"),
            f32("weights", "M A"),
            f32("pairs", _pair_list, output=True),
            *numbers("M A P experts columns groups segments"),
        ),
        work="M A",
        cycles=expert_pairs_cycles,
    ),
    Kernel(
        name="expert_in",
        operands=(
            act("x", "M K"),
            wgt("w", lambda K, N, local_experts, k_stride: (K - 1) * k_stride + local_experts * N),
            f32("pairs", _pair_list),
            acc("out", lambda P, N, out_stride: (P - 1) * out_stride + N, output=True),
            *numbers("P M K N local_experts k_stride out_stride weighted columns"),
        ),
        macs="P K N",
        read_bytes=_tiles_bytes,
        cycles=lambda c, P, K, N, weighted: expert_in_cycles(c, c.rows(K, N, c.mac), P, N, weighted),
    ),
    Kernel(
        name="expert_out",
        operands=(
            act("x", "P K"),
            wgt("w", "K local_experts N"),
            f32("pairs", _pair_list),
            acc("out", "M N", output=True),
            *numbers("P M K N local_experts weighted columns"),
        ),
        macs="P K N",
        read_bytes=_tiles_bytes,
        cycles=lambda c, P, M, K, N, weighted: expert_out_cycles(c, c.rows(K, N, c.mac), P, M, K, N, weighted),
    ),
    Kernel(
        name="expert_in_quantised",
        operands=(
            act("x", "M K"),
            raw("w", _coded_tile_extent),
            raw("groups", "K"),
            wgt("scale", lambda N, local_experts, k_stride, G: (G - 1) * k_stride + local_experts * N),
            f32("pairs", _pair_list),
            act("codes", "rows N", output=True, scratch=True),
            acc("out", lambda P, N, out_stride: (P - 1) * out_stride + N, output=True),
            *numbers("P M K N local_experts k_stride out_stride weighted columns coding G rows"),
        ),
        macs="P K N",
        operation_ps=200,
        read_bytes=_coded_tiles_bytes,
        cycles=lambda c, P, K, N, weighted, coding, rows: expert_in_cycles(
            c, one_expert_cycles(c, coding, K, N, rows), P, N, weighted
        ),
    ),
    Kernel(
        name="expert_in_mxfp4",
        operands=(
            act("x", "M K"),
            raw("w", lambda K, N, local_experts, k_stride: _coded_tile_extent(K, N, local_experts, k_stride, _MXFP4)),
            raw("groups", "K"),
            raw("scale", lambda N, local_experts, k_stride, G: (G - 1) * k_stride + local_experts * N),
            act("factors", "N", output=True, scratch=True),
            f32("pairs", _pair_list),
            act("codes", "rows N", output=True, scratch=True),
            acc("out", lambda P, N, out_stride: (P - 1) * out_stride + N, output=True),
            *numbers("P M K N local_experts k_stride out_stride weighted columns G rows"),
        ),
        macs="P K N",
        operation_ps=300,
        read_bytes=_mxfp4_bytes,
        cycles=lambda c, P, K, N, weighted, G, rows: expert_in_cycles(
            c, one_mxfp4_expert_cycles(c, K, N, G, rows), P, N, weighted
        ),
    ),
    Kernel(
        name="expert_in_fp8_blocks",
        operands=(
            act("x", "M K"),
            raw("w", lambda K, N, local_experts, k_stride: (K - 1) * k_stride + local_experts * N),
            raw("groups", "K"),
            raw("widths", "B"),
            f32("scale", lambda B, local_experts, scale_stride, G: (G - 1) * scale_stride + local_experts * B),
            act("factors", "N", output=True, scratch=True),
            f32("pairs", _pair_list),
            act("codes", "rows N", output=True, scratch=True),
            acc("out", lambda P, N, out_stride: (P - 1) * out_stride + N, output=True),
            *numbers("P M K N local_experts k_stride scale_stride out_stride weighted columns G B rows"),
        ),
        macs="P K N",
        operation_ps=350,
        read_bytes=_fp8_blocks_bytes,
        cycles=lambda c, P, K, N, weighted, G, B, rows: expert_in_cycles(
            c, one_fp8_blocks_expert_cycles(c, K, N, G, B, rows), P, N, weighted
        ),
    ),
    Kernel(
        name="expert_out_quantised",
        operands=(
            act("x", "P K"),
            raw("w", lambda K, N, local_experts, coding: _code_rows(K, coding) * local_experts * N),
            raw("groups", "K"),
            wgt("scale", "G local_experts N"),
            f32("pairs", _pair_list),
            act("codes", "rows N", output=True, scratch=True),
            acc("out", "M N", output=True),
            *numbers("P M K N local_experts weighted columns coding G rows"),
        ),
        macs="P K N",
        operation_ps=200,
        read_bytes=_coded_tiles_bytes,
        cycles=lambda c, P, M, K, N, weighted, coding, rows: expert_out_cycles(
            c, one_expert_cycles(c, coding, K, N, rows), P, M, K, N, weighted
        ),
    ),
    Kernel(
        name="expert_out_mxfp4",
        operands=(
            act("x", "P K"),
            raw("w", lambda K, N, local_experts: _code_rows(K, _MXFP4) * local_experts * N),
            raw("groups", "K"),
            raw("scale", "G local_experts N"),
            act("factors", "N", output=True, scratch=True),
            f32("pairs", _pair_list),
            act("codes", "rows N", output=True, scratch=True),
            acc("out", "M N", output=True),
            *numbers("P M K N local_experts weighted columns G rows"),
        ),
        macs="P K N",
        operation_ps=300,
        read_bytes=_mxfp4_bytes,
        cycles=lambda c, P, M, K, N, weighted, G, rows: expert_out_cycles(
            c, one_mxfp4_expert_cycles(c, K, N, G, rows), P, M, K, N, weighted
        ),
    ),
    Kernel(
        name="expert_out_fp8_blocks",
        operands=(
            act("x", "P K"),
            raw("w", "K local_experts N"),
            raw("groups", "K"),
            raw("widths", "B"),
            f32("scale", "G local_experts B"),
            act("factors", "N", output=True, scratch=True),
            f32("pairs", _pair_list),
            act("codes", "rows N", output=True, scratch=True),
            acc("out", "M N", output=True),
            *numbers("P M K N local_experts weighted columns G B rows"),
        ),
        macs="P K N",
        operation_ps=350,
        read_bytes=_fp8_blocks_bytes,
        cycles=lambda c, P, M, K, N, weighted, G, B, rows: expert_out_cycles(
            c, one_fp8_blocks_expert_cycles(c, K, N, G, B, rows), P, M, K, N, weighted
        ),
    ),
    Kernel(
        name="expert_bias",
        operands=(
            acc("x", lambda P, M, N, parts, stride, by_token: ((M if by_token else P) - 1) * stride + parts * N),
            wgt("bias", "parts biases_per_pe"),
            f32("pairs", _pair_list),
            *numbers("P M N parts local_experts stride by_token weighted biases_per_pe columns groups segments"),
        ),
        work="P parts N",
        cycles=expert_bias_cycles,
    ),
)
