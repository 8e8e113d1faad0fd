"""Predictors of WaferLLM's published results: language models, matrix products and region shifts.

The published tokens per second are computed from the measured cycles per layer, the number of
layers, and an assumed clock of 1.1 GHz. For a whole request, the generated tokens are divided by
the time of prefill and decode, each on the grid that suits it best.

A region shift by L columns has L rounds. In each round, every PE sends its tile to its neighbour
and receives another tile. Source: He et al., OSDI 2025, arXiv 2502.04563.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.rounds import exchange_cycles
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.models import one_head_model
from wse.studies.validate.measured.platforms import Profiles, software, wafer_of, words_per_cycle
from wse.studies.validate.measured.text_numbers import is_cycles, whole_in
from wse.studies.validate.predictors.harness import (
    PROFILE,
    Grid,
    decode_layer_cycles,
    gemm_cycles,
    gemv_cycles,
    layers_fit,
    prefill_layer_cycles,
)
from wse.studies.validate.predictors.prediction import NO_DTYPE, NO_GENERATION, NO_GRID, Declined, Prediction, require
from wse_mappings.rounding import ceil_div

CLOCK_HZ: Final = 1.1e9
"""Clock frequency that the source uses to convert cycles to seconds, for both generations."""

TOKENS: Final = 4096
"""Prompt and cached tokens of measurements that do not specify them, from the source's tables."""

END_TO_END_GRIDS: Final = {"llama38b": (660, 360), "llama213b": (750, 375)}
"""Sides of the squares on which the source ran prefill and decode of whole requests (section
7.5)."""

SWEPT_SIDES: Final = {"prefill": (480, 600, 720), "decode": (420, 540, 660)}
"""Sides of the squares in tables 3 and 4 of the source. A rate without a grid refers to the best
square, as in the abstract."""

MAX_CACHE_SIZES: Final = 1_000
"""Maximum number of distinct KV-cache sizes for which a layer is timed in one request. This takes
several seconds."""

_RATE: Final = re.compile(r"tokens?(_per_|/)s\b")
_GRID: Final = r"\b%s\s+(?:on\s+)?(\d{1,4})\s*x\s*(\d{1,4})\b"
_PREFILL_GRID: Final = re.compile(_GRID % "prefill", re.IGNORECASE)
_DECODE_GRID: Final = re.compile(_GRID % "decode", re.IGNORECASE)
_PHASES: Final = ("prefill", "decode", "end2end")


def predict(m: Measurement, profiles: Profiles = software) -> Prediction | None:
    """Predict WaferLLM's tokens per second in prefill, in decode or for a whole request.

    Args:
        m: The measurement.
        profiles: Function that returns software profiles, by default the bundled ones.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    system = m.text("system") or m.text("algorithm")
    phase = (m.text("phase") or m.text("kernel").partition(" ")[0]).strip().lower()
    if not system.lower().startswith("waferllm") or phase not in _PHASES:
        return None
    if not _RATE.match(m.text("metric")):
        raise Declined("not tokens per second, which is what the time of layers gives")
    name = m.text("workload") or m.text("kernel")
    model, wafer = _model(name), require(wafer_of(m), NO_GENERATION)
    if m.sizes.get("batch", 1) != 1:
        raise Declined("the released kernels support a single user only")
    dtype = require(m.dtype, NO_DTYPE)
    costs = profiles(PROFILE, wafer.generation)
    if phase == "end2end":
        return _request(m, wafer, model, name, dtype, costs)
    tokens = m.sizes.get("seq_in", TOKENS)
    if m.rows is None and m.cols is None:
        return _best(phase, _swept_grids(wafer, phase), model, tokens, dtype, costs)
    grid = Grid(wafer=wafer, rows=require(m.rows, NO_GRID), cols=require(m.cols, NO_GRID))
    grid.check()
    if phase == "prefill":
        grid.check_square()
    return _best(phase, [grid], model, tokens, dtype, costs)


def best_rate(m: Measurement) -> Prediction | None:
    """Predict the speed of WaferLLM in a published comparison of inference services.

    The predicted value is the decode speed in tokens/s on the fastest of several square meshes.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    if m.table != "public" or not m.text("system").lower().endswith("(waferllm)"):
        return None
    if m.text("metric") != "output_tok_s_per_user":
        raise Declined("not tokens per second, which is what the time of layers gives")
    model, wafer = _model(m.text("model")), require(wafer_of(m), NO_GENERATION)
    costs = software(PROFILE, wafer.generation)
    return _best("decode", _swept_grids(wafer, "decode"), model, TOKENS, "float16", costs)


def _model(name: str) -> ModelSpec:
    return require(one_head_model(name), f"the shape of the model {name[:40] or '(none named)'} is not known")


def _swept_grids(wafer: WaferSpec, phase: str) -> list[Grid]:
    return [Grid(wafer=wafer, rows=side, cols=side) for side in SWEPT_SIDES[phase]]


