"""Claims about GPUs: small batches, drafts, newer hardware, mixtures of experts, and total cost."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from wse.hardware.number import SourcedNumber
from wse.program.routing import expected_experts
from wse.serving.drafts.speculation import HEAD_KIND, measured_curves
from wse.serving.goal import FAST_TIMES, PLAIN_SPEED_TOKENS_PER_S
from wse.serving.operating_point import operating_point
from wse.serving.plan import saturating_users, users_at_speed
from wse.studies.claims.certainty import by_rule
from wse.studies.claims.laboratory import Laboratory, context_text, with_type
from wse.studies.claims.result import Curves, Finding, figure
from wse.studies.claims.serving import DTYPE, GPUS, Serving, gpu_deployment, gpu_server, serving_of

DENSE, MIXTURE = "llama-3.1-70b", "deepseek-v3"
BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128)
LARGE, SMALL = 128, 4
FEW: Final = 3.0
"""Ratio of costs per token above which a machine's total throughput counts as low."""
PRICE: Final = 6.0
"""Published price of a fast mode divided by the price of the plain mode."""
FAMILY: Final = "deepseek-r1"
"""Model whose draft acceptance is used. It was measured by draft length with the model's own
draft heads."""


def small_batches(lab: Laboratory) -> Finding:
    """Decide whether a fast mode on GPUs is just a smaller batch at a higher token cost (claim 8).

    The cost per token is compared between two service tiers. The plain tier serves the maximum
    number of users at `PLAIN_SPEED_TOKENS_PER_S` per user. The fast tier serves the maximum number
    of users at `FAST_TIMES` this speed.
    """
    numbers, lines, cost_ratios, are_possible = {}, {}, [], []
    fast_speed = FAST_TIMES * PLAIN_SPEED_TOKENS_PER_S
    for model, gpu in ((DENSE, "h200"), (DENSE, "b200"), (MIXTURE, "h200"), (MIXTURE, "b200")):
        subject = f"{with_type(model, DTYPE)} on {GPUS} {gpu}"
        deployment = gpu_deployment(model, gpu)
        plain_users, fast_users = (
            users_at_speed(partial(operating_point, deployment), saturating_users(deployment), speed)
            for speed in (PLAIN_SPEED_TOKENS_PER_S, fast_speed)
        )
        name = f"{model.replace('-', '_').replace('.', '_')}_{gpu}"
        numbers[f"plain_{name}"] = figure(
            plain_users, "users", f"of {subject} at {PLAIN_SPEED_TOKENS_PER_S:g} tokens/s each"
        )
        numbers[f"batch_{name}"] = figure(fast_users, "users", f"of {subject} at {fast_speed:g} tokens/s each")
        speeds = serving_of(deployment, 1).rate_of_user / lab.gpu_times(deployment.server)
        are_possible.append(speeds >= fast_speed)
        if not plain_users:
            continue
        plain = serving_of(deployment, plain_users)
        runs = [serving_of(deployment, users) for users in BATCHES if users <= plain_users]
        lines[subject] = tuple((run.rate_of_user, run.cost_ratio(plain)) for run in runs)
        if fast_users:
            cost_ratios.append(serving_of(deployment, fast_users).cost_ratio(plain))
            meaning = "cost per token in the fast tier, relative to the plain tier"
            numbers[f"cost_{name}"] = figure(cost_ratios[-1], "", meaning)
    low, high = min(cost_ratios, default=0.0), max(cost_ratios, default=0.0)
    return Finding(
        verdicts=by_rule(holds=np.all(are_possible, axis=0), never=~np.any(are_possible, axis=0)),
        answer=f"A fast tier of {fast_speed:g} tokens/s per user is possible in {len(cost_ratios)} of "
        f"{len(are_possible)} cases. Its tokens cost {low:.1f} to {high:.1f} times as much as in a tier "
        f"of {PLAIN_SPEED_TOKENS_PER_S:g} tokens/s. Fast modes are sold at {PRICE:g} times the price.",
        numbers=numbers,
        reason="a roofline fitted to measurements of the same machines and models",
        curves=Curves(x="tokens/s per user", y="cost per token, relative to the plain tier", lines=lines, log_y=True),
    )


