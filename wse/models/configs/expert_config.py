"""The keys of a mixture of experts that the configs of several families share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import LARGEST_TABLE, MOST_EXPERTS, MOST_LAYERS
from wse.models.spec import Experts, Layer, ModelSpec

COUNTS: Final = ("num_local_experts", "num_experts", "n_routed_experts")
"""Ways to write the number of experts; transformers 5 reads each for the others."""


def read_experts(config: ConfigReader, width: str) -> Experts:
    """Return the number of experts, the number per token, and their width, stored under the key ``width``."""
    stated = [key for key in COUNTS if config.has(key)] or [COUNTS[0]]
    counts = [config.integer(key, 1, MOST_EXPERTS) for key in stated]
    if len(set(counts)) > 1:
        config.refuse(stated[1], counts[1], f"contradicts {stated[0]} = {counts[0]}; keep one")
    return Experts(
        count=counts[0],
        active=config.integer("num_experts_per_tok", 1, counts[0]),
        ffn_size=config.integer(width, 1, LARGEST_TABLE),
    )


def add_experts(layers: Sequence[Layer], chosen: Sequence[bool]) -> tuple[Layer, ...]:
    """Return the layers with experts where ``chosen``."""
    return tuple(
        Layer(rotary=layer.rotary, window=layer.window, chunk=layer.chunk, experts=experts)
        for layer, experts in zip(layers, chosen, strict=True)
    )


def with_mixture(spec: ModelSpec, chosen: Sequence[bool], experts: Experts) -> ModelSpec:
    """Return the spec with ``experts`` in the layers where ``chosen``; dense blocks are left where they are not."""
    return replace(spec, ffn_size=0 if all(chosen) else spec.ffn_size, experts=experts if any(chosen) else None)


def layers_with_experts(config: ConfigReader, count: int, unstated: int) -> list[bool]:
    """Return whether each of ``count`` layers has experts: all except the first ``first_k_dense_replace``."""
    config.require("moe_layer_freq", (1,), "every layer behind the dense ones has experts; supported: 1")
    dense = config.integer("first_k_dense_replace", 0, MOST_LAYERS, default=unstated)
    return [index >= dense for index in range(count)]


def read_sigmoid_experts(config: ConfigReader, *, groups: int, chosen_groups: int, scale: float) -> Experts:
    """Return experts as DeepSeek-V3 chooses them (arXiv 2412.19437, section 2.1.2): corrected sigmoid scores.

    ``groups``, ``chosen_groups`` and ``scale`` hold where the config does not state them.
    """
    experts = read_experts(config, "moe_intermediate_size")
    groups = config.integer("n_group", 1, experts.count, default=groups)
    if experts.count % groups or (groups > 1 and experts.count // groups < 2):
        config.refuse("n_group", groups, f"give a divisor of {experts.count} experts, with two or more a group")
    chosen = config.integer("topk_group", 1, groups, default=chosen_groups)
    if experts.active > chosen * (experts.count // groups):
        config.refuse(
            "num_experts_per_tok", experts.active, f"{chosen} groups hold {chosen * (experts.count // groups)} experts"
        )
    config.require("scoring_func", ("sigmoid",), "supported: sigmoid")
    config.require("topk_method", ("noaux_tc",), "supported: noaux_tc")
    shared = config.integer("n_shared_experts", 0, MOST_EXPERTS, default=1)
    return Experts(
        count=experts.count,
        active=experts.active,
        ffn_size=experts.ffn_size,
        scoring="sigmoid",
        normalised=config.flag("norm_topk_prob", default=True),
        scale=config.number("routed_scaling_factor", 0.0, 1e6, default=scale),
        groups=groups,
        chosen_groups=chosen,
        correction=True,
        shared_size=shared * experts.ffn_size,
    )
