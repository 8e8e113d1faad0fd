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
from wse.studies.validate.predictors.prediction import NO_DTYPE, NO_GENERATION, NO_GRID, Declined, Prediction, require
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
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    names = f"{m.text('system')} {m.text('algorithm')}".lower()
    kernel = next((name for name in ("meshgemv", "meshgemm") if names.lstrip().startswith(name)), None)
    if kernel is None:
        return None
    if not is_cycles(m.text("metric")):
        raise Declined("not the cycles of a whole product, which is what the fabric model computes")
    if _OTHER_LOOPS.search(f"{names} {m.text('note')}"):
        raise Declined("this variant of the kernel is not modelled")
    wafer = require(wafer_of(m), NO_GENERATION)
    rows, cols = require(m.rows, NO_GRID), require(m.cols, NO_GRID)
    grid = Grid(wafer=replace(wafer, stream_words_per_cycle=words_per_cycle(m, wafer)), rows=rows, cols=cols)
    grid.check()
    M, K, N = (require(m.sizes.get(name), "the row does not state M, N and K") for name in "MKN")
    dtype = require(m.dtype, NO_DTYPE)
    costs = profiles(PROFILE, wafer.generation)
    if kernel == "meshgemv":
        if M != 1:
            raise Declined("MeshGEMV multiplies one vector")
        match = _GROUPS.search(m.text("note"))
        groups = int(match[1] or match[2]) if match else 0
        if (match and groups < 1) or groups > min(grid.rows, grid.cols):
            raise Declined("the groups that the row names do not fit its line of PEs")
        return _prediction(gemv_cycles(grid, K, N, groups, dtype, costs))
    grid.check_square()
    repeats = _REPEATS.search(m.text("note"))
    return _prediction(gemm_cycles(grid, M, K, N, int(repeats[1]) if repeats else 1, dtype, costs))


def shift(m: Measurement, profiles: Profiles = software) -> Prediction | None:
    """Predict how many cycles a region shift takes, which moves each PE's tile several columns.

    Args:
        m: The measurement.
        profiles: Function that returns software profiles, by default the bundled ones.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    if not m.text("system").lower().startswith("shift kernel"):
        return None
    if not is_cycles(m.text("metric")):
        raise Declined("not the cycles of a whole shift, which is what the fabric model computes")
    sizes, wafer = _SHIFT.search(m.text("note")), wafer_of(m)
    if sizes is None or wafer is None or m.element_bytes is None:
        raise Declined("the row does not state the distance, the tile, its element type and the wafer generation")
    distance, tile = int(sizes[1]), int(sizes[2]) * int(sizes[3])
    if not distance or not tile:
        raise Declined("a shift over no column, or of an empty tile")
    profile = profiles(PROFILE, wafer.generation)
    rate = replace(wafer, stream_words_per_cycle=words_per_cycle(m, wafer))
    costs = LineCosts.for_software(rate, profile)
    rounds = distance * exchange_cycles(ceil_div(tile * m.element_bytes, 4), costs)
    return _prediction(profile.task_dispatch_cycles + rounds)


def _prediction(cycles: float) -> Prediction:
    return Prediction(value=cycles, method="fabric model", software=PROFILE)