def drafts_or_hardware(lab: Laboratory) -> Finding:
    """Decide whether drafts or newer GPUs could explain a fast mode's speed (claim 9).

    The speed-ups from drafts (speculative decoding) and from a newer GPU generation are computed
    for a small and a large batch. In each random sample, the number of tokens per verification pass
    is within the range of the measured models, and the timing model has independent errors on the
    two GPU generations.
    """
    numbers, gains = {}, {}
    for batch in (SMALL, LARGE):
        drafts = lab.drafts(MIXTURE, "b200", batch, FAMILY)
        tokens = lab.sampled("tokens per verification pass", _tokens_per_pass(drafts.draft_tokens))
        gains[batch] = drafts.speed_up * tokens / tokens[0]
        meaning = f"speedup from {drafts.draft_tokens} draft tokens, {batch} users of {with_type(MIXTURE, DTYPE)}"
        numbers[f"drafts_{batch}"] = figure(gains[batch], "", meaning)
    hardware = {}
    for batch in (SMALL, LARGE):
        old, new = (
            lab.gpu(DENSE, gpu, batch).rate_of_user / lab.gpu_times(gpu_server(DENSE, gpu), gpu)
            for gpu in ("h200", "b200")
        )
        hardware[batch] = new / old
        numbers[f"hardware_{batch}"] = figure(
            hardware[batch], "", f"speedup of B200 over H200, {batch} users of {with_type(DENSE, DTYPE)}"
        )
    products = {batch: gains[batch] * hardware[batch] for batch in (SMALL, LARGE)}
    for batch, product in products.items():
        numbers[f"together_{batch}"] = figure(product, "", f"product of both speedups, {batch} users")
    max_single_gains = np.max([*gains.values(), *hardware.values()], axis=0)
    max_products = np.max([*products.values()], axis=0)
    return Finding(
        verdicts=by_rule(holds=max_single_gains >= FAST_TIMES, never=max_products < FAST_TIMES),
        answer=f"With {SMALL} users, the speedup is {gains[SMALL][0]:.2f} from speculative decoding and "
        f"{hardware[SMALL][0]:.2f} from a newer GPU generation, together {products[SMALL][0]:.2f}. With {LARGE} users, "
        f"the speedups are {gains[LARGE][0]:.2f} and {hardware[LARGE][0]:.2f}, together {products[LARGE][0]:.2f}. The "
        f"largest single speedup is {max_single_gains[0]:.2f}; that of a fast mode is {FAST_TIMES:g}.",
        numbers=numbers,
        reason="measured acceptance; a roofline fitted to measurements without speculative decoding, whose errors on "
        "the two GPUs are assumed to be independent",
    )


def _tokens_per_pass(draft_tokens: int) -> SourcedNumber:
    """Return how many tokens a verification pass yields, with the range over the measured models.

    Args:
        draft_tokens: Number of draft tokens that the pass verifies.
    """
    all_tokens = {
        curve.model.casefold(): curve.at(draft_tokens) for curve in measured_curves() if curve.kind == HEAD_KIND
    }
    return SourcedNumber(
        value=all_tokens[FAMILY],
        unit="token",
        grade="M",
        source="wse/data/acceptance.toml",
        range=(min(all_tokens.values()), max(all_tokens.values())),
    )


