"""Damaged models as a command meets them: one line that names the file and the place; nothing left behind.

The readers of these files have tests of their own for each kind of damage.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors_writer import header_of, join_safetensors

from tests.cli.conftest import Wse, files_below
from tests.models.helpers import tiny_tensors


def refused(wse: Wse, folder: Path, *arguments: object) -> str:
    """The one line, after checking that no file came or went below ``folder``."""
    before = files_below(folder)
    line = wse(*arguments).refusal()
    assert files_below(folder) == before
    return line


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"architectures": ["MambaForCausalLM"], "model_type": "mamba"}, "mamba"),
        ({"hidden_size": "x" * 10**6}, "hidden_size"),
    ],
    ids=["architecture", "a megabyte"],
)
def test_config_that_cannot_be_is_refused_in_a_line_that_a_screen_holds(
    wse: Wse, tiny: Path, tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    config = json.loads((tiny / "config.json").read_text())
    (tiny / "config.json").write_text(json.dumps(config | changes))
    line = refused(wse, tmp_path, "run", tiny, "--prompt-ids", "1")
    assert "config.json" in line
    assert says in line
    assert len(line) < 1000


@pytest.mark.parametrize("command", ["run", "compile"])
def test_weights_that_are_damaged_are_refused_also_where_nothing_runs(
    wse: Wse, tiny: Path, tmp_path: Path, command: str
) -> None:
    tensors = tiny_tensors()
    whole = join_safetensors(header_of(tensors), b"".join(array.tobytes() for array in tensors.values()))
    (tiny / "model.safetensors").write_bytes(whole[:-100])
    line = refused(wse, tmp_path, command, tiny)
    assert "fetch the file again" in line
    assert "model.safetensors" in line
    (tiny / "model.safetensors").unlink()
    assert "safetensors" in refused(wse, tmp_path, "run", tiny, "--prompt-ids", "1")
