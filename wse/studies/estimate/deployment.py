"""Deployments of compiled requests on wafers, based on the cycles spent on tokens and prompts."""

from __future__ import annotations

from wse.backends.fabric.model import Fabric
from wse.program.program import Program
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.operating_point import RequestShape
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.estimate.timing.pipelining import PipeliningResult, pipelining_result
from wse.studies.results.mean_token import mean_token_cycles
from wse.studies.results.sram import users_at


def deployment_of(
    prepared_estimate: PreparedEstimate, program: Program, pipelining: PipeliningResult
) -> WaferDeployment:
    """Return the description of a model on wafers from which serving performance is computed.

    Args:
        prepared_estimate: The request. All users have its prompt and answer lengths.
        program: The compiled model.
        pipelining: Mean time of a token of each user of a batch, and the busy time of the pipeline
            stages and of the inter-wafer links.
    """
    slots = program.batch
    shape = RequestShape(prompt_tokens=prepared_estimate.prompt_len, new_tokens=prepared_estimate.new_tokens)
    prompts, prompt_s = pipelining.prefill, max(server.prefill_busy_s for server in pipelining.servers) / slots
    chunks = max(1.0, prompts.chunks / slots) if prompts is not None else 1.0
    alone_s = slots * prompt_s if prompts is None else prompts.ttft_s(prepared_estimate.wafer)
    return WaferDeployment(
        shape=shape,
        max_concurrency=users_at(program, shape.tokens),
        chips=program.wafers,
        economics=prepared_estimate.economics,
        slots=slots,
        token_s=pipelining.single_stream_tpot_s,
        stage_s=max(server.decode_busy_s for server in pipelining.servers),
        prompt_s=prompt_s,
        chunk_s=prompt_s / chunks,
        delay_s=max(0.0, alone_s - slots * prompt_s),
    )


def timed_deployment(prepared_estimate: PreparedEstimate, program: Program) -> WaferDeployment:
    """Time a compiled model, and return the description from which serving performance is computed.

    The time of a token is the mean over all tokens of a request. The shares of the stages are those
    of the token halfway through the answer.
    """
    fabric = Fabric(program, prepared_estimate.wafer, prepared_estimate.software, prepared_estimate.meshes)
    prompts = [fabric.prefill_cost(index) for index in range(len(program.prefill))]
    middle_cost = fabric.decode_cost(*prepared_estimate.middle_context)
    mean_cycles = mean_token_cycles(fabric, prepared_estimate)
    pipelining = pipelining_result(fabric, prompts, middle_cost, mean_cycles, with_rows=False)
    return deployment_of(prepared_estimate, program, pipelining)
