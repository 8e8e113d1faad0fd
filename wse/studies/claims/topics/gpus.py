"""Claims about GPUs: small batches, drafts, newer hardware, mixtures of experts, and total cost."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from wse.hardware.number import SourcedNumber
from wse.program.routing import expected_experts
from wse.serving.drafts.speculation import HEAD_KIND, measured_curves
from wse.serving.goal import FAST_TIMES, PLAIN_SPEED_REASON, PLAIN_SPEED_TOKENS_PER_S
from wse.serving.operating_point import operating_point
from wse.serving.plan import saturating_users, users_at_speed
from wse.serving.prices import prices_text, prices_under
from wse.studies.claims.certainty import by_rule
from wse.studies.claims.result import Finding, FindingBuilder
from wse.studies.claims.serving import DTYPE, GPUS, Serving, gpu_deployment, gpu_server, serving_of
from wse.studies.claims.shared_computations import WAFER_NAMES, SharedComputations, context_text, with_type

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


def small_batches(shared_computations: SharedComputations) -> Finding:
    """Decide whether a fast mode on GPUs is just a smaller batch at a higher token cost (claim 8).

    The cost per token is compared between two service tiers. The plain tier serves the maximum
    number of users at `PLAIN_SPEED_TOKENS_PER_S` per user. The fast tier serves the maximum number
    of users at `FAST_TIMES` this speed.
    """
    lines, cost_ratios, are_possible = {}, [], []
    fast_speed = FAST_TIMES * PLAIN_SPEED_TOKENS_PER_S
    builder = FindingBuilder(
        "small_batches",
        plain_speed=PLAIN_SPEED_TOKENS_PER_S,
        plain_reason=PLAIN_SPEED_REASON,
        fast_speed=fast_speed,
    )
    for model, gpu in ((DENSE, "h200"), (DENSE, "b200"), (MIXTURE, "h200"), (MIXTURE, "b200")):
        subject = f"{with_type(model, DTYPE)} on {GPUS} {gpu}"
        deployment = gpu_deployment(model, gpu)
        plain_users, fast_users = (
            users_at_speed(partial(operating_point, deployment), saturating_users(deployment), speed)
            for speed in (PLAIN_SPEED_TOKENS_PER_S, fast_speed)
        )
        names = {"case": f"{_identifier(model)}_{gpu}", "subject": subject}
        builder.add("plain_{case}", plain_users, **names)
        builder.add("batch_{case}", fast_users, **names)
        speeds = serving_of(deployment, 1).rate_of_user / shared_computations.gpu_times(deployment.server)
        are_possible.append(speeds >= fast_speed)
        if not plain_users:
            continue
        plain = serving_of(deployment, plain_users)
        runs = [serving_of(deployment, users) for users in BATCHES if users <= plain_users]
        lines[subject] = tuple((run.rate_of_user, run.cost_ratio(plain)) for run in runs)
        if fast_users:
            cost_ratios.append(serving_of(deployment, fast_users).cost_ratio(plain))
            builder.add("cost_{case}", cost_ratios[-1], **names)
    return builder.finding(
        by_rule(holds=np.all(are_possible, axis=0), never=~np.any(are_possible, axis=0)),
        lines,
        possible_cases=len(cost_ratios),
        cases=len(are_possible),
        min_ratio=min(cost_ratios, default=0.0),
        max_ratio=max(cost_ratios, default=0.0),
        price_ratio=PRICE,
    )


def _identifier(model: str) -> str:
    """Return the name of a model as it occurs in names of numbers."""
    return model.replace("-", "_").replace(".", "_")


def drafts_or_hardware(shared_computations: SharedComputations) -> Finding:
    """Decide whether drafts or newer GPUs could explain a fast mode's speed (claim 9).

    The speed-ups from drafts (speculative decoding) and from a newer GPU generation are computed
    for a small and a large batch. In each random sample, the number of tokens per verification pass
    is within the range of the measured models, and the timing model has independent errors on the
    two GPU generations.
    """
    builder = FindingBuilder("drafts_or_hardware", mixture=with_type(MIXTURE, DTYPE), dense=with_type(DENSE, DTYPE))
    gains, hardware, products = {}, {}, {}
    for batch in (SMALL, LARGE):
        drafts = shared_computations.drafts(MIXTURE, "b200", batch, FAMILY)
        tokens = shared_computations.sampled("tokens per verification pass", _tokens_per_pass(drafts.draft_tokens))
        gains[batch] = drafts.speed_up * tokens / tokens[0]
        builder.add("drafts_{batch}", gains[batch], batch=batch, draft_tokens=drafts.draft_tokens)
    for batch in (SMALL, LARGE):
        old, new = (
            shared_computations.gpu(DENSE, gpu, batch).rate_of_user
            / shared_computations.gpu_times(gpu_server(DENSE, gpu), gpu)
            for gpu in ("h200", "b200")
        )
        hardware[batch] = new / old
        builder.add("hardware_{batch}", hardware[batch], batch=batch)
    for batch in (SMALL, LARGE):
        products[batch] = gains[batch] * hardware[batch]
        builder.add("together_{batch}", products[batch], batch=batch)
    max_single_gains = np.max([*gains.values(), *hardware.values()], axis=0)
    max_products = np.max([*products.values()], axis=0)
    return builder.finding(
        by_rule(holds=max_single_gains >= FAST_TIMES, never=max_products < FAST_TIMES),
        small=SMALL,
        large=LARGE,
        max_gain=max_single_gains[0],
        fast_times=FAST_TIMES,
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


def experts_need_users(shared_computations: SharedComputations) -> Finding:
    """Decide whether large mixtures of experts need large batches (claim 11).

    The cost per token in a small batch is divided by the cost in a large batch, for a
    mixture-of-experts model and for a dense model. In the samples, the timing model has independent
    errors for the two batches.
    """
    builder = FindingBuilder("experts_need_users", mixture=with_type(MIXTURE, DTYPE), small=SMALL, large=LARGE)
    lines, ratios = {}, {}
    for model in (MIXTURE, DENSE):
        runs = [shared_computations.gpu(model, "b200", batch) for batch in BATCHES]
        server = gpu_server(model, "b200")
        small_times, large_times = (shared_computations.gpu_times(server, f"{users} users") for users in (SMALL, LARGE))
        ratios[model] = runs[BATCHES.index(SMALL)].cost_ratio(runs[-1]) * small_times / large_times
        costs = [run.cost_ratio(runs[-1]) for run in runs]
        lines[with_type(model, DTYPE)] = tuple(zip(map(float, BATCHES), costs, strict=True))
        builder.add("cost_ratio_{name}", ratios[model], name=_identifier(model), model=with_type(model, DTYPE))
    experts = gpu_server(MIXTURE, "b200").spec.experts
    assert experts is not None
    for batch in (SMALL, 64, LARGE):
        used_experts = expected_experts(experts.count, experts.active, batch)
        builder.add("experts_{batch}", used_experts, expert_count=experts.count, batch=batch)
    return builder.finding(
        by_rule(holds=ratios[MIXTURE] >= FAST_TIMES, never=ratios[MIXTURE] < FAST_TIMES),
        lines,
        mixture_ratio=ratios[MIXTURE][0],
        dense_ratio=ratios[DENSE][0],
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


def _price_texts(wafer_price: str | None, gpu_price: str | None) -> dict[str, str]:
    """Return the phrases about prices in the answer to claim 13 and in its numbers.

    A given price has no range, so the phrases mention the ends only of prices that are not given.

    Args:
        wafer_price, gpu_price: Given prices of a wafer and of a GPU, in the format of ``--price``;
            None for the bundled price.

    Returns:
        The basis of the prices, and phrases for the central price or given price (``central``), for
        the ends with the lowest and highest ratio of costs (``low`` and ``high``), and for the
        machines that are cheap or expensive with the lowest ratio (``low_case``). The phrase
        ``low_case`` is empty if both prices are given.
    """
    wafer_basis = f"that of --price {wafer_price}" if wafer_price else "a cost of ownership"
    gpu_basis = f"that of --price {gpu_price}" if gpu_price else "a rental price"
    wafer, gpu = ("given" if price else "central" for price in (wafer_price, gpu_price))
    phrases = {
        "basis": f"a wafer's price is {wafer_basis} and a GPU's {gpu_basis}",
        "central": f"at the {wafer} wafer price and the {gpu} GPU price",
        "low_case": " and ".join(
            case for case, price in (("cheap wafers", wafer_price), ("expensive GPUs", gpu_price)) if not price
        ),
    }
    if wafer == gpu:
        phrases["central"] = "at central prices" if wafer == "central" else "at the given prices"
    for name, wafer_end, gpu_end in (("low", "low", "high"), ("high", "high", "low")):
        wafer_text = "given wafer price" if wafer_price else f"{wafer_end} end of the wafer price"
        gpu_text = "given GPU price" if gpu_price else f"{gpu_end} end of the GPU price"
        phrases[name] = f"at the {wafer_text} and the {gpu_text}"
    return phrases


def aggregate(shared_computations: SharedComputations) -> Finding:
    """Decide whether the total throughput of wafers over all users is low (claim 13).

    1. For a short and a long context, determine how many users saturate the wafers and the GPUs.
    2. Record the throughput and the cost per token at these numbers of users. The cost is recorded
       at the central price of the machine and at both ends of its price range. A price that is
       given with ``--price`` has no range.
    3. Compare the costs on wafers and GPUs, at central prices and at the extremes.
    """
    wafer_price, gpu_price = (
        prices_text(prices_under(shared_computations.price, names)) for names in (WAFER_NAMES, ("h200",))
    )
    prices = _price_texts(wafer_price, gpu_price)
    builder, lines = FindingBuilder("aggregate", model=with_type(DENSE), gpu_count=GPUS, dtype=DTYPE), {}
    contexts, new = (2_048, 8_192), 1_024
    saturated: dict[str, Serving] = {}
    for context in contexts:
        # 1. Saturated machines.
        wafers = shared_computations.wafers_at_saturation(DENSE, context, new)
        gpu = shared_computations.gpus_at_saturation(DENSE, "h200", context - new, new)
        gpus = [shared_computations.gpu(DENSE, "h200", batch, context - new, new) for batch in BATCHES]
        saturated |= {f"wafers_{context}": wafers, f"gpus_{context}": gpu}
        # 2. Throughput and cost.
        for machine, run, subject, price in (
            ("wafers", wafers, with_type(DENSE), wafer_price),
            ("gpus", gpu, with_type(DENSE, DTYPE), gpu_price),
        ):
            run_names = {
                "machine": machine,
                "context": context,
                "machines": f"{run.machines} {'wafers' if machine == 'wafers' else 'H200'}",
                "users": run.users,
                "subject": subject,
                "lengths": context_text(context, new),
            }
            builder.add("tokens_per_s_{machine}_{context}", run.tokens_per_s, **run_names)
            builder.add("usd_per_million_{machine}_{context}", run.usd_per_million_tokens, **run_names)
            ends = () if price else zip(("low", "high"), run.usd_per_million_tokens_ends, strict=True)
            for end, cost in ends:
                builder.add("usd_per_million_{machine}_{context}_{end}", cost, end=end, **run_names)
        lines[f"{GPUS} H200 with {DTYPE}, {context:,} tokens"] = tuple(
            (run.rate_of_user, run.usd_per_million_tokens) for run in (*gpus, gpu)
        )
        lines[f"wafers with {with_type(DENSE).rpartition(' ')[2]}, {context:,} tokens"] = (
            (wafers.rate_of_user, wafers.usd_per_million_tokens),
        )
    # 3. Ratios of costs.
    pairs = [(saturated[f"wafers_{context}"], saturated[f"gpus_{context}"]) for context in contexts]
    central_ratios, min_ratios, max_ratios = zip(*(_cost_ratios(*pair) for pair in pairs), strict=True)
    cost_ratios = np.array([wafers.usd_cases / gpus.usd_cases for wafers, gpus in pairs])
    ratios_at_ends = {"low": min_ratios, "high": max_ratios} if prices["low_case"] else {}
    for end, ratios in {"central": central_ratios, **ratios_at_ends}.items():
        suffix = "" if end == "central" else f"_{end}"
        for context, value in zip(contexts, ratios, strict=True):
            builder.add("dearer_{context}{suffix}", value, context=context, suffix=suffix, prices=prices[end])
    low, high = (" and ".join(f"{ratio:.1f}" for ratio in ratios) for ratios in (min_ratios, max_ratios))
    ends_text = f"This ratio is {low} with {prices['low_case']}, and {high} in the opposite case. "
    has_more_tokens = min(wafers.tokens_per_s / gpus.tokens_per_s for wafers, gpus in pairs) > 1
    more_tokens = "The wafers generate more tokens/s in total, but few for their price. "
    names: dict[str, Any] = {
        **saturated,
        "basis": prices["basis"],
        "at_prices": prices["central"],
        "ends": ends_text if prices["low_case"] else "",
        "more_tokens": more_tokens if has_more_tokens and min(min_ratios) > 1 else "",
    }
    verdicts = by_rule(holds=(cost_ratios > FEW).all(axis=0), never=(cost_ratios <= 1).all(axis=0))
    return builder.finding(verdicts, lines, **names)
