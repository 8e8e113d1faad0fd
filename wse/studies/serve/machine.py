"""Machine: what serves, as a simulation sees it: costs of passes, and the power and price of all of its systems."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from wse.hardware.number import SourcedNumber
from wse.program.program import Program
from wse.report.result import Doc, Result
from wse.request.prepare_estimate import PreparedEstimate
from wse.serving.economics import Economics
from wse.serving.simulation.pass_costs import PassCosts
from wse.studies.compile.choose import compile_with_remedies
from wse.studies.serve.wafer_costs import wafer_costs


@dataclass(frozen=True, kw_only=True)
class MachineResult(Result):
    """A machine that serves, and the grid that the costs of its passes were compiled for."""

    name: Annotated[str, Doc("name of the wafer")]
    wafers: Annotated[int, Doc("wafers")]
    stages: Annotated[int, Doc("stages of the pipeline")]
    mapping: Annotated[str, Doc("mapping")]
    kv_capacity_tokens: Annotated[int, Doc("tokens of all users together that KV caches have room for")]
    kv_block_tokens: Annotated[int, Doc("a user's cache takes a multiple of so many tokens")]
    grid_users: Annotated[tuple[int, ...], Doc("users of the decode passes that were compiled")]
    grid_contexts: Annotated[tuple[int, ...], Doc("contexts that their costs are known for; in between, interpolated")]
    chunk_tokens: Annotated[int, Doc("tokens of a prompt that are read at once")]
    grid_last_chunks: Annotated[
        tuple[int, ...], Doc("lengths of last chunks that were compiled; in between, interpolated")
    ]
    round_s: Annotated[float, Doc("seconds between two tokens of a user who is alone", "s")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that serves.

    Attributes:
        costs: Costs of its passes, and its room.
        program: The Program that it runs.
        result: What is told about it.
        power_w, usd_per_hour: Of all of its systems.
    """

    costs: PassCosts
    program: Program
    result: MachineResult
    power_w: SourcedNumber
    usd_per_hour: SourcedNumber


def wafer_machine(prepared: PreparedEstimate, streams: int | None) -> Machine:
    """The wafers of a request, compiled. Raises DoesNotFit where the model does not fit them."""
    compilation = compile_with_remedies(prepared)
    program, costs = compilation.program, wafer_costs(prepared, compilation, streams)
    return Machine(
        costs=costs,
        program=program,
        result=MachineResult(
            name=prepared.wafer.name,
            wafers=program.wafers,
            stages=len(program.stages),
            mapping=program.mapping_name,
            kv_capacity_tokens=costs.kv_capacity_tokens,
            kv_block_tokens=costs.kv_block_tokens,
            grid_users=costs.decode.users,
            grid_contexts=costs.contexts,
            chunk_tokens=costs.chunk_tokens,
            grid_last_chunks=costs.prefill.last_tokens,
            round_s=costs.round_s(1, prepared.middle_context[0], ()),
        ),
        power_w=_of_wafers(prepared.economics, "wafer_power_w", program.wafers),
        usd_per_hour=_of_wafers(prepared.economics, "wafer_usd_per_hour", program.wafers),
    )


def _of_wafers(economics: Economics, name: str, wafers: int) -> SourcedNumber:
    """The assumption of a name for so many wafers, with its range."""
    one = economics.sources[name]
    ends = None if one.range is None else (wafers * one.range[0], wafers * one.range[1])
    return replace(one, value=wafers * one.value, range=ends)
