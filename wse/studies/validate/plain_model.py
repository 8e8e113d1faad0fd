"""Synthetic models of any layer size, for timing single layers and matrix products."""

from __future__ import annotations

from wse.models.configs.rope import plain_rope
from wse.models.spec import Layer, ModelSpec


def plain_model(
    *, layers: int, hidden_size: int, ffn_size: int, heads: int = 1, kv_heads: int = 1, context: int = 2**31
) -> ModelSpec:
    """Return a synthetic model with the layers of Llama and a vocabulary of 256 tokens.

    Args:
        layers: Number of layers.
        hidden_size: Number of elements of the hidden vector.
        ffn_size: Number of elements of the feed-forward vector.
        heads: Number of query heads. The head size is ``hidden_size / heads``.
        kv_heads: Number of key-value heads.
        context: Maximum number of tokens in a sequence.
    """
    head_size = hidden_size // heads
    return ModelSpec(
        name="plain",
        family="llama",
        layers=(Layer(),) * layers,
        hidden_size=hidden_size,
        head_count=heads,
        kv_head_count=kv_heads,
        head_size=head_size,
        attention_scale=head_size**-0.5,
        rope=plain_rope(head_size, 1e4),
        ffn_size=ffn_size,
        vocab_size=256,
        context_limit=context,
        norm_eps=1e-5,
        tied_embedding=True,
        dtype="float32",
        bos_token_id=None,
        eos_token_ids=(),
    )