def experts_need_users(lab: Laboratory) -> Finding:
    """Decide whether large mixtures of experts need large batches (claim 11).

    The cost per token in a small batch is divided by the cost in a large batch, for a
    mixture-of-experts model and for a dense model. In the samples, the timing model has independent
    errors for the two batches.
    """
    numbers, lines, ratios = {}, {}, {}
    for model in (MIXTURE, DENSE):
        runs = [lab.gpu(model, "b200", batch) for batch in BATCHES]
        server = gpu_server(model, "b200")
        small_times, large_times = (lab.gpu_times(server, f"{users} users") for users in (SMALL, LARGE))
        ratios[model] = runs[BATCHES.index(SMALL)].cost_ratio(runs[-1]) * small_times / large_times
        costs = [run.cost_ratio(runs[-1]) for run in runs]
        lines[with_type(model, DTYPE)] = tuple(zip(map(float, BATCHES), costs, strict=True))
        key = model.replace("-", "_").replace(".", "_")
        numbers[f"cost_ratio_{key}"] = figure(
            ratios[model],
            "",
            f"cost per token of {with_type(model, DTYPE)} with {SMALL} users, relative to {LARGE} users",
        )
    experts = gpu_server(MIXTURE, "b200").spec.experts
    assert experts is not None
    for batch in (SMALL, 64, LARGE):
        used_experts = expected_experts(experts.count, experts.active, batch)
        numbers[f"experts_{batch}"] = figure(
            used_experts, "experts", f"out of {experts.count} in a layer, used by {batch} users"
        )
    return Finding(
        verdicts=by_rule(holds=ratios[MIXTURE] >= FAST_TIMES, never=ratios[MIXTURE] < FAST_TIMES),
        answer=f"A token of {with_type(MIXTURE, DTYPE)} costs {ratios[MIXTURE][0]:.1f} times as much with {SMALL} "
        f"users as with {LARGE}; a token of a dense 70B model {ratios[DENSE][0]:.1f} times. Weights are "
        f"read once for all users of a batch. {SMALL} users use {numbers[f'experts_{SMALL}'].value:.0f} experts per "
        f"layer, {LARGE} users {numbers[f'experts_{LARGE}'].value:.0f}.",
        numbers=numbers,
        reason="a roofline fitted to measurements of such machines, whose errors for the two batches are assumed to "
        "be independent; every expert is assumed to be equally likely",
        curves=Curves(x="users", y=f"cost per token, relative to {LARGE} users", lines=lines, log_x=True, log_y=True),
    )


def _cost_ratios(wafers: Serving, gpus: Serving) -> tuple[float, float, float]:
    """Return the ratio of cost per token on wafers to cost on GPUs, for three pairs of prices.

    Returns:
        The ratio at the central prices, at the lowest wafer price with the highest GPU price, and
        at the highest wafer price with the lowest GPU price.
    """
    (wafers_low, wafers_high), (gpus_low, gpus_high) = (run.usd_per_million_tokens_ends for run in (wafers, gpus))
    central = wafers.usd_per_million_tokens / gpus.usd_per_million_tokens
    return central, wafers_low / gpus_high, wafers_high / gpus_low