def _best(
    phase: str, grids: Sequence[Grid], model: ModelSpec, tokens: int, dtype: str, costs: SoftwareProfile
) -> Prediction:
    """Predict the tokens per second of prefill or decode on the fastest of several grids of PEs.

    Args:
        phase: ``prefill`` or ``decode``.
        grids: Grids to try.
        model: The model.
        tokens: Number of tokens in the prompt or in the KV cache.
        dtype: Element type.
        costs: Software costs of a PE, such as cycles for starting a task.
    """
    is_decode = phase == "decode"
    layer_cycles = decode_layer_cycles if is_decode else prefill_layer_cycles
    timed_grids = ((layer_cycles(grid, model, tokens, dtype, costs), grid) for grid in grids)
    cycles, grid = min(timed_grids, key=lambda timed_grid: timed_grid[0])
    tokens_per_pass = 1 if is_decode else tokens
    rate = tokens_per_pass / (model.layer_count * cycles / CLOCK_HZ)
    return _prediction(rate, fits=layers_fit(phase, grid, model, tokens, dtype))


def _request(
    m: Measurement, wafer: WaferSpec, model: ModelSpec, name: str, dtype: str, costs: SoftwareProfile
) -> Prediction:
    """Predict the number of tokens generated per second for a whole request.

    Prefill and decode run on different rectangles of PEs.

    1. Read the lengths and the sizes of the two rectangles from the measurement.
    2. Time the prefill of the prompt.
    3. Time the decoding of the tokens. Their time depends only on how many tokens each PE row
       caches, so it is computed once for each such number.

    Args:
        m: The measurement.
        wafer: The wafer generation.
        model: The model.
        name: Name of the model.
        dtype: Element type.
        costs: Software costs of a PE, such as cycles for starting a task.
    """
    # 1. Lengths and grids.
    prompt, new_tokens = m.sizes.get("seq_in"), m.sizes.get("seq_out")
    if prompt is None or new_tokens is None:
        raise Declined("the row does not state the tokens of the prompt and of the answer")
    if m.rows is not None or m.cols is not None:
        raise Declined("a whole request has two grids: the note gives them, as in prefill 660x660, decode 360x360")
    sides = require(_grids(m.text("note"), name), "the grids of prefill and of decode are not stated")
    prefill_grid, decode_grid = (Grid(wafer=wafer, rows=rows, cols=cols) for rows, cols in sides)
    prefill_grid.check()
    decode_grid.check()
    prefill_grid.check_square()
    # Tokens whose caches fill the same number of slots on a row cost the same.
    rows = decode_grid.rows
    min_slots, max_slots = ceil_div(prompt, rows), ceil_div(prompt + new_tokens - 1, rows)
    if max_slots - min_slots > MAX_CACHE_SIZES:
        raise Declined("the answer has too many numbers of cache slots to be timed one by one")
    # 2. Prefill.
    cycles = prefill_layer_cycles(prefill_grid, model, prompt, dtype, costs)
    # 3. Decode. The cache of each token contains the prompt and all tokens before it.
    for slots in range(min_slots, max_slots + 1):
        tokens = min(slots * rows, prompt + new_tokens - 1) - max((slots - 1) * rows, prompt - 1)
        cycles += tokens * decode_layer_cycles(decode_grid, model, slots * rows, dtype, costs)
    fits = layers_fit("prefill", prefill_grid, model, prompt, dtype)
    fits = fits and layers_fit("decode", decode_grid, model, prompt + new_tokens, dtype)
    return _prediction(new_tokens / (model.layer_count * cycles / CLOCK_HZ), fits=fits)


def _grids(note: str, name: str) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return the (rows, columns) of PEs for prefill and for decode, or None if unknown.

    If the note does not state the sizes, they are those of the benchmark in WaferLLM's publication.

    Args:
        note: The note of the measurement. It states columns before rows.
        name: Name of the model.
    """
    matches = [pattern.search(note) for pattern in (_PREFILL_GRID, _DECODE_GRID)]
    if any(matches):
        (a, b), (c, d) = ((int(match[1]), int(match[2])) if match else (0, 0) for match in matches)
        return ((b, a), (d, c)) if min(a, b, c, d) > 0 else None
    plain = "".join(c for c in name.lower() if c.isalnum())
    sides = END_TO_END_GRIDS.get(plain)
    return None if sides is None else ((sides[0], sides[0]), (sides[1], sides[1]))


def _prediction(value: float, *, fits: bool | None = None) -> Prediction:
    return Prediction(value=value, method="fabric model", software=PROFILE, sram_fits=fits)


_GROUPS: Final = re.compile(
    r"\b(?:g|groups?|group_?num(?:ber)?)\s*[=:]\s*(\d{1,4})\b|\b(\d{1,4}) groups\b", re.IGNORECASE
)
_REPEATS: Final = re.compile(r"compute repeated (\d{1,3}) times")
_SHIFT: Final = re.compile(r"\bL\s*=\s*(\d{1,5}) columns?[,;] tile (\d{1,4})x(\d{1,4})\b")
_OTHER_LOOPS: Final = re.compile(r"row-major|reduction-dimension|two-hop transfers disabled")


def predict_product(m: Measurement, profiles: Profiles = software) -> Prediction | None:
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
        groups = whole_in(_GROUPS, m.text("note"))
        if groups is not None and not 1 <= groups <= min(grid.rows, grid.cols):
            raise Declined("the groups that the row names do not fit its line of PEs")
        return _prediction(gemv_cycles(grid, K, N, groups or 0, dtype, costs))
    grid.check_square()
    repeats = whole_in(_REPEATS, m.text("note"))
    return _prediction(gemm_cycles(grid, M, K, N, 1 if repeats is None else repeats, dtype, costs))


def predict_shift(m: Measurement, profiles: Profiles = software) -> Prediction | None:
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
