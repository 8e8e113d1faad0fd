"""Specs of tiny models and random tensors for them, for tests that need no trained weights."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from wse.models.attention_traits import Latent, LinearAttention
from wse.models.configs.rope import plain_rope
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.model_tensors import tensor_shapes

Tensor = npt.NDArray[np.float32]


def tiny_spec(
    *,
    layers: int = 2,
    hidden: int = 40,
    heads: int = 6,
    kv_heads: int = 2,
    head_size: int = 6,
    ffn: int = 52,
    vocab: int = 67,
    tied: bool = True,
) -> ModelSpec:
    """Return a tiny Llama-like model; small meshes do not divide the default sizes."""
    return ModelSpec(
        name="tiny",
        family="llama",
        layers=(Layer(),) * layers,
        hidden_size=hidden,
        head_count=heads,
        kv_head_count=kv_heads,
        head_size=head_size,
        attention_scale=head_size**-0.5,
        rope=plain_rope(head_size, 1e4),
        ffn_size=ffn,
        vocab_size=vocab,
        context_limit=256,
        norm_eps=1e-5,
        tied_embedding=tied,
        dtype="float32",
        bos_token_id=1,
        eos_token_ids=(2,),
    )


def latent_spec(*, q_rank: int = 11, heads: int = 3, layers: int = 2) -> ModelSpec:
    """Return a tiny model with latent attention, whose sizes small meshes do not divide."""
    sizes = Latent(q_rank=q_rank, kv_rank=10, nope_size=5, rope_size=6, value_size=7)
    spec = tiny_spec(hidden=72, heads=heads, kv_heads=1, head_size=16, vocab=259, layers=layers)
    rope = replace(plain_rope(6, 1e4), multiplier=1.25)
    return replace(spec, family="deepseek_v3", latent=sizes, rope=rope, attention_scale=0.4)


def linear_spec() -> ModelSpec:
    """Return a tiny model with gated attention in the second of three layers and linear attention in the others."""
    sizes = LinearAttention(key_heads=2, value_heads=6, key_size=5, value_size=7, taps=3)
    spec = tiny_spec(hidden=72, vocab=259, layers=3)
    kinds = (Layer(linear=True), Layer(), Layer(linear=True))
    return replace(spec, layers=kinds, linear=sizes, attention_gate=True, head_norm="rms", norm_unit_offset=True)


def tensors(spec: ModelSpec, seed: int = 0) -> dict[str, Tensor]:
    """Return random tensors by canonical name; matrices are ``[out, in]``.

    Gains of norms are near 1, or near 0 if the model adds 1 to stored gains. Other vectors are standard normal.
    """
    random = np.random.default_rng(seed)
    result = {}
    for name, shape in tensor_shapes(spec).items():
        scale = 1.0 / np.sqrt(shape[-1])
        values = random.standard_normal(shape)
        if len(shape) == 2:
            values *= scale
        elif name.endswith("norm"):
            values = 1.0 - spec.norm_unit_offset + 0.1 * values
        result[name] = values.astype(np.float32)
    return result
