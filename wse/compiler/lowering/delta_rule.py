"""Linear attention with the gated delta rule: a state of constant size takes the place of a KV cache.

Value features are divided over the columns of the region, and the state of a column over its rows
(`wse_mappings.cuts.linear_cut`). A block of tokens needs one all-reduce along the columns: each PE
multiplies its slices of queries and keys by its part of the state and by each other, and the sums
determine the corrections of all tokens of the block (`wse_kernels.compute.delta_rule`). A prompt
chunk is processed block by block, because every block reads the state after the block before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from wse.compiler.lowering.feed_forward import apply_gate
from wse.compiler.lowering.linear import project, project_to_stream
from wse.compiler.lowering.norm import rms_eps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.phase.user_tokens import over_users
from wse.compiler.lowering.sums import all_reduce, reduce_in_groups
from wse.compiler.symbolic import SymAddress, SymBuffer
from wse.models.graph import Op
from wse.program.isa.delta_rule import sum_elements
from wse.program.steps import COLUMNS
from wse_mappings.cuts.linear_cut import LinearCut
from wse_mappings.cuts.split import ceil_div

BLOCK_TOKENS: Final = 8
"""Maximum number of tokens per all-reduce. More tokens share its latency, but each token of a block
adds a product with all earlier tokens of the block on every PE."""


class _Sizes(NamedTuple):
    """Sizes of linear attention on a column of PEs, under the names that kernels use.

    Attributes:
        Hk, G: Number of key heads, and of value heads per key head.
        D, V: Number of features of a key, and of a value on the column.
        K, N, key_rows: Division of the state over rows.
        C: Maximum number of value channels that a PE convolves.
    """

    Hk: int
    G: int
    D: int
    V: int
    K: int
    N: int
    key_rows: int
    C: int

    @property
    def values(self) -> int:
        """Number of value features of all value heads."""
        return self.Hk * self.G * self.V

    @property
    def stride(self) -> int:
        """Number of projected features per token: queries, keys, values, gates, strengths, decays."""
        return 2 * self.Hk * self.D + 2 * self.values + 2 * self.Hk * self.G


def _sizes(c: Context) -> _Sizes:
    """Return the sizes of linear attention on a column of the current region."""
    cut, linear = _cut(c), c.spec.linear
    assert linear is not None
    heads = cut.heads
    Hk, G, V = heads.kv_heads_per_col, linear.values_per_key // heads.copies, heads.features_per_head
    K, N = cut.key_features.shape[1], cut.value_features_per_row
    return _Sizes(Hk, G, linear.key_size, V, K, N, cut.key_rows, ceil_div(Hk * G * V, c.cut.rows))


def _cut(c: Context) -> LinearCut:
    """Return how linear attention is divided over the current region's PEs."""
    assert c.cut.linear is not None
    return c.cut.linear


def _projected(c: Context) -> SymBuffer:
    """Return the buffer of the projected queries, keys, values, gates, strengths and decays."""
    return c.temp("delta_inputs", c.tokens * _sizes(c).stride, "acc")


def _result(c: Context) -> SymBuffer:
    """Return the buffer of the results of all value heads."""
    return c.temp("attended", c.tokens * _sizes(c).values, "act")


def inputs(c: Context, op: Op) -> None:
    """Lower the input projections of linear attention to one product."""
    s = _sizes(c)
    heads = s.Hk * s.G
    widths = (s.Hk * s.D, s.Hk * s.D, s.values, s.values, heads, heads)
    project(c, c.normed_hidden, op.weights, widths, _projected(c), c.cut.hidden_per_pe)


class _Block(NamedTuple):
    """Tokens of one user that are processed at once.

    Attributes:
        tokens: Number of tokens.
        first: Number of tokens of the phase before them, for the same user.
        projected, result: Addresses of the first token's projected features and results.
    """

    tokens: int
    first: int
    projected: SymAddress
    result: SymAddress


def delta_rule(c: Context, op: Op) -> None:
    """Lower the convolution and the gated delta rule to steps.

    For each block of tokens of a user:

    1. Convolve the slices of queries, keys and values that each PE owns.
    2. Multiply queries and keys by the state and by each other, and add up the products along
       columns.
    3. Compute the results, and update the state.
    """
    for block in _blocks(c):
        _lower_block(c, op, block)


