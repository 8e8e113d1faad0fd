"""Cycle counts of the attention kernels, each also for a call that vectorises over heads.

There are M tokens, H query heads and Hk KV heads. A PE has T cache slots and F features of each
head.
"""

from __future__ import annotations

from wse.program.isa.pe_costs import PeCosts
from wse_mappings.rounding import ceil_div


def attention_scores_cycles(c: PeCosts, M: int, Hk: int, queries_per_kv: int, F: int, T: int, add: int) -> float:
    """Return how many cycles ``attention_scores`` takes if it is vectorised over cache slots.

    The kernel multiplies queries by cached keys.

    Args:
        c: Costs of operations on the PE.
        M, Hk, queries_per_kv: Number of tokens, KV heads, and query heads per KV head.
        F, T: Number of features per head on the PE, and number of cache slots.
        add: 1 to add to existing scores, 0 to clear them first.
    """
    heads = M * Hk * queries_per_kv
    zero = 0.0 if add else c.vector(heads * T, c.acc)
    return zero + heads * (c.loop + c.rows(F, T, c.mac))


def attention_scores_cycles_over_heads(
    c: PeCosts, M: int, Hk: int, queries_per_kv: int, F: int, T: int, add: int
) -> float:
    """Return how many cycles ``attention_scores`` takes if it is vectorised over query heads.

    The kernel multiplies queries by cached keys.

    Args:
        c: Costs of operations on the PE.
        M, Hk, queries_per_kv: Number of tokens, KV heads, and query heads per KV head.
        F, T: Number of features per head on the PE, and number of cache slots.
        add: 1 to add to existing scores, 0 to clear them first.
    """
    zero = 0.0 if add else c.vector(M * Hk * queries_per_kv * T, c.acc)
    return zero + M * Hk * F * (c.loop + c.strided_rows(T, queries_per_kv, c.mac))


def attention_values_cycles(c: PeCosts, M: int, Hk: int, queries_per_kv: int, F: int, T: int) -> float:
    """Return how many cycles ``attention_values`` takes if it is vectorised over features.

    The kernel multiplies softmax weights by cached values.

    Args:
        c: Costs of operations on the PE.
        M, Hk, queries_per_kv: Number of tokens, KV heads, and query heads per KV head.
        F, T: Number of features per head on the PE, and number of cache slots.
    """
    heads = M * Hk * queries_per_kv
    return c.vector(heads * F, c.acc) + heads * (c.loop + c.rows(T, F, c.mac))


def attention_values_cycles_over_heads(c: PeCosts, M: int, Hk: int, queries_per_kv: int, F: int, T: int) -> float:
    """Return how many cycles ``attention_values`` takes if it is vectorised over query heads.

    The kernel multiplies softmax weights by cached values.

    Args:
        c: Costs of operations on the PE.
        M, Hk, queries_per_kv: Number of tokens, KV heads, and query heads per KV head.
        F, T: Number of features per head on the PE, and number of cache slots.
    """
    zero = c.vector(M * Hk * queries_per_kv * F, c.acc)
    return zero + M * Hk * F * (c.loop + c.strided_rows(T, queries_per_kv, c.mac))


def attention_online_cycles(c: PeCosts, M: int, Hk: int, queries_per_kv: int, F: int, T: int) -> float:
    """Return how many cycles ``attention_online`` takes.

    The kernel adds cached tokens to a running softmax. For each head, it computes softmax weights
    and then weighted values.

    Args:
        c: Costs of operations on the PE.
        M, Hk, queries_per_kv: Number of tokens, KV heads, and query heads per KV head.
        F, T: Number of features per head on the PE, and number of cached tokens.
    """
    heads = M * Hk * queries_per_kv
    weights = c.vector(T, c.f32) + c.vector(T, c.max_f32) + (T + 1) * c.function
    values = c.vector(F, c.acc) + c.rows(T, F, c.mac)
    return heads * (c.loop + weights + values)


def attention_max_cycles(c: PeCosts, M: int, H: int, T: int) -> float:
    """Return how many cycles ``attention_max`` takes if it is vectorised over cache slots.

    The kernel computes the maximum score of each token and head.

    Args:
        c: Costs of operations on the PE.
        M, H, T: Number of tokens, query heads and cache slots.
    """
    return M * H * (c.vector(T, c.f32) + c.vector(T, c.max_f32))


def attention_max_cycles_over_heads(c: PeCosts, M: int, H: int, T: int) -> float:
    """Return how many cycles ``attention_max`` takes if it is vectorised over tokens and heads.

    The kernel computes the maximum score of each token and head.

    Args:
        c: Costs of operations on the PE.
        M, H, T: Number of tokens, query heads and cache slots.
    """
    return c.vector(M * H * T, c.f32) + c.loop + T * c.strided_vector(M * H, c.max_f32)


