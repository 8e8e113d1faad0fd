"""Predictors of three kernels of WaferLLM: MeshGEMV, MeshGEMM and region shifts.

A region shift by L columns has L rounds. In each round, every PE sends its tile to its neighbour
and receives another tile. Source: He et al., OSDI 2025, arXiv 2502.04563.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.rounds import exchange_cycles
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import Profiles, software, wafer_of, words_per_cycle
from wse.studies.validate.measured.text_numbers import is_cycles
from wse.studies.validate.predictors.harness import PROFILE, Grid, gemm_cycles, gemv_cycles
from wse.studies.validate.predictors.prediction import NO_DTYPE, NO_GENERATION, NO_GRID, Prediction, decline
from wse_mappings.rounding import ceil_div

_GROUPS: Final = re.compile(
    r"\b(?:g|groups?|group_?num(?:ber)?)\s*[=:]\s*(\d{1,4})\b|\b(\d{1,4}) groups\b", re.IGNORECASE
)
_REPEATS: Final = re.compile(r"compute repeated (\d{1,3}) times")
_SHIFT: Final = re.compile(r"\bL\s*=\s*(\d{1,5}) columns?[,;] tile (\d{1,4})x(\d{1,4})\b")
_OTHER_LOOPS: Final = re.compile(r"row-major|reduction-dimension|two-hop transfers disabled")


def predict(m: Measurement, profiles: Profiles = software) -> Prediction | None:
    """Predict how many cycles a matrix product takes with MeshGEMV or MeshGEMM (WaferLLM).

    Args:
        m: The measurement.
        profiles: Function that returns software profiles, by default the bundled ones.

    Returns:
        A Prediction with the value, or with the reason why there is none. None if something else
        was measured.
    """
    names = f"{m.text('system')} {m.text('algorithm')}".lower()
    kernel = next((name for name in ("meshgemv", "meshgemm") if names.lstrip().startswith(name)), None)
    if kernel is None:
        return None
    if not is_cycles(m.text("metric")):
        return decline("not the cycles of a whole product, which is what the fabric model computes")
    if _OTHER_LOOPS.search(f"{names} {m.text('note')}"):
        return decline("this variant of the kernel is not modelled")
    wafer = wafer_of(m)
    if wafer is None:
        return NO_GENERATION
    if m.rows is None or m.cols is None:
        return NO_GRID
    grid = Grid(wafer=replace(wafer, stream_words_per_cycle=words_per_cycle(m, wafer)), rows=m.rows, cols=m.cols)
    sizes = [m.sizes.get(name) for name in "MKN"]
    if grid.problem() or None in sizes:
        return decline(grid.problem() or "the row does not state M, N and K")
    M, K, N = (int(size or 0) for size in sizes)
    if m.dtype is None:
        return NO_DTYPE
    dtype = m.dtype
    costs = profiles(PROFILE, wafer.generation)
    if kernel == "meshgemv":
        if M != 1:
            return decline("MeshGEMV multiplies one vector")
        match = _GROUPS.search(m.text("note"))
        groups = int(match[1] or match[2]) if match else 0
        if (match and groups < 1) or groups > min(grid.rows, grid.cols):
            return decline("the groups that the row names do not fit its line of PEs")
        return _prediction(gemv_cycles(grid, K, N, groups, dtype, costs))
    if grid.rows != grid.cols:
        return decline("MeshGEMM runs on squares")
    repeats = _REPEATS.search(m.text("note"))
    return _prediction(gemm_cycles(grid, M, K, N, int(repeats[1]) if repeats else 1, dtype, costs))


def shift(m: Measurement, profiles: Profiles = software) -> Prediction | None:
    """Predict how many cycles a region shift takes, which moves each PE's tile several columns.

    Args:
        m: The measurement.
        profiles: Function that returns software profiles, by default the bundled ones.

    Returns:
        A Prediction with the value, or with the reason why there is none. None if something else
        was measured.
    """
    if not m.text("system").lower().startswith("shift kernel"):
        return None
    if not is_cycles(m.text("metric")):
        return decline("not the cycles of a whole shift, which is what the fabric model computes")
    sizes, wafer = _SHIFT.search(m.text("note")), wafer_of(m)
    if sizes is None or wafer is None or m.element_bytes is None:
        return decline("the row does not state the distance, the tile, its element type and the wafer generation")
    distance, tile = int(sizes[1]), int(sizes[2]) * int(sizes[3])
    if not distance or not tile:
        return decline("a shift over no column, or of an empty tile")
    profile = profiles(PROFILE, wafer.generation)
    rate = replace(wafer, stream_words_per_cycle=words_per_cycle(m, wafer))
    costs = LineCosts.for_software(rate, profile)
    rounds = distance * exchange_cycles(ceil_div(tile * m.element_bytes, 4), costs)
    return _prediction(profile.task_dispatch_cycles + rounds)


def _prediction(cycles: float) -> Prediction:
    return Prediction(value=cycles, method="fabric model", software=PROFILE)
