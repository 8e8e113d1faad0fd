"""GPT-2: LayerNorm, learned positions, GELU and biases.

Matrices are stored as [in, out]. Queries, keys and values share one matrix.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import MAX_MATRIX_ROWS, read_bos, read_dtype, read_even_heads, require_class
from wse.models.configs.layer_kinds import MAX_LAYERS
from wse.models.configs.rope_config import LONGEST_CONTEXT
from wse.models.family import CanonicalTensor, Family, FileSlice, harmless_names
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.tensor_names import LayerTensor, canonical_tensors

ACTIVATIONS: Final = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu"}


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a GPT-2 model from its config.json.

    GPT-2 configs use different key names from other model families.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "GPT2LMHeadModel")
    heads = read_even_heads(config, "n_embd", "n_head")
    hidden_size = heads.count * heads.size
    vocab_size = config.integer("vocab_size", 1, MAX_MATRIX_ROWS)
    positions = config.integer("n_positions", 1, LONGEST_CONTEXT)
    config.require("n_ctx", (positions,), f"contradicts n_positions = {positions}; remove it")
    config.require(
        "scale_attn_by_inverse_layer_idx", (False,), "scores scaled by layer are not supported; supported: false"
    )
    return ModelSpec(
        layers=(Layer(rotary=False),) * config.integer("n_layer", 1, MAX_LAYERS),
        hidden_size=hidden_size,
        head_count=heads.count,
        kv_head_count=heads.kv_count,
        head_size=heads.size,
        attention_scale=heads.size**-0.5 if config.flag("scale_attn_weights", default=True) else 1.0,
        rope=None,
        ffn_size=config.integer("n_inner", 1, MAX_MATRIX_ROWS, default=4 * hidden_size),
        vocab_size=vocab_size,
        context_limit=positions,
        norm_eps=config.number("layer_norm_epsilon", 0.0, 1.0),
        tied_embedding=config.flag("tie_word_embeddings", default=True),
        dtype=read_dtype(config),
        bos_token_id=read_bos(config, vocab_size),
        eos_token_ids=config.ids("eos_token_id", vocab_size),
        qkv_bias=True,
        output_bias=True,
        activation=ACTIVATIONS[config.choice("activation_function", ACTIVATIONS, default="gelu_new")],
        gated=False,
        ffn_bias=True,
        norm="layer",
        learned_positions=positions,
    )


TABLES: Final = {"embedding": "wte.weight", "positions": "wpe.weight", "final_norm": "ln_f.weight"}
NORMS: Final = {"attention_norm": "ln_1.weight", "mlp_norm": "ln_2.weight"}
MATRICES: Final = {**dict.fromkeys("qkv", "attn.c_attn"), "o": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}


def _transposed(tensor: LayerTensor) -> tuple[FileSlice, ...]:
    """Return where the checkpoint stores a projection, which is transposed.

    Queries, keys and values are in one matrix. The result is () for all other tensors.
    """
    if tensor.matrix not in MATRICES:
        return ()
    shape, hidden, is_fused = tensor.shape, tensor.spec.hidden_size, tensor.matrix in "qkv"
    outputs = 3 * hidden if is_fused else shape[0]
    first = hidden * "qkv".index(tensor.matrix) if is_fused else 0
    output_slice = slice(first, first + shape[0])
    file_name = tensor.name_in_file(MATRICES[tensor.matrix])
    if tensor.name != tensor.matrix:
        return (FileSlice(file_name=file_name, file_shape=(outputs,), index=(output_slice,)),)
    index = (slice(None), output_slice)
    return (FileSlice(file_name=file_name, file_shape=(shape[1], outputs), index=index, transposed=True),)


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a GPT-2 model with its location in a checkpoint.

    The names in the file may have the prefix ``transformer.``.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint, used to detect the prefix.
    """
    prefix = "transformer." if "transformer.wte.weight" in file_names else ""
    tables = {name: prefix + file_name for name, file_name in TABLES.items()}
    names = tables | NORMS | {"head": "lm_head.weight"}
    return canonical_tensors(spec, file_names, names, (_transposed,), f"{prefix}h.")


FAMILY: Final = Family(
    model_types=("gpt2",),
    read=read,
    tensors=tensors,
    harmless_keys=frozenset(
        {
            *("summary_activation", "summary_first_dropout", "summary_proj_to_labels"),
            *("summary_type", "summary_use_proj", "reorder_and_upcast_attn"),
        }
    ),
    harmless_tensors=harmless_names(r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias"),
)