def attention_exp_cycles(c: PeCosts, M: int, H: int, T: int) -> float:
    """Return how many cycles ``attention_exp`` takes if it is vectorised over cache slots.

    The kernel computes the softmax weights and their sums.

    Args:
        c: Costs of operations on the PE.
        M, H, T: Number of tokens, query heads and cache slots.
    """
    one_head = 2 * c.vector(T, c.f32) + T * c.function + c.vector(T, c.convert)
    return M * H * (c.loop + one_head)


def attention_exp_cycles_over_heads(c: PeCosts, M: int, H: int, T: int) -> float:
    """Return how many cycles ``attention_exp`` takes if it is vectorised over tokens and heads.

    The kernel computes the softmax weights and their sums. Operations that need no sum or maximum
    of a head are vectorised over all scores.

    Args:
        c: Costs of operations on the PE.
        M, H, T: Number of tokens, query heads and cache slots.
    """
    elementwise = c.vector(M * H * T, c.f32) + c.vector(M * H * T, c.convert)
    return elementwise + M * H * T * c.function + 2 * (c.loop + T * c.strided_vector(M * H, c.f32))


def attention_exp_share_cycles(c: PeCosts, M: int, H: int, T: int, columns: int, groups: int, sharers: int) -> float:
    """Return how many cycles ``attention_exp_share`` takes on the PE with the most scores.

    The kernel computes softmax weights. Neighbouring columns of PEs have the same scores and divide
    the work among themselves. A PE also writes zeros for the scores of the other PEs.

    Args:
        c: Costs of operations on the PE.
        M, H, T: Number of tokens, query heads and cache slots.
        columns, groups: Number of columns of PEs, and number of groups that they form.
        sharers: Minimum number of columns among which scores are divided. A group with fewer
            columns divides its scores among all of them.
    """
    columns_of_group = columns // groups
    scores = ceil_div(M * H * T, columns_of_group // max(1, columns_of_group // sharers))
    scores_per_vector = min(scores, T)
    vectors = c.loop + 2 * c.vector(scores_per_vector, c.f32) + c.vector(scores_per_vector, c.convert)
    return c.vector(M * H * T, c.act) + scores * c.function + ceil_div(scores, max(1, T)) * vectors


def round_maxima_cycles(c: PeCosts, n: int) -> float:
    """Return how many cycles kernel ``round_maxima`` takes.

    The kernel rounds n maximum attention scores to multiples of ln 2, and applies a lower limit.

    Args:
        c: Costs of operations on the PE.
        n: Number of maxima.
    """
    return 4 * c.vector(n, c.f32) + c.vector(n, c.max_f32)


def softmax_rescale_cycles(c: PeCosts, M: int, H: int, F: int) -> float:
    """Return how many cycles ``softmax_rescale`` takes if it is vectorised over features.

    The kernel multiplies softmax sums and values by a power of two.

    Args:
        c: Costs of operations on the PE.
        M, H, F: Number of tokens, query heads, and features per head on the PE.
    """
    return _powers_cycles(c, M * H) + M * H * (c.loop + c.vector(F, c.scale_acc))


def softmax_rescale_cycles_over_heads(c: PeCosts, M: int, H: int, F: int) -> float:
    """Return how many cycles ``softmax_rescale`` takes if it is vectorised over tokens and heads.

    The kernel multiplies softmax sums and values by a power of two.

    Args:
        c: Costs of operations on the PE.
        M, H, F: Number of tokens, query heads, and features per head on the PE.
    """
    return _powers_cycles(c, M * H) + c.loop + F * c.strided_vector(M * H, c.scale_acc)


def _powers_cycles(c: PeCosts, heads: int) -> float:
    """Return how many cycles it takes to multiply the softmax sum of each head by a power of two.

    Args:
        c: Costs of operations on the PE.
        heads: Number of sums, one per token and head.
    """
    exponents = 2 * c.vector(heads, c.f32) + c.vector(heads, c.max_f32) + c.vector(heads, c.convert)
    return exponents + c.vector(heads, c.half) + c.vector(heads, c.shift) + c.vector(heads, c.f32)


def attention_finish_cycles(c: PeCosts, M: int, H: int, F: int) -> float:
    """Return how many cycles ``attention_finish`` takes if it is vectorised over features.

    The kernel divides the weighted values of each head by its softmax sum. Each head needs one
    division, which is a scalar function.

    Args:
        c: Costs of operations on the PE.
        M, H, F: Number of tokens, query heads, and features per head on the PE.
    """
    return M * H * (c.loop + c.function + c.vector(F, c.convert))


def attention_finish_cycles_over_heads(c: PeCosts, M: int, H: int, F: int) -> float:
    """Return how many cycles ``attention_finish`` takes if it is vectorised over tokens and heads.

    The kernel divides the weighted values of each head by its softmax sum.

    Args:
        c: Costs of operations on the PE.
        M, H, F: Number of tokens, query heads, and features per head on the PE.
    """
    return M * H * c.function + c.loop + F * c.strided_vector(M * H, c.convert)