def aggregate(lab: Laboratory) -> Finding:
    """Decide whether the total throughput of wafers over all users is low (claim 13).

    1. For a short and a long context, determine how many users saturate the wafers and the GPUs.
    2. Record the throughput and the cost per token at these numbers of users. The cost is recorded
       at the central price of the machine and at both ends of its price range.
    3. Compare the costs on wafers and GPUs, at central prices and at the extremes.
    """
    numbers, lines = {}, {}
    saturated: dict[str, Serving] = {}
    for context in (2_048, 8_192):
        # 1. Saturated machines.
        new = 1_024
        wafers = lab.wafers_for_all(DENSE, context, new)
        gpu = lab.gpus_for_all(DENSE, "h200", context - new, new)
        gpus = [lab.gpu(DENSE, "h200", batch, context - new, new) for batch in BATCHES]
        saturated |= {f"wafers_{context}": wafers, f"gpus_{context}": gpu}
        # 2. Throughput and cost.
        for name, run in (("wafers", wafers), ("gpus", gpu)):
            machines = f"{run.machines} {'wafers' if name == 'wafers' else 'H200'}"
            subject = with_type(DENSE, None if name == "wafers" else DTYPE)
            meaning = f"for {run.users} users of {subject} with {context_text(context, new)} on {machines}"
            cost = run.usd_per_million_tokens
            numbers[f"tokens_per_s_{name}_{context}"] = figure(run.tokens_per_s, "tokens/s", meaning)
            numbers[f"usd_per_million_{name}_{context}"] = figure(cost, "USD/million tokens", meaning)
            for end, cost in zip(("low", "high"), run.usd_per_million_tokens_ends, strict=True):
                meaning = f"the same at the {end} end of the machine's price range"
                numbers[f"usd_per_million_{name}_{context}_{end}"] = figure(cost, "USD/million tokens", meaning)
        lines[f"{GPUS} H200 with {DTYPE}, {context:,} tokens"] = tuple(
            (run.rate_of_user, run.usd_per_million_tokens) for run in (*gpus, gpu)
        )
        lines[f"wafers with {with_type(DENSE).rpartition(' ')[2]}, {context:,} tokens"] = (
            (wafers.rate_of_user, wafers.usd_per_million_tokens),
        )
    # 3. Ratios of costs.
    central_ratios, min_ratios, max_ratios = zip(
        *(_cost_ratios(saturated[f"wafers_{context}"], saturated[f"gpus_{context}"]) for context in (2_048, 8_192)),
        strict=True,
    )
    cost_ratios = np.array(
        [saturated[f"wafers_{c}"].usd_cases / saturated[f"gpus_{c}"].usd_cases for c in (2_048, 8_192)]
    )
    rate_ratios = [saturated[f"wafers_{c}"].tokens_per_s / saturated[f"gpus_{c}"].tokens_per_s for c in (2_048, 8_192)]
    for suffix, prices, ratios in (
        ("", "at central prices", central_ratios),
        ("_low", "at the low end of the wafer price and the high end of the GPU price", min_ratios),
        ("_high", "at the high end of the wafer price and the low end of the GPU price", max_ratios),
    ):
        for context, value in zip((2_048, 8_192), ratios, strict=True):
            meaning = f"cost per token on wafers, relative to GPUs, {prices}: {context:,} tokens of context"
            numbers[f"dearer_{context}{suffix}"] = figure(value, "", meaning)
    is_dear = min(rate_ratios) > 1 < min(min_ratios)
    return Finding(
        verdicts=by_rule(holds=(cost_ratios > FEW).all(axis=0), never=(cost_ratios <= 1).all(axis=0)),
        answer="Each machine serves the number of users with which its throughput is highest, whatever the speed per "
        "user. The throughput counts output tokens, but not the prompt tokens that are processed in the same time. "
        f"With {with_type(DENSE)}, {saturated['wafers_2048'].machines} wafers generate "
        f"{saturated['wafers_2048'].tokens_per_s:,.0f} tokens/s at 2,048 tokens of context, and "
        f"{saturated['wafers_8192'].machines} wafers {saturated['wafers_8192'].tokens_per_s:,.0f} at 8,192. {GPUS} "
        f"H200s with {DTYPE} generate {saturated['gpus_2048'].tokens_per_s:,.0f} and "
        f"{saturated['gpus_8192'].tokens_per_s:,.0f}. A token costs {central_ratios[0]:.1f} and "
        f"{central_ratios[1]:.1f} times as much on wafers at central prices. This ratio is {min_ratios[0]:.1f} and "
        f"{min_ratios[1]:.1f} with cheap wafers and expensive GPUs, and {max_ratios[0]:.1f} and {max_ratios[1]:.1f} "
        f"in the opposite case. A user of the wafers gets {saturated['wafers_2048'].rate_of_user:,.0f} and "
        f"{saturated['wafers_8192'].rate_of_user:,.0f} tokens/s, a user of the GPUs "
        f"{saturated['gpus_2048'].rate_of_user:,.1f} and {saturated['gpus_8192'].rate_of_user:,.1f}. "
        f"{'The wafers generate more tokens/s in total, but few for their price. ' if is_dear else ''}"
        "Which machine is cheaper at a required speed per user is another question (wse compare --tpot).",
        numbers=numbers,
        reason="a wafer's price is a cost of ownership and a GPU's a rental price, and no vendor has published the "
        "throughput of a wafer",
        curves=Curves(x="tokens/s per user", y="USD per million tokens", lines=lines, log_x=True, log_y=True),
    )
