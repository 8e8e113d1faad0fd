"""Write tests/data/formats/*.json: outputs of transformers for tiny checkpoints of each format.

    pip install torch transformers safetensors accelerate
    python tools/make_format_goldens.py [float16 bfloat16 fp8 mxfp4]

transformers converts the weights to float32 and computes in float32. The files contain a seed
instead of weights: tests/support/random_checkpoint.py generates the same codes and scales.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from golden_text import write_goldens
from make_goldens import ROOT, SEEDS, clear_answers, on_disk
from random_checkpoint import write_checkpoint
from tiny_families import COMMON, FAMILIES

OUT = ROOT / "tests" / "data" / "formats"
FORMATS = ("float16", "bfloat16", "fp8", "mxfp4")
BLOCK = 48  # rows and columns of an fp8 block; transformers requires sizes that are multiples of it
MX_BLOCK = 32  # weights of an mxfp4 block


def sixteen() -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Return config, quantisation entry and quantisation method of a tiny qwen2 in 16 bits.

    It has biases and tied embeddings. Both quantisation values are empty.
    """
    return {**COMMON, **FAMILIES["qwen2"], "model_type": "qwen2"}, {}, None


def fp8() -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Return config, quantisation entry and quantisation method of a tiny qwen3 in fp8.

    Its matrices have several blocks in both dimensions. Norms, embedding and head are float32.
    """
    changed = {"hidden_size": 144, "intermediate_size": 192, "num_attention_heads": 3, "num_key_value_heads": 1}
    wanted = {**COMMON, **FAMILIES["qwen3"], **changed, "head_dim": 48, "model_type": "qwen3"}
    method = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [BLOCK, BLOCK]}
    return wanted, method, transformers.FineGrainedFP8Config(weight_block_size=(BLOCK, BLOCK), dequantize=True)


def mxfp4() -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Return config, quantisation entry and quantisation method of a tiny gpt-oss in mxfp4.

    The matrices of its experts are in blocks of 32 weights.
    """
    wanted = {**COMMON, **FAMILIES["gpt_oss"], "hidden_size": 96, "intermediate_size": 32, "model_type": "gpt_oss"}
    method = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    return wanted, method, transformers.Mxfp4Config(dequantize=True)


def quantise(kind: str, tensors: dict[str, list[int]]) -> tuple[dict[str, list[int]], dict[str, str]]:
    """Replace quantised tensors by tensors of codes and scales.

    Args:
        kind: Format of the checkpoint.
        tensors: Shape of each tensor, by name.

    Returns:
        Shape of each stored tensor, by name; and the kind of the codes and scales among them, such
        as "fp8_scale".
    """
    found: dict[str, list[int]] = {}
    kinds: dict[str, str] = {}
    for name, shape in tensors.items():
        if kind == "fp8" and name.endswith("_proj.weight"):
            scale = f"{name}_scale_inv"
            found |= {name: shape, scale: [-(-size // BLOCK) for size in shape]}
            kinds |= {name: "fp8", scale: "fp8_scale"}
        elif kind == "mxfp4" and "experts" in name and "bias" not in name:
            count, inputs, outputs = shape
            blocks = [count, outputs, inputs // MX_BLOCK]
            found |= {f"{name}_blocks": [*blocks, MX_BLOCK // 2], f"{name}_scales": blocks}
            kinds |= {f"{name}_blocks": "mxfp4", f"{name}_scales": "mxfp4_scale"}
        else:
            found[name] = shape
    return found, kinds


def golden(kind: str) -> dict[str, Any]:
    """Return the golden of a format: config, tensors, seed and the outputs of transformers.

    The first seed with clear tokens is used (``clear_answers`` in make_goldens.py).

    Raises:
        SystemExit: No seed has clear tokens.
    """
    wanted, method, how = {"fp8": fp8, "mxfp4": mxfp4}.get(kind, sixteen)()
    config = transformers.AutoConfig.for_model(wanted.pop("model_type"), **wanted)
    with tempfile.TemporaryDirectory() as folder:
        tensors, kinds = quantise(kind, on_disk(config, Path(folder) / "made"))
        stored = json.loads((Path(folder) / "made" / "config.json").read_text())
        stored.pop("transformers_version", None)
        if method:
            stored["quantization_config"] = method
        dtype = "float32" if method else kind  # of tensors that are not quantised
        for seed in SEEDS:
            made = {
                "format": kind,
                "dtype": dtype,
                "seed": seed,
                "config": stored,
                "tensors": tensors,
                "quantised": kinds,
            }
            path = write_checkpoint(Path(folder) / f"seed{seed}", made, dtype)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                path,
                dtype=torch.float32,
                attn_implementation="eager",
                experts_implementation="eager",
                **({} if how is None else {"quantization_config": how}),
            )
            model = model.float().eval()
            if (answers := clear_answers(model)) is not None:
                return made | answers
    message = f"{kind}: no seed gives clear tokens"
    raise SystemExit(message)


if __name__ == "__main__":
    write_goldens(OUT, sys.argv[1:] or FORMATS, golden)
