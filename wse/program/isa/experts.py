"""Products with the experts that tokens chose, one (token, expert) pair after another.

A column of PEs stores ``local_experts`` experts and processes at most P pairs. The list of pairs
consists of a count, followed by three values per pair: token, expert and weight. M is the number of
tokens, A of experts per token, K of inputs and N of outputs of an expert.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wse.number_formats import CODINGS
from wse.program.isa.kernel import Kernel
from wse.program.isa.linear import blocks_bytes, one_expert_cycles, power_cycles, run_cycles, tile_bytes
from wse.program.isa.operands import acc, act, f32, numbers, raw, wgt
from wse.program.isa.pe_costs import PeCosts

_FP8: Final = CODINGS["fp8"].number
_MXFP4: Final = CODINGS["mxfp4"].number
_NAMES: Final = tuple(CODINGS)


def _products(P: int, K: int, N: int) -> int:
    """Return the multiply-adds of P (token, expert) pairs, each with a ``[K, N]`` matrix."""
    return P * K * N


def _pair_list(P: int) -> int:
    """Return the number of elements of a list of P (token, expert) pairs.

    They are a count, followed by token, expert and weight of each pair.
    """
    return 1 + 3 * P


def _code_rows(K: int, coding: int) -> int:
    """Return the number of rows of bytes that K rows of quantised weights need.

    Several weights may share a byte. ``coding`` is the index of their storage format.
    """
    return CODINGS[_NAMES[coding]].code_bytes(K, 1)


def _coded_tile_extent(K: int, N: int, local_experts: int, k_stride: int, coding: int) -> int:
    """Return the bytes from the first to the last code of the quantised experts on a column.

    Args:
        K, N: Inputs and outputs of an expert.
        local_experts: Number of experts, whose codes are side by side in a row.
        k_stride: Bytes from one row of codes to the next.
        coding: Index of the storage format of the codes.
    """
    return (_code_rows(K, coding) - 1) * k_stride + local_experts * N


def _list_cycles(c: PeCosts, count: int) -> float:
    """Return the cycles of a loop that reads the token, expert and weight of ``count`` pairs."""
    return count * (c.loop + 3 * c.vector(1, c.f32))


def _pairs_cycles(c: PeCosts, M: int, A: int, P: int, groups: int, segments: int) -> float:
    """Return the cycles of listing the (token, expert) pairs whose experts a column of PEs stores.

    If a column stores parts of all experts, every pair matches. Tokens, ids and weights are then
    copied as vectors, to every third element of the list.

    Args:
        c: Costs of operations on the PE.
        M, A: Tokens, and experts per token.
        P: Maximum number of pairs in the list.
        groups, segments: Groups in each segment of the columns, and number of segments. Each group
            stores other experts. Both are 1 if every column stores parts of all experts.
    """
    if groups * segments > 1:
        return _list_cycles(c, M * A) + _list_cycles(c, P)
    return c.vector(1, c.f32) + M * c.strided_vector(A, c.f32) + 2 * c.strided_vector(M * A, c.f32)


def _in_cycles(c: PeCosts, product: float, P: int, N: int, weighted: int) -> float:
    """Return the cycles of the first product of an expert layer, for all (token, expert) pairs.

    Args:
        c: Costs of operations on the PE.
        product: Cycles of the product for one pair.
        P: Maximum number of pairs.
        N: Outputs.
        weighted: 1 to multiply the outputs by the pair's router weight, else 0.
    """
    weighing = c.vector(N, c.acc) if weighted else 0.0
    return _list_cycles(c, P) + P * (c.vector(N, c.acc) + product + weighing)


def _out_cycles(c: PeCosts, product: float, P: int, M: int, K: int, N: int, weighted: int) -> float:
    """Return the cycles of the second product of an expert layer, for all (token, expert) pairs.

    The outputs of each pair are added to the sums of its token.

    Args:
        c: Costs of operations on the PE.
        product: Cycles of the product for one pair.
        P: Maximum number of pairs.
        M: Tokens.
        K: Inputs.
        N: Outputs.
        weighted: 1 to multiply the inputs by the pair's router weight, else 0.
    """
    weighing = c.vector(K, c.act) if weighted else 0.0
    return c.vector(M * N, c.acc) + _list_cycles(c, P) + P * (weighing + product)


def _bias_cycles(c: PeCosts, P: int, M: int, N: int, parts: int, weighted: int, share: int) -> float:
    """Return the cycles to add the biases of the experts, for all (token, expert) pairs.

    A PE reads the whole list of pairs. It stores only ``share`` biases of each part, and adds them
    to the outputs of those few pairs whose biases it stores.

    Args:
        c: Costs of operations on the PE.
        P, M: Maximum number of pairs, and tokens.
        N, parts: Outputs of each part, and number of parts, such as gate and up.
        weighted: 1 to multiply the biases by the pair's router weight, else 0.
        share: Number of biases of each part that the PE stores.
    """
    local_pairs = min(P, M * (-(-(share - 1) // max(1, N)) + 1))
    return _list_cycles(c, P) + local_pairs * parts * (1 + weighted) * c.vector(min(N, share), c.acc)


def _tiles_bytes(b: Mapping[str, int], P: int, K: int, N: int, local_experts: int) -> int:
    """Return the bytes of expert weights that a PE must read.

    One tile (the weights of an expert on the PE) is read per (token, expert) pair, but each tile
    only once.

    Args:
        b: Bytes per element of each SRAM view.
        P: Maximum number of pairs.
        K, N: Inputs and outputs of an expert.
        local_experts: Number of experts on the PE.
    """
    return min(P, local_experts) * K * N * b["wgt"]


def _coded_tiles_bytes(b: Mapping[str, int], P: int, K: int, N: int, local_experts: int, coding: int, G: int) -> int:
    """Return the bytes of quantised expert weights and their scales that a PE must read.

    Args:
        b: Bytes per element of each SRAM view.
        P: Maximum number of (token, expert) pairs.
        K, N: Inputs and outputs of an expert.
        local_experts: Number of experts on the PE; the weights of each are read once.
        coding: Index of the storage format.
        G: Groups of inputs that share scales.
    """
    return min(P, local_experts) * tile_bytes(_NAMES[coding], b, K, N, G)


def _mxfp4_bytes(b: Mapping[str, int], P: int, K: int, N: int, local_experts: int, G: int) -> int:
    """Return the bytes of mxfp4 expert weights and their scales that a PE must read.

    Args:
        b: Bytes per element of each SRAM view.
        P: Maximum number of (token, expert) pairs.
        K, N: Inputs and outputs of an expert.
        local_experts: Number of experts on the PE; the weights of each are read once.
        G: Groups of inputs that share scales.
    """
    return min(P, local_experts) * tile_bytes("mxfp4", b, K, N, G)


def _fp8_blocks_bytes(b: Mapping[str, int], P: int, K: int, N: int, local_experts: int, G: int, B: int) -> int:
    """Return the bytes of fp8 expert weights and their block scales that a PE must read.

    Args:
        b: Bytes per element of each SRAM view.
        P: Maximum number of (token, expert) pairs.
        K, N: Inputs and outputs of an expert.
        local_experts: Number of experts on the PE; the weights of each are read once.
        G, B: Groups of inputs, and blocks of outputs, that share scales.
    """
    return min(P, local_experts) * blocks_bytes(b, K, N, G, B)


def _mxfp4_cycles(c: PeCosts, K: int, N: int, G: int, rows: int) -> float:
    """Return the cycles of the product of one token with one expert that is stored in MXFP4.

    Args:
        c: Costs of operations on the PE.
        K, N: Inputs and outputs of the expert.
        G: Groups of inputs that share scales.
        rows: Rows of codes that are unpacked at once.
    """
    return one_expert_cycles(c, _MXFP4, K, N, rows) + power_cycles(c, N, G)


def _fp8_blocks_cycles(c: PeCosts, K: int, N: int, G: int, B: int, rows: int) -> float:
    """Return the cycles of the product of one token with one expert in FP8 with block scales.

    Args:
        c: Costs of operations on the PE.
        K, N: Inputs and outputs of the expert.
        G: Groups of inputs that share scales.
        B: Blocks of outputs that share scales.
        rows: Rows of codes that are unpacked at once.
    """
    return one_expert_cycles(c, _FP8, K, N, rows) + run_cycles(c, N, G, B)


EXPERTS: Final = (
    Kernel(
        name="expert_pairs",
        operands=(
            f32("ids", "M A"),
            f32("weights", "M A"),
            f32("pairs", _pair_list, output=True),
            *numbers("M A P experts columns groups segments"),
        ),
        work=lambda M, A: M * A,
        cycles=_pairs_cycles,
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
        macs=_products,
        read_bytes=_tiles_bytes,
        cycles=lambda c, P, K, N, weighted: _in_cycles(c, c.rows(K, N, c.mac), P, N, weighted),
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
        macs=_products,
        read_bytes=_tiles_bytes,
        cycles=lambda c, P, M, K, N, weighted: _out_cycles(c, c.rows(K, N, c.mac), P, M, K, N, weighted),
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
        macs=_products,
        operation_ps=200,
        read_bytes=_coded_tiles_bytes,
        cycles=lambda c, P, K, N, weighted, coding, rows: _in_cycles(
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
        macs=_products,
        operation_ps=300,
        read_bytes=_mxfp4_bytes,
        cycles=lambda c, P, K, N, weighted, G, rows: _in_cycles(c, _mxfp4_cycles(c, K, N, G, rows), P, N, weighted),
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
        macs=_products,
        operation_ps=350,
        read_bytes=_fp8_blocks_bytes,
        cycles=lambda c, P, K, N, weighted, G, B, rows: _in_cycles(
            c, _fp8_blocks_cycles(c, K, N, G, B, rows), P, N, weighted
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
        macs=_products,
        operation_ps=200,
        read_bytes=_coded_tiles_bytes,
        cycles=lambda c, P, M, K, N, weighted, coding, rows: _out_cycles(
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
        macs=_products,
        operation_ps=300,
        read_bytes=_mxfp4_bytes,
        cycles=lambda c, P, M, K, N, weighted, G, rows: _out_cycles(
            c, _mxfp4_cycles(c, K, N, G, rows), P, M, K, N, weighted
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
        macs=_products,
        operation_ps=350,
        read_bytes=_fp8_blocks_bytes,
        cycles=lambda c, P, M, K, N, weighted, G, B, rows: _out_cycles(
            c, _fp8_blocks_cycles(c, K, N, G, B, rows), P, M, K, N, weighted
        ),
    ),
    Kernel(
        name="expert_bias",
        operands=(
            acc("x", lambda P, M, N, parts, stride, by_token: ((M if by_token else P) - 1) * stride + parts * N),
            wgt("bias", "parts share"),
            f32("pairs", _pair_list),
            *numbers("P M N parts local_experts stride by_token weighted share columns groups segments"),
        ),
        work=lambda P, N, parts: P * parts * N,
        cycles=_bias_cycles,
    ),
)
