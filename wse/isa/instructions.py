"""The instruction set of the PEs: every compute kernel's operands by name, in the order of the calling convention.

An operand is an address in one of the element views (``act``, ``wgt``, ``acc``, ``f32``, ``raw``) or a plain number.
The compiler names operands, the Program holds them as numbers, and both readers of the Program find them here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

VIEWS: Final = ("act", "wgt", "acc", "f32", "raw")
"""Element views of SRAM: activations, weights, accumulators, float32 statistics, and bytes of quantised weights."""

ACTIVATIONS: Final = ("silu", "gelu_tanh", "gelu", "clamped_silu")
"""Activation functions; ``activate`` takes the index of one."""

FIRST_OPERAND: Final = 3
"""Operands 0 to 2 of every kernel are its first row, its rows and the blocks of a row."""

_SIGNATURES: Final = {
    "matmul": "x:act w:wgt >out:acc M K N k_stride n_stride out_stride add",
    "matmul_act": "x:act w:act >out:acc M K N k_stride n_stride out_stride add",
    "gemv": "x:act w:wgt >out:acc K N k_stride n_stride",
    "matmul_int8": "x:act w:raw scale:wgt >codes:act >out:acc M K N rows",
    "matmul_fp8": "x:act w:raw scale:wgt >codes:act >out:acc M K N rows",
    "matmul_int4": "x:act w:raw groups:raw scale:wgt >codes:act >out:acc M K N G rows",
    "sum_squares": "x:act >sums:f32 M K",
    "rms_scale": "x:act sums:f32 gain:wgt >out:act M K size eps_atto offset",
    "l2_scale": "x:act sums:f32 M K size eps_atto",
    "moments": "x:act >sums:f32 M K",
    "layer_scale": "x:act sums:f32 gain:wgt bias:wgt >out:act M K size eps_atto offset",
    "rope": "x:acc frequency:f32 >q:act >k:act >v:act M Hq Hk F R multiplier_pico",
    "rotate": "x:act frequency:f32 M H F R multiplier_pico",
    "split_heads": "x:acc >q:act >k:act >v:act M Hq Hk F",
    "scale_queries": "x:act M n coefficient_pico tokens",
    "kv_append": "k:act v:act k_cache:act v_cache:act E Ev capacity tokens",
    "attention_scores": "q:act k:act >out:acc M Hk share F T capacity add",
    "attention_max": "scores:acc >out:f32 M H T scale_pico window chunk capacity",
    "attention_exp": "scores:acc maxima:f32 >out:act >sums:f32 M H T scale_pico window chunk capacity",
    "attention_max_by_column": "scores:acc >out:f32 M H T scale_pico window chunk",
    "attention_exp_by_column": "scores:acc maxima:f32 >out:act >sums:f32 M H T scale_pico window chunk",
    "attention_values": "p:act v:act >out:acc M Hk share F T capacity",
    "attention_online": (
        "scores:acc v:act >maxima:f32 >sums:f32 >out:acc M Hk share F T scale_pico window chunk round ring"
    ),
    "sink_sums": "sums:f32 maxima:f32 sinks:wgt M H",
    "attention_finish": "x:acc sums:f32 >out:act M H F",
    "residual_add": "x:act addend:acc n",
    "add": "x:act addend:act n",
    "add_bias": "x:acc bias:wgt M n",
    "scale": "x:acc n factor_pico",
    "store": ">out:act x:acc n",
    "store_part": ">out:act x:acc M n stride",
    "copy": ">out:act x:act n",
    "copy_weights": ">out:wgt x:wgt n",
    "soft_cap": "x:acc n scale_pico cap_pico",
    "place_heads": "x:acc heads:f32 >out:acc M H Hl n",
    "place_rotated": "x:acc heads:f32 first:f32 wanted:f32 >out:acc M H Hl K n stride",
    "pick_heads": "x:act heads:f32 >out:act M H Hl n",
    "turn_block": "x:act >out:acc M K N to_rows",
    "activate": "x:acc >out:act M n function gated",
    "embedding_lookup": "ids:f32 table:wgt >out:acc M K V",
    "add_positions": "x:acc table:wgt M K V row",
    "argmax_fold": "logits:acc pair:f32 n V first vocabulary fold",
    "pair_indices": "pairs:f32 >out:f32 n",
    "router_place": "x:acc >out:acc M n E",
    "router_scores": "x:acc >out:f32 M E sigmoid",
    "router_correct": "x:f32 correction:f32 >out:f32 M E",
    "router_limit": "x:f32 >out:f32 M E groups kept >best:f32",
    "router_choose": "choice:f32 scores:f32 >ids:f32 >weights:f32 M E A divided scale_pico",
    "expert_pairs": "ids:f32 weights:f32 >pairs:f32 M A P experts groups columns stretches",
    "expert_in": "x:act w:wgt pairs:f32 >out:acc P M K N held k_stride out_stride weighed columns",
    "expert_out": "x:act w:wgt pairs:f32 >out:acc P M K N held weighed columns",
    "expert_in_quantised": "x:act w:raw groups:raw scale:wgt pairs:f32 >codes:act >out:acc P M K N held k_stride "
    "out_stride weighed columns coding G rows",
    "expert_out_quantised": "x:act w:raw groups:raw scale:wgt pairs:f32 >codes:act >out:acc P M K N held weighed "
    "columns coding G rows",
    "expert_bias": "x:acc bias:wgt pairs:f32 P M N held stride by_token weighed",
}
# ">" marks what a kernel makes anew: at its first use by an op nothing of the operand's old value is read, unless
# the operand starts inside a buffer, whose beginning another step made.

OPERANDS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    kernel: tuple((name.lstrip(">"), view) for name, _, view in (word.partition(":") for word in signature.split()))
    for kernel, signature in _SIGNATURES.items()
}
"""Kernel name to its operands from index 3 on: (name, view) for an address, (name, "") for a number."""

MADE: Final[dict[str, frozenset[int]]] = {
    kernel: frozenset(i for i, word in enumerate(signature.split(), start=FIRST_OPERAND) if word.startswith(">"))
    for kernel, signature in _SIGNATURES.items()
}
"""Kernel name to the indices of the operands that it makes anew."""

_WORK: Final = {
    "matmul": "M K N",
    "matmul_act": "M K N",
    "gemv": "K N",
    "matmul_int8": "M K N",
    "matmul_fp8": "M K N",
    "matmul_int4": "M K N",
    "rope": "M Hq F",
    "rotate": "M H F",
    "split_heads": "M Hq F",
    "scale_queries": "M n",
    "sink_sums": "M H",
    "attention_scores": "M Hk share F T",
    "attention_max": "M H T",
    "attention_exp": "M H T",
    "attention_max_by_column": "M H T",
    "attention_exp_by_column": "M H T",
    "attention_values": "M Hk share F T",
    "attention_online": "M Hk share F T",
    "attention_finish": "M H F",
    "kv_append": "E",
    "sum_squares": "M K",
    "rms_scale": "M K",
    "embedding_lookup": "M K",
    "store_part": "M n",
    "place_heads": "M H n",
    "place_rotated": "M H n",
    "pick_heads": "M Hl n",
    "turn_block": "M N",
    "activate": "M n",
    "add_bias": "M n",
    "add_positions": "M K",
    "l2_scale": "M K",
    "moments": "M K",
    "layer_scale": "M K",
    "router_place": "M E",
    "router_scores": "M E",
    "router_correct": "M E",
    "router_limit": "M E",
    "router_choose": "M E A",
    "expert_pairs": "M A",
    "expert_in": "P K N",
    "expert_out": "P K N",
    "expert_in_quantised": "P K N",
    "expert_out_quantised": "P K N",
    "expert_bias": "P N",
}

WORK: Final[dict[str, tuple[int, ...]]] = {
    kernel: tuple(
        i for i, (name, _) in enumerate(operands, start=FIRST_OPERAND) if name in _WORK.get(kernel, "n").split()
    )
    for kernel, operands in OPERANDS.items()
}
"""Kernel name to the indices of the operands whose product is about its element operations on one PE."""

PICO: Final = 10**12
ATTO: Final = 10**18
"""Operands are whole numbers; those named ``_pico`` and ``_atto`` count so many to 1."""

ROUTER: Final = "router_choose"
"""The kernel that leaves the ids of the chosen experts."""

KERNELS: Final = tuple(OPERANDS)
"""Kernel names; a Program refers to them by index."""


COUNTERS: Final = frozenset(
    (
        "rope",
        "rotate",
        "scale_queries",
        "kv_append",
        "attention_scores",
        "attention_max",
        "attention_exp",
        "attention_max_by_column",
        "attention_exp_by_column",
        "attention_values",
        "attention_online",
        "add_positions",
    )
)
"""Kernels that go by a user's counters of tokens and cache slots."""


def named_operands(kernel: str, operands: Sequence[int]) -> dict[str, int]:
    """Those of a step that runs ``kernel``, from index 3 on, by name."""
    return {name: int(operands[i]) for i, (name, _) in enumerate(OPERANDS[kernel], start=FIRST_OPERAND)}
