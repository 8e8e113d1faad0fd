"""Sizes, special contents and allowed errors for tests of all compute kernels.

Names, views and extents of the operands come from the kernel's record.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from tests.kernels import delta_shapes, expert_shapes
from tests.kernels.helpers import EPS, TINY, Case, Shape
from wse.program.isa.activation import ACTIVATIONS
from wse.program.isa.instructions import kernel_named
from wse.program.isa.operands import FIRST_OPERAND
from wse_kernels.library import COMPUTE

Array = npt.NDArray[Any]

SIZE_NAMES = {
    *("M", "K", "N", "n", "B", "rows", "parts", "biases_per_pe", "H", "Hq", "Hk", "Hl", "F", "E", "Ev", "V"),
    *("capacity", "queries_per_kv", "A", "experts", "local_experts"),
}
"""Operands that are sizes. The other operands depend on them or are random."""

SIZES: dict[str, tuple[str, ...]] = {
    name: tuple(size for size in kernel_named(name).views if size in SIZE_NAMES) for name in COMPUTE
} | {
    "rope": ("M", "Hq", "Hk", "half", "rest"),
    "rotate": ("M", "H", "half", "rest"),
    "rotary_turns": ("M", "half", "rest"),
    "softmax_sums": ("M", "H", "T"),
    "attention_max_by_column": ("M", "H", "capacity"),
    "attention_exp_by_column": ("M", "H", "capacity"),
    "attention_online": ("M", "Hk", "queries_per_kv", "F", "capacity"),
    "router_limit": ("M", "groups", "size"),
    "expert_bias": ("M", "N", "local_experts", "biases_per_pe"),
    **dict.fromkeys(delta_shapes.KERNELS, ("M", "Hk", "G", "D", "V")),
}
SIZES |= {name: (*sizes, "A") for name, sizes in SIZES.items() if "P" in kernel_named(name).views and "A" not in sizes}
"""Sizes of each kernel that tests choose. Kernels with pairs also need ``A``, the number of experts per token."""

PRIMES = (1, 2, 3, 5, 7)
SCALE_PICO = 353_553_390_593
GROUPS = 3


def shape_of(kernel: str, size: dict[str, int], rows: int, cols: int, rng: np.random.Generator) -> Shape:
    """Return buffers and operands for some sizes.

    Operands that the sizes do not determine are random.
    """
    if kernel.startswith(("router_", "expert_", "chosen_")):
        plain, contents = expert_shapes.random_operands(kernel, size, rows, cols, rng)
        return Shape(extents(kernel, plain), plain, contents, control(max(rows, cols), 1, rng))
    if kernel in delta_shapes.KERNELS:
        plain = delta_shapes.random_operands(kernel, size, rows, rng)
        plain = {name: plain[name] for name, view in kernel_named(kernel).views.items() if not view}
        contents = delta_shapes.contents(kernel, plain, (rows, cols), rng)
        return Shape(extents(kernel, plain), plain, contents, control(rows, 1, rng))
    s = dict(size)
    capacity = s.get("capacity", 1)
    s["T"] = s.get("T", int(rng.integers(1, capacity + 1)))
    s["R"] = 2 * s.get("half", 0)
    s["F"] = s["R"] + s["rest"] - 1 if "half" in s else s.get("F", 1)
    s["tokens"] = 4
    strided = int(rng.integers(0, 3))
    first = int(rng.integers(0, s.get("V", 1)))
    first_col = int(rng.integers(0, cols))
    columns = int(rng.integers(1, cols - first_col + 1))
    values = {
        "add": int(rng.integers(0, 2)),
        "k_stride": 1 if strided == 1 else s.get("N", 1) + strided,
        "n_stride": s.get("K", 1) if strided == 1 else 1,
        "out_stride": s.get("N", 1) + strided,
        "size": 3 * s.get("K", 1),
        "eps_atto": 10_000_000_000_000,
        "scale_pico": SCALE_PICO,
        "multiplier_pico": int(rng.choice([10**12, SCALE_PICO])),
        "offset": int(rng.integers(0, 2)),
        "factor_pico": SCALE_PICO,
        "function": int(rng.integers(0, 2 if kernel == "apply_gate" else len(ACTIVATIONS))),
        "gates": int(rng.choice([1, s.get("n", 1)])),
        "gated": int(rng.integers(0, 2)),
        "biased": int(rng.integers(0, 2)),
        "row": int(rng.integers(0, rows)),
        "coefficient_pico": SCALE_PICO,
        "turned": int(rng.integers(0, 2)),
        "cap_pico": 2 * 10**12,
        "length": rows,
        "first_col": first_col,
        "columns": columns,
        "groups": int(rng.integers(1, min(rows, columns) + 1)),
        "sharers": int(rng.integers(1, cols + 1)),
        "padding": int(rng.integers(0, 3)),
        "shared_tokens": int(rng.choice([n for n in range(1, s.get("M", 1) + 1) if s.get("M", 1) % n == 0])),
        "limit_pico": int(rng.choice([7 * 10**12, 10**12])),
        "window": int(rng.integers(0, 5)),
        "chunk": int(rng.integers(0, 5)),
        "round": int(rng.integers(0, rows)),
        "ring": rows,
        "first": first,
        "vocabulary": max(1, cols * s.get("V", 1) - int(rng.integers(0, 3))),
        "fold": int(rng.integers(0, 2)),
        "stride": s.get("Hl", 1) * s.get("K", s.get("n", 1)) + strided,
        "to_rows": strided % 2,
        "G": GROUPS,
    } | s
    plain = {name: values[name] for name, view in kernel_named(kernel).views.items() if not view}
    counts = extents(kernel, plain)
    if kernel == "kv_append":
        tokens = 3 + values["stride"]  # a row has up to two tokens, after up to two of other rows
        counts |= {"k": tokens * s["E"], "v": tokens * s["Ev"]}
    contents = _contents(kernel, values, counts, (rows, cols), rng)
    return Shape(counts, plain, contents, control(max(rows, cols), capacity, rng))


def extents(kernel: str, plain: dict[str, int]) -> dict[str, int]:
    """Return the number of elements that a call may access, for each buffer whose record has an extent."""
    record = kernel_named(kernel)
    call = [0] * FIRST_OPERAND + [plain.get(name, 0) for name in record.views]
    return {
        operand.name: record.elements(operand.name, call) for operand in record.operands if operand.extent is not None
    }


def control(rows: int, capacity: int, rng: np.random.Generator) -> Array:
    """Return random counters of every row: any slot may be the oldest, and some slots are empty."""
    ctl = np.full((rows, 8 + capacity), -1, np.int32)
    ctl[:, 0] = rng.integers(0, capacity + 3, rows)
    ctl[:, 1] = rng.integers(0, 4, rows)
    ctl[:, 2] = rng.integers(0, 3, rows)
    ctl[:, 3] = np.minimum(rng.integers(0, 3, rows), capacity)
    ctl[:, 4] = rng.integers(0, capacity, rows)
    ctl[:, 7] = rng.integers(0, capacity, rows)
    ctl[:, 8:] = rng.integers(-1, capacity + 3, (rows, capacity))
    return ctl


def _contents(
    kernel: str, p: dict[str, int], counts: dict[str, int], line: tuple[int, int], rng: np.random.Generator
) -> dict[str, Array]:
    """Return the contents of buffers that must not be arbitrary numbers."""
    rows, cols = line
    positive = {name: rng.exponential(max(1, p.get("K", 2)), (*line, n)) for name, n in counts.items()}
    match kernel:
        case (
            "l2_scale"
            | "rms_factors"
            | "rms_scale"
            | "rms_scale_sums"
            | "rms_scale_share"
            | "sink_sums"
            | "attention_online"
        ):
            return {"sums": positive["sums"]}
        case "attention_finish":
            return {"sums": positive["sums"] * rng.integers(0, 4, (*line, counts["sums"]))}
        case "layer_scale" | "layer_scale_sums":
            means = rng.normal(scale=p["size"] / 3, size=(*line, p["M"]))
            return {"sums": np.stack([means, 9 * positive["sums"][..., : p["M"]]], axis=-1).reshape(*line, -1)}
        case "rope" | "rotate" if p["turned"]:
            angle = rng.uniform(0, 7, (*line, counts["frequency"] // 2))
            return {"frequency": np.stack([np.cos(angle), np.sin(angle)], axis=-1).reshape(*line, -1)}
        case "rope" | "rotate" | "rotary_turns":
            frequency = 10_000.0 ** -np.linspace(0, 1, counts["frequency"], endpoint=False)
            return {"frequency": np.broadcast_to(frequency, (*line, len(frequency)))}
        case "soft_cap" | "activate" | "activate_share":
            return {"x": rng.normal(scale=8, size=(*line, counts["x"]))}
        case "attention_exp" | "attention_exp_by_column" | "attention_exp_share":
            return {"maxima": rng.uniform(1, 4, (*line, counts["maxima"]))}
        case "embedding_lookup":
            return {"ids": rng.integers(0, cols * p["V"] + 1, (*line, counts["ids"]))}
        case "argmax_fold":
            pair = np.stack([rng.normal(size=line), rng.integers(0, cols * p["V"], line)], axis=-1)
            return {"logits": rng.integers(0, 2, (*line, counts["logits"])), "pair": pair}  # many logits are equal
        case "matmul_int8":
            return {"w": rng.integers(0, 256, (*line, counts["w"]))}
        case "matmul_fp8":  # all codes except NaN
            codes = rng.integers(0, 256, (*line, counts["w"]))
            return {"w": np.where(codes % 128 == 127, 0, codes)}
        case "matmul_int4":  # groups of rows that differ from PE to PE
            groups = np.sort(rng.integers(0, GROUPS, (*line, counts["groups"])), axis=-1)
            return {"w": rng.integers(0, 256, (*line, counts["w"])), "groups": groups}
        case "matmul_mxfp4" | "matmul_fp8_blocks":
            return expert_shapes.factored(kernel, p, counts["w"], counts["scale"], line, rng)
        case "place_heads" | "place_rotated" | "pick_rotated" | "set_heads" | "pick_heads" | "finish_heads":
            return _ordinals(kernel, p, rows, cols, rng)
        case _:
            return {}


def _ordinals(kernel: str, p: dict[str, int], rows: int, cols: int, rng: np.random.Generator) -> dict[str, Array]:
    """Return random tables of heads and features, equal in all columns of a row.

    A row has each head at most once.
    """
    H, Hl, n = p.get("H", p["Hl"]), p["Hl"], p["n"]
    heads = np.stack([rng.permutation(np.maximum(np.arange(1, H + Hl + 1) - Hl, 0))[:Hl] for _ in range(rows)])
    contents = {} if kernel == "pick_rotated" else {"heads": np.broadcast_to(heads[:, None], (rows, cols, Hl))}
    if kernel.endswith("_rotated"):
        contents["first"] = np.broadcast_to(rng.integers(0, n + 1, (rows, 1, 1)), (rows, cols, 1))
        contents["feature_ordinals"] = np.stack(
            [[rng.permutation(n + p["K"])[:n] for _ in range(cols)] for _ in range(rows)]
        )
    return contents


def allowed_error(case: Case, want: Array) -> dict[str, Array]:
    """Return the absolute errors allowed in buffers that depend on exp, cos or sin.

    Every other byte must be exact. Both implementations of exp, cos and sin are assumed to be
    within 4 float32 ulp of each other. A stored element may then round to its neighbour, one ulp of
    its type.
    """
    single, stored, summed = EPS["float32"], EPS[case.types[0]], EPS[case.types[1]]
    tiny, tiny_sum = TINY[case.types[0]], TINY[case.types[1]]
    plain = dict(zip([name for name, _ in kernel_named(case.kernel).views.items()], case.a[3:].tolist(), strict=False))
    if case.kernel == "rope":
        queries, keys, _ = np.split(_rope_error(case, plain), [plain["Hq"], plain["Hq"] + plain["Hk"]], axis=3)
        error = {"q": queries, "k": keys}
        return {
            name: error[name].reshape(case.values(name).shape) + tiny + stored * np.abs(case.values(name, want))
            for name in error
        }
    if case.kernel == "rotary_turns":
        return {"out": np.full(case.values("out").shape, 8 * single)}
    if case.kernel == "rotate":
        error = _rope_error(case, plain).reshape(case.values("x").shape)
        return {"x": error + tiny + stored * np.abs(case.values("x", want))}
    if case.kernel == "scale_queries":
        return {"x": (8 * single + stored) * np.abs(case.values("x", want)) + tiny}
    if case.kernel == "soft_cap":
        return {"x": (8 * single + summed) * np.abs(case.values("x", want)) + tiny_sum}
    if case.kernel in ("sink_sums", "sink_weights"):
        out = "sums" if case.kernel == "sink_sums" else "out"
        return {out: 8 * single * np.abs(case.values(out, want))}
    if case.kernel == "apply_gate":
        return {"x": (8 * single + stored) * np.abs(case.values("x", want)) + tiny}
    if case.kernel in delta_shapes.KERNELS:
        return delta_shapes.allowed_error(case, want)
    if case.kernel in ("activate", "activate_share"):
        return {"out": (8 * single + stored) * np.abs(case.values("out", want)) + _activation_error(case, plain) + tiny}
    if case.kernel == "attention_exp_share":
        return {"out": (4 * single + stored) * np.abs(case.values("out", want)) + tiny}
    if case.kernel in ("attention_exp", "attention_exp_by_column"):
        sums = np.abs(case.values("sums", want))
        return {
            "out": (4 * single + stored) * np.abs(case.values("out", want)) + tiny,
            "sums": ((4 + plain["T"]) * single + stored) * sums + plain["T"] * tiny,
        }
    if case.kernel == "attention_online":
        T = plain["T"]
        largest = np.abs(case.values("v")).max() * T + np.abs(case.values("out")).max()
        sums = np.abs(case.values("sums", want))
        steps = (8 + 4 * T) * single
        return {
            "sums": steps * (sums + np.abs(case.values("sums"))) + TINY["float32"],
            "out": np.full(case.values("out").shape, (steps + (T + 2) * summed) * largest + tiny_sum),
        }
    return expert_shapes.allowed_error(case, plain, want)


def _activation_error(case: Case, plain: dict[str, int]) -> Array:
    """Return the additional error allowed for GELU, where 1 + tanh and 1 + erf lose digits near 0.

    It is 8 ulp of 1, times all factors.
    """
    x = np.abs(case.values("x"))[..., : plain["M"] * (1 + plain["gated"]) * plain["n"]]
    halves = x.reshape(*case.memory.shape[:2], plain["M"], 1 + plain["gated"], plain["n"])
    lost = "gelu" in ACTIVATIONS[plain["function"]]
    error = (8 * lost * EPS["float32"] * halves.prod(axis=3)).reshape(*case.memory.shape[:2], -1)
    return np.pad(error, [(0, 0), (0, 0), (0, plain.get("padding", 0))]).reshape(case.values("out").shape)


def _rope_error(case: Case, plain: dict[str, int]) -> Array:
    """Return the error allowed for rotary embeddings, ``[rows, cols, M, heads, F]``.

    It is 4 ulp of cos and sin times both members of the pair, and two roundings.
    """
    F, R = plain["F"], plain["R"]
    heads = np.abs(case.values("x")).reshape(*case.memory.shape[:2], plain["M"], -1, F)
    pair_sums = heads[..., : R // 2] + heads[..., R // 2 : R]
    rotated = 8 * EPS["float32"] * np.concatenate([pair_sums, pair_sums], axis=-1)
    return np.concatenate([rotated, np.zeros_like(heads[..., R:])], axis=-1)
