"""Granite MoE: Granite with a mixture of experts in every layer."""

from __future__ import annotations

from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import require_class
from wse.models.configs.expert_config import read_experts, with_mixture
from wse.models.families.granite import read_factors
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import stacked_slices
from wse.models.tensors.tensor_names import NAMES, canonical_tensors


def read_mixture(config: ConfigReader) -> ModelSpec:
    """Read the specification of a mixture-of-experts Granite model from its config.json.

    The softmax of the scores of the selected experts is equivalent to a softmax over all experts
    that is renormalised over the selected experts, which is the default of `Experts`.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "GraniteMoeForCausalLM")
    return with_mixture(read_factors(config), read_experts(config, "intermediate_size"))


BLOCK: Final = "block_sparse_moe"


stacked_experts: Final = partial(
    stacked_slices, block=BLOCK, transposed=False, matrices=("input_linear.weight", "output_linear.weight")
)

FAMILY: Final = Family(
    model_types=("granitemoe",),
    read=read_mixture,
    tensors=partial(
        canonical_tensors, names={**NAMES, "router": f"{BLOCK}.router.layer.weight"}, rules=(stacked_experts,)
    ),
)
