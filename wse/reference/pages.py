"""The pages of docs/reference by file name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from wse.reference import command_line, json_keys, python_api

PAGES: Final[dict[str, Callable[[], str]]] = {
    "cli.md": command_line.page,
    "json.md": json_keys.page,
    "python.md": python_api.page,
}
