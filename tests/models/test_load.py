from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.hardware.helpers import refusal
from tests.models.helpers import llama2c_bytes, tiny_tensors, write_config, write_model
from wse.errors import BadModel
from wse.models.catalogue import BUNDLED
from wse.models.load import load_model


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


@pytest.mark.parametrize(
    ("repository", "says"),
    [
        ("Qwen/Qwen3-8B", "its shape comes with wse: give qwen3-8b; or fetch it, hf download Qwen/Qwen3-8B "),
        ("some.one/Model_1", "fetch it, hf download some.one/Model_1 --local-dir Model_1, and give the folder Model_1"),
    ],
)
def test_a_name_of_a_hub_is_told_how_to_get_it(repository: str, says: str) -> None:
    line = refusal(BadModel, load_model, repository)
    assert line.startswith(f"{repository!r}: no such folder; wse fetches nothing from a hub: ")
    assert says in line


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
