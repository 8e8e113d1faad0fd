"""Layers of language models as WaferLLM (He et al., OSDI 2025, arXiv 2502.04563) timed them on a wafer.

The published tokens a second are a layer's time, times the layers, in seconds of a clock of 1.1 GHz that the source
assumes; end to end, the generated tokens over the time of prefill and decode, each on the grid that suits it best.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import wafer_of
from wse.studies.validate.measured.shapes import Shape, shape_of
from wse.studies.validate.measured.versions import Profiles, software
from wse.studies.validate.predictors.harness import (
    PROFILE,
    Grid,
    decode_fits,
    decode_layer_cycles,
    prefill_fits,
    prefill_layer_cycles,
)
from wse.studies.validate.predictors.prediction import NO_DTYPE, NO_GENERATION, NO_GRID, Prediction, decline

CLOCK_HZ: Final = 1.1e9
"""The clock that the source converts cycles with, on both generations."""

TOKENS: Final = 4096
"""Tokens of the prompt and in the cache where a row gives none: the source's tables are for these."""

END_TO_END_GRIDS: Final = {"llama38b": (660, 360), "llama213b": (750, 375)}
"""Sides of the squares on which the source ran prefill and decode of whole requests (section 7.5)."""

SWEPT_SIDES: Final = {"prefill": (480, 600, 720), "decode": (420, 540, 660)}
"""Sides of the squares of the source's tables 3 and 4. A rate without a grid is of the best, as in its abstract."""

MOST_CACHE_SIZES: Final = 1_000
"""Numbers of cache slots on a row for which a layer is timed in one request: some seconds."""

_RATE: Final = re.compile(r"tokens?(_per_|/)s\b")
_GRID: Final = r"\b%s\s+(?:on\s+)?(\d{1,4})\s*x\s*(\d{1,4})\b"
_PREFILL_GRID: Final = re.compile(_GRID % "prefill", re.IGNORECASE)
_DECODE_GRID: Final = re.compile(_GRID % "decode", re.IGNORECASE)
_PHASES: Final = ("prefill", "decode", "end2end")


def predict(m: Measurement, profiles: Profiles = software) -> Prediction | None:
    """Return the tokens a second of a model's prefill, decode or whole request."""
    named = m.text("system") or m.text("algorithm")
    phase = (m.text("phase") or m.text("kernel").partition(" ")[0]).strip().lower()
    if not named.lower().startswith("waferllm") or phase not in _PHASES:
        return None
    if not _RATE.match(m.text("metric")):
        return decline("not tokens a second, which is what the time of layers gives")
    name = m.text("workload") or m.text("kernel")
    shape, wafer = shape_of(name), wafer_of(m)
    if shape is None:
        return decline(f"the shape of the model {name[:40] or '(none named)'} is not known")
    if wafer is None:
        return NO_GENERATION
    if m.sizes.get("batch", 1) != 1:
        return decline("the released kernels run a batch of one")
    if m.dtype is None:
        return NO_DTYPE
    dtype = m.dtype
    costs = profiles(PROFILE, wafer.generation)
    if phase == "end2end":
        return _request(m, wafer, shape, name, dtype, costs)
    tokens = m.sizes.get("seq_in", TOKENS)
    if m.rows is None and m.cols is None:
        return _best(phase, _swept_grids(wafer, phase), shape, tokens, dtype, costs)
    if m.rows is None or m.cols is None:
        return NO_GRID
    grid = Grid(wafer=wafer, rows=m.rows, cols=m.cols)
    problem = grid.problem() or _not_square(phase, grid)
    return decline(problem) if problem else _best(phase, [grid], shape, tokens, dtype, costs)


