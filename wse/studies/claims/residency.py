"""Claims about what SRAM holds: models and wafers, long contexts, and how large a model of one wafer can be."""

from __future__ import annotations

from typing import Final

from wse.studies.claims.claim import Curves, Finding, by_rule, figure
from wse.studies.claims.laboratory import Laboratory, with_type
from wse.studies.claims.retries import break_even_accuracy

BILLION: Final = 1e9
SHAPE: Final = "llama-3.1-70b"
"""The model whose layers are counted: of the shape of large dense models, 0.86 billion parameters a layer."""
PRECISIONS: Final = {"bfloat16": 20.0, "int8": 40.0}
"""Billions of parameters that 44 GB are claimed to hold, by element type."""
NEAR: Final = 0.25
"""Maximum relative difference between a claimed and a computed size."""

LARGE: Final = "llama-3.1-405b"
SERVED: Final = "llama-3.1-70b"
SMALL: Final = "llama-3-8b"
CONTEXTS: Final = (2_048, 8_192, 32_768, 131_072)
GPU, GPUS, STACK = "h200", 8, "trtllm"
HALF: Final = 0.5
"""Share of its speed below which a user with a long context is no longer called fast, unless GPUs are slower."""

WAFER_MW: Final = 0.023
CAPITAL_MUSD: Final = (1.0, 1.73, 3.0)
"""Capital cost of a wafer's system in millions of USD: an analyst's (tokenomics.info/cerebras, May 2026) and the upper
end of prices reported second-hand (awesomeagents.ai/hardware/cerebras-wse-3, 2026), and their geometric mean."""


def size_of_one_wafer(lab: Laboratory) -> Finding:
    """Claim 1: the parameters that one wafer stores by element type, and a larger model on several."""
    numbers, sizes = {}, {}
    for dtype, claimed in PRECISIONS.items():
        layers, parameters = lab.layers_that_fit(SHAPE, 1, dtype)
        sizes[dtype] = parameters / BILLION
        meaning = f"parameters that one wafer holds as {dtype}: {layers} layers of {SHAPE}; claimed: {claimed:g}"
        numbers[f"parameters_{dtype}"] = figure(sizes[dtype], "billions", meaning)
    several, one = lab.estimate(SERVED), lab.estimate(SMALL)
    assert several.decode is not None
    assert one.decode is not None
    numbers["wafers"] = figure(several.system.wafers, "wafers", f"that hold {with_type(SERVED)}")
    rate = several.decode.tokens_per_s_per_user
    numbers["tokens_per_s_per_user"] = figure(rate, "tokens/s", f"of {with_type(SERVED)} on them")
    small_rate = one.decode.tokens_per_s_per_user
    numbers["tokens_per_s_per_user_small"] = figure(small_rate, "tokens/s", f"of {with_type(SMALL)} on one wafer")
    near = all(abs(sizes[dtype] / claimed - 1) <= NEAR for dtype, claimed in PRECISIONS.items())
    return Finding(
        verdict="conditional" if near else "false",
        answer=f"One wafer holds {sizes['bfloat16']:.1f} billion parameters in 16 bits and {sizes['int8']:.1f} in 8, "
        f"near what is claimed, but it need not be one: {several.system.wafers} wafers give a user of "
        f"{with_type(SERVED)} "
        f"{rate:,.0f} tokens/s.",
        numbers=numbers,
        confidence="high",
        reason="bytes of the compiled placement, and the number of wafers that the vendor disclosed for 70B",
    )


def dense_400b(lab: Laboratory) -> Finding:
    """Claim 14: wafers, power and capital of a dense model of 405 billion parameters."""
    result = lab.estimate(LARGE)
    wafers = result.system.wafers
    power = wafers * WAFER_MW
    low, middle, high = (wafers * price for price in CAPITAL_MUSD)
    tens = wafers >= 10 and 0.25 <= power <= 1.0 and low >= 10
    return Finding(
        verdict="true" if tens else "false",
        answer=f"{with_type(LARGE)} takes {wafers} wafers: {power:.2f} MW at their peak and {middle:,.0f} million "
        f"dollars, {low:,.0f} to {high:,.0f} over the range of prices.",
        numbers={
            "wafers": figure(wafers, "wafers", f"that hold {with_type(LARGE)}"),
            "power_mw": figure(power, "MW", "at 23 kW a wafer, the peak that the vendor states"),
            "capital_musd": figure(middle, "million USD", "at 1.73 million a system, between both ends"),
            "capital_musd_low": figure(low, "million USD", "at an analyst's 1.00 million"),
            "capital_musd_high": figure(high, "million USD", "at 3 million, reported second-hand"),
        },
        confidence="medium",
        reason="wafers follow from bytes; prices are an analyst's and a second-hand report's",
    )


