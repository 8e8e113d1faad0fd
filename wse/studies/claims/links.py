"""Claims about links between wafers: layer splits and tensor splits, what crosses, and how slow a link may be."""

from __future__ import annotations

from typing import Final

from wse.studies.claims.claim import Curves, Finding, by_rule, figure
from wse.studies.claims.laboratory import Laboratory, own_link, wafer_link, with_type

MODEL: Final = "llama-3-8b"
SERVED: Final = "llama-3.1-70b"
MIXTURE: Final = "deepseek-v3"
WAFERS: Final = 4
GIGA, MICRO = 1e9, 1e-6
RATES: Final = (8 * GIGA, 32 * GIGA, 150 * GIGA)
"""Bytes a second of links: four lanes of PCIe 4.0, sixteen, and a wafer's twelve 100-gigabit ports."""
HOPS_US: Final = (0.5, 5.0, 20.0)
LITTLE: Final = 0.05
"""Share of a token's time up to which a link is no limit."""
BATCHES: Final = (1, 8, 64, 512)
VALUE_BYTES: Final = 2


def sharding(lab: Laboratory) -> Finding:
    """Claim 4: the speed of a user with layers on consecutive wafers, and with every op split over all."""
    one = lab.estimate(MODEL, wafers=1).decode
    layers, tensors = lab.estimate(MODEL, wafers=WAFERS), lab.estimate(MODEL, wafers=WAFERS, mapping="tensor")
    assert one is not None
    assert layers.decode is not None
    assert tensors.decode is not None
    kept = {
        "layer_split": layers.decode.tokens_per_s_per_user / one.tokens_per_s_per_user,
        "tensor_split": tensors.decode.tokens_per_s_per_user / one.tokens_per_s_per_user,
    }
    assert tensors.crossing is not None
    crossing = tensors.crossing
    fast = wafer_link(own_link().bytes_per_s * 1_000, own_link().latency_s)
    near = wafer_link(own_link().bytes_per_s, own_link().latency_s / 1_000)
    wider, nearer = (lab.estimate(MODEL, link, wafers=WAFERS, mapping="tensor").decode for link in (fast, near))
    assert wider is not None
    assert nearer is not None
    by_bytes = wider.tokens_per_s_per_user / tensors.decode.tokens_per_s_per_user
    by_latency = nearer.tokens_per_s_per_user / tensors.decode.tokens_per_s_per_user
    forfeits = {name: share < 0.5 for name, share in kept.items()}
    return Finding(
        verdict=by_rule(holds=all(forfeits.values()), never=not any(forfeits.values())),
        answer=f"On {WAFERS} wafers a user of {with_type(MODEL)} keeps {100 * kept['layer_split']:.0f} % of the "
        "speed of one with "
        f"layers on consecutive wafers, {100 * kept['tensor_split']:.0f} % with every op split over all. There a "
        f"thousandth of the latency would give {by_latency:.2f} times the speed, a thousand times the bandwidth "
        f"{by_bytes:.2f} times: messages are small, and latency is what they cost.",
        numbers={
            "kept_layer_split": figure(kept["layer_split"], "", f"of one wafer's speed, layers on {WAFERS} wafers"),
            "kept_tensor_split": figure(
                kept["tensor_split"], "", f"of one wafer's speed, every op over {WAFERS} wafers"
            ),
            "crossing_s_tensor_split": figure(crossing.s_per_token, "s", "a token between wafers with every op split"),
            "gain_of_latency": figure(
                by_latency, "", "speed of the tensor split with a thousandth of the link's latency"
            ),
            "gain_of_bandwidth": figure(by_bytes, "", "speed of the tensor split with a thousand times the bandwidth"),
        },
        confidence="high" if kept["layer_split"] > 0.8 else "medium",
        reason="a layer split crosses once a wafer whatever the link; a tensor split as this program maps it",
    )


def residual_stream(lab: Laboratory) -> Finding:
    """Claim 5: values that cross a boundary for a token, of a model of 7,168 values a token."""
    result = lab.estimate(MIXTURE)
    assert result.crossing is not None
    between = [cut.bytes_per_token for cut in result.crossing.cuts if cut.to_wafer == cut.from_wafer + 1]
    values = [bytes_ / VALUE_BYTES for bytes_ in between]
    least, most = min(values), max(values)
    whole = sum(value == least for value in values)
    return Finding(
        verdict=by_rule(holds=most <= least, never=False),
        answer=f"{least:,.0f} values cross {whole} of the {len(values)} boundaries of {with_type(MIXTURE)} for a "
        "token, "
        f"{least * VALUE_BYTES / own_link().bytes_per_s / MICRO:.2f} µs of a link's bandwidth. Where a layer is cut "
        "inside a block, what the block has added so far and what its router chose cross beside the stream: "
        f"{most:,.0f} values at most.",
        numbers={
            "values_least": figure(least, "values", "that cross a boundary between whole layers for a token"),
            "values_most": figure(most, "values", "that cross a boundary inside a feed-forward block"),
            "boundaries": figure(len(values), "boundaries", f"of the wafers that hold {with_type(MIXTURE)}"),
            "boundaries_whole": figure(whole, "boundaries", "that lie between layers, or behind an attention"),
            "bytes_least": figure(least * VALUE_BYTES, "bytes", "that cross such a boundary"),
        },
        confidence="high",
        reason="words of the compiled Program, counted where they cross",
    )


def slow_link(lab: Laboratory) -> Finding:
    """Claim 6: one user's speed over slow links, and the share of a crossing in larger batches."""
    lines, ratios, own = {}, {}, lab.estimate(SERVED)
    assert own.decode is not None
    assert own.crossing is not None
    wafers = own.system.wafers
    for hop in HOPS_US:
        points = []
        for bytes_per_s in RATES:
            decode = lab.estimate(SERVED, wafer_link(bytes_per_s, hop * MICRO), wafers=wafers).decode
            assert decode is not None
            ratio = decode.tokens_per_s_per_user / own.decode.tokens_per_s_per_user
            points.append((bytes_per_s / GIGA, ratio))
            ratios[bytes_per_s, hop] = ratio
        lines[f"{hop:g} µs a link"] = tuple(points)
    slowest = {hop: ratios[RATES[0], hop] for hop in HOPS_US}
    token_s = 1 / own.decode.tokens_per_s_per_user
    bytes_per_token = sum(cut.bytes_per_token for cut in own.crossing.cuts)
    shares = {batch: batch * bytes_per_token / RATES[0] / token_s for batch in BATCHES}
    little = [1 - ratio <= LITTLE for ratio in slowest.values()]
    return Finding(
        verdict=by_rule(holds=all(little), never=not any(little)),
        answer=f"At 8 GB/s a user of {with_type(SERVED)} on {wafers} wafers keeps {100 * slowest[5.0]:.1f} % of the "
        "speed with "
        f"5 µs a link and {100 * slowest[20.0]:.1f} % with 20. Bytes count with many users alone: those of "
        f"{BATCHES[-1]} at once would take {shares[BATCHES[-1]]:.1f} times as long as a token does now.",
        numbers={
            **{
                f"speed_8gb_{hop:g}us": figure(ratio, "", f"over that with the wafers' own link, 8 GB/s and {hop:g} µs")
                for hop, ratio in slowest.items()
            },
            **{
                f"bytes_share_{batch}": figure(share, "", f"bytes of {batch} users at 8 GB/s over a token's time")
                for batch, share in shares.items()
            },
        },
        confidence="high",
        reason="the whole range of links was tried, each with a search of its own",
        curves=Curves(x="GB/s of a link", y="speed over that with the wafers' own link", lines=lines, log_x=True),
    )
