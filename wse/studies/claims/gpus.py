"""Claims that GPUs decide: small batches, drafts and newer hardware, and mixtures that want many users."""

from __future__ import annotations

from functools import partial
from typing import Final

from wse.serving.operating_point import operating_point
from wse.serving.plan import saturating_users, users_at_speed
from wse.serving.tiers import FAST_TIMES, PLAIN_SPEED_TOKENS_PER_S
from wse.serving.weight_streaming import distinct_experts
from wse.studies.claims.claim import Curves, Finding, by_rule, figure
from wse.studies.claims.laboratory import Laboratory, with_type
from wse.studies.claims.serving import Serving, serving_of

DENSE, MIXTURE = "llama-3.1-70b", "deepseek-v3"
STACK: Final = "trtllm"
GPUS: Final = 8
DTYPE: Final = "fp8"
"""Type of the weights on GPUs: that of most published measurements of these models."""
BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128)
LARGE, SMALL = 128, 4
FEW: Final = 3.0
"""A machine is said to give all users together few tokens if a token costs this many times as much there."""
PRICE: Final = 6.0
"""Its price over that of the plain one."""
FAMILY: Final = "deepseek-r1"
"""The acceptance of drafts that are taken: measured with heads of its own, by length."""


def small_batches(lab: Laboratory) -> Finding:
    """Claim 8: what a token costs in a fast tier, in which a user is 2.5 times as fast as in a plain one.

    The plain tier has the most users who get `PLAIN_SPEED_TOKENS_PER_S` each, the fast one the most who get
    `FAST_TIMES` that.
    """
    numbers, lines, found = {}, {}, []
    fast_speed = FAST_TIMES * PLAIN_SPEED_TOKENS_PER_S
    for model, gpu in ((DENSE, "h200"), (DENSE, "b200"), (MIXTURE, "h200"), (MIXTURE, "b200")):
        subject = f"{with_type(model, DTYPE)} on {GPUS} {gpu}"
        deployment = lab.gpus(model, gpu, GPUS, STACK, DTYPE)
        plain_users, fast_users = (
            users_at_speed(partial(operating_point, deployment), saturating_users(deployment), speed)
            for speed in (PLAIN_SPEED_TOKENS_PER_S, fast_speed)
        )
        name = f"{model.replace('-', '_').replace('.', '_')}_{gpu}"
        numbers[f"plain_{name}"] = figure(
            plain_users, "users", f"of {subject} at {PLAIN_SPEED_TOKENS_PER_S:g} tokens/s each"
        )
        numbers[f"batch_{name}"] = figure(fast_users, "users", f"of {subject} at {fast_speed:g} tokens/s each")
        if not plain_users:
            continue
        plain = serving_of(deployment, plain_users)
        served = [serving_of(deployment, users) for users in BATCHES if users <= plain_users]
        lines[subject] = tuple((run.rate_of_user, run.cost_ratio(plain)) for run in served)
        if fast_users:
            found.append(serving_of(deployment, fast_users).cost_ratio(plain))
            numbers[f"cost_{name}"] = figure(found[-1], "", "cost of a token of the fast tier over the plain one's")
    low, high = min(found, default=0.0), max(found, default=0.0)
    machines = sum(name.startswith("plain_") for name in numbers)
    return Finding(
        verdict=by_rule(holds=len(found) == machines, never=not found),
        answer=f"A fast tier of {fast_speed:g} tokens/s a user can be had in {len(found)} of {machines} cases, for "
        f"{low:.1f} to {high:.1f} times the cost of a token at {PLAIN_SPEED_TOKENS_PER_S:g}; fast modes are sold at "
        f"{PRICE:g} times the price.",
        numbers=numbers,
        confidence="medium",
        reason="a roofline fitted on measurements of the same machines and models",
        curves=Curves(x="tokens/s of a user", y="cost of a token over the plain tier's", lines=lines, log_y=True),
    )


