"""Parse message sizes in measurements of multicasts, all-reduces and host messages."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from wse.models.spec import ModelSpec
from wse.studies.validate.kernel_model.described_run import Shard, mean_context
from wse.studies.validate.kernel_model.kernel_work import chunk_tokens
from wse.studies.validate.kernel_model.layer_steps import NORM_OPERATIONS, Work
from wse.studies.validate.kernel_model.reduce_time import GROUP_PES
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.models import dense_model
from wse.studies.validate.measured.text_numbers import read_number, read_whole

_MULTICAST: Final = re.compile(r"multicast of ([0-9,.]+) (K?)B along a line of ([0-9,]+) receivers?", re.IGNORECASE)
_STORED: Final = re.compile(r"([0-9,]+) words(?: per PE|/PE), ([0-9,]+) PEs", re.IGNORECASE)
_DISTANCE: Final = re.compile(r"at distance ([0-9]+)", re.IGNORECASE)
_SIZE: Final = re.compile(r"\b([0-9][0-9,.]*) ?([KM]?)i?B\b", re.IGNORECASE)
_LINE_PES: Final = re.compile(r"over ([0-9,]+) (rows|columns|cols|PEs)", re.IGNORECASE)
_REDUCED_WORDS: Final = re.compile(r"\b([0-9][0-9,]*) (?:f32|float32|words?)\b", re.IGNORECASE)
_BYTES: Final = {"": 1, "K": 1024, "M": 1024**2}


@dataclass(frozen=True, slots=True)
class MulticastMessage:
    """A measured multicast along a line of PEs.

    Attributes:
        words: Number of 32-bit words in the message.
        receivers: Number of PEs that have received the message when the measured time ends.
        has_slow_task: Whether the measured time includes the slow start of a task. This is assumed
            if the measurement is a median.
    """

    words: float
    receivers: int
    has_slow_task: bool = False


@dataclass(frozen=True, slots=True)
class StoredWords:
    """A measured transfer in which each PE of a column stores words at another PE and reloads them.

    Attributes:
        words: Number of words per PE.
        pes: Number of PEs of the column.
        distance: Number of hops from a PE to the PE that stores its words.
        by_vector_operation: True if a vector operation receives the words, False if a task does.
    """

    words: int
    pes: int
    distance: int = 1
    by_vector_operation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCollective:
    """An all-reduce along a line of PEs, and the vector operations that are timed with it.

    Attributes:
        pes: Number of PEs on the line.
        words: Number of 32-bit words on each PE.
        group: Number of PEs per group of the reduce.
        operations: Number of vector operations that a PE executes before and after the all-reduce,
            in total.
        length: Number of elements in each vector operation.
        work: Type of the vector operations.
        tasks: Number of tasks that start before the all-reduce.
    """

    pes: int
    words: int
    group: int = GROUP_PES
    operations: int = 0
    length: float = 0
    work: Work = "reduction"
    tasks: int = 0


def multicast_of(m: Measurement) -> MulticastMessage | None:
    """Return the multicast that a measurement timed, or None if it timed something else."""
    metric = m.text("metric")
    match = _MULTICAST.search(metric)
    if match is None or re.search(r"\bbusy\b", metric, re.IGNORECASE):
        return None
    size, receivers = read_number(match[1]), read_whole(match[3])
    if size is None or receivers is None:
        return None
    if re.search(r"\bfirst receiver\b", metric, re.IGNORECASE):
        receivers = min(receivers, 1)
    is_median = re.search(r"\bmedian\b", metric, re.IGNORECASE) is not None
    return MulticastMessage(size * _BYTES[match[2].upper()] / 4, receivers, has_slow_task=is_median)


def collective_of(m: Measurement) -> LineCollective | None:
    """Return the all-reduce along a row or column of PEs whose time was measured.

    The metric and the sizes of the measurement determine the PEs and the words on each PE:

    - Softmax: one word per head, after one vector operation per head.
    - Norm in prefill: one word per token.
    - Barrier (synchronisation of PEs): one word, which is loaded by a task.
    - Other all-reduces: the stated number of words. By default, all elements of the hidden vector
      on a PE are reduced along a row, or all elements of the query vector along a column.

    Returns:
        The all-reduce; None if something else was measured, or if a size is unknown.
    """
    metric, model, rows = m.text("metric").lower(), dense_model(m.text("model")), m.sizes.get("block_rows")
    if "extra" in metric:
        return None
    cols = m.sizes.get("block_cols")
    shard = None if model is None else Shard(model=model, rows=rows or cols or 1, cols=cols or rows or 1)
    if m.text("phase") == "prefill-kernel":
        return _norm_of_prefill(m, model) if model is not None and metric.startswith("rmsnorm") else None
    if re.search(r"softmax pass: (max all-reduce|sum reduce)", metric) and rows and shard is not None:
        context = mean_context(m)
        positions = shard.with_context(context).positions if context is not None else 0
        return LineCollective(pes=rows, words=shard.heads, operations=shard.heads, length=positions)
    if m.text("phase") != "allreduce" or not re.search(r"all-?reduce|barrier", metric) or "decode step" in metric:
        return None
    return _stated_collective(metric, shard, rows, cols)


def _stated_collective(metric: str, shard: Shard | None, rows: int | None, cols: int | None) -> LineCollective | None:
    """Return the all-reduce that a metric describes, or None if its line or words are unknown.

    Args:
        metric: The metric in lower case.
        shard: Sizes of the model's tensors on a PE; None for an unknown model.
        rows: Number of PE rows of the block; None if not stated.
        cols: Number of PE columns of the block; None if not stated.
    """
    line, stated_words = _LINE_PES.search(metric), _REDUCED_WORDS.search(metric)
    is_band = re.search(r"\bband\b", metric) is not None
    is_row = re.search(r"\bx\b|\brow all-?reduce|\bover [0-9,]+ col", metric) is not None
    if line:
        pes = read_whole(line[1])
    elif is_band:
        pes = shard.band_cols if shard is not None and cols else None
    else:
        pes = cols if is_row else rows
    if not pes:
        return None
    if "barrier" in metric:
        return LineCollective(pes=pes, words=1, operations=1, length=1, tasks=1)
    words = read_whole(stated_words[1]) if stated_words else None
    if not stated_words and shard is not None and not is_band:
        words = shard.hidden if is_row else shard.queries
    return None if words is None else LineCollective(pes=pes, words=words, group=pes if is_band else GROUP_PES)


def _norm_of_prefill(m: Measurement, model: ModelSpec) -> LineCollective | None:
    """Return the all-reduce of a norm in prefill, or None if its sizes are not stated.

    The all-reduce runs along a column of PEs. Each PE has one word for each of its tokens.
    """
    rows, cols, chunk = m.sizes.get("block_rows"), m.sizes.get("block_cols"), chunk_tokens(m)
    if rows is None or cols is None or chunk is None:
        return None
    tokens, hidden = math.ceil(chunk / cols), math.ceil(model.hidden_size / rows)
    return LineCollective(
        pes=rows, words=tokens, group=rows, operations=NORM_OPERATIONS * tokens, length=hidden, work="plain"
    )


def stored_words(m: Measurement) -> StoredWords | None:
    """Return the measured transfer in which PEs store words at other PEs and reload them.

    The result is None if something else was measured.
    """
    match = _STORED.search(m.text("metric"))
    if match is None or "reload" not in m.text("metric"):
        return None
    texts = f"{m.text('metric')} {m.text('settings')}"
    stated_distance = _DISTANCE.search(texts)
    words, pes = read_whole(match[1]), read_whole(match[2])
    distance = read_whole(stated_distance[1]) if stated_distance else 1
    if words is None or pes is None or not distance:
        return None
    return StoredWords(
        words, pes, distance, by_vector_operation=re.search(r"\bDSD\b", texts, re.IGNORECASE) is not None
    )


def ring_bytes(m: Measurement) -> float | None:
    """Return the bytes of a message that the host sends through a wafer and receives again.

    The result is the size that the metric states, or the upper end of a stated range. It is None if
    the metric states no size or describes something else.
    """
    sizes = _SIZE.findall(m.text("metric"))
    if not sizes or "ring" not in m.text("metric"):
        return None
    number, unit = sizes[-1]
    size = read_number(number)
    return None if size is None else math.ceil(size * _BYTES[unit.upper()])
