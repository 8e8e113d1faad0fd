"""Claims about SRAM capacity: model sizes, numbers of wafers, and long contexts.

Model sizes are computed for samples of the SRAM that software uses.

Retries follow this model: a task has independent steps, each of which is right with probability p.

- If every wrong step is detected, for example by a compiler or a test, only that step is repeated.
  It needs 1/p attempts on average (geometric distribution). At speed v, the task takes a time
  proportional to 1/(p v), so a model that is v times as fast needs the same time at accuracy p / v.
- If only the whole task of n steps is checked, it is right with probability p^n at any speed. The
  whole task is then repeated, and needs 1/p^n attempts on average.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.hardware.generations import DEFAULT_WAFER
from wse.hardware.load import load_wafer, provenance
from wse.hardware.number import SourcedNumber
from wse.models.configs.config import bundled_spec
from wse.models.tensors.model_tensors import parameter_count
from wse.reports.number_text import plural
from wse.serving.economics import load_economics
from wse.serving.goal import FAST_TIMES, PLAIN_SPEED_TOKENS_PER_S
from wse.studies.claims.certainty import Cases, by_rule
from wse.studies.claims.result import Finding, FindingBuilder
from wse.studies.claims.serving import DTYPE, GPUS, gpu_server
from wse.studies.claims.shared_computations import SharedComputations, context_text, with_type
from wse.studies.compare.grid.streaming import weights_of
from wse.studies.estimate.ranges.sampled_figures import POWER
from wse.studies.options.placement import DEFAULT_SOFTWARE
from wse.studies.options.settings import SOFTWARE, WAFER

SIXTEEN_BITS: Final = "bfloat16"
_SOFTWARE_BYTES: Final = (
    (WAFER, DEFAULT_WAFER, "runtime_bytes_per_pe"),
    (WAFER, DEFAULT_WAFER, "task_table_bytes_per_pe"),
    (SOFTWARE, DEFAULT_SOFTWARE, "code_bytes_per_pe"),
    (SOFTWARE, DEFAULT_SOFTWARE, "stack_bytes_per_pe"),
)
"""Parts of a PE's SRAM that software uses and whose sizes are uncertain: prefix, file and key."""


def parameters_that_fit(shared_computations: SharedComputations, model: str, wafers: int, dtype: str) -> Cases:
    """Return how many parameters fit on wafers for the stated constants, then for each sample.

    For the stated constants, this is the parameter count of the largest model that compiles. In a
    sample, the software on each PE needs more or fewer bytes, which leaves fewer or more bytes for
    weights.

    Args:
        shared_computations: Computations shared by the claims.
        model: Bundled model whose layers are counted.
        wafers: Number of wafers.
        dtype: Element type of the weights.
    """
    wafer, spec = load_wafer(DEFAULT_WAFER), bundled_spec(model)
    sizes = [
        shared_computations.sampled(f"{prefix}{key}", provenance(file)[key]) for prefix, file, key in _SOFTWARE_BYTES
    ]
    used_bytes = np.sum(sizes, axis=0)
    more_bytes = wafers * wafer.mesh_rows * wafer.mesh_cols * (used_bytes[0] - used_bytes)
    weights_bytes, sixteen_bit_bytes = (
        weights.always_bytes + weights.expert_bytes
        for weights in (weights_of(spec, each_type, SIXTEEN_BITS) for each_type in (dtype, SIXTEEN_BITS))
    )
    bytes_per_parameter = 2 * weights_bytes / sixteen_bit_bytes
    return np.asarray(
        shared_computations.layers_that_fit(model, wafers, dtype).parameters + more_bytes / bytes_per_parameter
    )


BILLION: Final = 1e9
LAYER_MODEL: Final = "llama-3.1-70b"
"""Model whose layers are counted. It has the shape of a large dense model, with 0.86 billion
parameters per layer."""
PRECISIONS: Final = {"bfloat16": 20.0, "int8": 40.0}
"""Billions of parameters that 44 GB are claimed to store, by element type."""
SIZE_TOLERANCE: Final = 0.25
"""Maximum relative difference between a claimed and a computed size."""

DENSE_400B: Final = "llama-3.1-405b"
MIN_WAFERS: Final = 10
MIN_MW: Final = 0.25
MAX_MW: Final = 1.0
MIN_CAPITAL_MUSD: Final = 10
"""Limits within which claim 14 counts as true: tens of wafers, half a megawatt (within a factor of
two), and tens of millions of dollars."""

