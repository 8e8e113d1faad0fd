"""Arrays of a block of steps: computed once, then adapted to each run of the block in a phase.

All layers of the same kind run one block. Their steps differ only in stage, indices and addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import numpy as np

from wse.arrays import I64
from wse.compiler.symbolic import Block, BlockRun, SymAddress
from wse.program.isa.operands import VIEWS
from wse.program.steps import OPERAND_COUNT

NUMBERS: Final = ("kind", "code", "pattern", "axis", "view", "op", "loop", "overlap")
"""Integer fields of `SymStep` that become an array of the same name in `Steps`."""
FLAGS: Final = ("depends_on_experts", "runs_in_previous_task", "over_heads", "in_chain")
"""Boolean fields of `SymStep` that become an array of the same name in `Steps`."""

_flags_of = attrgetter(*FLAGS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockArrays:
    """Arrays over the steps of a block, computed as if all buffers were at address 0.

    A block is a list of steps that all layers of the same kind run, each on its own buffers.

    Attributes:
        fields: For each field of `wse.program.steps.Steps`, int32 ``[steps]``, bool ``[steps]`` or
            int64 ``[steps, operands]``.
        at: int64 ``[3, n]``: step, operand and buffer of each operand that is an address.
        alternating: int64 ``[4, n]``: step, operand, buffer in even iterations and buffer in odd
            iterations, for each address that alternates between two buffers.
    """

    fields: dict[str, Any]
    at: I64
    alternating: I64

    def arrays_of_run(self, run: BlockRun, elements: I64) -> dict[str, Any]:
        """Return the arrays of one run of a block of steps, with addresses in the run's buffers.

        Args:
            run: The run, with its stage, buffers and first indices.
            elements: int64 ``[buffers]``: address of each buffer of the run, in elements of its
                view.

        Returns:
            Keys are fields of `wse.program.steps.Steps`; values are arrays over the steps.
        """
        fields = dict(self.fields)
        fields["stage"] = np.full(len(run.block.steps), run.stage, np.int32)
        fields["op"] = fields["op"] + np.int32(run.op)
        for name, first_index in (("loop", run.loop), ("overlap", run.group)):
            fields[name] = np.where(fields[name] < 0, np.int32(-1), fields[name] + np.int32(first_index))
        if run.runs_in_previous_task:
            fields["runs_in_previous_task"] = fields["runs_in_previous_task"].copy()
            fields["runs_in_previous_task"][0] = True
        step, operand, buffer = self.at
        fields["fixed"] = fields["fixed"].copy()
        fields["fixed"][step, operand] += elements[buffer]
        step, operand, even_buffer, odd = self.alternating
        if len(step):
            fields["odd"] = fields["odd"].copy()
            fields["odd"][step, operand] = elements[odd] - elements[even_buffer]
        return fields


def block_arrays(block: Block) -> BlockArrays:
    """Create the arrays of a block (list of steps), as if all of its buffers were at address 0."""
    steps, buffer_index = block.steps, {buffer: i for i, buffer in enumerate(block.buffers)}
    terms = np.zeros((5, len(steps), OPERAND_COUNT), np.int64)
    at, alternating, places, values = [], [], [], []
    for index, step in enumerate(steps):
        for place, operand in step.operands.items():
            places.append((index, place))
            if isinstance(operand, SymAddress):
                at.append((index, place, buffer_index[operand.buffer]))
                values.append((operand.offset, 0, operand.per_round, operand.per_slot_round, 0))
                if operand.odd_round_buffer is not None:
                    alternating.append((*at[-1], buffer_index[operand.odd_round_buffer]))
            else:
                values.append((operand.fixed, operand.per_slot, operand.per_round, 0, operand.per_pair))
    if places:
        terms[:, *np.array(places).T] = np.array(values, np.int64).T
    operands = dict(zip(("fixed", "per_slot", "per_round", "per_slot_round", "per_pair"), terms, strict=True))
    operands["odd"] = np.zeros_like(terms[0])
    numbers = [(s.kind, s.code, s.pattern, s.axis, VIEWS.index(s.view), s.op, s.loop, s.overlap) for s in steps]
    flags = [_flags_of(s) for s in steps]
    return BlockArrays(
        fields=dict(zip(NUMBERS, np.array(numbers, np.int32).reshape(-1, len(NUMBERS)).T.copy(), strict=True))
        | dict(zip(FLAGS, np.array(flags, np.bool_).reshape(-1, len(FLAGS)).T.copy(), strict=True))
        | operands,
        at=np.array(at, np.int64).reshape(-1, 3).T,
        alternating=np.array(alternating, np.int64).reshape(-1, 4).T,
    )
