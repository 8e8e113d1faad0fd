"""Linear attention with the gated delta rule: a state of constant size replaces a KV cache.

Features are partitioned across the columns of the region, and the state of a column across its rows
(`wse_mappings.cuts.linear_cut`). A row needs few features of each key, which its PEs gather from
the columns of the head. A block of tokens then needs one all-reduce along the columns: each PE
multiplies its slices of queries and keys by its part of the state and by each other, and the sums
determine the corrections of all tokens of the block (`wse_kernels.compute.delta_rule`). A prompt
chunk is processed block by block, because every block reads the state after the block before.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from wse.compiler.lowering.feed_forward import apply_gate
from wse.compiler.lowering.linear import project, project_to_stream
from wse.compiler.lowering.norm import rms_eps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.phase.user_tokens import UserTokens, over_users
from wse.compiler.lowering.sums import all_reduce, reduce_in_groups
from wse.compiler.passes.tiling.vector_tiles import FIRST_KEY
from wse.compiler.symbolic import SymAddress, SymBuffer
from wse.models.op import Op
from wse.program.isa.delta_rule import sum_elements
from wse.program.steps import COLUMNS
from wse_mappings.cuts.linear_cut import LinearCut
from wse_mappings.rounding import ceil_div

BLOCK_TOKENS: Final = 8
"""Maximum number of tokens per all-reduce. More tokens share its latency, but each token of a block
adds a product with all earlier tokens of the block on every PE."""


class _Sizes(NamedTuple):
    """Sizes of linear attention on one column of PEs, named like the arguments of the kernels.

    Attributes:
        Hk, G: Number of key heads, and number of value heads per key head.
        D: Number of features of a key.
        F, V: Numbers of features of a key and of a value on the column.
        K: Number of key features for which a row stores the state.
        N: Maximum number of value features per head for which a PE stores the state.
        key_rows: Number of neighbouring rows that together store the state of all key features.
        C: Maximum number of value channels that a PE convolves.
    """

    Hk: int
    G: int
    D: int
    F: int
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
        """Number of features per token that a column stores after the input projections.

        They are the features of queries, keys, values and gates, and one write strength and one
        decay factor per head.
        """
        return 2 * self.Hk * self.F + 2 * self.values + 2 * self.Hk * self.G


def _sizes(c: Context) -> _Sizes:
    """Return the sizes of linear attention on a column of the current region."""
    cut, linear = _cut(c), c.spec.linear
    assert linear is not None
    heads = cut.heads
    Hk, G, V = heads.kv_heads_per_col, linear.values_per_key // heads.copies, heads.features_per_head
    K, N = cut.key_features.shape[1], cut.value_features_per_row
    return _Sizes(Hk, G, linear.key_size, cut.keys_per_head, V, K, N, cut.key_rows, ceil_div(Hk * G * V, c.cut.rows))


def _cut(c: Context) -> LinearCut:
    """Return how linear attention is partitioned across the PEs of the current region."""
    assert c.cut.linear is not None
    return c.cut.linear


def _projected(c: Context) -> SymBuffer:
    """Return the buffer of the projected queries, keys, values, gates, strengths and decays."""
    return c.temp("delta_inputs", c.tokens * _sizes(c).stride, "acc")


def _result(c: Context) -> SymBuffer:
    """Return the buffer of the results of all value heads."""
    return c.temp("attended", c.tokens * _sizes(c).values, "act")


def inputs(c: Context, op: Op) -> None:
    """Add the step for all input projections of linear attention, as one matrix product."""
    s = _sizes(c)
    heads = s.Hk * s.G
    widths = (s.Hk * s.F, s.Hk * s.F, s.values, s.values, heads, heads)
    project(c, c.normed_hidden, op.weights, widths, _projected(c), c.cut.hidden_per_pe)


class _Block(NamedTuple):
    """Tokens of one user that linear attention processes at once, with the addresses of their data.

    The addresses are those of the first token.

    Attributes:
        tokens: Number of tokens.
        first: Number of the user's tokens that precede them in the phase.
        projected: Projected queries, keys, values, gates, write strengths and decays.
        new_keys: Features of queries and keys that a row of PEs stores, before the convolution.
        keys: The same features after the convolution.
        sums: Products that are added up over the rows of a column.
        result: Results of all value heads.
    """

    tokens: int
    first: int
    projected: SymAddress
    new_keys: SymAddress
    keys: SymAddress
    sums: SymAddress
    result: SymAddress


def delta_rule(c: Context, op: Op) -> None:
    """Add the steps for the convolution and the gated delta rule (linear attention).

    1. On each row of PEs, gather its features of queries and keys from the columns of the head, for
       all tokens.
    2. Convolve queries, keys and values, and multiply queries and keys by the state and by each
       other.
    3. Add up the products along columns.
    4. Compute the results, and update the state.

    In decode, 2 and 4 are loops over users, and 3 is one all-reduce for all of them. In prefill, 2
    to 4 are repeated for each block of tokens.
    """
    _gather_keys(c)
    if not c.decodes:
        for first in range(0, c.tokens, BLOCK_TOKENS):
            block = _block_of_tokens(c, first, min(BLOCK_TOKENS, c.tokens - first))
            _multiply(c, op, block)
            all_reduce(c, COLUMNS, block.sums, _sum_elements(c, block.tokens))
            _update(c, op, block)
        return
    with over_users(c) as user:
        _multiply(c, op, _block_of_user(c, user))
    elements = _sum_elements(c, 1)
    all_reduce(c, COLUMNS, c.temp("delta_sums", c.tokens * elements, "f32"), c.tokens * elements)
    with over_users(c) as user:
        _update(c, op, _block_of_user(c, user))


def _key_elements(c: Context) -> int:
    """Return how many query and key features of a token a PE stores, summed over its heads."""
    return 2 * _sizes(c).Hk * _sizes(c).K


def _sum_elements(c: Context, tokens: int) -> int:
    """Return how many values per PE are added up along columns for a block of tokens."""
    s = _sizes(c)
    return sum_elements(tokens, s.Hk, s.G, s.V)


def _block_of_tokens(c: Context, first: int, tokens: int) -> _Block:
    """Return a block of the tokens of a prompt chunk.

    Args:
        c: Context of the phase being lowered.
        first: Index of the first token in the chunk.
        tokens: Number of tokens.
    """
    s, count = _sizes(c), _key_elements(c)
    keys, sums = c.temp("delta_keys", tokens * count, "f32"), c.temp("delta_sums", _sum_elements(c, tokens), "f32")
    return _Block(
        tokens=tokens,
        first=first,
        projected=SymAddress(buffer=_projected(c), offset=first * s.stride),
        new_keys=SymAddress(buffer=_new_keys(c), offset=first * count),
        keys=SymAddress(buffer=keys),
        sums=SymAddress(buffer=sums),
        result=SymAddress(buffer=_result(c), offset=first * s.values),
    )


def _block_of_user(c: Context, user: UserTokens) -> _Block:
    """Return the block that consists of a user's single token in decode.

    If there are several users, the addresses depend on the iteration of the loop over users.
    """
    s, count, elements = _sizes(c), _key_elements(c), _sum_elements(c, 1)
    return _Block(
        tokens=1,
        first=0,
        projected=user.at(_projected(c), s.stride),
        new_keys=user.at(_new_keys(c), count),
        keys=user.at(c.temp("delta_keys", c.tokens * count, "f32"), count),
        sums=user.at(c.temp("delta_sums", c.tokens * elements, "f32"), elements),
        result=user.at(_result(c), s.values),
    )


def _new_keys(c: Context) -> SymBuffer:
    """Return the buffer with query and key features before the convolution."""
    return c.temp("delta_new_keys", c.tokens * _key_elements(c), "acc")


def _shape(c: Context, tokens: int, first: int) -> dict[str, int]:
    """Return the numeric operands that the kernels of the delta rule have in common.

    Args:
        c: Context of the phase being lowered.
        tokens: Number of tokens.
        first: Number of the user's tokens that precede them in the phase.
    """
    s = _sizes(c)
    sizes = {"M": tokens, "Hk": s.Hk, "G": s.G, "D": s.D, "V": s.V, "tokens_before": first}
    return sizes | {"K": s.K, "N": s.N, "key_rows": s.key_rows}


def _gather_keys(c: Context) -> None:
    """Add the steps that collect query and key features from the columns that share a head."""
    s, new_keys = _sizes(c), _new_keys(c)
    operands: dict[str, Any] = {"x": _projected(c), "first": c.tile(FIRST_KEY), "out": new_keys}
    c.builder.compute("place_keys", F=s.F, stride=s.stride, **operands, **_shape(c, c.tokens, 0))
    reduce_in_groups(c, new_keys, c.tokens * _key_elements(c), _cut(c).heads.segments)


def _state(c: Context, op: Op) -> SymAddress:
    """Return the address of a user's state in the layer of an op."""
    s = _sizes(c)
    return c.cache(f"layers.{op.layer}.state", s.Hk * s.G * s.K * s.N, "f32", "state")


