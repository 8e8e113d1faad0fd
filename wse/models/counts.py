"""Counts that follow from a model's shape alone: parameters that one token uses, and bytes of its cache."""

from __future__ import annotations

import math

from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import tensor_shapes

_TABLES = ("embedding", "head")


def parameters_per_token(spec: ModelSpec, *, input_table: bool = False, head: bool = True) -> int:
    """Parameters that one token uses: those of all layers but of the experts that are not chosen for it.

    ``head``: with the output head. ``input_table``: with the whole table of embeddings, of which a token reads one row.
    A table that is both counts once. Each value of a matrix is one multiply-add, so twice the default is about the
    arithmetic of a token in floating-point operations, apart from attention over its context (Kaplan et al.,
    arXiv 2001.08361, section 2.1).
    """
    total = 0
    for name, shape in tensor_shapes(spec).items():
        values = math.prod(shape)
        if spec.experts is not None and ".experts." in name:
            values = values // spec.experts.count * spec.experts.active
        if name not in _TABLES:
            total += values
    tables = max(head, input_table) if spec.tied_embedding else head + input_table
    return total + tables * spec.vocab_size * spec.hidden_size


def kv_bytes_per_token(spec: ModelSpec, element_bytes: int) -> int:
    """Bytes that the caches of all layers hold of one token, in elements of ``element_bytes``.

    As if every layer kept every token: a layer with a window forgets it later. With latent attention the values are
    part of the keys (DeepSeek-V2, arXiv 2405.04434, section 2.1.2).
    """
    features = spec.head_size if spec.latent else 2 * spec.kv_head_count * spec.head_size
    return spec.layer_count * features * element_bytes
