"""Evidence grades of estimates for GPUs: how reliable their numbers are."""

from __future__ import annotations

from typing import Final

from wse.hardware.number import Grade, weakest
from wse.serving.gpus.load import GPU_PRESETS, STACK_PRESETS
from wse.serving.gpus.server import GpuServer
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate
from wse.studies.estimate.gpus.result import GpuCostResult, GpuEnergyResult
from wse.studies.estimate.grades import SOURCES, GradeResult

ARRIVALS_GRADE: Final[Grade] = "I"
"""Evidence grade of the assumption that other users' prompts arrive at equal intervals."""


def gpu_grades(
    prepared_estimate: PreparedGpuEstimate, energy: GpuEnergyResult | None, cost: GpuCostResult | None
) -> dict[str, GradeResult]:
    """Return the evidence grades of an estimate, which state how reliable its numbers are.

    Args:
        prepared_estimate: The request.
        energy: Energy per token; None if the power is unknown.
        cost: Cost per million tokens; None if the price is unknown.

    Returns:
        Grades, keyed by the number's path in the JSON output, such as ``latency.tpot_s``.
    """
    decode_grade = gpu_grade(prepared_estimate)
    first_token_grade = decode_grade
    if prepared_estimate.users_of_one > 1:  # TTFT then also depends on when the prompts of other users arrive
        first_token_grade = _weaker_grade(decode_grade, ARRIVALS_GRADE, "arrivals of other prompts")
    decode_keys = ("latency.tpot_s", "decode.tokens_per_s_per_user", "decode.tokens_per_s", "memory.kv_capacity_tokens")
    grades = dict.fromkeys(("latency.ttft_s", "prefill.tokens_per_s"), first_token_grade)
    grades |= dict.fromkeys(decode_keys, decode_grade)
    if energy is not None:
        grades["energy.joules_per_token"] = _weaker_grade(decode_grade, energy.grade, "gpu_power_w")
    if cost is not None:
        grades["cost.usd_per_million_tokens"] = _weaker_grade(decode_grade, cost.grade, "gpu_usd_per_hour")
    return grades


def gpu_grade(prepared_estimate: PreparedGpuEstimate) -> GradeResult:
    """Return the evidence grade of a GPU estimate, which states how reliable its constants are.

    It is the weakest grade of the constants of the GPU and of the serving stack (software such as
    vLLM). Constants of the stack that do not affect this model are ignored.
    """
    generation = prepared_estimate.server.gpu.generation
    stack = {
        key: number
        for key, number in STACK_PRESETS.read(str(prepared_estimate.stack)).numbers.items()
        if key.partition(".")[2] in ("", generation) and key not in _irrelevant_constants(prepared_estimate.server)
    }
    gpu_numbers = GPU_PRESETS.read(str(prepared_estimate.gpu)).numbers
    numbers = {f"{prepared_estimate.gpu} {key}": number for key, number in gpu_numbers.items()}
    numbers |= {f"{prepared_estimate.stack} {key}": number for key, number in stack.items()}
    grade = weakest(number.grade for number in numbers.values())
    name = next(name for name, number in numbers.items() if number.grade == grade)
    return GradeResult(grade=grade, source=SOURCES[grade], weakest=name)


def _irrelevant_constants(server: GpuServer) -> frozenset[str]:
    """Return the names of constants of a serving stack that do not affect an estimate.

    For example, constants of all-reduces are irrelevant on a single GPU.
    """
    keys = {"workspace_bytes", "memory_ratio", "max_sequences"}
    if server.parallelism.gpus == 1:
        keys |= {"link_ratio", "all_reduce_s", "one_shot_bytes"}
    if server.spec.experts is None:
        keys |= {"expert_ratio", "expert_layer_s", f"expert_layer_s.{server.gpu.generation}"}
    if not (server.weights.is_of_four_bits and server.gpu.fp4_flops_per_s):
        keys.add("four_bit_ratio")
    return frozenset(keys)


def _weaker_grade(decode_grade: GradeResult, grade: Grade, name: str) -> GradeResult:
    """Return the weaker of two grades: that of the decoded tokens per second, and ``grade``.

    Args:
        decode_grade: Grade of the decoded tokens per second.
        grade: Grade of another number, such as the price of a GPU.
        name: Name of this number.
    """
    if weakest((decode_grade.grade, grade)) == decode_grade.grade:
        return decode_grade
    return GradeResult(grade=grade, source=SOURCES[grade], weakest=name)