def _multiply(c: Context, op: Op, block: _Block) -> None:
    """Add the steps for the convolution and the partial products of a block of tokens.

    Queries and keys are multiplied by the state and by the keys of the block. The products are then
    added up along columns by other steps.

    Args:
        c: Context of the phase being lowered.
        op: The op, whose layer determines the weights and the state.
        block: The tokens.
    """
    s, linear, shape = _sizes(c), c.spec.linear, _shape(c, block.tokens, block.first)
    assert linear is not None
    *key_taps, value_taps = op.weights
    channels = _key_elements(c) + s.C
    c.builder.compute(
        "convolve_slices",
        new_keys=block.new_keys,
        new_values=block.projected.plus(2 * s.Hk * s.F),
        key_taps=c.tile("+".join(key_taps)),
        value_taps=c.tile(value_taps),
        inputs=c.cache(f"layers.{op.layer}.convolution_inputs", (linear.taps - 1) * channels, use="state"),
        keys=block.keys,
        sums=block.sums,
        taps=linear.taps,
        C=s.C,
        stride=s.stride,
        **shape,
    )
    c.builder.compute("state_products", keys=block.keys, state=_state(c, op), sums=block.sums, **shape)


def _update(c: Context, op: Op, block: _Block) -> None:
    """Add the step that computes the results of a block of tokens and updates the state.

    Args:
        c: Context of the phase being lowered.
        op: The op, whose layer determines the weights and the state.
        block: The tokens.
    """
    s, linear, layer = _sizes(c), c.spec.linear, f"layers.{op.layer}."
    assert linear is not None
    c.builder.compute(
        "delta_update",
        inputs=block.projected.plus(s.stride - 2 * s.Hk * s.G),
        gates=block.projected.plus(2 * s.Hk * s.F + s.values),
        decay=c.tile(f"{layer}delta.log_rate+{layer}delta.decay_bias"),
        keys=block.keys,
        sums=block.sums,
        state=_state(c, op),
        out=block.result,
        scratch=c.temp("delta_scratch", 2 * block.tokens, "f32"),
        stride=s.stride,
        max_strength=linear.max_strength,
        **_shape(c, block.tokens, block.first),
    )


