"""Work of kernels without communication: the number and length of their vector operations."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from wse.models.spec import ModelSpec
from wse.studies.validate.kernel_model.described_run import Shard, mean_context
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.models import dense_model
from wse.studies.validate.measured.text_numbers import whole_in

_CHUNK: Final = re.compile(
    r"(?<!start )\bchunks?(?:[ _]size)?\s*(?:of|=|:)?\s*([0-9][0-9,]*)|\bc([0-9]{2,4})\b|([0-9][0-9,]*)-token chunks?",
    re.IGNORECASE,
)
SILU_PARTS: Final = 3
"""Number of parts into which a prefill kernel divides the feed-forward vector for SiLU. Source: its
number of calls per layer and chunk."""


PROBE_CYCLES: Final = 60
"""Cycles that the time stamps around one pass of a softmax add to its measured time.

According to the remarks of the measurements, a softmax of five passes took about 300 cycles more
with these time stamps than without."""

SOFTMAX_PASSES: Final = 5
_PASS: Final = re.compile(r"softmax pass:", re.IGNORECASE)
_PROBED: Final = re.compile(r"with inner pass probes", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelWork:
    """Vector operations that one call of a kernel executes.

    Attributes:
        repeats: How often the kernel executes the sequence.
        sequences: Names of fields of `ComputeEngineCosts`. The sum of these fields is the number of
            operations in the sequence. Empty if the sequence is a single operation.
        length: Number of elements in each operation.
        macs: Number of 16-bit multiply-accumulates in all operations.
    """

    repeats: float
    sequences: tuple[str, ...] = ()
    length: float = 0
    macs: float = 0


def kernel_work(m: Measurement) -> KernelWork | None:
    """Return the vector operations of the kernel that a measurement timed.

    Return None if the measurement is about something else or does not state the required sizes.
    """
    model, metric = dense_model(m.text("model")), m.text("metric").lower()
    rows, cols = m.sizes.get("block_rows"), m.sizes.get("block_cols")
    if model is None or rows is None or cols is None:
        return None
    if m.text("phase") == "prefill-kernel":
        chunk = chunk_tokens(m)
        return None if chunk is None else _prefill_work(metric, model, rows, cols, chunk)
    context = mean_context(m)
    if re.search(r"softmax pass: exp\b", metric) and context is not None:
        shard = Shard(model=model, rows=rows, cols=cols, context=context)
        return KernelWork(
            repeats=shard.heads * (m.sizes.get("batch") or 1),
            sequences=("exponential_operations",),
            length=shard.positions,
        )
    return None


def probe_cycles(m: Measurement) -> int:
    """Return how many cycles of a measured softmax time were spent on reading time stamps."""
    if _PROBED.search(m.text("metric")):
        return SOFTMAX_PASSES * PROBE_CYCLES
    return PROBE_CYCLES if _PASS.search(m.text("metric")) else 0


def chunk_tokens(m: Measurement) -> int | None:
    """Return the number of tokens per prefill chunk stated in a measurement, or None."""
    return whole_in(_CHUNK, m.text("metric"), m.text("settings")) or None


def _prefill_work(metric: str, model: ModelSpec, rows: int, cols: int, chunk: int) -> KernelWork | None:
    """Return the vector operations of one call of a prefill kernel, or None if it is unknown.

    Tokens are distributed across PE columns, and the values of a vector over PE rows.

    Args:
        metric: Metric in lower case, which begins with the name of the kernel.
        model: Sizes of the model.
        rows: Number of PE rows.
        cols: Number of PE columns.
        chunk: Number of tokens in the chunk.
    """
    tokens = math.ceil(chunk / cols)
    hidden, ffn = math.ceil(model.hidden_size / rows), math.ceil(model.ffn_size / rows)
    head_values = max(1, model.key_size // rows)
    heads = model.queries_per_kv
    if metric.startswith("qk_norm"):
        return KernelWork(repeats=tokens * (heads + 1), sequences=("head_norm_operations",), length=head_values)
    if metric.startswith("rope"):  # one call for queries and one for keys
        repeats = tokens * (heads + 1) / 2
        return KernelWork(repeats=repeats, sequences=("rotation_operations",), length=head_values // 2)
    if metric.startswith("silu"):
        length = tokens * math.ceil(ffn / SILU_PARTS)
        return KernelWork(repeats=1, sequences=("exponential_operations", "sigmoid_operations"), length=length)
    if metric.startswith("matmul"):
        operations, macs = product_work(model, hidden, ffn, rows)
        return KernelWork(repeats=tokens * operations / 4, macs=tokens * macs / 4)
    return None


def product_work(model: ModelSpec, hidden: int, ffn: int, side: int) -> tuple[int, int]:
    """Count the operations of a PE in one step of a layer's matrix products, for one token.

    A layer has four matrix products: queries, keys and values; output projection; up and gate;
    down. In a step, a PE multiplies its part of the token's vector by one tile of each matrix. Each
    element of the vector takes one vector operation.

    Args:
        model: Sizes of the model.
        hidden: Number of elements of the hidden vector on a PE.
        ffn: Number of elements of the feed-forward vector on a PE.
        side: Number of PEs over which the queries, keys and values are distributed.

    Returns:
        Number of vector operations, and number of multiply-accumulates.
    """
    queries, keys = math.ceil(model.query_size / side), math.ceil(model.key_size / side)
    operations = hidden + queries + hidden + ffn
    macs = hidden * (queries + 2 * keys) + queries * hidden + hidden * 2 * ffn + ffn * hidden
    return operations, macs
