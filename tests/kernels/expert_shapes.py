"""What the kernels of experts are tested over: their sizes, their buffers at those sizes, and the errors allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tests.kernels.helpers import EPS, Case
from wse.isa.instructions import kernel_named

Array = npt.NDArray[Any]

SIZES: dict[str, tuple[str, ...]] = {
    "router_place": ("M", "n", "E"),
    "router_scores": ("M", "E"),
    "router_correct": ("M", "E"),
    "router_limit": ("M", "groups", "size"),
    "router_choose": ("M", "E", "A"),
    "expert_pairs": ("M", "A", "experts"),
    "expert_in": ("M", "A", "K", "N", "held"),
    "expert_out": ("M", "A", "K", "N", "held"),
    "expert_in_quantised": ("M", "A", "K", "N", "held", "rows"),
    "expert_out_quantised": ("M", "A", "K", "N", "held", "rows"),
    "expert_bias": ("M", "A", "N", "held"),
}
GROUPS = 3
INT8, FP8, INT4 = range(3)
SCALE_PICO = 2_500_000_000_000


def drawn(
    kernel: str, size: dict[str, int], rows: int, cols: int, rng: np.random.Generator
) -> tuple[dict[str, int], dict[str, int], dict[str, Array]]:
    """Elements of the buffers, plain operands, and contents that must be special; what is free is drawn."""
    s = dict(size)
    M, A = s["M"], s.get("A", 1)
    if kernel == "router_limit":
        s["E"] = s["groups"] * s["size"]
    divisors = [n for n in range(1, cols + 1) if cols % n == 0]
    stretches = int(rng.choice(divisors)) if rng.integers(0, 2) else 1
    plain = {
        "sigmoid": int(rng.integers(0, 2)),
        "kept": int(rng.integers(1, s.get("groups", 1) + 1)),
        "divided": int(rng.integers(0, 2)),
        "scale_pico": SCALE_PICO,
        "groups": int(rng.integers(1, cols // stretches + 1)),
        "stretches": stretches,
        "columns": cols,
        "P": int(rng.integers(1, M * A + 1)),
        "weighed": int(rng.integers(0, 2)),
        "by_token": int(rng.integers(0, 2)),
        "k_stride": s.get("held", 1) * s.get("N", 1) + int(rng.integers(0, 3)),
        "out_stride": s.get("N", 1) + int(rng.integers(0, 3)),
        "stride": s.get("N", 1) + int(rng.integers(0, 3)),
        "coding": int(rng.integers(INT8, INT4 + 1)),
    } | s
    plain["G"] = GROUPS if plain["coding"] == INT4 else 1
    counts, contents = _buffers(kernel, plain, (rows, cols), rng)
    return counts, {name: plain[name] for name, view in kernel_named(kernel).views.items() if not view}, contents


def _buffers(
    kernel: str, p: dict[str, int], line: tuple[int, int], rng: np.random.Generator
) -> tuple[dict[str, int], dict[str, Array]]:
    M, E, P = p["M"], p.get("E", 1), p["P"]
    K, N, held = p.get("K", 1), p.get("N", 1), p.get("held", 1)
    pairs = {"pairs": _pairs(line, p, rng)} if "held" in p else {}
    match kernel:
        case "router_place":
            return {"x": M * p["n"], "out": M * E}, {}
        case "router_scores":
            return {"x": M * E, "out": M * E}, {}
        case "router_correct":
            return {"x": M * E, "correction": E, "out": M * E}, {}
        case "router_limit":
            return {"x": M * E, "out": M * E, "best": p["groups"]}, {}
        case "router_choose":
            of_choice = {"choice": M * E, "scores": M * E, "ids": M * p["A"], "weights": M * p["A"]}
            return of_choice, {"scores": rng.uniform(0, 1, (*line, M * E))}
        case "expert_pairs":
            ids = rng.integers(-1, p["experts"], (*line, M * p["A"]))
            return {"ids": M * p["A"], "weights": M * p["A"], "pairs": 1 + 3 * P}, {"ids": ids}
        case "expert_in":
            return {"x": M * K, "w": K * p["k_stride"], "pairs": 1 + 3 * P, "out": P * p["out_stride"]}, pairs
        case "expert_out":
            return {"x": P * K, "w": K * held * N, "pairs": 1 + 3 * P, "out": M * N}, pairs
        case "expert_in_quantised":
            counts, contents = _quantised(p, p["k_stride"], line, rng)
            return counts | {"x": M * K, "pairs": 1 + 3 * P, "out": P * p["out_stride"]}, contents | pairs
        case "expert_out_quantised":
            counts, contents = _quantised(p, held * N, line, rng)
            return counts | {"x": P * K, "pairs": 1 + 3 * P, "out": M * N}, contents | pairs
        case _:
            return {"x": max(M, P) * p["stride"], "bias": held * N, "pairs": 1 + 3 * P}, pairs


def _quantised(
    p: dict[str, int], stride: int, line: tuple[int, int], rng: np.random.Generator
) -> tuple[dict[str, int], dict[str, Array]]:
    """Any codes but e4m3's two that are not numbers; groups of rows that differ from PE to PE."""
    K = p["K"]
    counts = {"w": (K + 1) // 2 * stride if p["coding"] == INT4 else K * stride, "groups": K}
    codes = rng.integers(0, 256, (*line, counts["w"]))
    if p["coding"] == FP8:
        codes = np.where(codes % 128 == 127, 0, codes)
    groups = np.sort(rng.integers(0, GROUPS, (*line, K)), axis=-1)
    return counts | {"scale": p["G"] * stride, "codes": p["rows"] * p["N"]}, {"w": codes, "groups": groups}


def _pairs(line: tuple[int, int], p: dict[str, int], rng: np.random.Generator) -> Array:
    """A list of pairs on every PE: the same on all, or each its own; a count or an index may be out of bounds."""
    alike = bool(rng.integers(0, 2))
    shape = (1, 1) if alike else line
    rows = [rng.integers(-1, p["M"] + 1, (*shape, p["P"])), rng.integers(-1, p["held"] + 1, (*shape, p["P"]))]
    listed = np.stack([*rows, rng.uniform(0, 1, (*shape, p["P"]))], axis=-1).reshape(*shape, -1)
    count = rng.integers(0, p["P"] + 2, (*shape, 1))
    return np.broadcast_to(np.concatenate([count, listed], axis=-1), (*line, 1 + 3 * p["P"]))


def allowed_error(case: Case, plain: dict[str, int], want: Array) -> dict[str, Array]:
    """exp within 4 float32 ulp, and the rounding of E sums; every other byte is exact."""
    if case.kernel == "router_scores":
        return {"out": (10 + plain["E"]) * EPS["float32"] * np.abs(case.values("out", want)) + 1e-37}
    return {}
