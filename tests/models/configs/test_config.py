from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.helpers import refusal
from tests.models.helpers import about, write_config
from wse.errors import BadModel
from wse.models.configs.config import FAMILIES, read_config
from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.rope import plain_rope

KNOWN = ", ".join(sorted(FAMILIES))


def test_a_config_file_of_another_name_names_the_model(tmp_path: Path) -> None:
    path = write_config(tmp_path).rename(tmp_path / "llama-9b.json")
    assert read_config(path).name == "llama-9b"


def test_absent_keys_have_the_meaning_that_the_format_gives_them(tmp_path: Path) -> None:
    path = write_config(
        tmp_path,
        *("num_key_value_heads", "head_dim", "rope_theta", "tie_word_embeddings", "torch_dtype"),
        *("bos_token_id", "eos_token_id", "architectures"),
        hidden_size=16,
    )
    spec = read_config(path)
    assert (spec.kv_head_count, spec.head_size) == (4, 4)
    assert (spec.rope, spec.tied_embedding, spec.dtype) == (plain_rope(4, 1e4), False, "bfloat16")
    assert (spec.bos_token_id, spec.eos_token_ids) == (None, ())
    assert read_config(path, unstated_dtype="float16").dtype == "float16"


@pytest.mark.parametrize(
    ("drop", "changes", "field", "expected"),
    [
        ("torch_dtype", {"dtype": "bfloat16"}, "dtype", "bfloat16"),
        ("rope_theta", {"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}}, "rope", plain_rope(6, 5e5)),
        ("-", {"rope_scaling": None}, "rope", plain_rope(6, 1e4)),
        ("-", {"rope_theta": 500000}, "rope", plain_rope(6, 5e5)),
        ("-", {"eos_token_id": [5, 7, 5]}, "eos_token_ids", (5, 7)),
        ("-", {"eos_token_id": None}, "eos_token_ids", ()),
        ("-", {"bos_token_id": None}, "bos_token_id", None),
        ("-", {"head_dim": None, "hidden_size": 16}, "head_size", 4),
        ("-", {"layer_types": ["full_attention"] * 2}, "layer_count", 2),
        ("-", {"sliding_window": None, "quantization_config": None, "from_the_future": None}, "layer_count", 2),
        ("-", {"rope_interleaved": False, "is_llama_config": True, "use_cache": True}, "layer_count", 2),
    ],
)
def test_spellings_and_harmless_keys(
    tmp_path: Path, drop: str, changes: dict[str, Any], field: str, expected: Any
) -> None:
    assert getattr(read_config(write_config(tmp_path, drop, **changes)), field) == expected


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "high_freq_factor": 4.0}
LINEAR = {"type": "linear", "factor": 2.0}
YARN = {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 16}
LONG = {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0, 2.0, 3.0]}
SIZES = {
    "hidden_size": "an integer from 1 to 1,048,576",
    "intermediate_size": "an integer from 1 to 16,777,216",
    "num_hidden_layers": "an integer from 1 to 10,000",
    "num_attention_heads": "an integer from 1 to 65,536",
    "vocab_size": "an integer from 1 to 16,777,216",
    "max_position_embeddings": "an integer from 1 to 1,073,741,824",
}


@pytest.mark.parametrize("key", SIZES)
@pytest.mark.parametrize("value", [0, -1, 4.0, "12", True, [12], 10**12, 10**30])
def test_an_impossible_size_is_refused_with_its_range(tmp_path: Path, key: str, value: Any) -> None:
    path = write_config(tmp_path, **{key: value})
    assert refusal(BadModel, read_config, path) == f"{path}: {key} = {value!r}: give {SIZES[key]}"


@pytest.mark.parametrize("key", SIZES)
def test_a_missing_size_is_named(tmp_path: Path, key: str) -> None:
    path = write_config(tmp_path, key)
    assert refusal(BadModel, read_config, path) == f"{path}: has no {key}; add it: {SIZES[key]}"


