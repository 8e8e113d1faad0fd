"""Bundled configurations, and models that are loaded by name or from a folder."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hardware.helpers import refusal
from tests.models.helpers import llama2c_bytes, tiny_tensors, write_config, write_model
from wse.errors import BadModel
from wse.models.catalogue import BUNDLED, CONFIGURATIONS, name_of_repository, names, origins
from wse.models.configs.config import CONFIG_LIMIT_BYTES, read_config
from wse.models.configs.json_file import read_object
from wse.models.load import load_model
from wse.models.spec import Packing
from wse.models.tensors.model_tensors import kv_bytes_per_token, parameter_count, parameters_per_token

NAMES = sorted(CONFIGURATIONS)
PARAMETERS = {
    "exaone-4.0-32b": 32_003_216_384,
    "falcon-40b": 41_303_293_952,
    "gemma-2-27b": 27_227_128_320,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-1b": 999_885_952,
    "gemma-7b": 8_537_680_896,
    "gpt-neox-20b": 20_554_567_680,
    "granite-3.3-8b": 8_170_864_640,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "mistral-nemo-2407": 12_247_782_400,
    "mistral-small-2501": 23_572_403_200,
    "mixtral-8x22b": 140_630_071_296,
    "olmo-2-13b": 13_716_198_400,
    "olmo-2-7b": 7_298_617_344,
    "olmoe-1b-7b": 6_919_161_856,
    "phi-4": 14_659_507_200,
    "pythia-12b": 11_846_072_320,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-14b": 14_768_307_200,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-4b": 4_022_468_096,
    "qwen3-next-80b-a3b": 79_674_391_296,
    "seed-oss-36b": 36_151_104_512,
    "smollm2-1.7b": 1_711_376_384,
    "smollm3-3b": 3_075_098_624,
    "stablelm-2-1.6b": 1_644_515_328,
    "starcoder2-15b": 15_957_889_024,
    "starcoder2-7b": 7_173_923_840,
}
"""Parameters that the pages of the models state, or that transformers counts, which tell a slip in any size."""
BILLIONS = {
    "command-a": 111.0,
    "command-r": 35.0,
    "command-r-08-2024": 32.3,
    "command-r7b": 8.03,
    "ernie-4.5-0.3b": 0.361,
    "ernie-4.5-21b-a3b": 21.8,
    "ernie-4.5-300b-a47b": 300.0,
    "falcon-7b": 6.92,
    "gemma-3-12b": 11.8,
    "gemma-3-27b": 27.0,
    "gemma-3-4b": 3.88,
    "glm-4-32b": 32.6,
    "glm-4-9b": 9.4,
    "granite-3.1-3b-a800m": 3.3,
    "granite-3.3-2b": 2.53,
    "minimax-m2": 229.0,
    "minitron-4b": 4.19,
    "olmo-2-32b": 32.2,
    "olmo-3-32b": 32.2,
    "olmo-3-7b": 7.3,
    "opt-13b": 12.9,
    "opt-66b": 65.7,
    "qwen2-57b-a14b": 57.4,
}
"""The same, rounded: without vision models and rows of tables that no token has, with shared norms counted twice."""
OWN = ("kimi-k2", "llama-2-70b", "mixtral-8x7b", *PARAMETERS, *BILLIONS)
"""Configurations that are not among the published files and counts at hand."""
PUBLISHED = [name for name in NAMES if name not in OWN]
WITHOUT_TYPES = ("kimi-k2.6",)
"""Published files at hand that leave out the element types, which are beside the text model in the whole file."""


@pytest.fixture(scope="module")
def counts(shared: Path) -> Any:
    """Published integers by model."""
    return json.loads((shared / "model_params.json").read_text())


def test_every_published_configuration_is_bundled(beside: Path) -> None:
    assert sorted(path.stem for path in (beside / "reference" / "model_configs").glob("*.json")) == PUBLISHED


def test_every_configuration_says_where_it_comes_from() -> None:
    assert sorted(origins()) == NAMES
    for name, origin in origins().items():
        owner, _, model = origin.repository.partition("/")
        assert owner, name
        assert model, name
        assert origin.licence, name
    assert set(names()) == {*BUNDLED, *CONFIGURATIONS}


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_a_model_has_the_parameters_that_its_page_states(name: str) -> None:
    assert parameter_count(read_config(CONFIGURATIONS[name])) == PARAMETERS[name]


@pytest.mark.parametrize("name", sorted(BILLIONS))
def test_a_model_has_about_the_parameters_that_its_page_states(name: str) -> None:
    assert parameter_count(read_config(CONFIGURATIONS[name])) / 1e9 == pytest.approx(BILLIONS[name], rel=0.005)


@pytest.mark.parametrize(
    ("repository", "name"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"),
        ("moonshotai/Kimi-K2-Instruct-0905", "kimi-k2"),
        ("Qwen/Qwen3-32B-FP8", "qwen3-32b"),
        ("unsloth/gemma-2-9b-it", "gemma-2-9b"),
        ("nobody/qwen3", None),
    ],
)
def test_the_configuration_of_a_repository(repository: str, name: str | None) -> None:
    assert name_of_repository(repository) == name


@pytest.mark.parametrize("name", sorted({*PUBLISHED} - {"kimi-k2.6"}))
def test_counts_are_the_published_integers(counts: Any, name: str) -> None:
    spec, published = read_config(CONFIGURATIONS[name]), counts[name]
    found = {
        "total_params": parameter_count(spec),
        "params_used_per_token_incl_embedding_table": parameters_per_token(spec, input_table=True),
        "params_used_per_token_excl_input_embedding": parameters_per_token(spec),
        "params_used_per_token_excl_embedding_and_head": parameters_per_token(spec, head=False),
        "kv_cache_bytes_per_token_16bit_full_attention": kv_bytes_per_token(spec, 2),
    }
    assert found.keys() == published.keys()
    assert {key: found[key] for key, value in published.items() if value is not None} == {
        key: value for key, value in published.items() if value is not None
    }


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_configuration_is_the_published_one(beside: Path, name: str) -> None:
    """What was left out of the file changes neither the mathematics nor how weights are read."""
    ours, whole = read_config(CONFIGURATIONS[name]), beside / "reference" / "model_configs" / f"{name}.json"
    if name in WITHOUT_TYPES:
        ours = replace(ours, packing=Packing())
    assert ours == read_config(whole)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_configuration_states_nothing_that_is_not_in_the_published_one(beside: Path, name: str) -> None:
    whole = read_object(beside / "reference" / "model_configs" / f"{name}.json", CONFIG_LIMIT_BYTES)
    ours = read_object(CONFIGURATIONS[name], CONFIG_LIMIT_BYTES)
    whole, ours = whole.get("text_config", whole), ours.get("text_config", ours)
    if name in WITHOUT_TYPES:
        ours = {key: value for key, value in ours.items() if key not in ("torch_dtype", "quantization_config")}
    packing = {key: table.pop("quantization_config", {}) for key, table in (("whole", whole), ("ours", ours))}
    assert ours.items() <= whole.items()
    assert packing["ours"].items() <= packing["whole"].items()


def test_a_folder_with_a_config_alone_gives_the_spec_and_its_tokenizer(tmp_path: Path) -> None:
    """As a hub has it, of which config.json alone was fetched: enough for everything but a run."""
    write_config(tmp_path)
    (tmp_path / "tokenizer.bin").write_bytes(llama2c_bytes([b"%x" % i for i in range(16)], [0.0] * 16))
    model = load_model(str(tmp_path))
    assert (model.checkpoint, model.spec.name) == (None, tmp_path.name)
    assert model.tokenizer is not None


def test_an_unstated_element_type_is_that_of_the_weights(tmp_path: Path) -> None:
    write_model(tmp_path, tiny_tensors(np.float16))
    write_config(tmp_path, "torch_dtype")
    for with_weights in (True, False):
        model = load_model(str(tmp_path), with_weights=with_weights)
        assert (model.spec.dtype, model.note, model.checkpoint is not None) == ("float16", None, with_weights)


def test_an_element_type_that_no_file_states_is_bfloat16_with_a_note(tmp_path: Path) -> None:
    config = write_config(tmp_path, "torch_dtype")
    for where in (tmp_path, config):
        model = load_model(str(where))
        assert model.spec.dtype == "bfloat16"
        assert model.note == "config.json states no torch_dtype: weights are assumed to be bfloat16"
    write_config(tmp_path, "torch_dtype", quantization_config={"quant_method": "fp8"})
    packed = load_model(str(config))
    assert (packed.spec.weight_type, packed.spec.dtype) == ("fp8", "bfloat16")
    assert packed.note == "config.json states no torch_dtype: all weights except fp8 ones are assumed to be bfloat16"
    for key in ("torch_dtype", "dtype"):
        write_config(tmp_path, *({"torch_dtype"} - {key}), **{key: "float32"})
        assert load_model(str(config)).note is None


def test_a_bundled_model_without_files_asks_to_reinstall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUNDLED, "story", tmp_path)
    assert "the bundled model 'story' is missing" in refusal(BadModel, load_model, "story")


def test_the_case_of_a_name_is_free_where_no_folder_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_model("Llama-3-8B").spec == load_model("llama-3-8b").spec
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Llama-3-8B").mkdir()
    write_model(tmp_path / "Llama-3-8B")
    assert load_model("Llama-3-8B").spec.hidden_size == 12


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert f"'{missing}': no such file or folder" in refusal(BadModel, load_model, str(missing))
    assert refusal(BadModel, load_model, "").startswith("'': no such file or folder; ")
    assert "has no config.json" in refusal(BadModel, load_model, str(tmp_path))
    assert refusal(BadModel, load_model, "x" * 400).endswith("; check the path and its permissions")
    (tmp_path / "m.txt").touch()
    assert "is neither a folder, a config.json nor a GGUF" in refusal(BadModel, load_model, str(tmp_path / "m.txt"))


def test_weights_alone_point_to_their_folder(tmp_path: Path) -> None:
    path = write_model(tmp_path) / "model.safetensors"
    assert "weights alone are not enough" in refusal(BadModel, load_model, str(path))
