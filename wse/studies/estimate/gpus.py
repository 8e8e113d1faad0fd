"""A model that GPUs serve, from its config alone: the study of ``wse estimate --gpu``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Final

from wse.gpus.load import gpu_numbers, stack_numbers
from wse.gpus.roofline import Tokens
from wse.gpus.server import GpuServer
from wse.hardware.number import Grade, SourcedNumber, weakest
from wse.models.tensors.model_tensors import parameter_count
from wse.request.draft_option import SAME
from wse.request.estimate_request import EstimateRequest
from wse.request.gpu_estimate_request import PreparedGpuEstimate, prepare_gpu_estimate
from wse.serving.economics import GpuEconomics, load_gpu_economics
from wse.serving.gpu_cost import gpu_cost, gpu_energy
from wse.studies.estimate.draft_plan import DraftPlanResult, plan_of
from wse.studies.estimate.drafting import best_drafting
from wse.studies.estimate.gpu_drafting import draft_name, gpu_draft_machine
from wse.studies.estimate.gpu_result import (
    GpuBatchResult,
    GpuCostResult,
    GpuDecodeResult,
    GpuEnergyResult,
    GpuEstimateResult,
    GpuLatencyResult,
    GpuMachineResult,
    GpuMemoryResult,
    GpuModelResult,
    GpuPrefillResult,
    GpuSystemResult,
    GpuTpotParts,
    GpuVerifyResult,
)
from wse.studies.estimate.grades import SOURCES, GradeResult

BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
"""Users at the same time that the table over batch sizes has, as far as they fit."""


ARRIVALS_GRADE: Final[Grade] = "I"
"""How well it is known that prompts come at random, and are read with all others that wait."""


def estimate_on_gpus(request: EstimateRequest) -> GpuEstimateResult:
    """Time a model on the GPUs of a request, at its number of users and at others.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used, or the users' caches do not fit.
        DoesNotFit: the weights do not fit; with how many GPUs hold them.
    """
    prepared = prepare_gpu_estimate(request)
    server = prepared.server
    economics = load_gpu_economics(server.gpu, prepared.economics)
    batch = batch_result(prepared, prepared.users, economics)
    decode, others = server.served_time(prepared.users, prepared.prompt_tokens, prepared.new_tokens)
    read_s = server.prefill_s(prepared.prompt_tokens)
    most = server.users_that_fit(prepared.prompt_tokens + prepared.new_tokens)
    answered = gpu_grade(prepared)
    energy = None if economics is None else gpu_energy(server.parallelism.gpus, batch.tokens_per_s, economics)
    cost = None if economics is None else gpu_cost(server.parallelism.gpus, batch.tokens_per_s, economics)
    return GpuEstimateResult(
        inputs=_inputs(prepared),
        batch=prepared.users,
        model=GpuModelResult(
            name=server.spec.name,
            parameters=parameter_count(server.spec),
            dtype=server.weights.name,
            cache_bits=server.weights.cache_bits,
            bytes=round(server.weight_bytes),
        ),
        gpu=GpuMachineResult(
            name=server.gpu.name,
            generation=server.gpu.generation,
            hbm_bytes=server.gpu.hbm_bytes,
            hbm_bytes_per_s=server.gpu.hbm_bytes_per_s,
        ),
        system=GpuSystemResult(
            gpus=server.parallelism.gpus,
            stack=prepared.stack,
            software=server.stack.title,
            parallelism=prepared.parallelism,
        ),
        memory=GpuMemoryResult(
            weight_bytes=round(server.weight_bytes),
            draft_bytes=None if server.draft is None else round(server.draft_bytes),
            kv_bytes_per_token=server.kv_bytes_per_token,
            kv_capacity_tokens=server.kv_capacity_tokens,
            kv_capacity_users=most,
        ),
        prefill=GpuPrefillResult(s=read_s, tokens_per_s=prepared.prompt_tokens / read_s),
        latency=GpuLatencyResult(
            ttft_s=batch.ttft_s,
            tpot_s=batch.tpot_s,
            tpot_by=GpuTpotParts(**asdict(decode), prompts_s=others.total_s),
            bound_s=server.roofline([_decoded(prepared, prepared.users)]).bound_s,
            request_s=batch.ttft_s + (prepared.new_tokens - 1) * batch.tpot_s,
        ),
        decode=GpuDecodeResult(tokens_per_s_per_user=batch.tokens_per_s_per_user, tokens_per_s=batch.tokens_per_s),
        verify=_verify(prepared),
        drafts=_drafts(prepared),
        energy=None if energy is None or economics is None else _energy(energy, economics),
        cost=None if cost is None or economics is None else _cost(cost, economics),
        grades={
            "latency.ttft_s": _first_token_grade(prepared, answered),
            **dict.fromkeys(("latency.tpot_s", "decode.tokens_per_s_per_user"), answered),
            **dict.fromkeys(("decode.tokens_per_s", "prefill.tokens_per_s", "memory.kv_capacity_tokens"), answered),
            **({} if energy is None else {"energy.joules_per_token": _with(answered, energy, "gpu_power_w")}),
            **({} if cost is None else {"cost.usd_per_million_tokens": _with(answered, cost, "gpu_usd_per_hour")}),
        },
        batches=tuple(batch_result(prepared, users, economics) for users in batch_sizes(most, prepared.users)),
    )


def batch_result(prepared: PreparedGpuEstimate, users: int, economics: GpuEconomics | None) -> GpuBatchResult:
    """What so many users at the same time get: rates while they come and go, and the expected first token."""
    server, prompt = prepared.server, prepared.prompt_tokens
    decode, others = server.served_time(users, prompt, prepared.new_tokens)
    tpot = decode.total_s + others.total_s
    rate = users / tpot
    drafting = None
    if prepared.acceptance is not None:
        drafting = best_drafting(prepared.acceptance.curve, gpu_draft_machine(prepared, users))
    gpus = server.parallelism.gpus
    return GpuBatchResult(
        users=users,
        tokens_per_s_per_user=1 / tpot,
        tokens_per_s=rate,
        tpot_s=tpot,
        ttft_s=server.first_token_s(users, prompt, prepared.new_tokens),
        joules_per_token=None if economics is None else gpu_energy(gpus, rate, economics).value,
        usd_per_million_tokens=None if economics is None else gpu_cost(gpus, rate, economics).value,
        draft_tokens=None if drafting is None else drafting.draft_tokens,
        draft_speed_up=None if drafting is None else drafting.gain,
    )


def _drafts(prepared: PreparedGpuEstimate) -> DraftPlanResult | None:
    """The best drafts for the users of a request that asks for them."""
    if prepared.acceptance is None:
        return None
    machine = gpu_draft_machine(prepared, prepared.users)
    return plan_of(prepared.acceptance, machine, draft_name(prepared), SAME)


def batch_sizes(most: int, asked_for: int) -> Iterable[int]:
    """The batch sizes of a table: powers of two, what was asked for, and as many as fit of ``BATCHES``."""
    return sorted({*(size for size in BATCHES if size <= most), asked_for, min(most, BATCHES[-1])})


def _decoded(prepared: PreparedGpuEstimate, users: int) -> Tokens:
    return Tokens(users=users, new=1, context=prepared.middle_context)


def _verify(prepared: PreparedGpuEstimate) -> GpuVerifyResult | None:
    """A pass over several new tokens of each user; None where it is not asked for."""
    if not prepared.verify_tokens:
        return None
    server, context = prepared.server, prepared.middle_context
    verify, decode = (
        server.verify_s(prepared.users, prepared.verify_tokens, context),
        server.decode_s(prepared.users, context),
    )
    return GpuVerifyResult(tokens=prepared.verify_tokens, s=verify, ratio_to_decode=verify / decode)


def gpu_grade(prepared: PreparedGpuEstimate) -> GradeResult:
    """The grade of the weakest number of the GPU and the stack, of those that play a part."""
    generation = prepared.server.gpu.generation
    stack = {
        key: number
        for key, number in stack_numbers(prepared.stack).items()
        if key.partition(".")[2] in ("", generation) and key not in _unused(prepared.server)
    }
    numbers = {f"{prepared.gpu} {key}": number for key, number in gpu_numbers(prepared.gpu).items()}
    numbers |= {f"{prepared.stack} {key}": number for key, number in stack.items()}
    grade = weakest(number.grade for number in numbers.values())
    name = next(name for name, number in numbers.items() if number.grade == grade)
    return GradeResult(grade=grade, source=SOURCES[grade], weakest=name)


def _first_token_grade(prepared: PreparedGpuEstimate, answered: GradeResult) -> GradeResult:
    """The grade of the first token: beside other users it rests on when their prompts come, which is assumed."""
    if prepared.users == 1 or weakest((answered.grade, ARRIVALS_GRADE)) == answered.grade:
        return answered
    return GradeResult(grade=ARRIVALS_GRADE, source=SOURCES[ARRIVALS_GRADE], weakest="arrivals of other prompts")


def _unused(server: GpuServer) -> frozenset[str]:
    """Constants that play no part for a model on some GPUs."""
    keys = {"workspace_bytes", "memory_ratio"}
    if server.parallelism.gpus == 1:
        keys |= {"link_ratio", "all_reduce_s", "one_shot_bytes"}
    if server.spec.experts is None:
        keys |= {"expert_ratio", "expert_layer_s", f"expert_layer_s.{server.gpu.generation}"}
    if not (server.weights.is_of_four_bits and server.gpu.fp4_flops_per_s):
        keys.add("four_bit_ratio")
    return frozenset(keys)


def _with(answered: GradeResult, number: SourcedNumber, name: str) -> GradeResult:
    """The grade of what follows from the rate of tokens and an assumption."""
    grade = weakest((answered.grade, number.grade))
    return answered if grade == answered.grade else GradeResult(grade=grade, source=SOURCES[grade], weakest=name)


def _energy(energy: SourcedNumber, economics: GpuEconomics) -> GpuEnergyResult:
    return GpuEnergyResult(
        joules_per_token=energy.value,
        range=energy.range,
        grade=energy.grade,
        assumptions=energy.source,
        gpu_power_w=economics.gpu_power_w,
    )


def _cost(cost: SourcedNumber, economics: GpuEconomics) -> GpuCostResult:
    return GpuCostResult(
        usd_per_million_tokens=cost.value,
        range=cost.range,
        grade=cost.grade,
        assumptions=cost.source,
        gpu_usd_per_hour=economics.gpu_usd_per_hour,
    )


def _inputs(prepared: PreparedGpuEstimate) -> dict[str, str | int]:
    """The options with defaults filled in."""
    inputs: dict[str, str | int | None] = {
        "model": prepared.model,
        "gpu": prepared.gpu,
        "gpus": prepared.server.parallelism.gpus,
        "stack": prepared.stack,
        "parallelism": prepared.parallelism,
        "dtype": prepared.server.weights.name,
        "batch": prepared.users,
        "prompt_len": prepared.prompt_tokens,
        "new_tokens": prepared.new_tokens,
    }
    inputs |= {"verify_tokens": prepared.verify_tokens or None}
    inputs |= {"draft": prepared.draft_acceptance, "draft_model": prepared.draft_model}
    return {name: value for name, value in inputs.items() if value is not None}