@pytest.mark.parametrize(
    ("drop", "changes", "tail"),
    [
        ("-", {"num_key_value_heads": 3}, "…: give a divisor of num_attention_heads = 4"),
        ("head_dim", {"hidden_size": 13}, "…: give a multiple of num_attention_heads = 4, or add head_dim"),
        ("-", {"head_dim": 7}, "…: rotary positions pair features of a head: give an even size"),
        ("rms_norm_eps", {}, "has no rms_norm_eps; add it: a number above 0, at most 1"),
        ("-", {"rms_norm_eps": "1e-5"}, "…: give a number above 0, at most 1"),
        ("-", {"rope_theta": -1.0}, "…: give a number above 1, at most 1e+15"),
        ("-", {"tie_word_embeddings": 1}, "…: give true or false"),
        ("-", {"bos_token_id": 16}, "…: give an integer from 0 to 15"),
        ("-", {"eos_token_id": [2, 16]}, "…: give token ids from 0 to 15, or null"),
        ("-", {"torch_dtype": "float64"}, "…: supported: float32, float16, bfloat16"),
        ("-", {"dtype": "float16"}, "torch_dtype = 'float32': contradicts dtype = 'float16'; keep one"),
        ("-", {"rope_scaling": {"rope_type": "ntk", "factor": 8.0}}, "…: this scaling of rotary positions is not"),
        ("-", {"rope_scaling": LLAMA3}, "has no rope_scaling.low_freq_factor; add it: a number above 1e-06"),
        (
            "-",
            {"rope_scaling": LINEAR, "rope_parameters": {"rope_type": "default"}},
            "rope_scaling = {'type': 'linear'",
        ),
        (
            "-",
            {"original_max_position_embeddings": 8, "rope_scaling": YARN},
            "original_max_position_embeddings = 8, rope",
        ),
        ("-", {"rope_scaling": LONG}, "rope_scaling.short_factor = [1.0]: give a list of 3 numbers above 1e-06"),
        ("-", {"rope_parameters": {"rope_type": "default", "factor": 2.0}}, "rope_parameters.factor = 2.0"),
        ("-", {"rope_scaling": 3}, "…: give an object or null"),
        ("-", {"rope_parameters": {"rope_theta": 5e5}}, "rope_theta = 10000, rope_parameters.rope_theta = 500000"),
        ("-", {"partial_rotary_factor": 0.5}, "…: only whole heads are rotated; supported: 1.0"),
        ("-", {"hidden_act": "gelu"}, "…: supported: silu, swish"),
        ("-", {"sliding_window": 4096}, "…: a sliding window is not supported in this family; supported: null"),
        ("-", {"rope_interleaved": True}, "…: rotary pairs must be split halves; supported: false"),
        ("-", {"layer_types": ["full_attention", "sliding_attention"]}, "…: supported: full_attention in every layer"),
        ("-", {"pruned_heads": {"0": [1]}}, "…: pruned heads are not supported; supported: {}"),
        ("-", {"architectures": ["LlamaForSequenceClassification"]}, "…: only LlamaForCausalLM predicts tokens"),
        ("-", {"logits_scaling": 8}, "…: this key is not understood and may change the mathematics"),
        ("-", {"num_hidden_layer": 4}, "…: this key is not understood and may change the mathematics"),
        ("model_type", {}, f"has no model_type, so it is not the config of a model; add it (known: {KNOWN})"),
        ("-", {"model_type": 7}, f"…: give one of {KNOWN}"),
    ],
)
def test_other_mathematics_are_refused(tmp_path: Path, drop: str, changes: dict[str, Any], tail: str) -> None:
    path = write_config(tmp_path, drop, **changes)
    assert refusal(BadModel, read_config, path).startswith(f"{path}: {about(changes, tail)}")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_is_finite(tmp_path: Path, value: float) -> None:
    """JSON has no such numbers; the metadata of a GGUF may."""
    config = ConfigReader(tmp_path / "a.gguf", {"base": value})
    assert refusal(BadModel, config.number, "base", 0.0, 1e15) == (
        f"{tmp_path / 'a.gguf'}: base = {value}: give a number above 0, at most 1e+15"
    )
