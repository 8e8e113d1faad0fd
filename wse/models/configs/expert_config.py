"""Read the config keys of a mixture of experts that several model families share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import MAX_EXPERTS, MAX_MATRIX_ROWS
from wse.models.configs.layer_kinds import MAX_LAYERS, layer_count
from wse.models.expert_traits import Experts
from wse.models.spec import ModelSpec

COUNTS: Final = ("num_local_experts", "num_experts", "n_routed_experts")
"""Config keys for the number of experts. transformers 5 treats them as equivalent."""


def read_experts(config: ConfigReader, width_key: str) -> Experts:
    """Return a mixture of experts with the expert count and width specified in a config.

    Args:
        config: Reader of the model's config.
        width_key: Config key for the feed-forward width of one expert.
    """
    stated_keys = [key for key in COUNTS if config.has_value(key)] or [COUNTS[0]]
    counts = [config.integer(key, 1, MAX_EXPERTS) for key in stated_keys]
    if len(set(counts)) > 1:
        config.refuse(stated_keys[1], counts[1], f"contradicts {stated_keys[0]} = {counts[0]}; keep one")
    return Experts(
        count=counts[0],
        active=config.integer("num_experts_per_tok", 1, counts[0]),
        ffn_size=config.integer(width_key, 1, MAX_MATRIX_ROWS),
    )


def with_mixture(spec: ModelSpec, experts: Experts, has_experts: Sequence[bool] = ()) -> ModelSpec:
    """Return a copy of a dense model in which feed-forward blocks are mixtures of experts.

    If all layers use experts, the width of dense feed-forward blocks is set to 0.

    Args:
        spec: Specification of the model.
        experts: Sizes and routing of the mixture.
        has_experts: For each layer, whether its feed-forward block is a mixture of experts; () if
            all of them are.
    """
    has_experts = has_experts or [True] * spec.layer_count
    return replace(
        spec,
        layers=tuple(
            replace(layer, experts=is_mixture) for layer, is_mixture in zip(spec.layers, has_experts, strict=True)
        ),
        ffn_size=0 if all(has_experts) else spec.ffn_size,
        experts=experts if any(has_experts) else None,
    )


def add_scaled_mixture(
    config: ConfigReader,
    spec: ModelSpec,
    has_experts: Sequence[bool] = (),
    *,
    unstated_normalised: bool = True,
    unstated_shared_size: int = 512,
) -> ModelSpec:
    """Return a copy of a model with a mixture of experts, including a gated shared expert.

    Every token uses the shared expert, whose output is multiplied by the sigmoid of a gate.

    Args:
        config: Reader of the model's config.
        spec: Specification of the model.
        has_experts: For each layer, whether its feed-forward block is a mixture of experts; () if
            all of them are.
        unstated_normalised: Whether the weights of the selected experts are normalised if the
            config does not say so.
        unstated_shared_size: Width of the shared expert if the config does not specify it.
    """
    experts = replace(
        read_experts(config, "moe_intermediate_size"),
        normalised=config.flag("norm_topk_prob", default=unstated_normalised),
        shared_size=config.integer("shared_expert_intermediate_size", 1, MAX_MATRIX_ROWS, default=unstated_shared_size),
        shared_gate=True,
    )
    return with_mixture(spec, experts, has_experts)


def sparse_step_layers(config: ConfigReader) -> list[bool]:
    """Return, for each layer of a Qwen model, whether its feed-forward block is a mixture of experts.

    Every ``decoder_sparse_step``-th layer has experts, except those in ``mlp_only_layers``.

    Args:
        config: Reader of the model's config.
    """
    count = layer_count(config)
    dense_layers = config.integers("mlp_only_layers", 0, count - 1) or ()
    step = config.integer("decoder_sparse_step", 1, MAX_LAYERS, default=1)
    return [index not in dense_layers and (index + 1) % step == 0 for index in range(count)]


def layers_with_experts(config: ConfigReader, unstated_dense: int) -> list[bool]:
    """Return, for each layer, whether its feed-forward block is a mixture of experts.

    The first ``first_k_dense_replace`` layers have a dense block, and all others have experts.

    Args:
        config: Reader of the model's config.
        unstated_dense: Number of dense layers if the config does not specify it.
    """
    config.require("moe_layer_freq", (1,), "every layer after the dense ones has experts; supported: 1")
    dense_layers = config.integer("first_k_dense_replace", 0, MAX_LAYERS, default=unstated_dense)
    return [index >= dense_layers for index in range(layer_count(config))]


def read_sigmoid_experts(config: ConfigReader, *, groups: int, chosen_groups: int, scale: float) -> Experts:
    """Return a mixture of experts with DeepSeek-V3 routing.

    The score of an expert is the sigmoid of its router output. Experts are selected by their score
    plus a trained correction, but weighted by their score alone (arXiv 2412.19437, section 2.1.2).

    Args:
        config: Reader of the model's config.
        groups: Number of expert groups if the config does not specify it.
        chosen_groups: Number of selected groups if the config does not specify it.
        scale: Factor applied to the routing weights if the config does not specify it.
    """
    experts = read_experts(config, "moe_intermediate_size")
    groups = config.integer("n_group", 1, experts.count, default=groups)
    if experts.count % groups or (groups > 1 and experts.count // groups < 2):
        config.refuse("n_group", groups, f"give a divisor of {experts.count} experts, with two or more a group")
    selected_groups = config.integer("topk_group", 1, groups, default=chosen_groups)
    if experts.active > selected_groups * (experts.count // groups):
        config.refuse(
            "num_experts_per_tok",
            experts.active,
            f"{selected_groups} groups hold {selected_groups * (experts.count // groups)} experts",
        )
    config.require("scoring_func", ("sigmoid",), "supported: sigmoid")
    config.require("topk_method", ("noaux_tc",), "supported: noaux_tc")
    shared_experts = config.integer("n_shared_experts", 0, MAX_EXPERTS, default=1)
    return replace(
        experts,
        scoring="sigmoid",
        normalised=config.flag("norm_topk_prob", default=True),
        scale=config.number("routed_scaling_factor", 0.0, 1e6, default=scale),
        groups=groups,
        chosen_groups=selected_groups,
        correction=True,
        shared_size=shared_experts * experts.ffn_size,
    )
