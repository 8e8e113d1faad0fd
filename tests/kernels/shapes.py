"""For every compute kernel: the sizes it is tested over, its buffers at those sizes, and the errors allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tests.kernels import expert_shapes
from tests.kernels.helpers import EPS, TINY, Case, Shape
from wse.isa.activation import ACTIVATIONS
from wse.isa.instructions import kernel_named

Array = npt.NDArray[Any]

SIZES: dict[str, tuple[str, ...]] = {
    "matmul": ("M", "K", "N"),
    "matmul_act": ("M", "K", "N"),
    "gemv": ("K", "N"),
    "matmul_int8": ("M", "K", "N", "rows"),
    "matmul_fp8": ("M", "K", "N", "rows"),
    "matmul_int4": ("M", "K", "N", "rows"),
    "sum_squares": ("M", "K"),
    "rms_scale": ("M", "K"),
    "l2_scale": ("M", "K"),
    "moments": ("M", "K"),
    "layer_scale": ("M", "K"),
    "rope": ("M", "Hq", "Hk", "half", "rest"),
    "rotate": ("M", "H", "half", "rest"),
    "split_heads": ("M", "Hq", "Hk", "F"),
    "scale_queries": ("M", "n"),
    "kv_append": ("E", "Ev", "capacity"),
    "attention_scores": ("M", "Hk", "share", "F", "capacity"),
    "attention_max": ("M", "H", "capacity"),
    "attention_exp": ("M", "H", "capacity"),
    "attention_max_by_column": ("M", "H", "capacity"),
    "attention_exp_by_column": ("M", "H", "capacity"),
    "attention_values": ("M", "Hk", "share", "F", "capacity"),
    "attention_online": ("M", "Hk", "share", "F", "capacity"),
    "sink_sums": ("M", "H"),
    "attention_finish": ("M", "H", "F"),
    "residual_add": ("n",),
    "add": ("n",),
    "add_bias": ("M", "n"),
    "scale": ("n",),
    "store": ("n",),
    "store_part": ("M", "n"),
    "copy": ("n",),
    "copy_weights": ("n",),
    "soft_cap": ("n",),
    "place_heads": ("M", "H", "Hl", "n"),
    "place_rotated": ("M", "H", "Hl", "K", "n"),
    "pick_heads": ("M", "H", "Hl", "n"),
    "turn_block": ("M", "K", "N"),
    "activate": ("M", "n"),
    "embedding_lookup": ("M", "K", "V"),
    "add_positions": ("M", "K", "V"),
    "argmax_fold": ("n", "V"),
    "pair_indices": ("n",),
    **expert_shapes.SIZES,
}

PRIMES = (1, 2, 3, 5, 7)
SCALE_PICO = 353_553_390_593
GROUPS = 3


def shape_of(kernel: str, size: dict[str, int], rows: int, cols: int, rng: np.random.Generator) -> Shape:
    """Buffers and operands at one choice of sizes; what is free is drawn."""
    if kernel in expert_shapes.SIZES:
        return Shape(*expert_shapes.drawn(kernel, size, rows, cols, rng), control(max(rows, cols), 1, rng))
    s = dict(size)
    capacity = s.get("capacity", 1)
    s["T"] = int(rng.integers(1, capacity + 1))
    s["R"] = 2 * s.get("half", 0)
    s["F"] = s["R"] + s["rest"] - 1 if "half" in s else s.get("F", 1)
    s["heads"] = s["Hk"] * s["share"] if "share" in s else s.get("H", 1)
    s["tokens"] = 4
    strided = int(rng.integers(0, 3))
    first = int(rng.integers(0, s.get("V", 1)))
    counts, contents = _buffers(kernel, s, rows, cols, rng)
    plain = {
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
        "function": int(rng.integers(0, len(ACTIVATIONS))),
        "gated": int(rng.integers(0, 2)),
        "row": int(rng.integers(0, rows)),
        "coefficient_pico": SCALE_PICO,
        "cap_pico": 2 * 10**12,
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
    return Shape(
        counts,
        {name: plain[name] for name, kind in kernel_named(kernel).views.items() if not kind},
        contents,
        control(max(rows, cols), capacity, rng),
    )


def control(rows: int, capacity: int, rng: np.random.Generator) -> Array:
    """Counters of every row: any slot may be the oldest, positions in any order, some slots empty."""
    ctl = np.full((rows, 8 + capacity), -1, np.int32)
    ctl[:, 0] = rng.integers(0, capacity + 3, rows)
    ctl[:, 1] = rng.integers(0, 4, rows)
    ctl[:, 2] = rng.integers(0, 3, rows)
    ctl[:, 3] = np.minimum(rng.integers(0, 3, rows), capacity)
    ctl[:, 4] = rng.integers(0, capacity, rows)
    ctl[:, 7] = rng.integers(0, capacity, rows)
    ctl[:, 8:] = rng.integers(-1, capacity + 3, (rows, capacity))
    return ctl


def _buffers(
    kernel: str, s: dict[str, int], rows: int, cols: int, rng: np.random.Generator
) -> tuple[dict[str, int], dict[str, Array]]:
    M, K, N, F, T, H = s.get("M", 1), s.get("K", 1), s.get("N", 1), s["F"], s["T"], s["heads"]
    Hq, Hk, capacity, n, V = s.get("Hq", 1), s.get("Hk", 1), s.get("capacity", 1), s.get("n", 1), s.get("V", 1)
    line = (rows, cols)
    if kernel in ("matmul", "matmul_act", "gemv"):
        return {"x": M * K, "w": K * (N + 2), "out": M * (N + 2)}, {}
    if kernel in ("matmul_int8", "matmul_fp8", "matmul_int4"):
        return _quantised(kernel, s, line, rng)
    if kernel == "sum_squares":
        return {"x": M * K, "sums": M}, {}
    if kernel == "l2_scale":
        return {"x": M * K, "sums": M}, {"sums": rng.exponential(K, (*line, M))}
    if kernel == "moments":
        return {"x": M * K, "sums": 2 * M}, {}
    if kernel == "layer_scale":
        sums = np.stack([rng.normal(scale=K, size=(*line, M)), rng.exponential(9 * K, (*line, M))], axis=-1)
        sizes = {"x": M * K, "sums": 2 * M, "gain": K, "bias": K, "out": M * K}
        return sizes, {"sums": sums.reshape(*line, -1)}
    if kernel == "rms_scale":
        return {"x": M * K, "sums": M, "gain": K, "out": M * K}, {"sums": rng.exponential(K, (*line, M))}
    half = s["R"] // 2
    frequency = np.broadcast_to(10_000.0 ** -np.linspace(0, 1, half, endpoint=False), (*line, half))
    heads = {"x": M * (Hq + 2 * Hk) * F, "q": M * Hq * F, "k": M * Hk * F, "v": M * Hk * F}
    if kernel == "rope":
        return heads | {"frequency": half}, {"frequency": frequency}
    if kernel == "rotate":
        return {"x": M * H * F, "frequency": half}, {"frequency": frequency}
    if kernel == "split_heads":
        return heads, {}
    if kernel == "scale_queries":
        return {"x": M * n}, {}
    if kernel == "sink_sums":
        return {"sums": M * H, "maxima": M * H, "sinks": H}, {"sums": rng.exponential(2, (*line, M * H))}
    if kernel == "soft_cap":
        return {"x": n}, {"x": rng.normal(scale=8, size=(*line, n))}
    if kernel == "kv_append":
        sizes = {"k": s["tokens"] * s["E"], "v": s["tokens"] * s["Ev"]}
        return sizes | {"k_cache": capacity * s["E"], "v_cache": capacity * s["Ev"]}, {}
    if kernel == "attention_scores":
        return {"q": M * H * F, "k": capacity * Hk * F, "out": M * H * T}, {}
    if kernel in ("attention_max", "attention_max_by_column"):
        return {"scores": M * H * T, "out": M * H}, {}
    if kernel in ("attention_exp", "attention_exp_by_column"):
        sizes = {"scores": M * H * T, "maxima": M * H, "out": M * H * T, "sums": M * H}
        return sizes, {"maxima": rng.uniform(1, 4, (*line, M * H))}
    if kernel == "attention_values":
        return {"p": M * H * T, "v": capacity * Hk * F, "out": M * H * F}, {}
    if kernel == "attention_online":
        sizes = {"scores": M * H * T, "v": capacity * Hk * F, "maxima": M * H, "sums": M * H, "out": M * H * F}
        return sizes, {"sums": rng.exponential(2, (*line, M * H))}
    if kernel == "attention_finish":
        sums = rng.exponential(2, (*line, M * H)) * rng.integers(0, 4, (*line, M * H))
        return {"x": M * H * F, "sums": M * H, "out": M * H * F}, {"sums": sums}
    if kernel == "add_bias":
        return {"x": M * n, "bias": n}, {}
    if kernel in ("residual_add", "add", "scale", "store", "copy", "copy_weights"):
        names = [name for name, kind in kernel_named(kernel).views.items() if kind]
        return dict.fromkeys(names, n), {}
    if kernel == "activate":
        return {"x": M * 2 * n, "out": M * n}, {"x": rng.normal(scale=8, size=(*line, M * 2 * n))}
    if kernel in ("place_heads", "place_rotated", "pick_heads"):
        return _latent(kernel, s, rows, cols, rng)
    if kernel == "store_part":
        return {"x": M * (n + 2), "out": M * n}, {}
    if kernel == "turn_block":
        return {"x": M * K, "out": M * N}, {}
    if kernel == "add_positions":
        return {"x": M * K, "table": V * K}, {}
    if kernel == "embedding_lookup":
        return {"ids": M, "table": V * K, "out": M * K}, {"ids": rng.integers(0, cols * V + 1, (*line, M))}
    if kernel == "pair_indices":
        return {"pairs": 2 * n, "out": n}, {}
    pair = np.stack([rng.normal(size=line), rng.integers(0, cols * V, line)], axis=-1)
    return {"logits": n, "pair": 2}, {"logits": rng.integers(-2, 3, (*line, n)), "pair": pair}


def _latent(
    kernel: str, s: dict[str, int], rows: int, cols: int, rng: np.random.Generator
) -> tuple[dict[str, int], dict[str, Array]]:
    """Tables of a row are the same in all its columns; a head stands in a row once, 0 is none."""
    M, H, Hl, K, n = s["M"], s["H"], s["Hl"], s.get("K", 1), s["n"]
    kept = np.stack([rng.permutation(np.maximum(np.arange(1, H + Hl + 1) - Hl, 0))[:Hl] for _ in range(rows)])
    contents = {"heads": np.broadcast_to(kept[:, None], (rows, cols, Hl))}
    if kernel == "place_heads":
        return {"x": M * Hl * n, "heads": Hl, "out": M * H * n}, contents
    if kernel == "pick_heads":
        return {"x": M * H * n, "heads": Hl, "out": Hl * M * n}, contents
    contents["first"] = np.broadcast_to(rng.integers(0, n + 1, (rows, 1, 1)), (rows, cols, 1))
    contents["wanted"] = np.stack([[rng.permutation(n + K)[:n] for _ in range(cols)] for _ in range(rows)])
    return {"x": M * (Hl * K + 2), "heads": Hl, "first": 1, "wanted": n, "out": M * H * n}, contents


def _quantised(
    kernel: str, s: dict[str, int], line: tuple[int, int], rng: np.random.Generator
) -> tuple[dict[str, int], dict[str, Array]]:
    """Any codes but e4m3's two that are not numbers; groups of rows that differ from PE to PE."""
    M, K, N = s["M"], s["K"], s["N"]
    four_bits = kernel == "matmul_int4"
    counts = {"x": M * K, "w": (K + 1) // 2 * N if four_bits else K * N, "codes": s["rows"] * N, "out": M * N}
    codes = rng.integers(0, 256, (*line, counts["w"]))
    if kernel == "matmul_fp8":
        codes = np.where(codes % 128 == 127, 0, codes)
    if not four_bits:
        return counts | {"scale": N}, {"w": codes}
    groups = np.sort(rng.integers(0, GROUPS, (*line, K)), axis=-1)
    return counts | {"groups": K, "scale": GROUPS * N}, {"w": codes, "groups": groups}


def allowed_error(case: Case, want: Array) -> dict[str, Array]:
    """Absolute errors allowed in the buffers that depend on exp, cos or sin; every other byte is exact.

    exp, cos and sin are taken to be within 4 float32 ulp of each other; a stored element may then round to its
    neighbour, one ulp of its type.
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
    if case.kernel == "rotate":
        error = _rope_error(case, plain).reshape(case.values("x").shape)
        return {"x": error + tiny + stored * np.abs(case.values("x", want))}
    if case.kernel == "scale_queries":
        return {"x": (8 * single + stored) * np.abs(case.values("x", want)) + tiny}
    if case.kernel == "soft_cap":
        return {"x": (8 * single + summed) * np.abs(case.values("x", want)) + tiny_sum}
    if case.kernel == "sink_sums":
        return {"sums": 8 * single * np.abs(case.values("sums", want))}
    if case.kernel == "activate":
        return {"out": (8 * single + stored) * np.abs(case.values("out", want)) + _activation_error(case, plain) + tiny}
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
    """Of GELU: 1 + tanh and 1 + erf lose digits where they are near 0, so 8 ulp of 1 times all that is multiplied."""
    x = np.abs(case.values("x"))[..., : plain["M"] * (1 + plain["gated"]) * plain["n"]]
    halves = x.reshape(*case.memory.shape[:2], plain["M"], 1 + plain["gated"], plain["n"])
    lost = "gelu" in ACTIVATIONS[plain["function"]]
    return (8 * lost * EPS["float32"] * halves.prod(axis=3)).reshape(case.values("out").shape)


def _rope_error(case: Case, plain: dict[str, int]) -> Array:
    """``[rows, cols, M, heads, F]``: 4 ulp of cos and sin times both members of the pair, and two roundings."""
    F, R = plain["F"], plain["R"]
    heads = np.abs(case.values("x")).reshape(*case.memory.shape[:2], plain["M"], -1, F)
    either = heads[..., : R // 2] + heads[..., R // 2 : R]
    rotated = 8 * EPS["float32"] * np.concatenate([either, either], axis=-1)
    return np.concatenate([rotated, np.zeros_like(heads[..., R:])], axis=-1)
