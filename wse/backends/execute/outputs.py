"""Outputs of ops, read from the SRAM of PEs as each of them ends, and put together as whole tensors.

Nothing is computed again. What all rows or all columns store alike is read from one of them; logits, of which only a
chunk of the vocabulary is on the wafer at a time, are read chunk by chunk.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.arrays import I32
from wse.backends.execute.arena import Arena
from wse.backends.execute.op_outputs import Part, at_the_end, parts_of, shape_of
from wse.backends.execute.streams import Call
from wse.models.graph import PARTS_MARK, op_graph, ops_in_order
from wse.models.spec import ModelSpec
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import ROWS, Slots
from wse_mappings.cuts.split import balanced_counts

Values = npt.NDArray[Any]


class Outputs:
    """A reader of the outputs of some ops.

    ``on_output`` is called with an op's index and its values, ``[tokens, ...]``, as it ends.

    They are ``[tokens, hidden]`` of the residual stream and of what is normalised; ``[tokens, heads, features]`` of
    attention, and of queries, keys and values, whose heads follow each other; ``[tokens, features]`` inside of
    feed-forward blocks; ``[tokens, 2, chosen]`` of ids and weights of experts; ``[tokens, vocabulary]`` of the head.
    The last norm and the head have the last token of a prompt alone. Values of bfloat16 come as float32.
    """

    def __init__(
        self,
        program: Program,
        spec: ModelSpec,
        arenas: Mapping[int, Arena],
        ops: Collection[int],
        on_output: Callable[[int, Values], None],
    ) -> None:
        self._program, self._spec, self._arenas, self._on_output = program, spec, arenas, on_output
        by_name = {op.name: op for op in ops_in_order(op_graph(spec))}
        names = [name.partition(PARTS_MARK)[0] for name in program.op_names]  # parts of a block have its name
        self._ops = {index: by_name[names[index]] for index in ops}

    def calls(self, phase: Phase, slots: Slots) -> dict[int, list[Call]]:
        """Return the calls that read outputs, by the step of a phase after which they are made."""
        calls: defaultdict[int, list[Call]] = defaultdict(list)
        for index, op in self._ops.items():
            steps = np.flatnonzero(phase.steps.op == index).tolist()
            if not steps:  # what follows the layers is of the last chunk alone
                continue
            parts = parts_of(self._program, self._spec, phase, op, steps, slots)
            if not parts:
                continue
            tokens = 1 if at_the_end(op) and phase.name == "prefill" else phase.tokens
            on_rows = phase.on_mesh and not at_the_end(op)
            shares = balanced_counts(tokens, self._arenas[parts[0].stage].rows) if on_rows else None
            shape = (tokens, *shape_of(op, self._spec))
            element_type = self._program.element_type(parts[0].view)
            values = np.zeros((tokens, math.prod(shape[1:])), np.float16 if element_type == "float16" else np.float32)
            for part in parts:
                calls[part.after].append((self._read, (part, shares, values)))
            calls[max(part.after for part in parts)].append((self._report, (index, values.reshape(shape))))
        return calls

    def _read(self, part: Part, shares: I32 | None, values: Values) -> None:
        """Store the features of one part in the output; ``shares`` has the tokens of each row (None: all on each)."""
        arena, (places, n) = self._arenas[part.stage], part.cut.shape
        tokens = len(values) if shares is None else int(shares.max())
        element_type, where = self._program.element_type(part.view), (part.address, tokens * n)
        if shares is not None:
            values_by_row = arena.read(element_type, *where)[:, :places].reshape(arena.rows, places, tokens, n)
            by_token = values_by_row.transpose(0, 2, 1, 3)[np.arange(tokens) < shares[:, None]]
        else:
            read = arena.read_row if part.axis == ROWS else arena.read_col
            by_token = read(element_type, part.line, *where)[:places].reshape(places, tokens, n).transpose(1, 0, 2)
        real = part.cut >= 0
        values[:, part.cut[real]] = by_token[:, real]

    def _report(self, op: int, values: Values) -> None:
        self._on_output(op, values.copy())  # the next pass reads into the same


class Routing:
    """The choices of experts in the last phase, read from one PE.

    ``pairs``: by layer, int64 ``[experts]``, how many tokens chose each expert.
    """

    def __init__(self) -> None:
        self.pairs: dict[int, npt.NDArray[np.int64]] = {}

    def read(self, arena: Arena, layer: int, address: int, count: int, experts: int) -> None:
        """Count the chosen ids at ``address`` of the first PE after a router's last step, when all PEs have them."""
        ids = arena.read_row("float32", 0, address, count)[0]
        real = ids[(ids >= 0) & (ids < experts)].astype(np.int64)
        self.pairs[layer] = np.bincount(real, minlength=experts)
