"""Tests of the examples in docstrings: each prints what the docstring shows."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    ".".join(path.relative_to(root).with_suffix("").parts)
    for root, package in ((ROOT, "wse"), (ROOT / "kernels", "."), (ROOT / "mappings", "."), (ROOT / "traces", "."))
    for path in (root / package).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_print_what_they_show(name: str) -> None:
    failed, tried = doctest.testmod(import_module(name))
    assert tried
    assert not failed
