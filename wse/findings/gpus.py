"""Claims that GPUs decide: small batches, drafts and newer hardware, and mixtures that want many users."""

from __future__ import annotations

from typing import Final

from wse.findings.claim import Curves, Finding, by_rule, figure
from wse.findings.laboratory import Laboratory
from wse.findings.serving import Serving
from wse.serving.speculation import acceptance_of, best_draft
from wse.serving.weight_streaming import distinct_experts

DENSE, MIXTURE = "llama-3.1-70b", "deepseek-v3"
STACK: Final = "trtllm"
GPUS: Final = 8
BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128)
LARGE, SMALL = 128, 4
FAST: Final = 2.5
"""The speed of a fast mode over that of the plain one, as it is sold."""
FEW: Final = 3.0
"""How many times as dear a token is on a machine of which it is said that all users together get few."""
PRICE: Final = 6.0
"""Its price over that of the plain one."""
CONTEXT: Final = 1_536
HEAD_COST: Final = 0.08
"""Share of a pass that a further drafted token takes with a head of the model's own: 7 to 9 % of a step, measured on
eight B200 with DeepSeek-R1 (InferenceX, 2026)."""
FAMILY: Final = "deepseek-r1"
"""The acceptance of drafts that are taken: measured with heads of its own, by length."""


def small_batches(lab: Laboratory) -> Finding:
    """Claim 8: the batch at which a user is 2.5 times as fast, and what a token then costs."""
    numbers, lines, found = {}, {}, []
    for model, gpu in ((DENSE, "h200"), (DENSE, "b200"), (MIXTURE, "h200"), (MIXTURE, "b200")):
        served = [(batch, lab.gpu(model, gpu, GPUS, STACK, "fp8", batch)) for batch in BATCHES]
        plain = served[-1][1]
        lines[f"{model} on {GPUS} {gpu}"] = tuple((run.rate_of_user, run.cost_ratio(plain)) for _, run in served)
        fast = [(batch, run) for batch, run in served if run.rate_of_user >= FAST * plain.rate_of_user]
        name = f"{model.replace('-', '_').replace('.', '_')}_{gpu}"
        most = served[0][1].rate_of_user / plain.rate_of_user
        numbers[f"most_{name}"] = figure(most, "", f"speed alone over that of {LARGE} users, {model} on {GPUS} {gpu}")
        if fast:
            batch, run = fast[-1]
            found.append(run.cost_ratio(plain))
            numbers[f"batch_{name}"] = figure(batch, "users", f"with which {model} on {gpu} is {FAST} times as fast")
            numbers[f"cost_{name}"] = figure(found[-1], "", f"cost of its token over that with {LARGE} users")
    low, high = min(found, default=0.0), max(found, default=0.0)
    machines = len(lines)
    return Finding(
        verdict=by_rule(holds=len(found) == machines, never=not found),
        answer=f"A user is {FAST} times as fast as among {LARGE} in {len(found)} of {machines} cases, for {low:.1f} to "
        f"{high:.1f} times the cost of a token; fast modes are sold at {PRICE:g} times the price.",
        numbers=numbers,
        confidence="medium",
        reason="a roofline fitted on measurements of the same machines and models",
        curves=Curves(
            x="tokens/s of a user", y=f"cost of a token over that with {LARGE} users", lines=lines, log_y=True
        ),
    )


def drafts_or_hardware(lab: Laboratory) -> Finding:
    """Claim 9: what drafts gain in a small and in a large batch, and what newer hardware does."""
    numbers, gains = {}, {}
    acceptance = acceptance_of(FAMILY)
    for batch in (SMALL, LARGE):
        server = lab.server(MIXTURE, "b200", GPUS, STACK, "fp8")
        plain_s = server.decode_s(batch, CONTEXT)
        drafted, gains[batch] = best_draft(
            acceptance,
            HEAD_COST,
            lambda n, server=server, plain_s=plain_s, batch=batch: (  # type: ignore[misc]
                server.verify_s(batch, n, CONTEXT) / plain_s
            ),
        )
        meaning = f"of {drafted} drafted tokens with {batch} users of {MIXTURE}, the pass that checks them as modelled"
        numbers[f"drafts_{batch}"] = figure(gains[batch], "", meaning)
    hardware = {}
    for batch in (SMALL, LARGE):
        old, new = (lab.gpu(DENSE, gpu, GPUS, STACK, "fp8", batch) for gpu in ("h200", "b200"))
        hardware[batch] = new.rate_of_user / old.rate_of_user
        numbers[f"hardware_{batch}"] = figure(hardware[batch], "", f"of B200 over H200 with {batch} users of {DENSE}")
    products = {batch: gains[batch] * hardware[batch] for batch in (SMALL, LARGE)}
    for batch, product in products.items():
        numbers[f"together_{batch}"] = figure(product, "", f"the two with {batch} users")
    alone = max(*gains.values(), *hardware.values())
    return Finding(
        verdict=by_rule(holds=alone >= FAST, never=max(products.values()) < FAST),
        answer=f"With {SMALL} users drafts gain {gains[SMALL]:.2f} times and a newer generation {hardware[SMALL]:.2f}, "
        f"together {products[SMALL]:.2f}; with {LARGE} users {gains[LARGE]:.2f} and {hardware[LARGE]:.2f}, together "
        f"{products[LARGE]:.2f}. Neither alone is a factor of {FAST}.",
        numbers=numbers,
        confidence="medium",
        reason="measured acceptance; a roofline fitted on measurements without drafts",
    )


