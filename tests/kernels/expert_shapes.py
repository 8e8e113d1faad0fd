"""Sizes, special contents and allowed errors for tests of the kernels of mixtures of experts."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tests.kernels.helpers import EPS, Case
from wse.program.isa.instructions import kernel_named

Array = npt.NDArray[Any]

GROUPS = 3
INT8, FP8, INT4 = range(3)
SCALE_PICO = 2_500_000_000_000


def random_operands(
    kernel: str, size: dict[str, int], rows: int, cols: int, rng: np.random.Generator
) -> tuple[dict[str, int], dict[str, Array]]:
    """Return random operands and special contents for some sizes."""
    s = dict(size)
    M, A = s["M"], s.get("A", 1)
    if kernel == "router_limit":
        s["E"] = s["groups"] * s["size"]
    parts = int(rng.integers(1, 3))
    divisors = [n for n in range(1, cols + 1) if cols % n == 0]
    segments = int(rng.choice(divisors)) if rng.integers(0, 2) else 1
    plain = {
        "sigmoid": int(rng.integers(0, 2)),
        "chosen_groups": int(rng.integers(1, s.get("groups", 1) + 1)),
        "normalised": int(rng.integers(0, 2)),
        "scale_pico": SCALE_PICO,
        "tolerance_pico": SCALE_PICO // 10,
        "groups": int(rng.integers(1, cols // segments + 1)),
        "segments": segments,
        "columns": cols,
        "P": int(rng.integers(1, M * A + 1)),
        "weighted": int(rng.integers(0, 2)),
        "by_token": int(rng.integers(0, 2)),
        "k_stride": s.get("local_experts", 1) * s.get("N", 1) + int(rng.integers(0, 3)),
        "out_stride": s.get("N", 1) + int(rng.integers(0, 3)),
        "parts": parts,
        "stride": parts * s.get("N", 1) + int(rng.integers(0, 3)),
        "B": 1,
        "coding": int(rng.integers(INT8, INT4 + 1)),
        "first": int(rng.integers(0, cols)),
        "zeros": int(rng.integers(0, 2)),
    } | s
    if kernel == "router_place":
        plain["columns"] = int(rng.integers(1, cols + 1))  # of a segment
    plain["G"] = 1 if kernel.endswith("quantised") and plain["coding"] != INT4 else GROUPS
    plain["scale_stride"] = s.get("local_experts", 1) * s.get("B", 1) + int(rng.integers(0, 3))
    numbers = {name: plain[name] for name, view in kernel_named(kernel).views.items() if not view}
    return numbers, _contents(kernel, plain, (rows, cols), rng)


def _contents(kernel: str, p: dict[str, int], line: tuple[int, int], rng: np.random.Generator) -> dict[str, Array]:
    """Return the contents of buffers that must not be arbitrary numbers."""
    pairs = {"pairs": _pairs(line, p, rng)} if "local_experts" in p else {}
    match kernel:
        case "router_choose":
            return {"scores": rng.uniform(0, 1, (*line, p["M"] * p["E"]))}
        case "chosen_softmax":
            ids = rng.integers(-1, 2, (*line, p["M"], p["A"]))
            values = -np.sort(rng.exponential(2, (*line, p["M"], p["A"])), axis=-1)
            return {"ids": ids.reshape(*line, -1), "weights": values.reshape(*line, -1)}
        case "scale_choice":
            return {"ids": rng.integers(-1, p["E"], (*line, p["M"] * p["A"]))}
        case "expert_pairs":
            return {"ids": rng.integers(-1, p["experts"], (*line, p["M"] * p["A"]))}
        case "expert_in_quantised":
            last_row = (-(-p["K"] // _per_byte(p)) - 1) * p["k_stride"]
            return pairs | _codes(p, last_row + p["local_experts"] * p["N"], line, rng)
        case "expert_out_quantised":
            return pairs | _codes(p, -(-p["K"] // _per_byte(p)) * p["local_experts"] * p["N"], line, rng)
        case "expert_in_mxfp4":
            last_row, last_group = (-(-p["K"] // 2) - 1) * p["k_stride"], (p["G"] - 1) * p["k_stride"]
            size = p["local_experts"] * p["N"]
            return pairs | factored(kernel, p, last_row + size, last_group + size, line, rng)
        case "expert_out_mxfp4":
            size = p["local_experts"] * p["N"]
            return pairs | factored(kernel, p, -(-p["K"] // 2) * size, p["G"] * size, line, rng)
        case "expert_in_fp8_blocks":
            return pairs | factored(kernel, p, (p["K"] - 1) * p["k_stride"] + p["local_experts"] * p["N"], 0, line, rng)
        case "expert_out_fp8_blocks":
            return pairs | factored(kernel, p, p["K"] * p["local_experts"] * p["N"], 0, line, rng)
        case _:
            return pairs


def factored(
    kernel: str, p: dict[str, int], codes: int, scales: int, line: tuple[int, int], rng: np.random.Generator
) -> dict[str, Array]:
    """Return random codes with scales that are powers of two near 1, or scales of output blocks."""
    groups = np.sort(rng.integers(0, p["G"], (*line, p["K"])), axis=-1)
    if kernel.endswith("mxfp4"):
        return {
            "w": rng.integers(0, 256, (*line, codes)),
            "groups": groups,
            "scale": rng.integers(0 if rng.integers(0, 2) else 110, 140, (*line, scales)),
        }
    ends = np.sort(rng.integers(0, p["N"] + 1, (*line, p["B"])), axis=-1)
    ends[..., -1] = p["N"]
    w = rng.integers(0, 256, (*line, codes))
    return {"w": np.where(w % 128 == 127, 0, w), "groups": groups, "widths": np.diff(ends, prepend=0, axis=-1)}


def _per_byte(p: dict[str, int]) -> int:
    return 2 if p["coding"] == INT4 else 1


def _codes(p: dict[str, int], count: int, line: tuple[int, int], rng: np.random.Generator) -> dict[str, Array]:
    """Return random codes without NaNs, and groups of rows that differ from PE to PE."""
    codes = rng.integers(0, 256, (*line, count))
    if p["coding"] == FP8:
        codes = np.where(codes % 128 == 127, 0, codes)
    return {"w": codes, "groups": np.sort(rng.integers(0, GROUPS, (*line, p["K"])), axis=-1)}


def _pairs(line: tuple[int, int], p: dict[str, int], rng: np.random.Generator) -> Array:
    """Return a random list of pairs for every PE.

    The lists are equal or different on all PEs. A count or an index may be out of bounds.
    """
    is_equal_on_all_pes = bool(rng.integers(0, 2))
    shape = (1, 1) if is_equal_on_all_pes else line
    rows = [rng.integers(-1, p["M"] + 1, (*shape, p["P"])), rng.integers(-1, p["local_experts"] + 1, (*shape, p["P"]))]
    pairs = np.stack([*rows, rng.uniform(0, 1, (*shape, p["P"]))], axis=-1).reshape(*shape, -1)
    count = rng.integers(0, p["P"] + 2, (*shape, 1))
    return np.broadcast_to(np.concatenate([count, pairs], axis=-1), (*line, 1 + 3 * p["P"]))


def allowed_error(case: Case, plain: dict[str, int], want: Array) -> dict[str, Array]:
    """Return the error allowed for exp within 4 float32 ulp and for sums over E or A values.

    Every other byte must be exact.
    """
    if case.kernel == "router_mix":
        return {"out": 1e-6 * plain["E"] * np.abs(case.values("out", want))}
    if case.kernel == "router_scores":
        return {"out": (10 + plain["E"]) * EPS["float32"] * np.abs(case.values("out", want)) + 1e-37}
    if case.kernel == "chosen_softmax":
        return {"weights": (12 + plain["A"]) * EPS["float32"] * np.abs(case.values("weights", want)) + 1e-37}
    return {}
