"""Damaged models and traces as a command meets them: one line that names the file and the place; nothing left behind.

The readers of these files have tests of their own for each kind of damage.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors_writer import header_of, join_safetensors, write_safetensors

from tests.cli.conftest import Wse, files_below
from tests.models.helpers import tiny_tensors, write_config


def refused(wse: Wse, folder: Path, *arguments: object) -> str:
    """The one line, after checking that no file came or went below ``folder``."""
    before = files_below(folder)
    line = wse(*arguments).refusal()
    assert files_below(folder) == before
    return line


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"architectures": ["MambaForCausalLM"], "model_type": "mamba"}, ["mamba", "llama"]),
        ({"hidden_size": None}, ["hidden_size"]),
        ({"hidden_size": -12}, ["hidden_size", "-12"]),
        ({"vocab_size": "many"}, ["vocab_size", "'many'"]),
    ],
    ids=str,
)
def test_config_that_cannot_be_is_refused(
    wse: Wse, tiny: Path, tmp_path: Path, changes: dict[str, object], says: list[str]
) -> None:
    write_config(tiny, **changes)
    line = refused(wse, tmp_path, "run", tiny, "--prompt-ids", "1")
    assert [part for part in [*says, "config.json"] if part not in line] == [], line


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff", '{"hidden_size": NaN}', "null"])
def test_config_that_is_no_json_object_is_refused(wse: Wse, tiny: Path, tmp_path: Path, text: str) -> None:
    (tiny / "config.json").write_bytes(text.encode("latin-1"))
    assert "config.json" in refused(wse, tmp_path, "run", tiny, "--prompt-ids", "1")


def test_config_with_a_value_of_a_megabyte_gives_a_line_that_a_screen_holds(
    wse: Wse, tiny: Path, tmp_path: Path
) -> None:
    config = json.loads((tiny / "config.json").read_text())
    (tiny / "config.json").write_text(json.dumps(config | {"hidden_size": "x" * 10**6}))
    assert len(refused(wse, tmp_path, "run", tiny, "--prompt-ids", "1")) < 1000


def whole_weights() -> bytes:
    tensors = tiny_tensors()
    return join_safetensors(header_of(tensors), b"".join(array.tobytes() for array in tensors.values()))


WEIGHTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "header cut": (whole_weights()[:100], "header"),
    "data cut": (whole_weights()[:-100], "fetch the file again"),
}


@pytest.mark.parametrize("case", WEIGHTS)
@pytest.mark.parametrize("command", ["run", "compile"])
def test_weights_that_are_damaged_are_refused(wse: Wse, tiny: Path, tmp_path: Path, command: str, case: str) -> None:
    """Also where nothing runs."""
    data, says = WEIGHTS[case]
    (tiny / "model.safetensors").write_bytes(data)
    line = refused(wse, tmp_path, command, tiny)
    assert says in line
    assert "model.safetensors" in line


def test_weights_that_lack_a_tensor_or_shape_it_otherwise_are_refused(wse: Wse, tiny: Path, tmp_path: Path) -> None:
    tensors = tiny_tensors()
    name = "model.layers.1.mlp.up_proj.weight"
    gone = tensors.pop(name)
    for changed in (tensors, tensors | {name: gone.T}):
        write_safetensors(tiny / "model.safetensors", changed)
        assert name in refused(wse, tmp_path, "run", tiny, "--prompt-ids", "1")
    (tiny / "model.safetensors").unlink()
    assert "safetensors" in refused(wse, tmp_path, "run", tiny, "--prompt-ids", "1")
