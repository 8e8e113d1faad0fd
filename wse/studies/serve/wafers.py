"""Wafers as a machine that serves."""

from __future__ import annotations

from typing import Final

from wse.number_formats import ELEMENT_BYTES
from wse.request.prepare_estimate import PreparedEstimate
from wse.studies.compile.choose import compile_with_remedies
from wse.studies.estimate.estimate import inputs
from wse.studies.results.placement import model_result
from wse.studies.serve.machine import Machine, MachineResult, times
from wse.studies.serve.wafer_costs import wafer_costs
from wse.studies.serve.wafer_drafts import drafted_costs

WORD_BYTES: Final = 4
NO_INPUTS: Final = ("batch", "capacity", "verify_tokens")
"""Options of estimates that serving has not."""


def wafer_machine(prepared: PreparedEstimate, streams: int | None, draft_tokens: int | None) -> Machine:
    """The wafers of a request, compiled, with at most so many passes in flight, and drafts as long if it has any.

    What moves over the edge between two parts of a wafer goes as many words a cycle as its shorter side has PEs.

    Raises:
        DoesNotFit: the model does not fit the wafers.
    """
    compilation = compile_with_remedies(prepared)
    program = compilation.program
    plain = wafer_costs(prepared, compilation, streams)
    costs, drafts = drafted_costs(prepared, compilation, plain, draft_tokens)
    wafer, spec, sources = prepared.wafer, prepared.spec, prepared.economics.sources
    kv_bytes = spec.cache_features * spec.layer_count * ELEMENT_BYTES[prepared.options.activation_type]
    edge_pes = min(wafer.mesh_rows, wafer.mesh_cols)
    return Machine(
        costs=costs,
        drafts=drafts,
        model=model_result(spec, program),
        result=MachineResult(
            name=wafer.name,
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
        inputs={name: value for name, value in inputs(prepared).items() if name not in NO_INPUTS},
        kv_bytes_per_token=kv_bytes,
        kv_copy_bytes_per_token=kv_bytes,
        link_bytes_per_s=wafer.wafer_link_bytes_per_s,
        link_latency_s=wafer.wafer_link_latency_s,
        edge_bytes_per_s=edge_pes * wafer.stream_words_per_cycle * WORD_BYTES * wafer.clock_hz,
        power_w=times(program.wafers, sources["wafer_power_w"]),
        usd_per_hour=times(program.wafers, sources["wafer_usd_per_hour"]),
    )
