"""Predictor of SRAM: used bytes of a PE by purpose, and the longest context that fits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

from wse.hardware.code_sizes import load_code_sizes
from wse.hardware.generations import DEFAULT_WAFER
from wse.hardware.load import load_wafer
from wse.hardware.spec import WaferSpec
from wse.models.spec import ModelSpec
from wse.studies.validate.kernel_model.described_run import Shard, max_layers, shares_blocks, stated_dimensions
from wse.studies.validate.kernel_model.kernel_work import chunk_tokens
from wse.studies.validate.kernel_model.pe_memory import PeMemory
from wse.studies.validate.kernel_model.profile import PROFILE, in_row_unit
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import wafer_of
from wse.studies.validate.measured.text_numbers import name_in, read_whole, whole_in
from wse.studies.validate.predictors.prediction import Declined, Prediction, require
from wse.studies.validate.result import CONSTANT_OF_PROFILE

DEFAULT_SIDE_PES: Final = 256
"""Number of PE rows and columns of a block, if not stated. Most floor plans have such blocks."""

PREFILL_BLOCKS: Final = ("prefill", "prefill_attention", "prefill_feed_forward")
"""Roles of PEs that compute layers of a prefill."""

DEFAULT_CONTEXT: Final = 8192
_LAYERS: Final = re.compile(r"([0-9]+)[- ]layers?\b|\bL\s*=\s*([0-9]+)", re.IGNORECASE)
_SHAPE: Final = re.compile(r"\b([0-9]+)x([0-9]+)\b")
_UNIT: Final = re.compile(r"(bytes?|B|[KM]i?B)\b", re.IGNORECASE)
_UNIT_BYTES: Final = {"b": 1, "k": 1024, "m": 1024**2}
_ROLE_TOTAL: Final = re.compile(r"^[^:]*$|:\s*(used|total)\b", re.IGNORECASE)

_CODE: Final = re.compile(r":\s*(code|RoPE)\b|\.text\b", re.IGNORECASE)
_SYSTEM: Final = re.compile(r":\s*system\b", re.IGNORECASE)
_ACTIVATIONS: Final = re.compile(r":\s*activations\b", re.IGNORECASE)

_ITEMS: Final[tuple[tuple[re.Pattern[str], Callable[[PeMemory], float]], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), value)
    for pattern, value in (
        (r"position.*:\s*K\b|position.*:\s*V\b|ingress_buf", lambda pe: pe.key_bytes),
        (r"position.*score_f32", lambda pe: 4 * pe.shard.heads),
        (r"position.*score bf16", lambda pe: 2 * pe.shard.heads),
        (r"growth per ([0-9,]+) context tokens", lambda pe: pe.position_bytes),
        (r":\s*code\b|\.text\b", lambda pe: pe.code_bytes),
        (r":\s*weights\b", lambda pe: pe.weight_bytes),
        (r":\s*KV ingress", lambda pe: pe.ingress_bytes),
        (r":\s*KV\b", lambda pe: pe.cache_bytes),
        (r":\s*RoPE\b", lambda pe: pe.sizes.rope_bytes),
        (r":\s*activations\b", lambda pe: pe.activation_bytes),
        (r":\s*system\b", lambda pe: pe.system_bytes),
    )
)


def predict(m: Measurement) -> Prediction | None:
    """Predict how many bytes of a PE's SRAM are used, or the longest context that fits.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    if m.text("phase") != "sram":
        return None
    model, metric = stated_dimensions(m), m.text("metric")
    wafer = wafer_of(m) or load_wafer(DEFAULT_WAFER)  # sizes from a linker come without the name of a wafer
    pe = _memory_of(m, model, wafer)
    if "MAX_SEQ_LEN" in metric:
        if not m.text("unit").strip().lower().startswith("token"):
            raise Declined(f"the unit {m.text('unit')[:30]!r} is not one of a context")
        has_long_strides = re.search(r"stride lift|route table", metric, re.IGNORECASE) is not None
        tokens = pe.max_context(wafer.sram_bytes_per_pe, has_long_strides=has_long_strides)
        return in_row_unit(require(tokens, "a PE of this role stores no cache, or has no room for one position"))
    unit = require(_UNIT.match(m.text("unit").strip()), f"the unit {m.text('unit')[:30]!r} is not one of memory")
    bytes_ = require(_bytes(m, pe, wafer), "the metric names no item of the memory of a PE that is described")
    if bytes_ < 0:
        raise Declined("the code, weights and caches of this PE do not fit its SRAM")
    value = bytes_ / _UNIT_BYTES["b" if unit[1].lower().startswith("b") else unit[1][0].lower()]
    if _is_constant(metric, pe):
        return Prediction(value=value, method=CONSTANT_OF_PROFILE, software=PROFILE)
    return in_row_unit(value)


