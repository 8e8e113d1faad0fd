"""Models that measurements name in free text, and a plain model with the stated sizes."""

from __future__ import annotations

import re
from functools import cache

from wse.known_names import letters_and_digits
from wse.models.catalogue import CONFIGURATIONS, origins
from wse.models.configs.config import bundled_spec
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


def one_head_model(text: str) -> ModelSpec | None:
    """Return a model with a single head, and the number and sizes of layers of a named model.

    The benchmark programs of WaferLLM have such layers. The string is the name of the model, or
    ends with it. The result is None if the model is unknown, has experts, or has feed-forward
    blocks without a gate.

    >>> model = one_head_model("decode LLaMA3-8B")
    >>> model.hidden_size, model.ffn_size, model.layer_count, model.head_size
    (4096, 14336, 32, 4096)
    """
    name = configuration_of(text)
    spec = None if name is None else bundled_spec(name)
    if spec is None or spec.experts is not None or not spec.gated:
        return None
    return plain_model(layers=spec.layer_count, hidden_size=spec.hidden_size, ffn_size=spec.ffn_size)


@cache
def dense_model(name: str) -> ModelSpec | None:
    """Return the bundled model of a name if it is dense, with standard attention and gated blocks.

    >>> dense_model("Qwen3-4B").layer_count
    36
    """
    configuration = re.sub(r"[\s_]", "-", name.strip().lower()).replace("qwen-3", "qwen3")
    if configuration not in CONFIGURATIONS:
        return None
    spec = bundled_spec(configuration)
    return None if spec.experts is not None or spec.latent is not None or not spec.gated else spec


def configuration_of(text: str) -> str | None:
    """Return the name of the bundled configuration for the model named in a string.

    The string is the name of the model, or ends with it. Case, spaces, punctuation, and words such
    as ``instruct`` and ``chat`` are ignored. Models with identical layers share a configuration. If
    several names match, the longest name is used. The result is None if no name matches.

    >>> configuration_of("Llama-3.1-8B-Instruct")
    'llama-3-8b'
    """
    name = letters_and_digits(re.sub(r"[-_ ](instruct|chat|hf|base)\b", "", text, flags=re.IGNORECASE))
    matches = [(len(published), config) for published, config in _published_names() if name.endswith(published)]
    return max(matches, key=lambda match: match[0])[1] if matches else None


@cache
def _published_names() -> tuple[tuple[str, str], ...]:
    """Return (published name, bundled configuration name) for each known model.

    Published names are reduced to lower-case letters and digits, so that different spellings match.
    """
    return tuple(
        (letters_and_digits(published), name)
        for name, origin in origins().items()
        for published in (name, *origin.same_shape)
    )
