"""Predictor of SRAM: used bytes of a PE by purpose, and the longest context that fits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

from wse.hardware.code_sizes import load_code_sizes
from wse.hardware.spec import WaferSpec
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.predictors.prediction import Prediction, decline
from wse.studies.validate.predictors.wafer_inference.described_run import SHARED_BLOCK_MODELS, max_layers
from wse.studies.validate.predictors.wafer_inference.dimensions import Dimensions, dimensions_of
from wse.studies.validate.predictors.wafer_inference.kernel_work import chunk_tokens
from wse.studies.validate.predictors.wafer_inference.pe_memory import PeMemory
from wse.studies.validate.predictors.wafer_inference.profile import PROFILE, in_row_unit, memory_wafer
from wse.studies.validate.predictors.wafer_inference.shard import Shard

DEFAULT_SIDE_PES: Final = 256
"""Rows and columns of a block if a row does not state them, as in most of the floor plans."""

PREFILL_BLOCKS: Final = ("prefill", "prefill_attention", "prefill_feed_forward")
"""Roles of PEs that compute layers of a prefill."""

DEFAULT_CONTEXT: Final = 8192
_LAYERS: Final = re.compile(r"([0-9]+)[- ]layers?\b|\bL\s*=\s*([0-9]+)", re.IGNORECASE)
_SHAPE: Final = re.compile(r"\b([0-9]+)x([0-9]+)\b")
_KILOBYTES: Final = re.compile(r"\bKB\b")

_ROLES: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), role)
    for pattern, role in (
        (r"prefill.*\bht_?head|prefill.*\bhead", "prefill_head"),
        (r"prefill.*\bht_?tail|prefill.*\btail", "prefill_tail"),
        (r"prefill.*\bATTN\b", "prefill_attention"),
        (r"prefill.*\bFFN\b", "prefill_feed_forward"),
        (r"\bprefill\b", "prefill"),
        (r"\bHT[_ ]?tail|\btail\b", "tail"),
        (r"\bHT[_ ]?head|\bhead\b", "head"),
        (r"\bFFN\b", "feed_forward"),
        (r"\bATTN\b|\bA \(", "attention"),
        (r"\bcompute\b", "shared"),
    )
)
_ITEMS: Final[tuple[tuple[re.Pattern[str], Callable[[PeMemory], float]], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), value)
    for pattern, value in (
        (r"position.*:\s*K\b|position.*:\s*V\b|ingress_buf", lambda pe: pe.key_bytes),
        (r"position.*score_f32", lambda pe: 4 * pe.shard.heads),
        (r"position.*score bf16", lambda pe: 2 * pe.shard.heads),
        (r"growth per ([0-9]+) context tokens", lambda pe: pe.position_bytes),
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
    """Predict the use of SRAM. Return None for other rows."""
    if m.text("phase") != "sram":
        return None
    model, metric = dimensions_of(m.text("model")), m.text("metric")
    if model is None:
        return decline(f"the sizes of the model {m.text('model')[:40]!r} are not known")
    wafer = memory_wafer(m)
    pe = _memory_of(m, model)
    if isinstance(pe, str):
        return decline(pe)
    if "MAX_SEQ_LEN" in metric:
        has_long_strides = re.search(r"stride lift|route table", metric, re.IGNORECASE) is not None
        return in_row_unit(pe.max_context(wafer.sram_bytes_per_pe, has_long_strides=has_long_strides))
    return in_row_unit(_bytes(m, pe, wafer) / (1024 if _KILOBYTES.search(m.text("unit")) else 1))


def _bytes(m: Measurement, pe: PeMemory, wafer: WaferSpec) -> float:
    """Return the bytes of the item that a metric names, or all used bytes if it names none."""
    metric = m.text("metric")
    if re.search(r":\s*free\b", metric, re.IGNORECASE):
        return wafer.sram_bytes_per_pe - pe.used_bytes
    for pattern, value in _ITEMS:
        match = pattern.search(metric)
        if match:
            tokens = int(match[1]) if match.groups() else None
            return value(pe) * (1 if tokens is None else tokens / pe.shard.rows)
    return pe.used_bytes


def _memory_of(m: Measurement, model: Dimensions) -> PeMemory | str:
    """Return the SRAM use of the PE that a measurement describes, or what it does not state."""
    metric = m.text("metric")
    is_shared_model = m.text("model").strip().lower() in SHARED_BLOCK_MODELS
    role = next((role for pattern, role in _ROLES if pattern.search(metric)), None)
    if role is None and ("MAX_SEQ_LEN" in metric or "position" in metric):
        role = "shared" if is_shared_model else "attention"
    if role is None:
        return "the metric names no role of a PE that is described"
    table = load_code_sizes(PROFILE)
    name = f"shared_{role}" if is_shared_model and role in ("head", "tail") else role
    rows, cols = _shape(m)
    shard = Shard(model=model, rows=rows, cols=cols, context=m.sizes.get("context_max") or DEFAULT_CONTEXT)
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
    """Return the number of layers as stated in a column or the metric, or else the usual one."""
    layers = max_layers(m)
    match = _LAYERS.search(m.text("metric"))
    if layers is None and match:
        layers = int(match[1] or match[2])
    return layers or (4 if is_shared_model else 9)


def _shape(m: Measurement) -> tuple[int, int]:
    """Return the block's rows and columns, from columns or the metric, or else the usual ones."""
    rows, cols = m.sizes.get("block_rows"), m.sizes.get("block_cols")
    match = _SHAPE.search(m.text("metric"))
    if (rows is None or cols is None) and match:
        return int(match[2]), int(match[1])
    return rows or DEFAULT_SIDE_PES, cols or DEFAULT_SIDE_PES