LARGE_MODEL: Final = "llama-3.1-70b"
SMALL_MODEL: Final = "llama-3-8b"
CONTEXTS: Final = (2_048, 8_192, 32_768, 131_072)
GPU: Final = "h200"
MIN_LONG_CONTEXT_FRACTION: Final = 0.5
"""Fraction of the short-context speed that a long context must reach to count as fast."""
VOICE_REPLY_S: Final = 0.45
"""Time from the end of a user's spoken words until a voice assistant should have its reply."""

CAPITAL_MUSD: Final = (1.0, 1.73, 3.0)
"""Capital cost of a system with one wafer in millions of USD: minimum, geometric mean and maximum.

The minimum is an analyst's (tokenomics.info/cerebras, May 2026). The maximum is the upper end of
prices that were reported second-hand (awesomeagents.ai/hardware/cerebras-wse-3, 2026)."""
CAPITAL: Final = SourcedNumber(
    value=CAPITAL_MUSD[1], unit="million USD", grade="R", source="see above", range=(CAPITAL_MUSD[0], CAPITAL_MUSD[2])
)


def size_of_one_wafer(shared_computations: SharedComputations) -> Finding:
    """Decide whether a fast model must be small to fit in a wafer's 44 GB of SRAM (claim 1).

    Two things are computed: the number of parameters that fit on one wafer, and the speed of a
    model that needs several wafers. The claim is true if the sizes are near the claimed ones and
    the larger model is slower than a fast mode (`FAST_TIMES` times the plain speed).
    """
    builder = FindingBuilder("size_of_one_wafer", served=with_type(LARGE_MODEL), small=with_type(SMALL_MODEL))
    sizes = {}
    for dtype, claimed in PRECISIONS.items():
        layers = shared_computations.layers_that_fit(LAYER_MODEL, 1, dtype).layers
        sizes[dtype] = parameters_that_fit(shared_computations, LAYER_MODEL, 1, dtype) / BILLION
        names = {"dtype": dtype, "layers": layers, "model": LAYER_MODEL, "claimed_size": claimed}
        builder.add("parameters_{dtype}", sizes[dtype], **names)
    builder.add("wafers", shared_computations.estimate(LARGE_MODEL).system.wafers)
    builder.add("tokens_per_s_per_user", shared_computations.speed(LARGE_MODEL))
    builder.add("tokens_per_s_per_user_small", shared_computations.speed(SMALL_MODEL))
    is_near_claim = np.all(
        [abs(sizes[dtype] / claimed - 1) <= SIZE_TOLERANCE for dtype, claimed in PRECISIONS.items()], axis=0
    )
    is_slow = shared_computations.speeds(LARGE_MODEL) < FAST_TIMES * PLAIN_SPEED_TOKENS_PER_S
    return builder.finding(by_rule(holds=is_near_claim & is_slow, never=~is_near_claim & ~is_slow), claimed=PRECISIONS)


def dense_400b(shared_computations: SharedComputations) -> Finding:
    """Decide whether a dense 400B model needs tens of wafers and millions of dollars (claim 14).

    The number of wafers, their peak power and their capital cost are computed for a model with 405
    billion parameters. The claim is true if all of them are within their limits (`MIN_WAFERS`,
    `MIN_MW`, `MAX_MW`, `MIN_CAPITAL_MUSD`), and false otherwise.
    """
    result = shared_computations.estimate(DENSE_400B)
    wafers = result.system.wafers
    power_number = load_economics(load_wafer(DEFAULT_WAFER)).power_w
    power = wafers * shared_computations.sampled(POWER, power_number) / 1e6
    capital = wafers * shared_computations.sampled("price of a system with one wafer", CAPITAL)
    is_confirmed = (wafers >= MIN_WAFERS) & (power >= MIN_MW) & (power <= MAX_MW) & (capital >= MIN_CAPITAL_MUSD)
    builder = FindingBuilder("dense_400b", model=with_type(DENSE_400B))
    builder.add("wafers", wafers)
    builder.add("power_mw", power, wafer_kw=power_number.value / 1e3)
    origins = ("according to an analyst", "the geometric mean", "reported second-hand")
    for suffix, price, origin in zip(("_low", "", "_high"), CAPITAL_MUSD, origins, strict=True):
        builder.add("capital_musd{suffix}", wafers * price, suffix=suffix, price=price, origin=origin)
    return builder.finding(by_rule(holds=is_confirmed, never=~is_confirmed))


