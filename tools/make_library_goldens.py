"""Write the results of other libraries into the goldens of tokenizers, sampling, RoPE and GGUF blocks.

    pip install torch "transformers>=5" jinja2 sentencepiece protobuf gguf
    python tools/make_library_goldens.py [chats rope sampling tokenizers gguf_blocks]

A golden is a JSON file in tests/data with inputs, and with the results of a library for these
inputs. This script replaces the results. To add a case, add its inputs to the file first.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "tests" / "data"


def chats() -> None:
    """Render the chats in ``text/chats.json`` with chat templates by transformers.

    Four templates imitate the styles of public models. The fifth one uses other features of Jinja.
    The text is None if the template raises an exception.
    """
    import jinja2
    from transformers.utils.chat_template_utils import render_jinja_template

    path = DATA / "text" / "chats.json"
    cases = json.loads(path.read_text(encoding="utf-8"))
    for case in cases:
        try:
            rendered, _ = render_jinja_template(
                [case["messages"]], chat_template=case["source"], add_generation_prompt=True, **case["marks"]
            )
            case["text"] = rendered[0]
        except jinja2.TemplateError:
            case["text"] = None
    path.write_text(f"[\n{_lines(cases)}\n]\n", encoding="utf-8")


def rope() -> None:
    """Compute the rotary frequencies in ``rope.json`` with transformers.

    A case has the settings of a config.json, and ``multiplier`` is the factor of sines and cosines.
    """
    import transformers
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
    from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

    path = DATA / "rope.json"
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"]
    for case in cases:
        size = case["head_dim"]
        stated = {key: value for key, value in case.items() if key.startswith(("rope_", "original_"))}
        # A copy, because transformers changes the settings.
        stated["rope_parameters"] = dict(case["rope_parameters"])
        settings = {"hidden_size": 2 * size, "num_attention_heads": 2, "max_position_embeddings": 4096, **stated}
        if case["model_type"] == "phi3":
            embedding = Phi3RotaryEmbedding(transformers.Phi3Config(**settings, pad_token_id=0))
        else:
            embedding = LlamaRotaryEmbedding(transformers.LlamaConfig(**settings, head_dim=size))
        case["frequencies"] = [float(value) for value in embedding.inv_freq]
        case["multiplier"] = float(embedding.attention_scaling)
    golden = {"made_by": {"transformers": transformers.__version__}, "cases": cases}
    path.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")


def sampling() -> None:
    """Compute the token probabilities in ``text/sampling.json`` with transformers' logits processors.

    A case has logits, the ids of previous tokens and sampling options. The results are the ids with
    a probability above 0, and their probabilities.
    """
    path = DATA / "text" / "sampling.json"
    cases = json.loads(path.read_text(encoding="utf-8"))
    for case in cases:
        probabilities = token_probabilities(case["logits"], case["seen"], case["options"])
        case["kept"] = [i for i, value in enumerate(probabilities) if value > 0]
        case["probabilities"] = [float(f"{probabilities[i]:.8g}") for i in case["kept"]]
    path.write_text(f"[\n{_lines(cases)}\n]\n", encoding="utf-8")


def token_probabilities(logits: Sequence[float], seen: Sequence[int], options: Mapping[str, Any]) -> list[float]:
    """Return the probability of each token after transformers' processors, in the order of generation.

    Args:
        logits: Logits of all tokens.
        seen: Ids of the previous tokens.
        options: Sampling options by their names in transformers.
    """
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(logits), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    defaults = {"top_k": 0, "top_p": 1.0, "min_p": None, "repetition_penalty": 1.0}
    generation = GenerationConfig(do_sample=True, **{**defaults, **options})
    processors = LlamaForCausalLM(config)._get_logits_processor(generation, input_ids_seq_length=len(seen))
    scores = processors(torch.tensor([list(seen)], dtype=torch.long), torch.tensor([list(logits)], dtype=torch.float64))
    return [float(value) for value in scores.softmax(-1)[0]]


def tokenizers() -> None:
    """Compute the token ids in ``text/tokenizers.json`` with transformers and sentencepiece.

    A case has the files of a model folder (``.model`` files in base64) or the metadata of a GGUF
    file, and the texts are the keys of ``ids``. Long values are stored once, in the list
    ``shared``, and cases refer to them as ``{"shared": index}``.
    """
    path = DATA / "text" / "tokenizers.json"
    golden = json.loads(path.read_text(encoding="utf-8"))
    for case in golden["cases"]:
        stored = case.get("files") or case["metadata"]
        values = {
            key: golden["shared"][value["shared"]] if isinstance(value, dict) else value
            for key, value in stored.items()
        }
        encode = _gguf_encoder(values) if "metadata" in case else _encoder(case["name"], values)
        case["ids"] = {text: list(encode(text)) for text in case["ids"]}
    text = f'{{"shared": [\n{_lines(golden["shared"])}\n],\n"cases": [\n{_lines(golden["cases"])}\n]}}\n'
    path.write_text(text, encoding="utf-8")


def _encoder(name: str, files: Mapping[str, str]) -> Callable[[str], Sequence[int]]:
    """Return the function with which a library encodes texts for the files of a folder.

    A ``tokenizer.json`` is read by transformers' AutoTokenizer, and a ``tokenizer.model`` by the
    library with which the name of the case begins.
    """
    import sentencepiece
    from transformers import AutoTokenizer, LlamaTokenizer

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
        for file, content in files.items():
            data = base64.b64decode(content) if file.endswith(".model") else content.encode()
            (Path(folder) / file).write_bytes(data)
        if name.startswith("sentencepiece"):
            model = (Path(folder) / "tokenizer.model").read_bytes()
            return sentencepiece.SentencePieceProcessor(model_proto=model).encode
        kind = AutoTokenizer if "tokenizer.json" in files else LlamaTokenizer
        return kind.from_pretrained(folder).encode


def _gguf_encoder(metadata: Mapping[str, Any]) -> Callable[[str], Sequence[int]]:
    """Return the function with which transformers' GGUF reader encodes texts."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import convert_gguf_tokenizer

    values = {key.removeprefix("tokenizer.ggml."): value for key, value in metadata.items()}
    theirs = {"tokenizer_type": values["model"], "pre_tokenizer_type": values.get("pre")}
    library, _ = convert_gguf_tokenizer(values.pop("general.architecture"), values | theirs)
    # The tokenizer.json of these models sets ignore_merges; transformers' GGUF reader does not.
    library.model.ignore_merges = values.get("pre") in ("llama-bpe", "tekken")
    begin = [1] if values["model"] == "llama" else []
    return lambda text: begin + library.encode(text).ids


