"""Kernels of linear attention: the short convolution and the gated delta rule.

M is the number of tokens. A column of PEs has Hk key heads with D features, and H = Hk * G value
heads of which it stores V features. A PE stores the state of K key features and N value features.
"""

from __future__ import annotations

from typing import Final

from wse.program.isa.kernel import Kernel
from wse.program.isa.operands import acc, act, f32, numbers, wgt
from wse.program.isa.pe_costs import PeCosts


def sum_elements(M: int, Hk: int, G: int, V: int) -> int:
    """Return the number of float32 elements in the result of kernel ``state_products`` on a PE.

    The result contains values, gates, and products of queries and keys with the state and with each
    other. It is summed over the column of PEs.

    Args:
        M: Number of tokens.
        Hk, G: Number of key heads, and number of value heads per key head.
        V: Number of value features per value head on the column.
    """
    return M * (4 * Hk * G * V + Hk * (2 * M + 1))


def _convolve_cycles(c: PeCosts, M: int, Hk: int, G: int, V: int, K: int, taps: int, C: int) -> float:
    """Return how many cycles ``convolve_slices`` takes.

    The kernel applies a causal convolution and SiLU to the queries, keys and values of the PE, and
    SiLU to its gates. It performs these operations:

    1. Clear the memory for the values and gates of the column.
    2. For each token, perform one multiply-add per tap and channel, and apply SiLU.
    3. Store the last ``taps - 1`` inputs of each channel for the next tokens.

    Args:
        c: Costs of operations on the PE.
        M: Number of tokens.
        Hk, G: Number of key heads, and number of value heads per key head.
        V, K: Number of value features of the column, and number of key features of the PE, per
            head.
        taps: Number of inputs per output of the convolution.
        C: Number of value channels on the PE.
    """
    channels = 2 * Hk * K + C
    silu = 2 * (channels + C) * c.function + c.vector(channels, c.f32) + c.vector(C, c.f32)
    token = c.loop + taps * c.vector(channels, c.scale_acc) + silu
    return c.vector(2 * M * Hk * G * V, c.f32) + M * token + (taps - 1) * c.vector(channels, c.act)


def _products_cycles(c: PeCosts, M: int, Hk: int, G: int, V: int, K: int, N: int) -> float:
    """Return how many cycles ``state_products`` takes.

    The kernel multiplies queries and keys by the state, vectorised over value features, and by each
    other, vectorised over key features.

    Args:
        c: Costs of operations on the PE.
        M: Number of tokens.
        Hk, G: Number of key heads, and number of value heads per key head.
        V: Number of value features per value head on the column.
        K, N: Number of key features, and number of value features per value head, on the PE.
    """
    clear = c.vector(sum_elements(M, Hk, G, V) - 2 * M * Hk * G * V, c.f32)
    with_state = 2 * M * Hk * G * (c.loop + c.rows(K, N, c.scale_acc))
    return clear + with_state + Hk * M * (c.loop + c.rows(M + 2, K, c.scale_acc))


def _update_cycles(c: PeCosts, M: int, Hk: int, G: int, V: int, K: int, N: int) -> float:
    """Return how many cycles ``delta_update`` takes.

    The kernel applies the delta rule to M tokens. It performs these operations for each value head:

    1. Compute the write strength and the decay of each token.
    2. Compute the correction and the result of each token, with one weight and one multiply-add
       vector per earlier token. The result also includes the token itself.
    3. Multiply the state by the decay, and add the outer product of key and correction of each
       token.

    Finally, it copies the gates.

    Args:
        c: Costs of operations on the PE.
        M: Number of tokens.
        Hk, G: Number of key heads, and number of value heads per key head.
        V: Number of value features per value head on the column.
        K, N: Number of key features, and number of value features per value head, on the PE.
    """
    pairs = M * (M + 1) // 2
    functions = 2 * Hk * M * c.function + Hk * G * (5 * M + pairs) * c.function
    weights = 2 * pairs * 3 * c.vector(1, c.f32)
    vectors = M * (4 * c.vector(V, c.f32) + c.vector(V, c.convert)) + M * M * c.vector(V, c.scale_acc)
    state = c.rows(K, N, c.scale_acc) + M * (c.loop + c.vector(K, c.f32) + c.rows(K, N, c.scale_acc))
    gates = M * (c.loop + c.vector(Hk * G * V, c.acc))
    return functions + gates + Hk * G * (M * c.loop + weights + vectors + state)


DELTA_RULE: Final = (
    Kernel(
        name="place_keys",
        operands=(
            acc("x", lambda M, Hk, F, stride: (M - 1) * stride + 2 * Hk * F),
            f32("first", ""),
            acc("out", lambda M, Hk, K: 2 * M * Hk * K, output=True),
            *numbers("M Hk G D V tokens_before K N key_rows F stride"),
        ),
        work=lambda M, Hk, K: 2 * M * Hk * K,
        cycles=lambda c, M, Hk, K: c.vector(2 * M * Hk * K, c.acc) + K * (c.loop + c.strided_vector(2 * M * Hk, c.acc)),
    ),
    Kernel(
        name="convolve_slices",
        operands=(
            acc("new_keys", lambda M, Hk, K: 2 * M * Hk * K),
            acc("new_values", lambda M, Hk, G, V, stride: (M - 1) * stride + 2 * Hk * G * V),
            wgt("key_taps", lambda Hk, K, taps: 2 * Hk * K * taps),
            wgt("value_taps", "taps Hk G V"),
            act("inputs", lambda Hk, K, taps, C: (taps - 1) * (2 * Hk * K + C)),
            f32("keys", lambda M, Hk, K: 2 * M * Hk * K, output=True),
            f32("sums", lambda M, Hk, G, V: 2 * M * Hk * G * V, output=True),
            *numbers("M Hk G D V tokens_before K N key_rows taps C stride"),
        ),
        work=lambda M, Hk, K, C, taps: M * (2 * Hk * K + C) * taps,
        operation_ps=500,
        cycles=_convolve_cycles,
        counters=True,
    ),
    Kernel(
        name="state_products",
        operands=(
            f32("keys", lambda M, Hk, K: 2 * M * Hk * K),
            f32("state", "Hk G K N"),
            f32("sums", sum_elements),
            *numbers("M Hk G D V tokens_before K N key_rows"),
        ),
        macs=lambda M, Hk, G, K, N: M * Hk * K * (2 * G * N + M + 2),
        read_bytes=lambda b, Hk, G, K, N: Hk * G * K * N * b["f32"],
        cycles=_products_cycles,
        counters=True,
    ),
    Kernel(
        name="delta_update",
        operands=(
            acc("inputs", lambda M, Hk, G, stride: (M - 1) * stride + 2 * Hk * G),
            wgt("decay", lambda Hk, G: 2 * Hk * G),
            f32("keys", lambda M, Hk, K: 2 * M * Hk * K),
            f32("sums", sum_elements, scratch=True),
            f32("state", "Hk G K N"),
            act("out", "M Hk G V", output=True),
            acc("gates", lambda M, Hk, G, V, stride: (M - 1) * stride + Hk * G * V),
            f32("scratch", lambda M: 2 * M, output=True, scratch=True),
            *numbers("M Hk G D V tokens_before K N key_rows stride max_strength"),
        ),
        macs=lambda M, Hk, G, V, K, N: Hk * G * M * (M * V + K * N),
        operation_ps=300,
        cycles=_update_cycles,
        counters=True,
    ),
)
