"""Outputs of ops, read from the SRAM of PEs when each op ends, and assembled into whole tensors.

Nothing is recomputed. If all rows or all columns store the same values, only one row or column is
read. Only a chunk of the vocabulary is on the wafer at a time, so logits are read chunk by chunk.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.arrays import I32
from wse.backends.execute.calls.streams import Call
from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.observation.op_outputs import OutputPart, at_the_end, parts_of, shape_of
from wse.models.graph import op_graph, ops_in_order
from wse.models.op import PARTS_MARK
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.program.steps import ROWS, Phase, Slots
from wse_mappings.cuts.split import balanced_counts

Values = npt.NDArray[Any]


class Outputs:
    """Observer that reads the outputs of selected ops and reports them while a phase runs.

    When an op ends, ``on_output`` is called with its index and its values ``[tokens, ...]``. The
    shapes are:

    - ``[tokens, hidden]`` for the residual stream and normalised vectors
    - ``[tokens, heads, features]`` for attention, and for the heads of queries, keys and values, in
      this order
    - ``[tokens, features]`` inside feed-forward blocks
    - ``[tokens, 2, selected]`` for ids and weights of experts
    - ``[tokens, vocabulary]`` for the head

    The last norm and the head only process the last token of a prompt. bfloat16 values are returned
    as float32.

    Args:
        program: The compiled Program.
        spec: Description of the model.
        arenas: Emulated SRAM of each stage, keyed by the index of the stage.
        ops: Indices of the ops to read.
        on_output: Function that receives an op's index and values.
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
        """Return the function calls that read the outputs of ops while a phase runs.

        The key is the index of the step after which the calls are made.
        """
        calls: defaultdict[int, list[Call]] = defaultdict(list)
        for index, op in self._ops.items():
            steps = np.flatnonzero(phase.steps.op == index).tolist()
            if not steps:  # ops after the layers are only in the last chunk
                continue
            parts = parts_of(self._program, self._spec, phase, op, steps, slots)
            if not parts:
                continue
            tokens = 1 if at_the_end(op) and phase.name == "prefill" else phase.tokens
            on_rows = phase.on_mesh and not at_the_end(op)
            tokens_by_row = balanced_counts(tokens, self._arenas[parts[0].stage].rows) if on_rows else None
            shape = (tokens, *shape_of(op, self._spec))
            element_type = self._program.element_type(parts[0].view)
            values = np.zeros((tokens, math.prod(shape[1:])), np.float16 if element_type == "float16" else np.float32)
            for part in parts:
                calls[part.ready_step].append((self._read, (part, tokens_by_row, values)))
            calls[max(part.ready_step for part in parts)].append((self._report, (index, values.reshape(shape))))
        return calls

    def _read(self, part: OutputPart, tokens_by_row: I32 | None, values: Values) -> None:
        """Copy one part of an output from the PEs to its position in the output array.

        Args:
            part: Location of the part.
            tokens_by_row: Number of tokens on each row; None if every row has all tokens.
            values: The output array ``[tokens, features]`` to fill.
        """
        arena, (places, n) = self._arenas[part.stage], part.cut.shape
        tokens = len(values) if tokens_by_row is None else int(tokens_by_row.max())
        element_type, address_and_count = self._program.element_type(part.view), (part.address, tokens * n)
        if tokens_by_row is not None:
            values_by_row = arena.read(element_type, *address_and_count)[:, :places].reshape(
                arena.rows, places, tokens, n
            )
            by_token = values_by_row.transpose(0, 2, 1, 3)[np.arange(tokens) < tokens_by_row[:, None]]
        else:
            read = arena.read_row if part.axis == ROWS else arena.read_col
            by_token = (
                read(element_type, part.line, *address_and_count)[:places].reshape(places, tokens, n).transpose(1, 0, 2)
            )
        is_real = part.cut >= 0
        values[:, part.cut[is_real]] = by_token[:, is_real]

    def _report(self, op: int, values: Values) -> None:
        """Call ``on_output`` with a complete output, as a copy that later passes do not change.

        For the op that selects experts, ids are converted: on the PEs, an id is the position of an
        expert in storage order, and in the output it is the index of the expert.
        """
        output = values.copy()  # the next pass overwrites the array
        order = self._program.expert_order
        if self._program.op_kinds[op] == "router" and order.size:
            output[:, 0] = order[self._program.op_layers[op]][output[:, 0].astype(np.int64)]
        self._on_output(op, output)


class Routing:
    """Record of the experts that tokens were routed to in the last phase.

    Attributes:
        pairs: For each layer, int64 ``[experts]``: number of tokens routed to each expert.
    """

    def __init__(self) -> None:
        self.pairs: dict[int, npt.NDArray[np.int64]] = {}

    def read(self, arena: Arena, layer: int, address: int, count: int, order: I32) -> None:
        """Count the tokens routed to each expert of a layer, after the last step of its router.

        All PEs then have the ids of the selected experts, so the ids are read from the first PE.

        Args:
            arena: SRAM of the stage.
            layer: Index of the layer.
            address: Address of the ids, in float32 elements.
            count: Number of ids.
            order: int32 ``[experts]``: index of the expert that each id stands for. An id is the
                position of an expert in storage order on the PEs.
        """
        ids = arena.read_row("float32", 0, address, count)[0]
        valid_ids = ids[(ids >= 0) & (ids < len(order))].astype(np.int64)
        self.pairs[layer] = np.bincount(order[valid_ids], minlength=len(order))
