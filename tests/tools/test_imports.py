"""Scripts are imported, so that they follow the names of what they use; those for other libraries are left out."""

import importlib
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
NOT_OURS = ("gguf", "nbclient", "safetensors", "torch", "transformers")


@pytest.mark.parametrize("name", sorted(path.stem for path in TOOLS.glob("*.py")))
def test_script_can_be_imported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in NOT_OURS:
            raise
        pytest.skip(f"{name} needs {error.name}")