def _blocks(c: Context) -> Iterator[_Block]:
    """Yield the blocks of tokens of a phase. In decode, the block is one token of each user.

    The steps that are added before the next block are inside a loop over users in decode.
    """
    projected, result = _projected(c), _result(c)
    s = _sizes(c)
    if c.decodes:
        with over_users(c) as user:
            yield _Block(user.tokens, 0, user.at(projected, s.stride), user.at(result, s.values))
        return
    for first in range(0, c.tokens, BLOCK_TOKENS):
        tokens = min(BLOCK_TOKENS, c.tokens - first)
        first_input = SymAddress(buffer=projected, offset=first * s.stride)
        yield _Block(tokens, first, first_input, SymAddress(buffer=result, offset=first * s.values))


def _lower_block(c: Context, op: Op, block: _Block) -> None:
    """Lower the convolution and the gated delta rule of one block of tokens.

    Args:
        c: Context of the phase being lowered.
        op: The op, whose layer determines the weights and the state.
        block: The tokens.
    """
    s, b, layer = _sizes(c), c.builder, f"layers.{op.layer}."
    M, linear, count = block.tokens, c.spec.linear, 2 * s.Hk * s.K
    assert linear is not None
    elements = sum_elements(M, s.Hk, s.G, s.V)
    keys, sums = c.temp("delta_keys", M * count, "f32"), c.temp("delta_sums", elements, "f32")
    stored_inputs = c.cache(f"{layer}convolution_inputs", (linear.taps - 1) * (count + s.C))
    state = c.cache(f"{layer}state", s.Hk * s.G * s.K * s.N, "f32")
    shape: dict[str, Any] = {"M": M, "Hk": s.Hk, "G": s.G, "D": s.D, "V": s.V, "tokens_before": block.first}
    shape |= {"K": s.K, "N": s.N, "key_rows": s.key_rows}
    *key_taps, value_taps = op.weights
    b.compute(  # 1
        "convolve_slices",
        x=block.projected,
        key_taps=c.tile("+".join(key_taps)),
        value_taps=c.tile(value_taps),
        inputs=stored_inputs,
        keys=keys,
        sums=sums,
        taps=linear.taps,
        C=s.C,
        stride=s.stride,
        **shape,
    )
    b.compute("state_products", keys=keys, state=state, sums=sums, **shape)  # 2
    all_reduce(c, COLUMNS, sums, elements)
    gates = replace(block.projected, offset=block.projected.offset + s.stride - 2 * s.Hk * s.G)
    b.compute(  # 3
        "delta_update",
        gates=gates,
        decay=c.tile(f"{layer}delta.log_rate+{layer}delta.decay_bias"),
        keys=keys,
        sums=sums,
        state=state,
        out=block.result,
        scratch=c.temp("delta_scratch", 2 * M, "f32"),
        stride=s.stride,
        **shape,
    )


def norm(c: Context, op: Op) -> None:
    """Lower the norm of each head's result, and its multiplication by SiLU of the gate."""
    s, x, b = _sizes(c), _result(c), c.builder
    linear, rows = c.spec.linear, c.tokens * s.Hk * s.G
    assert linear is not None
    sums = c.temp("head_sums", rows, "f32")
    b.compute("sum_squares", x=x, sums=sums, M=rows, K=s.V)
    reduce_in_groups(c, sums, rows, _cut(c).heads.segments)
    gain, eps = c.tile(f"layers.{op.layer}.delta.norm"), rms_eps(c, linear.value_size)
    b.compute("rms_scale", x=x, sums=sums, gain=gain, out=x, M=rows, K=s.V, offset=0, **eps)
    gate = SymAddress(buffer=_projected(c), offset=2 * s.Hk * s.D + s.values)
    apply_gate(c, x, gate, n=s.values, stride=s.stride, gates=s.values, silu=True)


def output(c: Context, op: Op) -> None:
    """Lower the output projection, and add it to the residual stream."""
    project_to_stream(c, _result(c), op.weights[0], _sizes(c).values, column_range=c.cut.attention)


OPS: Final = {"delta_inputs": inputs, "delta_rule": delta_rule, "delta_norm": norm, "delta_output": output}
"""Lowering function of each kind of op."""