def gguf_blocks() -> None:
    """Decode the random quantised blocks of ``gguf_blocks.json`` with the gguf package.

    The blocks are not stored: tests/support/random_gguf.py generates the same ones from the seed.
    The decoded values are stored as the bits of float32 numbers, in hexadecimal.
    """
    import numpy as np
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    sys.path.insert(0, str(DATA.parent / "support"))
    from random_gguf import BLOCKS, stored_bytes

    path = DATA / "gguf_blocks.json"
    golden = json.loads(path.read_text(encoding="utf-8"))
    golden["values"] = {}
    for kind, (weights, _, _) in BLOCKS.items():
        row = stored_bytes("blocks", [1, golden["blocks"] * weights], kind, golden["seed"])
        values = dequantize(row[None], GGMLQuantizationType[kind]).astype(np.float32)
        golden["values"][kind] = values.view(np.uint32)[0].astype("<u4").tobytes().hex()
    path.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")


def _lines(values: Sequence[Any]) -> str:
    """Return the items of a JSON list, one per line."""
    return ",\n".join(map(json.dumps, values))


GOLDENS = {function.__name__: function for function in (chats, rope, sampling, tokenizers, gguf_blocks)}

if __name__ == "__main__":
    for name in sys.argv[1:] or GOLDENS:
        GOLDENS[name]()