def norm(c: Context, op: Op) -> None:
    """Lower the norm of each value head's result, and the multiplication by the head's gates.

    The step `_update` has already applied SiLU to the gates.
    """
    s, x, b = _sizes(c), _result(c), c.builder
    linear, rows = c.spec.linear, c.tokens * s.Hk * s.G
    assert linear is not None
    sums = c.temp("head_sums", rows, "f32")
    b.compute("sum_squares", x=x, sums=sums, M=rows, K=s.V)
    reduce_in_groups(c, sums, rows, _cut(c).heads.segments)
    gain, eps = c.tile(f"layers.{op.layer}.delta.norm"), rms_eps(c, linear.value_size, linear.norm_eps)
    b.compute("rms_scale", x=x, sums=sums, gain=gain, out=x, M=rows, K=s.V, offset=0, **eps)
    gate = SymAddress(buffer=_projected(c), offset=2 * s.Hk * s.F + s.values)
    apply_gate(c, x, gate, n=s.values, stride=s.stride, gates=s.values, is_factor=True)


def output(c: Context, op: Op) -> None:
    """Lower the output projection, and add it to the residual stream."""
    project_to_stream(c, op, _result(c), _sizes(c).values, column_range=c.cut.attention)


OPS: Final = {"delta_inputs": inputs, "delta_rule": delta_rule, "delta_norm": norm, "delta_output": output}
"""Lowering function of each kind of op."""
