"""Attention kernels over the cache slots of a PE.

A PE has T slots, which its row stores, and F features of each head of its column. The number of
query heads is H = Hk * ``queries_per_kv``: each of the Hk KV heads serves ``queries_per_kv`` query
heads. M is the number of tokens.
"""

from __future__ import annotations

from typing import Final

from wse.program.isa.kernel import Kernel
from wse.program.isa.operands import acc, act, f32, numbers, wgt
from wse.program.isa.pe_costs import PeCosts
from wse_mappings.cuts.split import ceil_div


def _products(M: int, Hk: int, queries_per_kv: int, F: int, T: int) -> int:
    """Return the multiply-adds of attention scores, or of values, on one PE.

    There is one for each token, query head (``queries_per_kv`` per KV head), feature and cache
    slot.
    """
    return M * Hk * queries_per_kv * F * T


def _scores(M: int, H: int, T: int) -> int:
    """Return the number of attention scores on one PE: one per token, query head and cache slot."""
    return M * H * T


def _scores_cycles(c: PeCosts, M: int, Hk: int, queries_per_kv: int, F: int, T: int, add: int) -> float:
    """Return the cycles of ``attention_scores``, vectorised over the cache slots of a head.

    The kernel multiplies queries by cached keys.

    Args:
        c: Costs of operations on the PE.
        M, Hk, queries_per_kv: Tokens, KV heads, and query heads per KV head.
        F, T: Features of a head on the PE, and cache slots.
        add: 1 to add to existing scores, 0 to clear them first.
    """
    heads = M * Hk * queries_per_kv
    zero = 0.0 if add else c.vector(heads * T, c.acc)
    return zero + heads * (c.loop + c.rows(F, T, c.mac))


def _max_cycles(c: PeCosts, M: int, H: int, T: int) -> float:
    """Return the cycles of ``attention_max``, vectorised over the cache slots of a head.

    The kernel computes the maximum score of each token and head.

    Args:
        c: Costs of operations on the PE.
        M, H, T: Tokens, query heads and cache slots.
    """
    return M * H * (c.vector(T, c.f32) + c.vector(T, c.max_f32))


def _exp_cycles(c: PeCosts, M: int, H: int, T: int) -> float:
    """Return the cycles of ``attention_exp``, vectorised over the cache slots of a head.

    The kernel computes the softmax weights and their sums.

    Args:
        c: Costs of operations on the PE.
        M, H, T: Tokens, query heads and cache slots.
    """
    one_head = 2 * c.vector(T, c.f32) + T * c.function + c.vector(T, c.convert)
    return M * H * (c.loop + one_head)


def _scores_cycles_over_heads(c: PeCosts, M: int, Hk: int, queries_per_kv: int, F: int, T: int, add: int) -> float:
    """Return the cycles of ``attention_scores``, vectorised over the query heads of a KV head.

    The kernel multiplies queries by cached keys.

    Args:
        c: Costs of operations on the PE.
        M, Hk, queries_per_kv: Tokens, KV heads, and query heads per KV head.
        F, T: Features of a head on the PE, and cache slots.
        add: 1 to add to existing scores, 0 to clear them first.
    """
    zero = 0.0 if add else c.vector(M * Hk * queries_per_kv * T, c.acc)
    return zero + M * Hk * F * (c.loop + c.strided_rows(T, queries_per_kv, c.mac))


def _max_cycles_over_heads(c: PeCosts, M: int, H: int, T: int) -> float:
    """Return the cycles of ``attention_max``, vectorised over tokens and heads.

    The kernel computes the maximum score of each token and head.

    Args:
        c: Costs of operations on the PE.
        M, H, T: Tokens, query heads and cache slots.
    """
    return c.vector(M * H * T, c.f32) + c.loop + T * c.strided_vector(M * H, c.max_f32)


