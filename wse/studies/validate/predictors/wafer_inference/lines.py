"""Read the sizes of messages from measurements: multicasts, all-reduces, host messages etc."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.predictors.wafer_inference.dimensions import Dimensions, dimensions_of
from wse.studies.validate.predictors.wafer_inference.kernel_work import chunk_tokens
from wse.studies.validate.predictors.wafer_inference.layer_steps import NORM_OPERATIONS, Work
from wse.studies.validate.predictors.wafer_inference.mean_context import mean_context
from wse.studies.validate.predictors.wafer_inference.reduce_time import GROUP_PES
from wse.studies.validate.predictors.wafer_inference.shard import Shard

_MULTICAST: Final = re.compile(r"multicast of ([0-9,]+) B along a line of ([0-9,]+) receivers?", re.IGNORECASE)
_STORED: Final = re.compile(r"([0-9,]+) words(?: per PE|/PE), ([0-9,]+) PEs", re.IGNORECASE)
_DISTANCE: Final = re.compile(r"at distance ([0-9]+)", re.IGNORECASE)
_PAYLOAD: Final = re.compile(r"payload.*?([0-9,.]+) (K?)B\s*$", re.IGNORECASE)
_REDUCED_ROWS: Final = re.compile(r"over ([0-9]+) rows", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MulticastMessage:
    """A multicast along a line: 32-bit words of the message, and PEs that receive it."""

    words: float
    receivers: int


@dataclass(frozen=True, slots=True)
class StoredWords:
    """Words that each PE of a column stores at another PE and reloads.

    Attributes:
        words: Number of words per PE.
        pes: Number of PEs.
        distance: Hops to the PE that stores the words.
        by_vector_operation: Whether a vector operation receives the words, rather than a task.
    """

    words: int
    pes: int
    distance: int = 1
    by_vector_operation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCollective:
    """An all-reduce along a line, and the vector operations of each PE before it.

    Attributes:
        pes: PEs on the line.
        words: 32-bit words on each PE.
        group: PEs per group.
        operations: Vector operations before and after the all-reduce.
        length: Elements of each operation.
        work: What each operation does.
        tasks: Tasks that start before it.
    """

    pes: int
    words: int
    group: int = GROUP_PES
    operations: int = 0
    length: float = 0
    work: Work = "reduction"
    tasks: int = 0


def multicast_of(m: Measurement) -> MulticastMessage | None:
    """Return the multicast that a measurement timed; None for other measurements."""
    match = _MULTICAST.search(m.text("metric"))
    return MulticastMessage(_whole(match[1]) / 4, _whole(match[2])) if match else None


def collective_of(m: Measurement) -> LineCollective | None:
    """Return the all-reduce that a measurement timed; None for other measurements.

    By default, it adds the outputs of attention. An all-reduce inside a softmax has one word per
    head and follows an operation per head. A barrier has a single word, which a task loads and
    whose sum is not used.
    """
    metric, model, rows = m.text("metric").lower(), dimensions_of(m.text("model")), m.sizes.get("block_rows")
    if model is None or "us" in m.text("unit") or "extra" in metric:
        return None
    if m.text("phase") == "prefill-kernel":
        return _norm_of_prefill(m, model) if metric.startswith("rmsnorm") else None
    shard = Shard(model=model, rows=rows or 1, cols=m.sizes.get("block_cols") or rows or 1)
    match = re.search(r"softmax pass: (max all-reduce|sum reduce)", metric)
    if match and rows:
        context = mean_context(m)
        positions = shard.with_context(context).positions if context is not None else 0
        return LineCollective(pes=rows, words=shard.heads, operations=shard.heads, length=positions)
    if m.text("phase") != "allreduce" or "cycles per decode step" in metric:
        return None
    over_rows = _REDUCED_ROWS.search(metric)
    pes = int(over_rows[1]) if over_rows else rows
    if pes is None:
        return None
    if "barrier" in metric:
        return LineCollective(pes=pes, words=1, operations=1, length=1, tasks=1)
    return LineCollective(pes=pes, words=shard.queries)


def _norm_of_prefill(m: Measurement, model: Dimensions) -> LineCollective | None:
    """Return the all-reduce in a norm of prefill: along a column, a word for each token of a PE."""
    rows, cols, chunk = m.sizes.get("block_rows"), m.sizes.get("block_cols"), chunk_tokens(m)
    if rows is None or cols is None or chunk is None:
        return None
    tokens, hidden = math.ceil(chunk / cols), math.ceil(model.hidden / rows)
    return LineCollective(
        pes=rows, words=tokens, group=rows, operations=NORM_OPERATIONS * tokens, length=hidden, work="plain"
    )


def stored_words(m: Measurement) -> StoredWords | None:
    """Return which words PEs of a column store and reload; None for other measurements."""
    match = _STORED.search(m.text("metric"))
    if match is None or "reload" not in m.text("metric"):
        return None
    texts = f"{m.text('metric')} {m.text('settings')}"
    distance = _DISTANCE.search(texts)
    return StoredWords(
        _whole(match[1]),
        _whole(match[2]),
        int(distance[1]) if distance else 1,
        by_vector_operation=re.search(r"\bDSD\b", texts, re.IGNORECASE) is not None,
    )


def ring_bytes(m: Measurement) -> float | None:
    """Return the size of a message from the host through a wafer and back; None for others."""
    match = _PAYLOAD.search(m.text("metric"))
    if match is None or "ring" not in m.text("metric"):
        return None
    return math.ceil(float(match[1].replace(",", "")) * (1024 if match[2] else 1))


def _whole(text: str) -> int:
    return int(text.replace(",", ""))