def short_context(shared_computations: SharedComputations) -> Finding:
    """Decide whether wafers are fast only with short contexts (claim 16).

    One user's speed and the number of wafers are computed for several context lengths. The speed is
    compared with a single user's speed on GPUs.

    The claim is true if the speed with the longest context is below `MIN_LONG_CONTEXT_FRACTION` of
    the speed with the shortest one and at most the speed on GPUs. It is false if the speed reaches
    this fraction on the same number of wafers. Otherwise, it is conditional.
    """
    wafers, rates, on_gpus, new = [], [], [], 1_024
    for context in CONTEXTS:
        result = shared_computations.estimate(LARGE_MODEL, context=context, prompt_len=context - new, new_tokens=new)
        wafers.append(result.system.wafers)
        rates.append(shared_computations.speeds(LARGE_MODEL, context=context, prompt_len=context - new, new_tokens=new))
        on_gpus.append(shared_computations.gpu(LARGE_MODEL, GPU, 1, context - new, new).rate_of_user)
    speed_ratio = rates[-1] / rates[0]
    machine = f"{GPUS} {GPU.upper()}s"
    builder = FindingBuilder(
        "short_context",
        model=with_type(LARGE_MODEL),
        machine=machine,
        dtype=DTYPE,
        shortest=CONTEXTS[0],
        longest=CONTEXTS[-1],
    )
    for context, count, rate in zip(CONTEXTS, wafers, rates, strict=True):
        builder.add("tokens_per_s_{context}", rate, context=context, lengths=context_text(context, new))
        builder.add("wafers_{context}", count, context=context)
    builder.add("speed_kept", speed_ratio)
    builder.add("tokens_per_s_gpus", on_gpus[-1])
    gpu_ratio = rates[-1] / on_gpus[-1] * shared_computations.gpu_times(gpu_server(LARGE_MODEL, GPU))
    return builder.finding(
        by_rule(
            holds=(speed_ratio < MIN_LONG_CONTEXT_FRACTION) & (gpu_ratio <= 1),
            never=(speed_ratio >= MIN_LONG_CONTEXT_FRACTION) & (wafers[-1] == wafers[0]),
        ),
        {
            "tokens/s per user": tuple(zip(map(float, CONTEXTS), (float(rate[0]) for rate in rates), strict=True)),
            f"tokens/s for a single user on {machine}": tuple(zip(map(float, CONTEXTS), on_gpus, strict=True)),
            "wafers": tuple(zip(map(float, CONTEXTS), map(float, wafers), strict=True)),
        },
        shortest_rate=rates[0][0],
        longest_rate=rates[-1][0],
        shortest_wafers=wafers[0],
        longest_wafers=wafers[-1],
        gpu_ratio=gpu_ratio[0],
    )


def smaller_models(shared_computations: SharedComputations) -> Finding:
    """Decide whether a fast model has to be small or distilled to fit (claim 17).

    Two things are computed: how many parameters fit on one and on two wafers, and how accurate a
    small, fast model must be to finish a task in the same time as a large, slow model.

    The claim is false if the large model fits on two wafers as int4. It is true if two wafers store
    no more int4 parameters than one wafer stores bfloat16 parameters. Otherwise, it is conditional.
    """
    ratio = shared_computations.speed(SMALL_MODEL) / shared_computations.speed(LARGE_MODEL)
    builder, sizes = FindingBuilder("smaller_models", served=with_type(LARGE_MODEL), ratio=ratio), {}
    for wafers in (1, 2):
        for dtype in ("bfloat16", "int8", "int4"):
            layers = shared_computations.layers_that_fit(LAYER_MODEL, wafers, dtype).layers
            sizes[wafers, dtype] = parameters_that_fit(shared_computations, LAYER_MODEL, wafers, dtype) / BILLION
            names = {"count": wafers, "wafers": plural(wafers, "wafer"), "layers": layers, "model": LAYER_MODEL}
            builder.add("parameters_{count}_{dtype}", sizes[wafers, dtype], dtype=dtype, **names)
    for accuracy in (0.99, 0.9, 0.5):
        # A model that repeats wrong steps needs 1 / accuracy attempts per step.
        builder.add("accuracy_for_{accuracy:g}", accuracy / ratio, accuracy=accuracy)
    for size, model in (("small", SMALL_MODEL), ("large", LARGE_MODEL)):
        tokens = max(
            0.0,
            (VOICE_REPLY_S - shared_computations.estimate(model).latency.user.ttft_open_s)
            * shared_computations.speed(model),
        )
        builder.add("tokens_of_a_voice_turn_{size}", tokens, size=size, model=with_type(model))
    served_size = parameter_count(bundled_spec(LARGE_MODEL)) / BILLION
    size_on_two_wafers_int4 = sizes[2, "int4"]
    return builder.finding(
        by_rule(holds=size_on_two_wafers_int4 <= sizes[1, "bfloat16"], never=size_on_two_wafers_int4 >= served_size),
        served_size=served_size,
        min_accuracy=builder.numbers["accuracy_for_0.9"].value,
    )
