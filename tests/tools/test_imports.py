"""Tests that all scripts can be imported, so that renamed functions are noticed."""

import importlib
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
EXTERNAL_LIBRARIES = ("gguf", "nbclient", "safetensors", "torch", "transformers")


@pytest.mark.parametrize("name", sorted(path.stem for path in TOOLS.glob("*.py")))
def test_script_can_be_imported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in EXTERNAL_LIBRARIES:
            raise
        pytest.skip(f"{name} needs {error.name}")