def short_context(lab: Laboratory) -> Finding:
    """Claim 16: speed and wafers of one user against the length of the context, beside one user of GPUs."""
    wafers, rates, on_gpus = [], [], []
    for context in CONTEXTS:
        new = 1_024
        result = lab.estimate(SERVED, context=context, prompt_len=context - new, new_tokens=new)
        assert result.decode is not None
        wafers.append(result.system.wafers)
        rates.append(result.decode.tokens_per_s_per_user)
        on_gpus.append(lab.gpu(SERVED, GPU, GPUS, STACK, "fp8", 1, context - new, new).rate_of_user)
    kept = rates[-1] / rates[0]
    numbers = {}
    for context, count, rate in zip(CONTEXTS, wafers, rates, strict=True):
        numbers[f"tokens_per_s_{context}"] = figure(
            rate, "tokens/s", f"of a user of {with_type(SERVED)} with {context:,} tokens"
        )
        numbers[f"wafers_{context}"] = figure(
            count, "wafers", f"that hold {with_type(SERVED)} and a cache of {context:,} tokens"
        )
    numbers["speed_kept"] = figure(kept, "", f"rate at {CONTEXTS[-1]:,} tokens over that at {CONTEXTS[0]:,}")
    machine = f"{GPUS} {GPU.upper()}"
    numbers["tokens_per_s_gpus"] = figure(
        on_gpus[-1], "tokens/s", f"the same user with fp8 on {machine}, at the longest"
    )
    faster = rates[-1] / on_gpus[-1]
    return Finding(
        verdict=by_rule(holds=kept < HALF and faster <= 1, never=kept >= HALF and wafers[-1] == wafers[0]),
        answer=f"At {CONTEXTS[-1]:,} tokens a user of {with_type(SERVED)} keeps {100 * kept:.0f} % of the speed at "
        f"{CONTEXTS[0]:,}"
        f" ({rates[-1]:,.0f} of {rates[0]:,.0f} tokens/s) on {wafers[-1]} wafers in place of {wafers[0]}, "
        f"{faster:.1f} times that of one alone on {machine}: a long context costs speed, and SRAM for each user's "
        "cache, and so users.",
        numbers=numbers,
        confidence="medium",
        reason="bytes of caches are exact; seconds rest on assumed software costs",
        curves=Curves(
            x="tokens of context",
            y="tokens/s of a user; wafers",
            lines={
                "tokens/s of a user": tuple(zip(map(float, CONTEXTS), rates, strict=True)),
                f"tokens/s alone on {machine}": tuple(zip(map(float, CONTEXTS), on_gpus, strict=True)),
                "wafers": tuple(zip(map(float, CONTEXTS), map(float, wafers), strict=True)),
            },
            log_x=True,
            log_y=True,
        ),
    )


def smaller_because_it_must(lab: Laboratory) -> Finding:
    """Claim 17: sizes that wafers store, and what a small fast model may give up before a large slow one wins."""
    numbers = {}
    for wafers in (1, 2):
        for dtype in ("bfloat16", "int8", "int4"):
            layers, parameters = lab.layers_that_fit(SHAPE, wafers, dtype)
            meaning = f"parameters that {wafers} hold as {dtype}: {layers} layers of {SHAPE}"
            numbers[f"parameters_{wafers}_{dtype}"] = figure(parameters / BILLION, "billions", meaning)
    small, large = lab.estimate(SMALL), lab.estimate(SERVED)
    assert small.decode is not None
    assert large.decode is not None
    ratio = small.decode.tokens_per_s_per_user / large.decode.tokens_per_s_per_user
    for accuracy in (0.99, 0.9, 0.5):
        least = break_even_accuracy(accuracy, ratio)
        meaning = (
            f"of steps that a model {ratio:.2f} times as fast must get right to be as quick as one that gets "
            f"{accuracy:g} right, where wrong steps are seen and tried again"
        )
        numbers[f"accuracy_for_{accuracy:g}"] = figure(least, "", meaning)
    voice_s, spoken = 0.45, 0.0
    for name, result in (("small", small), ("large", large)):
        assert result.decode is not None
        rate = result.decode.tokens_per_s_per_user
        spoken = max(0.0, (voice_s - result.latency.user.ttft_open_s) * rate)
        meaning = f"that {with_type(result.model.name)} has said within a voice turn of 450 ms on an open connection"
        numbers[f"tokens_of_a_voice_turn_{name}"] = figure(spoken, "tokens", meaning)
    most = numbers["parameters_2_int4"].value
    return Finding(
        verdict="false",
        answer=f"It need not be small to fit: two wafers hold {most:,.0f} billion parameters in 4 bits, and more hold "
        f"more. A model {ratio:.1f} times as fast may get no fewer than {100 * numbers['accuracy_for_0.9'].value:.0f} %"
        " of steps right where the slow one gets 90 %, errors are seen, and wrong steps are tried again.",
        numbers=numbers,
        confidence="medium",
        reason="sizes are bytes of the compiled placement; whether a model was distilled is no matter of speed",
    )
