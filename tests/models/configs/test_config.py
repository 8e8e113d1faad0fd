"""Tests of reading config.json: sizes, absent keys, rotary embeddings, and refused values."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hardware.helpers import refusal
from tests.models.families.configs import LLAMA4, SPELLINGS, old_and_new
from tests.models.helpers import older_rope, result_or_refusal, write_config
from wse.errors import BadInput, BadModel
from wse.models.configs.config import read_config
from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.rope import llama3_rope, plain_rope
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import parameter_count


def test_a_config_file_of_another_name_names_the_model(tmp_path: Path) -> None:
    path = write_config(tmp_path).rename(tmp_path / "llama-9b.json")
    assert read_config(path).name == "llama-9b"


def test_absent_keys_have_the_defaults_of_the_format(tmp_path: Path) -> None:
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
def test_spellings_and_harmless_keys_are_read(
    tmp_path: Path, drop: str, changes: dict[str, Any], field: str, expected: Any
) -> None:
    assert getattr(read_config(write_config(tmp_path, drop, **changes)), field) == expected


SIZES = {
    "hidden_size": "an integer from 1 to 1,048,576",
    "intermediate_size": "an integer from 1 to 16,777,216",
    "num_hidden_layers": "an integer from 1 to 10,000",
    "num_attention_heads": "an integer from 1 to 65,536",
    "vocab_size": "an integer from 1 to 16,777,216",
    "max_position_embeddings": "an integer from 1 to 1,073,741,824",
}


@pytest.mark.parametrize(
    ("key", "value"),
    [*((key, 0) for key in SIZES), *(("hidden_size", value) for value in (4.0, "12", True, [12], 10**12, 10**30))],
)
def test_an_impossible_size_is_refused_with_its_range(tmp_path: Path, key: str, value: Any) -> None:
    path = write_config(tmp_path, **{key: value})
    assert refusal(BadModel, read_config, path) == f"{path}: {key} = {value!r}: give {SIZES[key]}"


def test_a_missing_size_is_named(tmp_path: Path) -> None:
    key = "hidden_size"
    path = write_config(tmp_path, key)
    assert refusal(BadModel, read_config, path) == f"{path}: has no {key}; add it: {SIZES[key]}"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_number_that_is_not_finite_is_refused(tmp_path: Path, value: float) -> None:
    """JSON has no infinite numbers or NaN, but the metadata of a GGUF file may have them."""
    config = ConfigReader(tmp_path / "a.gguf", {"base": value})
    assert refusal(BadModel, config.number, "base", 0.0, 1e15) == (
        f"{tmp_path / 'a.gguf'}: base = {value}: give a number above 0, at most 1e+15"
    )


@pytest.mark.parametrize(
    ("text", "tail"),
    [
        (b"{\n  ]", "not JSON at line 2, column 3 (Expecting property name enclosed in double quotes)"),
        (b"", "not JSON at line 1, column 1 (Expecting value)"),
        (b'{"a": NaN}', "NaN is not a number of JSON"),
        (b'{"a": -Infinity}', "-Infinity is not a number of JSON"),
        (b'{"a": 1, "a": 2}', "the key 'a' is given twice"),
        (b'{"a": "\xff"}', "not JSON: byte 7 is not UTF-8"),
    ],
)
def test_text_that_is_not_json_is_refused_with_its_position(tmp_path: Path, text: bytes, tail: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(text)
    assert refusal(BadModel, read_config, path) == f"{path}: {tail}; correct it or fetch the file again"


def test_a_list_and_deep_nesting_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("[1]")
    assert refusal(BadModel, read_config, path) == (f"{path}: holds a JSON list, not an object; is it the right file?")
    path.write_text('{"a":' + "[" * 200_000)
    assert refusal(BadModel, read_config, path).startswith(f"{path}: nested too deeply")
    path.write_text('{"hidden_size": ' + "9" * 5000 + "}")
    assert refusal(BadModel, read_config, path).endswith("; correct it or fetch the file again")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
CONFIGS = [LLAMA4, *(config for name in SPELLINGS for config in old_and_new(name))]
TABLES = ("text_config", "rope_parameters", "rope_scaling")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_values_in_a_config_of_any_family_are_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    config = copy.deepcopy(data.draw(st.sampled_from(CONFIGS)))
    objects = [config, *(config[key] for key in TABLES if config.get(key))]
    changed = data.draw(st.sampled_from(objects))
    changed |= data.draw(st.dictionaries(st.sampled_from(sorted(changed)), JSON_VALUES | st.integers(0, 9), max_size=3))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    spec = result_or_refusal(BadInput, read_config, path)
    if spec is not None:
        assert parameter_count(spec) > 0


CASES = json.loads((Path(__file__).parents[2] / "data" / "rope.json").read_text(encoding="utf-8"))["cases"]
CONTEXT = 4096
ULPS = 4  # units in the last place of float32, because torch computes powers with a routine of the processor


def spec_of(folder: Path, case: dict[str, Any], rope: dict[str, Any]) -> ModelSpec:
    """Write the config of a golden case with `rope` keys and read it."""
    size = case["head_dim"]
    return read_config(
        write_config(
            folder,
            "architectures",
            model_type=case["model_type"],
            head_dim=size,
            hidden_size=2 * size,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT,
            **({key: case[key] for key in case if key == "original_max_position_embeddings"}),
            **({"rope_theta": None} | rope),
        )
    )


@pytest.mark.parametrize("index", range(len(CASES)))
def test_both_spellings_give_the_frequencies_of_transformers(tmp_path: Path, index: int) -> None:
    case = CASES[index]
    spec = spec_of(tmp_path, case, {"rope_parameters": case["rope_parameters"]})
    got, expected = np.float32(spec.rope.frequencies), np.float32(case["frequencies"])
    assert got.shape == expected.shape
    worst = np.abs(got - expected) / np.spacing(expected)
    assert worst.max() <= ULPS, f"{worst.max()} units in the last place, allowed {ULPS}"
    assert spec.rope.multiplier == pytest.approx(case["multiplier"], rel=1e-15)
    assert spec_of(tmp_path, case, older_rope(case["rope_parameters"])).rope == spec.rope


def test_context_limit_is_the_original_one_for_long_rope_only(tmp_path: Path) -> None:
    limits = {
        (case["rope_parameters"]["rope_type"], case.get("original_max_position_embeddings")): spec_of(
            tmp_path, case, {"rope_parameters": case["rope_parameters"]}
        ).context_limit
        for case in CASES
    }
    assert limits["longrope", 1024] == 1024
    assert {limit for (kind, _), limit in limits.items() if kind != "longrope"} == {CONTEXT}


def test_llama3_rope_with_equal_limits_has_no_division_by_zero() -> None:
    rope = llama3_rope(16, 1e4, factor=4.0, low=1.0, high=1.0, original=100)
    plain = plain_rope(16, 1e4)
    waves = [2 * np.pi / frequency for frequency in plain.frequencies]
    expected = [f / 4 if wave > 100 else f for f, wave in zip(plain.frequencies, waves, strict=True)]
    assert rope.frequencies == tuple(expected)
    assert any(wave > 100 for wave in waves)
    assert any(wave < 100 for wave in waves)