def _exp_cycles_over_heads(c: PeCosts, M: int, H: int, T: int) -> float:
    """Return the cycles of ``attention_exp``, vectorised over tokens and heads.

    The kernel computes the softmax weights and their sums. Operations that need no sum or maximum
    of a head are vectorised over all scores.

    Args:
        c: Costs of operations on the PE.
        M, H, T: Tokens, query heads and cache slots.
    """
    elementwise = c.vector(M * H * T, c.f32) + c.vector(M * H * T, c.convert)
    return elementwise + M * H * T * c.function + 2 * (c.loop + T * c.strided_vector(M * H, c.f32))


def _values_cycles_over_heads(c: PeCosts, M: int, Hk: int, queries_per_kv: int, F: int, T: int) -> float:
    """Return the cycles of ``attention_values``, vectorised over the query heads of a KV head.

    The kernel multiplies softmax weights by cached values.

    Args:
        c: Costs of operations on the PE.
        M, Hk, queries_per_kv: Tokens, KV heads, and query heads per KV head.
        F, T: Features of a head on the PE, and cache slots.
    """
    zero = c.vector(M * Hk * queries_per_kv * F, c.acc)
    return zero + M * Hk * F * (c.loop + c.strided_rows(T, queries_per_kv, c.mac))


def _round_cycles(c: PeCosts, n: int) -> float:
    """Return the cycles to round n softmax maxima to multiples of ln 2, with a lower limit."""
    return 4 * c.vector(n, c.f32) + c.vector(n, c.max_f32)


def _powers_cycles(c: PeCosts, heads: int) -> float:
    """Return the cycles to multiply the softmax sum of each head by a power of two.

    Args:
        c: Costs of operations on the PE.
        heads: Number of sums, one per token and head.
    """
    exponents = 2 * c.vector(heads, c.f32) + c.vector(heads, c.max_f32) + c.vector(heads, c.convert)
    return exponents + c.vector(heads, c.half) + c.vector(heads, c.shift) + c.vector(heads, c.f32)


def _rescale_cycles(c: PeCosts, M: int, H: int, F: int) -> float:
    """Return the cycles of ``softmax_rescale``, vectorised over the features of a head.

    The kernel multiplies softmax sums and values by a power of two.

    Args:
        c: Costs of operations on the PE.
        M, H, F: Tokens, query heads, and features of a head on the PE.
    """
    return _powers_cycles(c, M * H) + M * H * (c.loop + c.vector(F, c.scale_acc))


def _rescale_cycles_over_heads(c: PeCosts, M: int, H: int, F: int) -> float:
    """Return the cycles of ``softmax_rescale``, vectorised over tokens and heads.

    The kernel multiplies softmax sums and values by a power of two.

    Args:
        c: Costs of operations on the PE.
        M, H, F: Tokens, query heads, and features of a head on the PE.
    """
    return _powers_cycles(c, M * H) + c.loop + F * c.strided_vector(M * H, c.scale_acc)


def _finish_cycles(c: PeCosts, M: int, H: int, F: int) -> float:
    """Return the cycles of ``attention_finish``, vectorised over the features of a head.

    The kernel divides the weighted values of each head by its softmax sum. Each head needs one
    division, which is a scalar function.

    Args:
        c: Costs of operations on the PE.
        M, H, F: Tokens, query heads, and features of a head on the PE.
    """
    return M * H * (c.loop + c.function + c.vector(F, c.convert))


def _finish_cycles_over_heads(c: PeCosts, M: int, H: int, F: int) -> float:
    """Return the cycles of ``attention_finish``, vectorised over tokens and heads.

    The kernel divides the weighted values of each head by its softmax sum.

    Args:
        c: Costs of operations on the PE.
        M, H, F: Tokens, query heads, and features of a head on the PE.
    """
    return M * H * c.function + c.loop + F * c.strided_vector(M * H, c.convert)


