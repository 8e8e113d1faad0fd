"""ERNIE 4.5 with a mixture of experts in all layers starting at a given index.

The router adds a correction to softmax scores to select experts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import LARGEST_TABLE, MAX_EXPERTS, read_decoder, read_heads, require_class
from wse.models.configs.expert_config import with_mixture
from wse.models.configs.layer_kinds import MAX_LAYERS, layer_count
from wse.models.configs.rope_config import read_rope
from wse.models.family import CanonicalTensor, Family, FileSlice, harmless_names
from wse.models.spec import Experts, ModelSpec
from wse.models.tensors.expert_tensors import SIGMOID_NAMES, expert_slices
from wse.models.tensors.tensor_names import LAYERS, NAMES, Shape, adjacent_pairs, canonical_tensors

UNSTATED_BASE: Final = 500_000.0
CORRECTION: Final = "mlp.moe_statics.e_score_correction_bias"


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a mixture-of-experts ERNIE 4.5 model from its config.json.

    Layers from ``moe_layer_start_index`` to ``moe_layer_end_index`` have experts if their index
    plus one is a multiple of ``moe_layer_interval``. An end index of -1 means the last layer.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Ernie4_5_MoeForCausalLM")
    heads, count = read_heads(config), layer_count(config)
    first = config.integer("moe_layer_start_index", 0, MAX_LAYERS, default=1)
    last = config.integer("moe_layer_end_index", -1, MAX_LAYERS, default=-1)
    step = config.integer("moe_layer_interval", 1, MAX_LAYERS, default=1)
    last = count - 1 if last < 0 else last
    has_experts = [first <= index <= last and (index + 1) % step == 0 for index in range(count)]
    spec = read_decoder(config, heads, rope=read_rope(config, heads.size, base=UNSTATED_BASE), tied=True)
    config.require("use_bias", (False,), "biases are not supported in this family; supported: false")
    return with_mixture(spec, _experts(config), has_experts)


def _experts(config: ConfigReader) -> Experts:
    """Return the sizes and the routing of the mixture of experts that a config describes.

    All shared experts together are one block, whose width is the sum of their widths.
    """
    count = config.integer("moe_num_experts", 1, MAX_EXPERTS)
    width = config.integer("moe_intermediate_size", 1, LARGEST_TABLE)
    config.require("moe_gate", ("topk", "top2_fused"), "supported: topk")
    config.require("moe_use_aux_free", (True,), "experts are selected with a correction; supported: true")
    return Experts(
        count=count,
        active=config.integer("moe_k", 1, count),
        ffn_size=width,
        correction=True,
        shared_size=width * config.integer("moe_num_shared_experts", 0, MAX_EXPERTS, default=2),
    )


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a mixture-of-experts ERNIE 4.5 model with its location in a checkpoint.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint, used to detect how experts are stored.
    """

    def slices_of(name: str, layer: int, shape: Shape) -> tuple[FileSlice, ...]:
        """Return where the checkpoint stores one tensor of the model, as slices of its tensors.

        The result is () for a tensor that the checkpoint stores as it is. For example, the
        correction of router scores is not: it is a vector in wse, but a matrix with one row in the
        checkpoint.

        Args:
            name: Name of the tensor in wse, without the layer prefix, such as ``q``.
            layer: Index of the layer; -1 outside the layers.
            shape: Shape of the tensor in wse.
        """
        if name == "router_correction":
            return (FileSlice(file_name=f"{LAYERS}{layer}.{CORRECTION}", file_shape=(1, *shape), index=(0,)),)
        pairs = adjacent_pairs(name, spec, layer, shape)
        return pairs or expert_slices(name, spec, f"{LAYERS}{layer}.mlp.experts", file_names)

    return canonical_tensors(spec, {**NAMES, **SIGMOID_NAMES}, slices_of=slices_of)


FAMILY: Final = Family(
    model_types=("ernie4_5_moe",),
    read=read,
    tensors=tensors,
    harmless_keys=frozenset({"moe_norm_min", "moe_capacity", "num_nextn_predict_layers"}),
    harmless_tensors=harmless_names(r"model\.mtp_.*"),
)
