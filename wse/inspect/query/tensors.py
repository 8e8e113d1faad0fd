"""Tensors that were recorded: what each is, and how large its values are."""

from __future__ import annotations

import numpy as np

from wse.errors import BadTrace
from wse.inspect.query.opened import Facts, named
from wse_traces.read import Array, Trace


def tensor_facts(trace: Trace) -> list[Facts]:
    """A row a tensor; the least, largest and mean value are of its finite elements, ``nonfinite`` counts the others.

    Raises:
        BadTrace: none was recorded.
        TraceError: one of them is damaged.
    """
    rows = trace.rows("tensor")
    if not rows:
        message = f"{trace.path}: has no tensors for --tensors; make some: wse run --record activations --trace FILE"
        raise BadTrace(message)
    ops = trace.texts("graph/ops/name")
    passes, op = trace.column("tensors/pass").tolist(), trace.column("tensors/op").tolist()
    types, sizes = trace.texts("tensors/dtype"), np.diff(trace.column("tensors/end"), prepend=0).tolist()
    return [
        {"tensor": at, "op": named(ops, op[at]), "pass": passes[at], **_values(trace.tensor(at), types[at], sizes[at])}
        for at in range(rows)
    ]


def _values(tensor: Array, dtype: str, size: int) -> Facts:
    shape = list(tensor.shape)
    while len(shape) > 1 and shape[0] == 1:
        shape.pop(0)  # the file pads in front
    values = tensor.astype(np.float64)
    finite = values[np.isfinite(values)]
    facts: Facts = {"shape": shape, "dtype": dtype, "bytes": size}
    if finite.size:
        facts |= {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean())}
    return {**facts, "nonfinite": int(values.size - finite.size)}
