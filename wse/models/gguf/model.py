"""Read a GGUF file as a model: its `ModelSpec` and its tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from wse.errors import BadModel, UnknownName
from wse.models.attention_traits import Rope
from wse.models.configs.config import spec_of
from wse.models.configs.config_reader import ConfigReader
from wse.models.gguf.configs import ARCHITECTURES, hugging_face_config
from wse.models.gguf.file import GgufFile, Header
from wse.models.gguf.names import ROPE_FACTORS, family_entries
from wse.models.gguf.rules import stored_entry
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_entry import FLOATS, TensorEntry

QUANTISED_MODEL_DTYPE: Final = "float16"


def read_gguf(gguf: GgufFile) -> tuple[ModelSpec, dict[str, TensorEntry]]:
    """Return the model in a GGUF file, and its tensors.

    The model's element type is float32 if all matrices are float32, and a 16-bit type if all
    matrices have either that type or float32. Otherwise, as for quantised matrices, it is float16.

    Returns:
        The model, and its tensors keyed by their names in checkpoints of the model family.

    Raises:
        UnknownName: The architecture is not supported.
        BadModel: The metadata are incomplete or impossible, or request unsupported mathematics.
    """
    header = Header(gguf)
    if header.architecture not in ARCHITECTURES:
        raise UnknownName("GGUF architecture", header.architecture, ARCHITECTURES, place=str(gguf.path))
    config = hugging_face_config(header)
    spec = spec_of(ConfigReader(gguf.path, config), gguf.path.stem, _dtype(gguf))
    return _with_factors(spec, gguf), family_entries(header, spec.layer_count)


def _dtype(gguf: GgufFile) -> str:
    """Return the element type of the model in a GGUF file.

    This is the common type of all matrices, or float16 if they are quantised. See `read_gguf`.
    """
    other_kinds = {tensor.kind for tensor in gguf.tensors.values() if len(tensor.shape) > 1} - {"F32"}
    if not other_kinds:
        return "float32"
    return FLOATS.get(other_kinds.pop(), QUANTISED_MODEL_DTYPE) if len(other_kinds) == 1 else QUANTISED_MODEL_DTYPE


def _with_factors(spec: ModelSpec, gguf: GgufFile) -> ModelSpec:
    """Return the model with rotary frequencies divided by the factors stored in the file, if any.

    Raises:
        BadModel: The number of factors is wrong, or a factor is not positive.
    """
    tensor = gguf.tensors.get(ROPE_FACTORS)
    if tensor is None:
        return spec
    pairs = 0 if spec.rope is None else len(spec.rope.frequencies)
    factors = np.asarray(stored_entry(gguf, tensor).array(), np.float32)
    if spec.rope is None or factors.shape != (pairs,) or not (np.isfinite(factors).all() and (factors > 0).all()):
        raise BadModel(
            f"{gguf.path}: tensor {ROPE_FACTORS!r} has shape {list(tensor.shape)}; it must hold {pairs} positive "
            "numbers, one for each rotated pair of a head: fetch the file again"
        )
    frequencies = np.array(spec.rope.frequencies, np.float32) / factors
    return replace(spec, rope=Rope(frequencies=tuple(frequencies.tolist()), multiplier=spec.rope.multiplier))
