"""Views of the tokens with their texts and cycles, and of the recorded tensors."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np

from wse.errors import BadTrace
from wse.reports.result import Doc, Result
from wse.tracing.query.view import View
from wse_traces.reader.read import Array, Trace


class TokenTime(Result):
    """Token of a run with its text, and the cycles and time since the previous token.

    Prompt tokens have no cycles. Tokens of an estimate have neither ids nor text.
    """

    token: Annotated[int, Doc("index of the token in the trace")]
    sequence: Annotated[int, Doc("sequence of the batch that the token belongs to")]
    position: Annotated[int, Doc("position in its sequence")]
    of: Annotated[str, Doc("`prompt` or `generated`")]
    id: Annotated[int | None, Doc("id in the vocabulary")] = None
    text: Annotated[str | None, Doc("text of the token")] = None
    pass_: Annotated[int, Doc("pass that read or generated the token, -1: none")]
    cycles: Annotated[int, Doc("cycles since the previous token, 0 in a prompt", "cycles")]
    s: Annotated[float, Doc("time since the previous token, 0 in a prompt", "s")]
    wall_s: Annotated[float, Doc("time that the emulator needed", "s")]


class TokensView(View):
    """View of the tokens of all users with their cycles, either in order or slowest first."""

    TABLE: ClassVar[str] = "tokens"

    tokens: Annotated[tuple[TokenTime, ...], Doc("the tokens")]


def read_tokens(trace: Trace, top: int | None) -> list[TokenTime]:
    """Return the tokens of all users: all tokens in order, or the ``top`` slowest tokens.

    Slowest means most cycles since the previous token.
    """
    texts, cycles = trace.token_texts(), trace.column("tokens/cycles")
    rows = np.arange(len(texts)) if top is None else np.argsort(-cycles, kind="stable")[:top]
    return [
        TokenTime.from_record(
            record,
            token=row,
            of=record["is_prompt"],
            id=record["id"] if record["id"] >= 0 else None,
            text=texts[row] or None,
            s=record["cycles"] / trace.header.clock_hz,
        )
        for row, record in zip(rows.tolist(), trace.records("token", rows), strict=True)
    ]


class TensorValues(Result):
    """Description of a recorded tensor.

    The minimum, maximum and mean are taken over the finite elements.
    """

    tensor: Annotated[int, Doc("index of the tensor in the trace")]
    op: Annotated[str, Doc("op that produced it")]
    pass_: Annotated[int, Doc("pass in which it was produced")]
    shape: Annotated[tuple[int, ...], Doc("length of each axis")]
    dtype: Annotated[str, Doc("type of its elements")]
    bytes: Annotated[int, Doc("size", "B")]
    min: Annotated[float | None, Doc("smallest value")] = None
    max: Annotated[float | None, Doc("largest value")] = None
    mean: Annotated[float | None, Doc("mean value")] = None
    nonfinite: Annotated[int, Doc("number of infinite or NaN elements")]


class TensorsView(View):
    """View of all tensors that a run with ``--record`` wrote to its trace."""

    TABLE: ClassVar[str] = "tensors"

    tensors: Annotated[tuple[TensorValues, ...], Doc("the tensors")]


def read_tensors(trace: Trace) -> list[TensorValues]:
    """Return descriptions of all tensors in the order in which they were recorded.

    Raises:
        BadTrace: The trace has no tensors.
        TraceError: A tensor is damaged.
    """
    rows = trace.rows("tensor")
    if not rows:
        raise BadTrace(
            f"{trace.path}: has no tensors for --tensors; record some: wse run --record activations --trace FILE"
        )
    records, sizes = trace.records("tensor"), np.diff(trace.column("tensors/end"), prepend=0).tolist()
    return [_values(row, records[row], trace.tensor(row), sizes[row]) for row in range(rows)]


def _values(row: int, record: dict[str, Any], tensor: Array, size: int) -> TensorValues:
    """Return the description of a tensor, including statistics of its values.

    Args:
        row: Index of the tensor.
        record: Row of the tensor in the trace.
        tensor: Array of the elements, which may have leading axes of length 1.
        size: Size in bytes.
    """
    shape = list(tensor.shape)
    while len(shape) > 1 and shape[0] == 1:
        shape.pop(0)  # the trace pads shapes with leading ones
    values = tensor.astype(np.float64)
    finite = values[np.isfinite(values)]
    return TensorValues.from_record(
        record,
        tensor=row,
        shape=tuple(shape),
        bytes=size,
        min=float(finite.min()) if finite.size else None,
        max=float(finite.max()) if finite.size else None,
        mean=float(finite.mean()) if finite.size else None,
        nonfinite=int(values.size - finite.size),
    )
