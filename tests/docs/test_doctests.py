"""Tests of the examples in docstrings: each prints what the docstring shows."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "wse": ROOT,
    "wse_kernels": ROOT / "kernels",
    "wse_mappings": ROOT / "mappings",
    "wse_traces": ROOT / "traces",
}
MODULES = sorted(
    ".".join(path.relative_to(ROOT / folder).with_suffix("").parts)
    for package, folder in FOLDERS.items()
    for path in (ROOT / folder / package).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_print_what_they_show(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert tried
    assert not failed