def _exp_share_cycles(c: PeCosts, M: int, H: int, T: int, columns: int, groups: int, sharers: int) -> float:
    """Return the cycles of ``attention_exp_share`` on the PE with the most scores.

    The kernel computes softmax weights. Neighbouring columns of PEs have the same scores and divide
    them among them. A PE also writes zeros for the scores of the other PEs.

    Args:
        c: Costs of operations on the PE.
        M, H, T: Tokens, query heads and cache slots.
        columns, groups: Columns of PEs, and groups into which they are divided.
        sharers: Minimum number of columns of a group that divide the scores; a smaller group
            divides them among all of its columns.
    """
    columns_of_group = columns // groups
    scores = ceil_div(M * H * T, columns_of_group // max(1, columns_of_group // sharers))
    scores_per_vector = min(scores, T)
    vectors = c.loop + 2 * c.vector(scores_per_vector, c.f32) + c.vector(scores_per_vector, c.convert)
    return c.vector(M * H * T, c.act) + scores * c.function + ceil_div(scores, max(1, T)) * vectors


def _values_cycles(c: PeCosts, M: int, Hk: int, queries_per_kv: int, F: int, T: int) -> float:
    """Return the cycles of ``attention_values``, vectorised over the features of a head.

    The kernel multiplies softmax weights by cached values.

    Args:
        c: Costs of operations on the PE.
        M, Hk, queries_per_kv: Tokens, KV heads, and query heads per KV head.
        F, T: Features of a head on the PE, and cache slots.
    """
    heads = M * Hk * queries_per_kv
    return c.vector(heads * F, c.acc) + heads * (c.loop + c.rows(T, F, c.mac))


def _online_cycles(c: PeCosts, M: int, Hk: int, queries_per_kv: int, F: int, T: int) -> float:
    """Return the cycles of ``attention_online``, which adds cached tokens to a running softmax.

    The softmax weights of each head are computed first, and then its weighted values.

    Args:
        c: Costs of operations on the PE.
        M, Hk, queries_per_kv: Tokens, KV heads, and query heads per KV head.
        F, T: Features of a head on the PE, and cached tokens.
    """
    heads = M * Hk * queries_per_kv
    weights = c.vector(T, c.f32) + c.vector(T, c.max_f32) + (T + 1) * c.function
    values = c.vector(F, c.acc) + c.rows(T, F, c.mac)
    return heads * (c.loop + weights + values)


def _max(name: str, entries: str) -> Kernel:
    """Return the `Kernel` record of a kernel that computes the maximum visible score of each head.

    Args:
        name: Name of the kernel.
        entries: Names of the number operands that determine which cache entries are visible.
    """
    return Kernel(
        name=name,
        operands=(acc("scores", "M H T"), f32("out", "M H", output=True), *numbers(f"M H T scale_pico {entries}")),
        work=_scores,
        operation_ps=300,
        cycles=_max_cycles,
        cycles_over_heads=_max_cycles_over_heads,
        counters=True,
    )


def _exp(name: str, entries: str) -> Kernel:
    """Return the `Kernel` record of a kernel that computes softmax weights and their sums.

    Args:
        name: Name of the kernel.
        entries: Names of the number operands that determine which cache entries are visible.
    """
    return Kernel(
        name=name,
        operands=(
            acc("scores", "M H T"),
            f32("maxima", "M H"),
            act("out", "M H T", output=True, over="scores"),
            f32("sums", "M H", output=True),
            *numbers(f"M H T scale_pico {entries}"),
        ),
        work=_scores,
        operation_ps=800,
        cycles=_exp_cycles,
        cycles_over_heads=_exp_cycles_over_heads,
        counters=True,
    )


ATTENTION: Final = (
    Kernel(
        name="kv_append",
        operands=(
            act("k"),  # of all new tokens; ``tokens`` is the maximum number of them that a row stores
            act("v"),
            act("k_cache", "capacity E"),
            act("v_cache", "capacity Ev"),
            *numbers("E Ev capacity tokens stride"),
        ),
        work=lambda E: E,
        cycles=lambda c, E, Ev, tokens: tokens * (c.loop + c.vector(E, c.act) + c.vector(Ev, c.act)),
        counters=True,
    ),
    Kernel(
        name="attention_scores",
        operands=(
            act("q", "M Hk queries_per_kv F"),
            act("k", "capacity Hk F"),
            acc("out", "M Hk queries_per_kv T", output=True),
            *numbers("M Hk queries_per_kv F T capacity add"),
        ),
        macs=_products,
        read_bytes=lambda b, Hk, F, T: Hk * F * T * b["act"],
        cycles=_scores_cycles,
        cycles_over_heads=_scores_cycles_over_heads,
        counters=True,
    ),
    _max("attention_max", "window chunk capacity"),
    _exp("attention_exp", "window chunk capacity"),
    Kernel(
        name="attention_exp_share",
        operands=(
            acc("scores", "M H T"),
            f32("maxima", "M H"),
            act("out", "M H T", output=True, over="scores"),
            *numbers("M H T scale_pico window chunk capacity first_col columns groups sharers"),
        ),
        work=_scores,
        operation_ps=1600,
        cycles=_exp_share_cycles,
        counters=True,
    ),
    Kernel(
        name="softmax_sums",
        operands=(act("x", "M H T"), f32("sums", "M H", output=True), *numbers("M H T")),
        work=_scores,
        cycles=lambda c, M, H, T: M * H * (c.loop + c.vector(T, c.f32)),
        cycles_over_heads=lambda c, M, H, T: c.loop + T * c.strided_vector(M * H, c.f32),
    ),
    _max("attention_max_by_column", "window chunk"),
    _exp("attention_exp_by_column", "window chunk"),
    Kernel(
        name="attention_values",
        operands=(
            act("p", "M Hk queries_per_kv T"),
            act("v", "capacity Hk F"),
            acc("out", "M Hk queries_per_kv F", output=True),
            *numbers("M Hk queries_per_kv F T capacity"),
        ),
        macs=_products,
        read_bytes=lambda b, Hk, F, T: Hk * F * T * b["act"],
        cycles=_values_cycles,
        cycles_over_heads=_values_cycles_over_heads,
        counters=True,
    ),
    Kernel(
        name="attention_online",
        operands=(
            acc("scores", "M Hk queries_per_kv T"),
            act("v", "T Hk F"),
            f32("maxima", "M Hk queries_per_kv", output=True),
            f32("sums", "M Hk queries_per_kv", output=True),
            acc("out", "M Hk queries_per_kv F", output=True),
            *numbers("M Hk queries_per_kv F T scale_pico window chunk round ring"),
        ),
        macs=_products,
        read_bytes=lambda b, Hk, F, T: Hk * F * T * b["act"],
        operation_ps=300,
        cycles=_online_cycles,
        counters=True,
    ),
    Kernel(
        name="sink_sums",
        operands=(f32("sums", "M H"), f32("maxima", "M H"), wgt("sinks", "H"), *numbers("M H")),
        work=lambda M, H: M * H,
        operation_ps=500,
        cycles=lambda c, M, H: M * (c.loop + H * c.function + 2 * c.vector(H, c.f32)),
    ),
    Kernel(
        name="sink_weights",
        operands=(f32("maxima", "M H"), wgt("sinks", "H"), f32("out", "M H", output=True), *numbers("M H")),
        work=lambda M, H: M * H,
        operation_ps=500,
        cycles=lambda c, M, H: M * (c.loop + H * c.function + c.vector(H, c.f32)),
    ),
    Kernel(
        name="round_maxima",
        operands=(f32("x", "n"), *numbers("n")),
        work=lambda n: n,
        cycles=_round_cycles,
    ),
    Kernel(
        name="softmax_rescale",
        operands=(f32("own", "M H"), f32("maxima", "M H"), f32("sums", "M H"), acc("x", "M H F"), *numbers("M H F")),
        work=lambda M, H, F: M * H * F,
        cycles=_rescale_cycles,
        cycles_over_heads=_rescale_cycles_over_heads,
    ),
    Kernel(
        name="attention_finish",
        operands=(acc("x", "M H F"), f32("sums", "M H"), act("out", "M H F", output=True, over="x"), *numbers("M H F")),
        work=lambda M, H, F: M * H * F,
        cycles=_finish_cycles,
        cycles_over_heads=_finish_cycles_over_heads,
    ),
)