def drafts_or_hardware(lab: Laboratory) -> Finding:
    """Claim 9: what drafts gain in a small and in a large batch, and what newer hardware does."""
    numbers, gains = {}, {}
    for batch in (SMALL, LARGE):
        drafts = lab.drafts(MIXTURE, "b200", GPUS, STACK, DTYPE, batch, FAMILY)
        gains[batch] = drafts.speed_up
        meaning = f"of {drafts.draft_tokens} draft tokens with {batch} users of {with_type(MIXTURE, DTYPE)}"
        numbers[f"drafts_{batch}"] = figure(gains[batch], "", meaning)
    hardware = {}
    for batch in (SMALL, LARGE):
        old, new = (lab.gpu(DENSE, gpu, GPUS, STACK, DTYPE, batch) for gpu in ("h200", "b200"))
        hardware[batch] = new.rate_of_user / old.rate_of_user
        numbers[f"hardware_{batch}"] = figure(
            hardware[batch], "", f"of B200 over H200 with {batch} users of {with_type(DENSE, DTYPE)}"
        )
    products = {batch: gains[batch] * hardware[batch] for batch in (SMALL, LARGE)}
    for batch, product in products.items():
        numbers[f"together_{batch}"] = figure(product, "", f"the two with {batch} users")
    alone = max(*gains.values(), *hardware.values())
    return Finding(
        verdict=by_rule(holds=alone >= FAST_TIMES, never=max(products.values()) < FAST_TIMES),
        answer=f"With {SMALL} users drafts gain {gains[SMALL]:.2f} times and a newer generation {hardware[SMALL]:.2f}, "
        f"together {products[SMALL]:.2f}; with {LARGE} users {gains[LARGE]:.2f} and {hardware[LARGE]:.2f}, together "
        f"{products[LARGE]:.2f}. Neither alone is a factor of {FAST_TIMES}.",
        numbers=numbers,
        confidence="medium",
        reason="measured acceptance; a roofline fitted on measurements without drafts",
    )


def mixtures_want_users(lab: Laboratory) -> Finding:
    """Claim 11: the cost of a token of a mixture against its batch, beside a dense model's."""
    numbers, lines, ratios = {}, {}, {}
    for model in (MIXTURE, DENSE):
        served = [lab.gpu(model, "b200", GPUS, STACK, DTYPE, batch) for batch in BATCHES]
        ratios[model] = served[BATCHES.index(SMALL)].cost_ratio(served[-1])
        costs = [run.cost_ratio(served[-1]) for run in served]
        lines[with_type(model, DTYPE)] = tuple(zip(map(float, BATCHES), costs, strict=True))
        key = model.replace("-", "_").replace(".", "_")
        numbers[f"cost_ratio_{key}"] = figure(
            ratios[model], "", f"of a token of {with_type(model, DTYPE)} with {SMALL} users over one with {LARGE}"
        )
    experts = lab.server(MIXTURE, "b200", GPUS, STACK, DTYPE).spec.experts
    assert experts is not None
    for batch in (SMALL, 64, LARGE):
        touched = distinct_experts(experts.count, experts.active, batch)
        numbers[f"experts_{batch}"] = figure(
            touched, "experts", f"of a layer's {experts.count} that {batch} users touch"
        )
    return Finding(
        verdict="true" if ratios[MIXTURE] >= FAST_TIMES else "false",
        answer=f"A token of {with_type(MIXTURE, DTYPE)} with {SMALL} users costs {ratios[MIXTURE]:.1f} times one "
        f"with {LARGE}, of a "
        f"dense 70B {ratios[DENSE]:.1f} times: weights are read for whoever is there, and {SMALL} users touch "
        f"{numbers[f'experts_{SMALL}'].value:.0f} experts of a layer, {LARGE} {numbers[f'experts_{LARGE}'].value:.0f}.",
        numbers=numbers,
        confidence="medium",
        reason="a roofline fitted on measurements of such machines; experts chosen evenly",
        curves=Curves(
            x="users", y=f"cost of a token over that with {LARGE} users", lines=lines, log_x=True, log_y=True
        ),
    )


def _cost_ratios(wafers: Serving, gpus: Serving) -> tuple[float, float, float]:
    """Return the cost of a token on wafers over that on GPUs, at central prices and at both extremes.

    The lowest ratio has the wafer at its low and the GPU at its high price; the highest has the reverse.
    """
    (wafers_low, wafers_high), (gpus_low, gpus_high) = (run.usd_per_million_tokens_ends for run in (wafers, gpus))
    central = wafers.usd_per_million_tokens / gpus.usd_per_million_tokens
    return central, wafers_low / gpus_high, wafers_high / gpus_low


