"""Attention kernels over the cache slots of a PE.

A PE has T slots, which its row stores, and F features of each head of its column. The number of
query heads is H = Hk * ``queries_per_kv``: each of the Hk KV heads serves ``queries_per_kv`` query
heads. M is the number of tokens.
"""

from __future__ import annotations

from typing import Final

from wse.program.isa.cycles.attention import (
    attention_exp_cycles,
    attention_exp_cycles_over_heads,
    attention_exp_share_cycles,
    attention_finish_cycles,
    attention_finish_cycles_over_heads,
    attention_max_cycles,
    attention_max_cycles_over_heads,
    attention_online_cycles,
    attention_scores_cycles,
    attention_scores_cycles_over_heads,
    attention_values_cycles,
    attention_values_cycles_over_heads,
    round_maxima_cycles,
    softmax_rescale_cycles,
    softmax_rescale_cycles_over_heads,
)
from wse.program.isa.kernel import Kernel
from wse.program.isa.operands import acc, act, f32, numbers, wgt


def _max(name: str, entries: str) -> Kernel:
    """Return the record of a kernel that finds the maximum attention score of each token and head.

    A record has the operands and the cost formulas of a kernel.

    Args:
        name: Name of the kernel.
        entries: Names, separated by spaces, of the operands that determine which cache entries a
            token may attend to.
    """
    return Kernel(
        name=name,
        operands=(acc("scores", "M H T"), f32("out", "M H", output=True), *numbers(f"M H T scale_pico {entries}")),
        work="M H T",
        operation_ps=300,
        cycles=attention_max_cycles,
        cycles_over_heads=attention_max_cycles_over_heads,
        counters=True,
    )


def _exp(name: str, entries: str) -> Kernel:
    """Return the record of a kernel that computes softmax weights and their sums.

    A record has the operands and the cost formulas of a kernel.

    Args:
        name: Name of the kernel.
        entries: Names, separated by spaces, of the operands that determine which cache entries a
            token may attend to.
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
        work="M H T",
        operation_ps=800,
        cycles=attention_exp_cycles,
        cycles_over_heads=attention_exp_cycles_over_heads,
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
        work="E",
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
        macs="M Hk queries_per_kv F T",
        read_bytes=lambda b, Hk, F, T: Hk * F * T * b["act"],
        cycles=attention_scores_cycles,
        cycles_over_heads=attention_scores_cycles_over_heads,
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
        work="M H T",
        operation_ps=1600,
        cycles=attention_exp_share_cycles,
        counters=True,
    ),
    Kernel(
        name="softmax_sums",
        operands=(act("x", "M H T"), f32("sums", "M H", output=True), *numbers("M H T")),
        work="M H T",
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
        macs="M Hk queries_per_kv F T",
        read_bytes=lambda b, Hk, F, T: Hk * F * T * b["act"],
        cycles=attention_values_cycles,
        cycles_over_heads=attention_values_cycles_over_heads,
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
        macs="M Hk queries_per_kv F T",
        read_bytes=lambda b, Hk, F, T: Hk * F * T * b["act"],
        operation_ps=300,
        cycles=attention_online_cycles,
        counters=True,
    ),
    Kernel(
        name="sink_sums",
        operands=(f32("sums", "M H"), f32("maxima", "M H"), wgt("sinks", "H"), *numbers("M H")),
        work="M H",
        operation_ps=500,
        cycles=lambda c, M, H: M * (c.loop + H * c.function + 2 * c.vector(H, c.f32)),
    ),
    Kernel(
        name="sink_weights",
        operands=(f32("maxima", "M H"), wgt("sinks", "H"), f32("out", "M H", output=True), *numbers("M H")),
        work="M H",
        operation_ps=500,
        cycles=lambda c, M, H: M * (c.loop + H * c.function + c.vector(H, c.f32)),
    ),
    Kernel(name="round_maxima", operands=(f32("x", "n"), *numbers("n")), work="n", cycles=round_maxima_cycles),
    Kernel(
        name="softmax_rescale",
        operands=(f32("own", "M H"), f32("maxima", "M H"), f32("sums", "M H"), acc("x", "M H F"), *numbers("M H F")),
        work="M H F",
        cycles=softmax_rescale_cycles,
        cycles_over_heads=softmax_rescale_cycles_over_heads,
    ),
    Kernel(
        name="attention_finish",
        operands=(acc("x", "M H F"), f32("sums", "M H"), act("out", "M H F", output=True, over="x"), *numbers("M H F")),
        work="M H F",
        cycles=attention_finish_cycles,
        cycles_over_heads=attention_finish_cycles_over_heads,
    ),
)
