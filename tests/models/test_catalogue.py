"""Tests of bundled configurations, and of loading models by name or from a folder."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.hardware.helpers import refusal
from tests.models.helpers import llama2c_bytes, tiny_tensors, write_config, write_model
from wse.errors import BadModel
from wse.models.catalogue import BUNDLED, CONFIGURATIONS, name_of_repository, names, origins
from wse.models.configs.config import read_config
from wse.models.load import load_model
from wse.models.spec import Packing
from wse.models.tensors.model_tensors import kv_bytes_per_token, parameter_count, parameters_per_token

NAMES = sorted(CONFIGURATIONS)
PARAMETERS = json.loads((Path(__file__).parents[1] / "data" / "page_parameters.json").read_text(encoding="utf-8"))
"""Published numbers of parameters by model, from model cards or counted by transformers, to detect a wrong size.

`exact` has integers, `billions` has rounded numbers. The rounded numbers exclude vision models and rows of embedding
tables that no token uses, and they count shared norms twice.
"""
WITHOUT_REFERENCE = ("kimi-k2", "llama-2-70b", "mixtral-8x7b", *PARAMETERS["exact"], *PARAMETERS["billions"])
"""Configurations for which the reference files have neither a published config nor counts."""
PUBLISHED = [name for name in NAMES if name not in WITHOUT_REFERENCE]
WITHOUT_TYPES = ("kimi-k2.6",)
"""Published configs that lack the element types, because these are outside the text model in the original file."""


def test_every_published_configuration_is_bundled(external_data: Path) -> None:
    assert sorted(path.stem for path in (external_data / "reference" / "model_configs").glob("*.json")) == PUBLISHED


def test_every_configuration_says_where_it_comes_from() -> None:
    assert sorted(origins()) == NAMES
    for name, origin in origins().items():
        owner, _, model = origin.repository.partition("/")
        assert owner, name
        assert model, name
        assert origin.licence, name
    assert set(names()) == {*BUNDLED, *CONFIGURATIONS}


def test_models_have_the_parameters_that_their_pages_state() -> None:
    counts = {
        name: parameter_count(read_config(CONFIGURATIONS[name])) for pages in PARAMETERS.values() for name in pages
    }
    assert {name: counts[name] for name in PARAMETERS["exact"]} == PARAMETERS["exact"]
    billions = {name: counts[name] / 1e9 for name in PARAMETERS["billions"]}
    assert billions == pytest.approx(PARAMETERS["billions"], rel=0.005)


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
def test_repository_name_finds_its_configuration(repository: str, name: str | None) -> None:
    assert name_of_repository(repository) == name


def test_counts_are_the_published_integers(test_data: Path) -> None:
    published_counts = json.loads((test_data / "model_params.json").read_text())
    for name in {*PUBLISHED} - {"kimi-k2.6"}:
        spec, published = read_config(CONFIGURATIONS[name]), published_counts[name]
        found = {
            "total_params": parameter_count(spec),
            "params_used_per_token_incl_embedding_table": parameters_per_token(spec, input_table=True),
            "params_used_per_token_excl_input_embedding": parameters_per_token(spec),
            "params_used_per_token_excl_embedding_and_head": parameters_per_token(spec, head=False),
            "kv_cache_bytes_per_token_16bit_full_attention": kv_bytes_per_token(spec, 2),
        }
        known = {key: value for key, value in published.items() if value is not None}
        assert found.keys() == published.keys()
        assert {key: found[key] for key in known} == known, name


def test_configurations_are_the_published_ones(external_data: Path) -> None:
    """Keys that were left out of a bundled file do not change the model or how its weights are read."""
    for name in PUBLISHED:
        ours, whole = read_config(CONFIGURATIONS[name]), external_data / "reference" / "model_configs" / f"{name}.json"
        if name in WITHOUT_TYPES:
            ours = replace(ours, packing=Packing())
        assert ours == read_config(whole), name


def test_folder_without_weights_gives_the_spec_and_its_tokenizer(tmp_path: Path) -> None:
    """Such a folder remains if only config.json was downloaded; it is enough for everything except a run."""
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


def test_missing_bundled_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUNDLED, "story", tmp_path)
    assert "the bundled model 'story' is missing" in refusal(BadModel, load_model, "story")


def test_name_is_found_in_any_case_unless_a_folder_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_model("Llama-3-8B").spec == load_model("llama-3-8b").spec
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Llama-3-8B").mkdir()
    write_model(tmp_path / "Llama-3-8B")
    assert load_model("Llama-3-8B").spec.hidden_size == 12


def test_path_without_a_model_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert f"'{missing}': no such file or folder" in refusal(BadModel, load_model, str(missing))
    assert refusal(BadModel, load_model, "").startswith("'': no such file or folder; ")
    assert "has no config.json" in refusal(BadModel, load_model, str(tmp_path))
    assert refusal(BadModel, load_model, "x" * 400).endswith("; check the path and its permissions")
    (tmp_path / "m.txt").touch()
    assert "is neither a folder, a config.json nor a GGUF" in refusal(BadModel, load_model, str(tmp_path / "m.txt"))


def test_weights_file_is_refused_with_a_hint_to_its_folder(tmp_path: Path) -> None:
    path = write_model(tmp_path) / "model.safetensors"
    assert "weights alone are not enough" in refusal(BadModel, load_model, str(path))


def test_folder_of_the_bundled_story_model_has_four_files_in_two_million_bytes() -> None:
    """The folder is part of every installation, so it must stay small."""
    sizes_bytes = {path.name: path.stat().st_size for path in BUNDLED["story"].iterdir()}
    assert set(sizes_bytes) == {"README.md", "config.json", "model.safetensors", "tokenizer.json"}
    assert sum(sizes_bytes.values()) <= 2_000_000
