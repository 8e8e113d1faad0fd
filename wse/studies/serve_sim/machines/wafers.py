"""Serving-simulation model of a wafer machine."""

from __future__ import annotations

from functools import partial
from typing import Final

from wse.models.tensors.model_tensors import kv_bytes_per_token, state_bytes
from wse.number_formats import ELEMENT_BYTES, WORD_BYTES
from wse.serving.simulation.costs.pass_costs import users_that_fit
from wse.studies.estimate.inputs import inputs
from wse.studies.estimate.layouts.choose_layout import ChosenLayout
from wse.studies.estimate.layouts.compiled_layout import timed_deployment
from wse.studies.estimate.ranges.study import uncertainty_of
from wse.studies.results.placement import model_result
from wse.studies.serve_sim.machines.drafts import drafted_costs
from wse.studies.serve_sim.machines.kv_tiers import wafer_tiers
from wse.studies.serve_sim.machines.layouts import requests_in_flight
from wse.studies.serve_sim.machines.machine import MachineResult, ServingMachine
from wse.studies.serve_sim.prepare import PreparedServe

NO_INPUTS: Final = ("capacity", "verify_tokens")
"""Estimate options that do not apply to serving."""


def wafer_machine(prepared_serve: PreparedServe, layout: ChosenLayout) -> ServingMachine:
    """Build the serving-simulation model of a wafer machine by timing the passes of a layout.

    Prompts may be read on another part of the same wafer. In this case, KV caches are sent over the
    boundary of the mesh, and each PE of its shorter side sends one stream.

    Args:
        prepared_serve: The serving request.
        layout: The chosen layout of the machine of this request that decodes or reads prompts.

    Raises:
        BadInput: A tier has no room for even one token.
        DoesNotFit: The draft does not fit on the wafers.
    """
    prepared_estimate, parking = layout.prepared, prepared_serve.request.parking
    drafted = drafted_costs(prepared_estimate, layout.compilation, prepared_serve.request.draft_tokens)
    program, costs, drafts = drafted.compilation.program, drafted.costs, drafted.drafts
    draft_wafers = 0 if drafts is None else drafts.wafers
    wafers = program.wafers + draft_wafers + parking.storage_wafers
    wafer, spec, economics = prepared_estimate.wafer, prepared_estimate.spec, prepared_estimate.economics
    element_bytes = ELEMENT_BYTES[prepared_estimate.options.activation_type]
    kv_bytes = kv_bytes_per_token(spec, element_bytes)
    bytes_per_state = state_bytes(spec, element_bytes)
    deployment = timed_deployment(prepared_estimate, layout.compilation.program)
    edge_pes = min(wafer.mesh_rows, wafer.mesh_cols)
    return ServingMachine(
        costs=costs,
        deployment=deployment,
        drafts=drafts,
        model=model_result(spec, program),
        result=MachineResult.from_parts(
            costs,
            name=wafer.name,
            wafers=wafers,
            cache_wafers=parking.storage_wafers or None,
            draft_wafers=draft_wafers or None,
            stages=len(program.stages),
            mapping=program.mapping_name,
            kv_capacity_users=users_that_fit(
                costs, prepared_serve.mean_tokens, prepared_estimate.options.prefix_tokens
            ),
            grid_users=(costs.decode.slots,),
            grid_contexts=costs.contexts,
            grid_last_chunks=costs.prefill.last_tokens,
            round_s=costs.round_s(1, prepared_estimate.middle_context[0], ()),
            layout_users=requests_in_flight(prepared_estimate.goal, deployment),
        ),
        inputs={name: value for name, value in inputs(prepared_estimate).items() if name not in NO_INPUTS},
        kv_bytes_per_token=kv_bytes,
        kv_copy_bytes_per_token=kv_bytes,
        bytes_per_state=bytes_per_state,
        link_bytes_per_s=wafer.wafer_link_bytes_per_s,
        link_latency_s=wafer.wafer_link_latency_s,
        edge_bytes_per_s=edge_pes * wafer.stream_words_per_cycle * WORD_BYTES * wafer.clock_hz,
        kv_tiers=wafer_tiers(
            parking, program, wafer, prepared_estimate.request.machine, drafts, kv_bytes, bytes_per_state or None
        ),
        power_w=economics.power_w.times(wafers),
        usd_per_hour=economics.usd_per_hour.times(wafers),
        uncertainty=partial(uncertainty_of, prepared_estimate, layout.compilation.program),
        replicas=None if prepared_estimate.goal.users is None else prepared_estimate.goal.replicas,
    )
