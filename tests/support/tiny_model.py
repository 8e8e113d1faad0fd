"""A Llama-shaped ModelSpec and random tensors for it, for tests that need no trained weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from wse.models.spec import ModelSpec

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
    """Awkward sizes by default."""
    return ModelSpec(
        name="tiny",
        family="llama",
        layer_count=layers,
        hidden_size=hidden,
        head_count=heads,
        kv_head_count=kv_heads,
        head_size=head_size,
        ffn_size=ffn,
        vocab_size=vocab,
        context_limit=256,
        norm_eps=1e-5,
        rope_base=10000.0,
        tied_embedding=tied,
        dtype="float32",
        bos_token_id=1,
        eos_token_ids=(2,),
    )


def tensors(spec: ModelSpec, seed: int = 0) -> dict[str, Tensor]:
    """Random canonical tensors [out, in]; gains near 1."""
    random = np.random.default_rng(seed)
    attention, kv = spec.head_count * spec.head_size, spec.kv_head_count * spec.head_size
    shapes = {"embedding": (spec.vocab_size, spec.hidden_size), "final_norm": (spec.hidden_size,)}
    if not spec.tied_embedding:
        shapes["head"] = (spec.vocab_size, spec.hidden_size)
    for layer in range(spec.layer_count):
        at = f"layers.{layer}"
        shapes |= {
            f"{at}.attention_norm": (spec.hidden_size,),
            f"{at}.q": (attention, spec.hidden_size),
            f"{at}.k": (kv, spec.hidden_size),
            f"{at}.v": (kv, spec.hidden_size),
            f"{at}.o": (spec.hidden_size, attention),
            f"{at}.mlp_norm": (spec.hidden_size,),
            f"{at}.gate": (spec.ffn_size, spec.hidden_size),
            f"{at}.up": (spec.ffn_size, spec.hidden_size),
            f"{at}.down": (spec.hidden_size, spec.ffn_size),
        }
    made = {}
    for name, shape in shapes.items():
        scale = 1.0 / np.sqrt(shape[-1])
        values = random.standard_normal(shape) * scale if len(shape) == 2 else 1 + 0.1 * random.standard_normal(shape)
        made[name] = values.astype(np.float32)
    return made


def lookup(made: dict[str, Tensor]) -> Callable[[str], Tensor]:
    """What an Engine asks for tensors by name."""
    return made.__getitem__