def mixtures_want_users(lab: Laboratory) -> Finding:
    """Claim 11: the cost of a token of a mixture against its batch, beside a dense model's."""
    numbers, lines, ratios = {}, {}, {}
    for model in (MIXTURE, DENSE):
        served = [lab.gpu(model, "b200", GPUS, STACK, "fp8", batch) for batch in BATCHES]
        ratios[model] = served[BATCHES.index(SMALL)].cost_ratio(served[-1])
        costs = [run.cost_ratio(served[-1]) for run in served]
        lines[model] = tuple(zip(map(float, BATCHES), costs, strict=True))
        key = model.replace("-", "_").replace(".", "_")
        numbers[f"cost_ratio_{key}"] = figure(ratios[model], "", f"of a token with {SMALL} users over one with {LARGE}")
    experts = lab.server(MIXTURE, "b200", GPUS, STACK, "fp8").spec.experts
    assert experts is not None
    for batch in (SMALL, 64, LARGE):
        touched = distinct_experts(experts.count, experts.active, batch)
        numbers[f"experts_{batch}"] = figure(
            touched, "experts", f"of a layer's {experts.count} that {batch} users touch"
        )
    return Finding(
        verdict="true" if ratios[MIXTURE] >= FAST else "false",
        answer=f"A token of {MIXTURE} with {SMALL} users costs {ratios[MIXTURE]:.1f} times one with {LARGE}, of a "
        f"dense 70B {ratios[DENSE]:.1f} times: weights are read for whoever is there, and {SMALL} users touch "
        f"{numbers[f'experts_{SMALL}'].value:.0f} experts of a layer, {LARGE} {numbers[f'experts_{LARGE}'].value:.0f}.",
        numbers=numbers,
        confidence="medium",
        reason="a roofline fitted on measurements of such machines; experts chosen evenly",
        curves=Curves(
            x="users", y=f"cost of a token over that with {LARGE} users", lines=lines, log_x=True, log_y=True
        ),
    )


def aggregate(lab: Laboratory) -> Finding:
    """Claim 13: tokens of all users, and for a dollar, of wafers with all caches that fit against GPUs."""
    numbers, lines = {}, {}
    best: dict[str, Serving] = {}
    for context in (2_048, 8_192):
        new = 1_024
        wafers = lab.wafers_for_all(DENSE, context, new)
        gpus = [lab.gpu(DENSE, "h200", GPUS, STACK, "fp8", batch, context - new, new) for batch in BATCHES]
        gpu = max(gpus, key=lambda run: run.tokens_per_s)
        best |= {f"wafers_{context}": wafers, f"gpus_{context}": gpu}
        for name, run in (("wafers", wafers), ("gpus", gpu)):
            machines = f"{run.machines} {'wafers' if name == 'wafers' else 'H200'}"
            of = f"of {run.users} users of {DENSE} with {context:,} tokens on {machines}"
            numbers[f"tokens_per_s_{name}_{context}"] = figure(run.tokens_per_s, "tokens/s", of)
            numbers[f"usd_per_million_{name}_{context}"] = figure(run.usd_per_million_tokens, "USD/million tokens", of)
        lines[f"{GPUS} H200, {context:,} tokens"] = tuple(
            (run.rate_of_user, run.usd_per_million_tokens) for run in gpus
        )
        lines[f"wafers, {context:,} tokens"] = ((wafers.rate_of_user, wafers.usd_per_million_tokens),)
    dearer = [
        best[f"wafers_{c}"].usd_per_million_tokens / best[f"gpus_{c}"].usd_per_million_tokens for c in (2_048, 8_192)
    ]
    more = [best[f"wafers_{c}"].tokens_per_s / best[f"gpus_{c}"].tokens_per_s for c in (2_048, 8_192)]
    numbers["dearer_2048"] = figure(dearer[0], "", "cost of a token on wafers over that on GPUs, 2,048 tokens")
    numbers["dearer_8192"] = figure(dearer[1], "", "the same with 8,192 tokens")
    return Finding(
        verdict=by_rule(holds=min(dearer) > FEW, never=max(dearer) <= 1),
        answer=f"With all caches that fit, {best['wafers_2048'].machines} wafers make "
        f"{best['wafers_2048'].tokens_per_s:,.0f} tokens/s of {DENSE} at 2,048 tokens of context and "
        f"{best['wafers_8192'].machines} make {best['wafers_8192'].tokens_per_s:,.0f} at 8,192; {GPUS} H200 "
        f"{best['gpus_2048'].tokens_per_s:,.0f} and {best['gpus_8192'].tokens_per_s:,.0f}. A token costs "
        f"{dearer[0]:.1f} and {dearer[1]:.1f} times as much on wafers, where a user gets "
        f"{best['wafers_2048'].rate_of_user:,.0f} and {best['wafers_8192'].rate_of_user:,.0f} tokens/s"
        f"{': few for their price, not few in all' if min(more) > 1 < min(dearer) else ''}.",
        numbers=numbers,
        confidence="low",
        reason="prices of wafers are an analyst's, and no vendor has published a wafer's throughput",
        curves=Curves(x="tokens/s of a user", y="USD a million tokens", lines=lines, log_x=True, log_y=True),
    )
