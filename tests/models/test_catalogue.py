"""The bundled configurations: their counts against published ones, and what is said of each."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wse.models.catalogue import BUNDLED, CONFIGURATIONS, name_of_repository, names, origins
from wse.models.configs.config import CONFIG_LIMIT_BYTES, read_config
from wse.models.configs.json_file import read_object
from wse.models.spec import Packing
from wse.models.tensors.model_tensors import kv_bytes_per_token, parameter_count, parameters_per_token

NAMES = sorted(CONFIGURATIONS)
PARAMETERS = {
    "gemma-2-27b": 27_227_128_320,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "llama-3.1-8b": 8_030_261_248,
    "phi-4": 14_659_507_200,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-14b": 14_768_307_200,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-4b": 4_022_468_096,
}
"""Parameters that the pages of the models state, which tell a slip in any size."""
OWN = ("kimi-k2", "llama-2-70b", "mixtral-8x7b", *PARAMETERS)
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


def test_kimi_k2_6_has_the_parameters_of_its_matrices() -> None:
    """By hand from the shapes; published: a trillion in all, 32 billion of them active for a token."""
    spec, hidden, heads = read_config(CONFIGURATIONS["kimi-k2.6"]), 7168, 64
    queries = hidden * 1536 + 1536 + 1536 * heads * (128 + 64)
    keys_and_values = hidden * (512 + 64) + 512 + 512 * heads * (128 + 128)
    attention = queries + keys_and_values + heads * 128 * hidden
    expert = 3 * hidden * 2048
    router = 384 * hidden + 384
    vocabulary = 163_840 * hidden

    def parameters(experts: int, tables: int) -> int:
        layers = 61 * (attention + 2 * hidden) + 3 * hidden * 18_432 + 60 * ((experts + 1) * expert + router)
        return layers + hidden + tables * vocabulary

    assert parameter_count(spec) == parameters(384, 2) == 1_026_408_232_448
    assert parameters_per_token(spec, input_table=True) == parameters(8, 2) == 32_861_500_928
    assert parameters_per_token(spec) == parameters(8, 1)
    assert kv_bytes_per_token(spec, 2) == 61 * (512 + 64) * 2


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_a_model_has_the_parameters_that_its_page_states(name: str) -> None:
    assert parameter_count(read_config(CONFIGURATIONS[name])) == PARAMETERS[name]


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
