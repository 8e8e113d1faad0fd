"""Granite with a mixture of experts in every layer."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import require_class
from wse.models.configs.expert_config import read_experts, with_mixture
from wse.models.families.granite import read_granite
from wse.models.family import CanonicalTensor, Family, FileSlice
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import stacked_slices
from wse.models.tensors.tensor_names import LAYERS, NAMES, Shape, canonical_tensors

BLOCK: Final = "block_sparse_moe"
MATRICES: Final = ("input_linear.weight", "output_linear.weight")


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a mixture-of-experts Granite model from its config.json.

    The softmax of the scores of the selected experts is equivalent to a softmax over all experts
    that is renormalised over the selected experts, which is the default of `Experts`.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "GraniteMoeForCausalLM")
    return with_mixture(read_granite(config), read_experts(config, "intermediate_size"))


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a mixture-of-experts Granite model with its location in a checkpoint.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint. Unused here.
    """

    def slices_of(name: str, layer: int, shape: Shape) -> tuple[FileSlice, ...]:
        """Return where the checkpoint stores one tensor of the model, as slices of its tensors.

        The checkpoint stores all experts of a layer in two tensors. The result is () for all other
        tensors, which it stores as they are.

        Args:
            name: Name of the tensor in wse, without the layer prefix, such as ``q``.
            layer: Index of the layer; -1 outside the layers.
            shape: Shape of the tensor in wse.
        """
        return stacked_slices(name, spec, f"{LAYERS}{layer}.{BLOCK}", transposed=False, matrices=MATRICES)

    return canonical_tensors(spec, {**NAMES, "router": f"{BLOCK}.router.layer.weight"}, slices_of=slices_of)


FAMILY: Final = Family(model_types=("granitemoe",), read=read, tensors=tensors)