def aggregate(lab: Laboratory) -> Finding:
    """Claim 13: tokens of all users, and for a dollar, of wafers with all caches that fit against GPUs."""
    numbers, lines = {}, {}
    best: dict[str, Serving] = {}
    for context in (2_048, 8_192):
        new = 1_024
        wafers = lab.wafers_for_all(DENSE, context, new)
        gpu = lab.gpus_for_all(DENSE, "h200", GPUS, STACK, DTYPE, context - new, new)
        gpus = [lab.gpu(DENSE, "h200", GPUS, STACK, DTYPE, batch, context - new, new) for batch in BATCHES]
        best |= {f"wafers_{context}": wafers, f"gpus_{context}": gpu}
        for name, run in (("wafers", wafers), ("gpus", gpu)):
            machines = f"{run.machines} {'wafers' if name == 'wafers' else 'H200'}"
            subject = with_type(DENSE, None if name == "wafers" else DTYPE)
            of = f"of {run.users} users of {subject} with {context:,} tokens on {machines}"
            numbers[f"tokens_per_s_{name}_{context}"] = figure(run.tokens_per_s, "tokens/s", of)
            numbers[f"usd_per_million_{name}_{context}"] = figure(run.usd_per_million_tokens, "USD/million tokens", of)
            for end, cost in zip(("low", "high"), run.usd_per_million_tokens_ends, strict=True):
                meaning = f"the same at the {end} end of the price of a machine"
                numbers[f"usd_per_million_{name}_{context}_{end}"] = figure(cost, "USD/million tokens", meaning)
        lines[f"{GPUS} H200 as {DTYPE}, {context:,} tokens"] = tuple(
            (run.rate_of_user, run.usd_per_million_tokens) for run in (*gpus, gpu)
        )
        lines[f"wafers as {with_type(DENSE).rpartition(' ')[2]}, {context:,} tokens"] = (
            (wafers.rate_of_user, wafers.usd_per_million_tokens),
        )
    dearer, least, most = zip(
        *(_cost_ratios(best[f"wafers_{context}"], best[f"gpus_{context}"]) for context in (2_048, 8_192)), strict=True
    )
    more = [best[f"wafers_{c}"].tokens_per_s / best[f"gpus_{c}"].tokens_per_s for c in (2_048, 8_192)]
    numbers["dearer_2048"] = figure(dearer[0], "", "cost of a token on wafers over that on GPUs, 2,048 tokens")
    numbers["dearer_8192"] = figure(dearer[1], "", "the same with 8,192 tokens")
    for end, ratios in (("low", least), ("high", most)):
        of = f"the same at the {end} end of a wafer's price and the {'high' if end == 'low' else 'low'} one of a GPU's"
        for context, value in zip((2_048, 8_192), ratios, strict=True):
            numbers[f"dearer_{context}_{end}"] = figure(value, "", of)
    return Finding(
        verdict=by_rule(holds=min(least) > FEW, never=max(most) <= 1),
        answer=f"With all caches that fit, {best['wafers_2048'].machines} wafers make "
        f"{best['wafers_2048'].tokens_per_s:,.0f} tokens/s of {with_type(DENSE)} at 2,048 tokens of context and "
        f"{best['wafers_8192'].machines} make {best['wafers_8192'].tokens_per_s:,.0f} at 8,192; {GPUS} H200 as {DTYPE} "
        f"{best['gpus_2048'].tokens_per_s:,.0f} and {best['gpus_8192'].tokens_per_s:,.0f}. A token costs "
        f"{dearer[0]:.1f} ({least[0]:.1f} to {most[0]:.1f}) and {dearer[1]:.1f} ({least[1]:.1f} to {most[1]:.1f}) "
        "times as much on wafers, at central prices (with a wafer at its low and a GPU at its high price, and the "
        "reverse), where a user gets "
        f"{best['wafers_2048'].rate_of_user:,.0f} and {best['wafers_8192'].rate_of_user:,.0f} tokens/s"
        f"{': few for their price, not few in all' if min(more) > 1 < min(least) else ''}.",
        numbers=numbers,
        confidence="low",
        reason="a wafer's price is an ownership cost and a GPU's a rent, and no vendor has published a wafer's "
        "throughput",
        curves=Curves(x="tokens/s of a user", y="USD a million tokens", lines=lines, log_x=True, log_y=True),
    )