def best_rate(m: Measurement) -> Prediction | None:
    """Tokens a second of a user that lists of services have of this source: its best decode of a layer, as above."""
    if m.table != "public" or not m.text("system").lower().endswith("(waferllm)"):
        return None
    if m.text("metric") != "output_tok_s_per_user":
        return decline("not tokens a second, which is what the time of layers gives")
    shape, wafer = shape_of(m.text("model")), wafer_of(m)
    if shape is None:
        return decline(f"the shape of the model {m.text('model')[:40] or '(none named)'} is not known")
    if wafer is None:
        return NO_GENERATION
    costs = software(PROFILE, wafer.generation)
    return _best("decode", _swept_grids(wafer, "decode"), shape, TOKENS, "float16", costs)


def _swept_grids(wafer: WaferSpec, phase: str) -> list[Grid]:
    return [Grid(wafer=wafer, rows=side, cols=side) for side in SWEPT_SIDES[phase]]


def _best(
    phase: str, grids: Sequence[Grid], shape: Shape, tokens: int, dtype: str, costs: SoftwareProfile
) -> Prediction:
    """Return the highest rate of one phase on any of the grids."""
    layer, holds = (decode_layer_cycles, decode_fits) if phase == "decode" else (prefill_layer_cycles, prefill_fits)
    cycles, grid = min(((layer(g, shape, tokens, dtype, costs), g) for g in grids), key=lambda timed: timed[0])
    counted = 1 if phase == "decode" else tokens
    return _prediction(counted / (shape.layer_count * cycles / CLOCK_HZ), fits=holds(grid, shape, tokens, dtype))


def _request(
    m: Measurement, wafer: WaferSpec, shape: Shape, name: str, dtype: str, costs: SoftwareProfile
) -> Prediction:
    """Generated tokens over the time of a whole request."""
    prompt, generated = m.sizes.get("seq_in"), m.sizes.get("seq_out")
    if prompt is None or generated is None:
        return decline("the row does not give the tokens of the prompt and of the answer")
    if m.rows is not None or m.cols is not None:
        return decline("a whole request has two grids: the note gives them, as in prefill 660x660, decode 360x360")
    sides = _grids(m.text("note"), name)
    if sides is None:
        return decline("the grids of prefill and of decode are not stated")
    first, second = (Grid(wafer=wafer, rows=rows, cols=cols) for rows, cols in sides)
    problem = first.problem() or second.problem() or _not_square("prefill", first)
    if problem:
        return decline(problem)
    # Each token finds the prompt and the tokens before it in the cache; as many entries on a row cost alike.
    rows = second.rows
    least, most = -(-prompt // rows), -(-(prompt + generated - 1) // rows)
    if most - least > MOST_CACHE_SIZES:
        return decline("the answer is longer than is timed, one number of cache slots after another")
    cycles = prefill_layer_cycles(first, shape, prompt, dtype, costs)
    for slots in range(least, most + 1):
        tokens = min(slots * rows, prompt + generated - 1) - max((slots - 1) * rows, prompt - 1)
        cycles += tokens * decode_layer_cycles(second, shape, slots * rows, dtype, costs)
    fits = prefill_fits(first, shape, prompt, dtype) and decode_fits(second, shape, prompt + generated, dtype)
    return _prediction(generated / (shape.layer_count * cycles / CLOCK_HZ), fits=fits)


def _grids(note: str, name: str) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Rows and columns of PEs for prefill and for decode: from the row's note, which writes columns first."""
    matches = [pattern.search(note) for pattern in (_PREFILL_GRID, _DECODE_GRID)]
    if any(matches):
        (a, b), (c, d) = ((int(match[1]), int(match[2])) if match else (0, 0) for match in matches)
        return ((b, a), (d, c)) if min(a, b, c, d) > 0 else None
    plain = "".join(c for c in name.lower() if c.isalnum())
    sides = END_TO_END_GRIDS.get(plain)
    return None if sides is None else ((sides[0], sides[0]), (sides[1], sides[1]))


def _not_square(phase: str, grid: Grid) -> str:
    return "MeshGEMM runs on squares" if phase == "prefill" and grid.rows != grid.cols else ""


def _prediction(rate: float, *, fits: bool) -> Prediction:
    return Prediction(value=rate, method="fast model", software=PROFILE, sram_fits=fits)
