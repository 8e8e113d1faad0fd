"""Loads of experts in a decode pass under the assumed routing, beside the loads if it were even."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import numpy as np

from wse.program.expert_pairs import assumed_pairs, pairs_of_columns
from wse.program.program import Program
from wse.program.routing import EVEN
from wse.reports.number_text import count, plural, short_number
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number
from wse.studies.results.phases import mean_token_cycles

if TYPE_CHECKING:
    from wse.studies.options.basis import PreparedPlacement


class ExpertLoadsResult(Result):
    """How the tokens of a decode pass are distributed over experts, PE columns and links.

    All loads are means over the layers with experts, except for the load of the busiest link.
    """

    routing: Annotated[str, Doc("how tokens select experts: `even`, `zipf:S` or a file")]
    placement: Annotated[str, Doc("order of the experts: `by index`, or `by file` with `--place-experts`")]
    experts: Annotated[float, Doc("experts of a layer that tokens of the pass selected")]
    busiest_expert_tokens: Annotated[float, Doc("tokens of the busiest expert of a layer")]
    busiest_column_pairs: Annotated[float, Doc("(token, expert) pairs of the busiest column of PEs")]
    busiest_link_words: Annotated[int, Doc("words to and from selected experts on the busiest link; 0 if none depend")]
    cycles: Annotated[float, Doc("cycles of a pass, averaged over the request")]


def expert_loads_result(
    prepared_placement: PreparedPlacement, program: Program
) -> tuple[ExpertLoadsResult, ...] | None:
    """Return how many tokens experts and PE columns process in the decode passes of a request.

    There is a record for each of these variants, which show the effect of routing and placement:

    1. Even routing, with experts placed in the order of their indices.
    2. The assumed routing with the same placement, if the assumed routing is not even.
    3. The assumed routing with the requested placement, if a placement was requested.

    Returns:
        The records. None if only the first variant exists, i.e. if it equals the request.
    """
    if program.routing.is_even and not program.expert_order.size:
        return None
    by_index = replace(program, expert_order=program.expert_order[:0, :0])
    variants = [replace(by_index, routing=EVEN)]
    variants += [] if program.routing.is_even else [by_index]
    variants += [program] if program.expert_order.size else []
    return tuple(_loads(prepared_placement, variant) for variant in variants)


def _loads(prepared_placement: PreparedPlacement, program: Program) -> ExpertLoadsResult:
    """Return how many tokens experts and PE columns process in a decode pass of one variant.

    Args:
        prepared_placement: The request.
        program: The variant: a Program with its routing and placement of experts.
    """
    from wse.backends.fabric.model import Fabric  # slow to load, and not needed to read a result

    p, tokens = prepared_placement, program.decode.tokens
    fabric = Fabric(program, p.wafer, p.software, p.meshes)
    ops = zip(program.op_kinds, program.op_layers, program.op_stages, strict=True)
    stages = {layer: stage for kind, layer, stage in ops if kind == "experts"}
    pairs = {layer: assumed_pairs(program, stage, layer, tokens) for layer, stage in stages.items()}
    columns = [pairs_of_columns(program, stage, layer, pairs[layer]) for layer, stage in stages.items()]
    return ExpertLoadsResult(
        routing=program.routing.name,
        placement="by file" if program.expert_order.size else "by index",
        experts=float(np.mean([np.count_nonzero(loads) for loads in pairs.values()])),
        busiest_expert_tokens=float(np.mean([loads.max() for loads in pairs.values()])),
        busiest_column_pairs=float(np.mean([loads.max() for loads in columns])),
        busiest_link_words=fabric.busiest_routed_link_words(program.decode_index),
        cycles=mean_token_cycles(fabric, p),
    )


def expert_loads_table(loads: Sequence[ExpertLoadsResult], batch: int) -> Table:
    """Return a table of expert loads, with a row for each routing and placement of experts."""
    placement = Column(key="placement", title="experts placed")
    columns = (
        Column(key="routing", title="routing"),
        *([placement] if len({row.placement for row in loads}) > 1 else []),
        number("experts", "experts", short_number),
        number("busiest_expert_tokens", "max tokens", short_number),
        number("busiest_column_pairs", "max pairs", short_number),
        number("busiest_link_words", "max words", count),
        number("cycles", "cycles", count),
    )
    note = (
        f"means over layers, for {plural(batch, 'token')}: selected experts, tokens of the busiest expert, and (token, "
        "expert) pairs of the busiest column of PEs; words to and from experts on the busiest link; "
        "mean cycles of a pass"
    )
    if not any(row.busiest_link_words for row in loads):
        note += "; all columns store parts of every expert, so the cycles do not depend on the selection"
    return Table(columns=columns, rows=loads, title="Experts in a decode pass", note=note)
