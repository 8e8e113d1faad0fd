"""Names of presets: code outside `wse.hardware` has none, so that a new wafer needs no change there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from wse.hardware.load import bundled_wafers

ROOT = Path(__file__).parents[2]


def strings(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of a module, except docstrings."""
    described = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in described:
            yield node.value


def test_code_outside_hardware_names_no_wafer() -> None:
    sources = [file for folder in ("wse", "kernels", "mappings", "traces") for file in (ROOT / folder).rglob("*.py")]
    assert len(sources) > 400
    outside = [file for file in sources if (ROOT / "wse" / "hardware") not in file.parents]
    texts = {file: {*strings(ast.parse(file.read_text(encoding="utf-8")))} for file in outside}
    assert not {str(file) for file, found in texts.items() if not found.isdisjoint(bundled_wafers())}