def _is_constant(metric: str, pe: PeMemory) -> bool:
    """Return whether a size in SRAM is a constant that was taken from measurements.

    A constant size is not counted as a prediction. The sizes of two kinds of buffers are not
    constant: activations of an attention block grow with the number of scores, and buffers of
    prefill grow with the number of tokens.

    Args:
        metric: Metric of the measurement, which names the item in SRAM, such as code or buffers.
        pe: SRAM use of the PE.
    """
    if _CODE.search(metric):
        return True
    if _SYSTEM.search(metric):
        return pe.tokens == 0
    return _ACTIVATIONS.search(metric) is not None and pe.tokens == 0 and pe.score_bytes == 0


def _bytes(m: Measurement, pe: PeMemory, wafer: WaferSpec) -> float | None:
    """Return the size in bytes of the item in SRAM that a metric names, such as the weights.

    If the metric names only a type of PE, the result is the total of all items. For an unknown
    item, it is None.

    Args:
        m: The measurement.
        pe: SRAM use of the PE.
        wafer: The wafer, which determines how much SRAM is free.
    """
    metric = m.text("metric")
    if re.search(r":\s*free\b", metric, re.IGNORECASE):
        return wafer.sram_bytes_per_pe - pe.used_bytes
    for pattern, value in _ITEMS:
        match = pattern.search(metric)
        if match:
            tokens = read_whole(match[1]) if match.groups() else pe.shard.rows
            return None if tokens is None else value(pe) * tokens / pe.shard.rows
    return pe.used_bytes if _ROLE_TOTAL.search(metric) else None


def _memory_of(m: Measurement, model: ModelSpec, wafer: WaferSpec) -> PeMemory:
    """Return the SRAM use of a PE of the type that a measurement names.

    Raises:
        Declined: The measurement does not describe a known type of PE.
    """
    metric = m.text("metric")
    is_shared_model = shares_blocks(m)
    role = name_in("roles", metric)
    if role is None and ("MAX_SEQ_LEN" in metric or "position" in metric):
        role = "shared" if is_shared_model else "attention"
    role = require(role, "the metric names no role of a PE that is described")
    table = load_code_sizes(PROFILE)
    name = f"shared_{role}" if is_shared_model and role in ("head", "tail") else role
    rows, cols = _shape(m)
    if not (0 < rows <= wafer.mesh_rows and 0 < cols <= wafer.mesh_cols):
        raise Declined(f"the block is empty or larger than the mesh of {wafer.mesh_rows}x{wafer.mesh_cols} PEs")
    shard = Shard(
        model=model,
        rows=rows,
        cols=cols,
        context=m.sizes.get("context_max") or DEFAULT_CONTEXT,
        batch=m.sizes.get("batch") or 1,
    )
    texts = f"{metric} {m.text('settings')} {m.text('machine')}"
    return PeMemory(
        role=role,
        shard=shard,
        layers=_layers(m, is_shared_model=is_shared_model),
        sizes=table[name],
        tokens=math.ceil((chunk_tokens(m) or cols) / cols) if role in PREFILL_BLOCKS else 0,
        has_strips=rows < cols,
        has_appliance_code="appliance" in texts.lower(),
        has_route_table=re.search(r"(?<!without )route[- ]table", texts, re.IGNORECASE) is not None,
    )


def _layers(m: Measurement, *, is_shared_model: bool) -> int:
    """Return the number of layers in a block of PEs, as stated or by default.

    Args:
        m: The measurement, which may state the number in a column or in the metric.
        is_shared_model: Whether a block contains both attention and feed-forward.
    """
    return max_layers(m) or whole_in(_LAYERS, m.text("metric")) or (4 if is_shared_model else 9)


def _shape(m: Measurement) -> tuple[int, int]:
    """Return the numbers of PE rows and columns of a block (a rectangle of PEs).

    If the measurement does not state them, a default is returned.
    """
    rows, cols = m.sizes.get("block_rows"), m.sizes.get("block_cols")
    match = _SHAPE.search(m.text("metric"))
    if (rows is None or cols is None) and match:
        return read_whole(match[2]) or 0, read_whole(match[1]) or 0
    return rows or DEFAULT_SIDE_PES, cols or DEFAULT_SIDE_PES
