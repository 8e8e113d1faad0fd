"""GPT-NeoX and Pythia: layer norms, parallel blocks, partial rotation, GELU without gate, biases.

Queries, keys and values of a head are adjacent rows of one matrix.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.rope_config import LARGEST_BASE, ORIGINAL_BASE, read_rope
from wse.models.family import Family, harmless_names
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import NAMES, canonical_tensors, qkv_of_groups

ACTIVATIONS: Final = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "relu": "relu"}


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a GPT-NeoX model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "GPTNeoXForCausalLM")
    heads = read_heads(config)
    base = config.number("rotary_emb_base", 1.0, LARGEST_BASE, default=ORIGINAL_BASE)
    fraction = config.number("rotary_pct", 0.0, 1.0, default=0.25)
    spec = read_decoder(
        config,
        heads,
        rope=read_rope(config, heads.size, base=base, rotated_fraction=fraction),
        activations=ACTIVATIONS,
        eps_key="layer_norm_eps",
    )
    biased = config.flag("attention_bias", default=True)
    return replace(
        spec,
        qkv_bias=biased,
        output_bias=biased,
        norm="layer",
        parallel_blocks=config.flag("use_parallel_residual", default=True),
        gated=False,
        ffn_bias=True,
    )


START: Final = "gpt_neox."
FILE_NAMES: Final = {
    **NAMES,
    "embedding": f"{START}embed_in.weight",
    "final_norm": f"{START}final_layer_norm.weight",
    "head": "embed_out.weight",
    "o": "attention.dense.weight",
    "up": "mlp.dense_h_to_4h.weight",
    "down": "mlp.dense_4h_to_h.weight",
}

FAMILY: Final = Family(
    model_types=("gpt_neox",),
    read=read,
    tensors=partial(
        canonical_tensors,
        names=FILE_NAMES,
        rules=(partial(qkv_of_groups, block="attention"),),
        layers=f"{START}layers.",
    ),
    harmless_keys=frozenset({"classifier_dropout", "attention_probs_dropout_prob", "hidden_dropout_prob"}),
    harmless_tensors=harmless_names(r"gpt_neox\.layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)"),
    tied_copy="embed_out.weight",
)
