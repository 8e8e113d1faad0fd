"""Paths of the generated reference pages, and the functions that return their text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from wse.cli.reference import command_line, json_keys, kernels, python_api

COMMITTED: Final[dict[str, Callable[[], str]]] = {
    "docs/reference/cli.md": command_line.page,
    "docs/reference/kernels.md": kernels.page,
    "docs/reference/python.md": python_api.page,
}
"""The pages that are part of the repository."""

FILES: Final = COMMITTED | {"docs/reference/json.md": json_keys.page}
"""All pages. The page of JSON keys is long, so it is written on request and ignored by git."""
