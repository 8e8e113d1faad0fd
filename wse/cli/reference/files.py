"""Generated files: the function that returns the content of each, by its path in a checkout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from wse.cli.reference import command_line, json_keys, python_api

FILES: Final[dict[str, Callable[[], str]]] = {
    "docs/reference/cli.md": command_line.page,
    "docs/reference/json.md": json_keys.page,
    "docs/reference/python.md": python_api.page,
}
